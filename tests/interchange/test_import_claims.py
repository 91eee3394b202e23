"""What others claim of lines: shown where nothing was seen here, and never counted."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from tests.support.repo import Repo
from tests.support.studio import Studio

Open = Callable[[Repo], Studio]
AGENT = {"s_1": {"agent_id": {"tool": "claude", "id": "abc", "model": "sonnet"}}}
TRAILER = "second\n\nwhy\n\nEntire-Checkpoint: 0123456789ab\n"


def written(path: Path, lines: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return str(path)


def note(repo: Repo, rev: str, attestations: str) -> None:
    head = {"schema_version": "authorship/3.0.0", "prompts": {}, "sessions": AGENT}
    text = f"{attestations}---\n{json.dumps(head)}\n"
    repo.git("notes", "--ref=ai", "add", "-f", "-F", "-", rev, stdin=text.encode())


def owners(studio: Studio, path: str, **params: object) -> list[Mapping[str, object]]:
    document = studio.run("blame", path=path, **params)
    rows, lines = document["owners"], document["lines"]
    assert isinstance(rows, list)
    assert isinstance(lines, list)
    return [rows[number] for _, number, _ in lines]


def test_notes_of_git_ai_are_claims_for_lines_older_than_the_recording(
    repo: Repo, open_studio: Open
) -> None:
    repo.write("f", "1\n2\n3\n")
    repo.commit("second")
    note(repo, "HEAD", "f\n  s_1::t_1 2\n")
    studio = open_studio(repo)
    assert [row["actor"] for row in owners(studio, "f")] == ["human"] * 3
    done = studio.run("import_claims", source="git-ai")
    assert (done["claims"], done["commits"], done["lines"]) == (1, 1, 1)
    rows = owners(studio, "f")
    assert [row["actor"] for row in rows] == ["human", "unknown", "human"]
    claimed = rows[1]
    assert claimed["confidence"] == "low"
    assert claimed["reason"] == (
        "git-ai claims that claude-code (sonnet) wrote it; this was not recorded here"
    )
    assert claimed["claimed"] == {
        "source": "git-ai",
        "agent": "claude-code",
        "model": "sonnet",
        "session": "abc",
    }


def test_claims_are_shown_and_never_counted_as_an_agents(
    repo: Repo, open_studio: Open
) -> None:
    repo.write("f", "1\n2\n3\n")
    repo.commit("second")
    repo.git("mv", "f", "g")
    repo.commit("moved")
    note(repo, "HEAD~1", "f\n  s_1::t_1 2-3\n")
    studio = open_studio(repo)
    studio.run("import_claims", source="git-ai")
    stats = studio.run("stats", paths=["g"])
    classes = stats["classes"]
    assert isinstance(classes, list)
    assert [row["lines"] for row in classes] == [0, 1, 2]
    assert stats["claimed"] == [
        {
            "source": "git-ai",
            "agent": "claude-code",
            "model": "sonnet",
            "lines": 2,
            "share": 0.6667,
        }
    ]


def test_our_own_evidence_wins_over_a_claim(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "f", "1\n")
    studio.hand("f", "1\n2\n")
    studio.commit("second")
    note(repo, "HEAD", "f\n  s_1::t_1 1-2\n")
    before = owners(studio, "f")
    studio.run("import_claims", source="git-ai")
    assert owners(studio, "f") == before
    assert owners(studio, "f", commit="HEAD") == before


def test_malformed_notes_are_named_and_the_others_taken(
    repo: Repo, studio: Studio
) -> None:
    studio.hand("f", "1\n")
    studio.commit("second")
    note(repo, "HEAD", "f\n  s_1::t_1 1\n")
    repo.git("notes", "--ref=ai", "add", "-m", "chatter", "HEAD~1")
    done = studio.run("import_claims", source="git-ai")
    assert done["claims"] == 1
    skipped = done["skipped"]
    assert isinstance(skipped, list)
    assert [line.partition(": ")[2] for line in skipped] == ["it has no divider line"]


def test_importing_notes_again_takes_what_they_say_now(
    repo: Repo, open_studio: Open
) -> None:
    repo.write("f", "1\n2\n")
    repo.commit("second")
    note(repo, "HEAD", "f\n  s_1::t_1 1-2\n")
    studio = open_studio(repo)
    studio.run("import_claims", source="git-ai")
    note(repo, "HEAD", "f\n  s_1::t_1 2\n")
    studio.run("import_claims", source="git-ai")
    assert [row["actor"] for row in owners(studio, "f")] == ["human", "unknown"]


def test_checkpoint_of_entire_makes_the_lines_of_its_commit_unknown(
    repo: Repo, open_studio: Open
) -> None:
    repo.write("f", "1\n")
    repo.commit(TRAILER)
    repo.append("f", "2\n")
    repo.commit("third\n\nEntire-Checkpoint: quoted\n\nas in the text above\n")
    studio = open_studio(repo)
    done = studio.run("import_claims", source="entire")
    assert (done["claims"], done["commits"], done["lines"]) == (1, 1, 0)
    rows = owners(studio, "f")
    assert [row["actor"] for row in rows] == ["unknown", "human"]
    assert rows[0]["reason"] == (
        "its commit names checkpoint 0123456789ab of Entire, but not which lines it wrote"
    )


def test_agent_trace_records_are_claims_too(
    repo: Repo, open_studio: Open, tmp_path: Path
) -> None:
    repo.write("f", "1\n2\n")
    commit = repo.commit("second")
    lines = {"start_line": 1, "end_line": 1}
    conversation = {"contributor": {"type": "ai"}, "ranges": [lines]}
    record: dict[str, object] = {
        "version": "0.1.0",
        "id": "x",
        "timestamp": "2026-01-01T00:00:00Z",
        "vcs": {"type": "git", "revision": commit},
        "tool": {"name": "cursor"},
        "files": [{"path": "f", "conversations": [conversation]}],
    }
    # The second could be in a repository of the other object format.
    gone: list[dict[str, object]] = [
        {**record, "vcs": {"type": "git", "revision": digit * length}}
        for digit, length in (("d", 40), ("e", 64))
    ]
    studio = open_studio(repo)
    done = studio.run("import_file", file=written(tmp_path / "t", [record, *gone]))
    assert (done["claims"], done["lines"]) == (1, 1)
    assert done["skipped"] == [
        "t: commit dddddddddd is not here",
        "t: commit eeeeeeeeee is not here",
    ]
    rows = owners(studio, "f")
    assert [row["actor"] for row in rows] == ["unknown", "human"]


def test_unknown_source_is_a_usage_error(studio: Studio) -> None:
    with pytest.raises(UsageError, match="cannot import from elsewhere"):
        studio.run("import_claims", source="elsewhere")
