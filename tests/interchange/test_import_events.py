"""Imports: another clone's history beside its refs, and what others claim of lines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.errors import ShadowError, UsageError
from gitshadow.model import EventKind, Gap, PathChange
from gitshadow.store.journal import events
from gitshadow.store.journal.events import EventFilter
from tests.support.repo import Repo
from tests.support.studio import Document, Studio

Open = Callable[[Repo], Studio]


def exported(studio: Studio, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    after: object = 0
    while after is not None:
        document = studio.run("export_events", words=list(words), after=after)
        lines, after = document["lines"], document["next"]
        assert isinstance(lines, list)
        found += lines
    return found


def theirs(studio: Studio) -> Studio:
    """Return what a clone keeps of the other machine's history."""
    [found] = studio.context.others.machines()
    return Studio(studio.repo, studio.context.others.context(found))


def written(path: Path, lines: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return str(path)


def taken(studio: Studio, path: str) -> tuple[object, object, object]:
    done = studio.run("import_file", file=path)
    assert done["skipped"] == []
    return done["new"], done["known"], done["elsewhere"]


def test_header_names_the_format_of_the_object_ids(studio: Studio) -> None:
    head = exported(studio)[0]
    form = studio.repo.git("rev-parse", "--show-object-format")
    assert (head["version"], head["object_format"]) == (1, form)


def lived_in(repo: Repo, open_studio: Open) -> Studio:
    studio = open_studio(repo)
    studio.write("S1", "a", "one\n")
    studio.stop("S1")
    studio.hand("b", "by hand\n")
    studio.context.pipeline.gap("the watcher lost events")
    repo.rename("c", "moved")
    studio.write("S2", "moved", "two\n")
    studio.stop("S2")
    studio.commit("second")
    for who in ("S1", "S2"):
        studio.hook(who, "SessionEnd", reason="prompt_input_exit")
    return studio


def clone(repo: Repo, make_repo: Callable[..., Repo], *, refs: bool = True) -> Repo:
    other = make_repo("other", files=())
    other.git("fetch", "--quiet", str(repo.root), "main")
    other.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    if refs:
        spec = "refs/agent-undo/*:refs/agent-undo/*"
        other.git("fetch", "--quiet", str(repo.root), spec)
    return other


def test_export_comes_back_equal_from_a_fresh_clone(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open, tmp_path: Path
) -> None:
    """Refs fetched, file imported: the same history, line by line."""
    studio = lived_in(repo, open_studio)
    lines = exported(studio)
    file = written(tmp_path / "history.jsonl", lines)
    other = open_studio(clone(repo, make_repo))
    own = exported(other)
    assert exported(theirs(other)) != lines
    new, _, elsewhere = taken(other, file)
    assert new
    assert elsewhere == 0
    assert exported(theirs(other)) == lines
    assert exported(other) == own


def test_importing_twice_changes_nothing(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open, tmp_path: Path
) -> None:
    lines = exported(lived_in(repo, open_studio))
    file = written(tmp_path / "history.jsonl", lines)
    other = open_studio(clone(repo, make_repo))
    taken(other, file)
    after = exported(theirs(other))
    new, known, elsewhere = taken(other, file)
    assert (new, elsewhere) == (0, 0)
    assert known == len(lines) - 1
    assert exported(theirs(other)) == after


def test_importing_where_it_was_recorded_changes_nothing(
    repo: Repo, open_studio: Open, tmp_path: Path
) -> None:
    studio = lived_in(repo, open_studio)
    lines = exported(studio)
    forged = [
        {**line, "prompt": "forged", "ended": None, "model": "forged"} for line in lines
    ]
    new, known, elsewhere = taken(
        studio, written(tmp_path / "forged", [lines[0], *forged[1:]])
    )
    assert (new, known, elsewhere) == (0, len(lines) - 1, 0)
    assert exported(studio) == lines


def test_prompts_come_with_the_file_not_with_the_refs(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open, tmp_path: Path
) -> None:
    studio = lived_in(repo, open_studio)
    file = written(tmp_path / "history.jsonl", exported(studio))
    other = open_studio(clone(repo, make_repo))
    assert prompts(other, "a") == {None}
    taken(other, file)
    assert prompts(other, "a") == {"prompt of S1"}


def prompts(studio: Studio, path: str) -> set[object]:
    owners = studio.run("blame", path=path)["owners"]
    assert isinstance(owners, list)
    return {row.get("prompt") for row in owners}


def test_fetched_session_is_never_live_here(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open, tmp_path: Path
) -> None:
    """A session that is open where it was exported claims nothing in another clone."""
    studio = open_studio(repo)
    studio.write("S1", "a", "one\n")
    studio.commit("second")
    file = written(tmp_path / "history.jsonl", exported(studio))
    other = open_studio(clone(repo, make_repo))
    taken(other, file)
    other.hand("a", "one\nby hand here\n")
    newest = events.rows(other.context.workspace.db, EventFilter(limit=1))[0]
    assert isinstance(newest, PathChange)
    assert newest.attribution.agent is None


def test_events_without_their_refs_stay_out(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open, tmp_path: Path
) -> None:
    lines = exported(lived_in(repo, open_studio))
    file = written(tmp_path / "history.jsonl", lines)
    other = open_studio(clone(repo, make_repo, refs=False))
    _, _, elsewhere = taken(other, file)
    assert elsewhere
    rows = events.rows(theirs(other).context.workspace.db, EventFilter())
    kinds = {row.kind for row in rows if isinstance(row, Gap)}
    assert kinds <= {EventKind.GAP}


def test_import_tells_prompts_nothing_where_they_are_off(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open, tmp_path: Path
) -> None:
    file = written(tmp_path / "h", exported(lived_in(repo, open_studio)))
    fresh = clone(repo, make_repo)
    fresh.git("config", "agent-undo.prompts", "off")
    other = open_studio(fresh)
    taken(other, file)
    assert prompts(other, "a") == {None}


@pytest.mark.parametrize(
    "line",
    [
        '{"type": "session", "id": "../../x", "actor": "agent", "started": "2026"}',
        '{"type": "turn", "session": "s", "id": "t", "ordinal": -1}',
        '{"type": "event", "seq": 1e999}',
        '{"type": "event", "seq": 3, "kind": "gap", "worktree": "/etc", "ts": "2026"}',
        '{"type": "what"}',
        '{"type": ["session"]}',
        "{}",
        "nonsense",
        "[" * 10_000,
    ],
)
def test_hostile_lines_are_named_and_left_out(
    studio: Studio, tmp_path: Path, line: str
) -> None:
    header = json.dumps({"format": "agent-undo-events", "version": 1})
    file = tmp_path / "h"
    file.write_text(f"{header}\n{line}\n", "utf-8")
    before = exported(studio)
    done = studio.run("import_file", file=str(file))
    assert (done["new"], done["known"], done["elsewhere"]) == (0, 0, 0)
    assert done["skipped"]
    assert exported(studio) == before


def test_number_far_ahead_does_not_use_up_the_numbers(
    studio: Studio, tmp_path: Path
) -> None:
    row = {"type": "event", "seq": 1 << 50, "kind": "gap", "worktree": "main"}
    lines = [
        {"format": "agent-undo-events", "version": 1},
        {**row, "ts": "2026-01-01T00:00:00Z"},
    ]
    assert taken(studio, written(tmp_path / "h", lines)) == (0, 0, 1)


@pytest.mark.parametrize("text", ["", "hello\n", '{"format": "agent-undo-events"}\n'])
def test_file_of_no_known_form_is_a_usage_error(
    studio: Studio, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "h"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match="cannot import"):
        studio.run("import_file", file=str(file))


def test_missing_file_is_an_error(studio: Studio, tmp_path: Path) -> None:
    with pytest.raises(ShadowError, match="No such file"):
        studio.run("import_file", file=str(tmp_path / "none"))


def test_export_of_named_commits_has_the_events_that_made_them(
    studio: Studio,
) -> None:
    studio.write("S1", "one", "1\n")
    studio.commit("one")
    studio.write("S2", "two", "2\n")
    studio.commit("two")
    lines: list[Document] = [*exported(studio, "HEAD")]
    paths = [line["path"] for line in lines if line["type"] == "event"]
    assert paths == ["two"]
    named = [line["id"] for line in lines if line["type"] == "session"]
    assert named == [studio.session("S2")]
