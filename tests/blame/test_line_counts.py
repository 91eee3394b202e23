"""Shares of lines: what is counted, and that it always adds up."""

import itertools
import random
from collections.abc import Callable, Mapping

import pytest

from gitshadow.errors import UsageError
from tests.support.repo import Repo
from tests.support.studio import Document, Studio

Open = Callable[[Repo], Studio]


def rows(document: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = document[key]
    assert isinstance(found, list)
    return found


def classes(document: Document) -> dict[object, object]:
    return {row["class"]: row["lines"] for row in rows(document, "classes")}


def total(found: list[Mapping[str, object]]) -> int:
    return sum(int(str(row["lines"])) for row in found)


def lines_of(repo: Repo, rev: str | None = None) -> int:
    """Return how many lines the text files of a tree have, by no code of ours."""
    if rev is None:
        paths = repo.git("ls-files", "--cached", "--others", "--exclude-standard")
        return sum(len(repo.read(p).splitlines()) for p in set(paths.split()))
    paths = repo.git("ls-tree", "-r", "--name-only", rev)
    return sum(
        len(repo.git("show", f"{rev}:{path}").splitlines()) for path in paths.split()
    )


def added(repo: Repo, base: str, tip: str) -> int:
    """Return how many lines git itself says that a change added."""
    out = repo.git("diff-tree", "-r", "-M", "--numstat", base, tip)
    return sum(int(row.split("\t")[0]) for row in out.splitlines())


def check_sums(document: Document, lines: int) -> None:
    assert document["lines"] == lines
    assert total(rows(document, "classes")) == lines
    counted = classes(document)
    assert total(rows(document, "unknown")) == counted["unknown"]
    assert total(rows(document, "agents")) == counted["agent"]
    assert total(rows(document, "sessions")) == counted["agent"]
    for agent in rows(document, "agents"):
        assert total(rows(agent, "models")) == agent["lines"]


@pytest.mark.parametrize("seed", range(6))
def test_sum_of_owners_is_the_number_of_lines(
    make_repo: Callable[..., Repo], open_studio: Open, seed: int
) -> None:
    """Property (iv), over random histories: on disk, in each commit, added by each commit."""
    rng = random.Random(seed)
    repo = make_repo(f"r{seed}")
    studio = open_studio(repo)
    commits = [repo.git("rev-parse", "HEAD")]
    for number in range(25):
        path = rng.choice(["a", "b", "new", "d/deep"])
        old = repo.read(path).splitlines(True) if repo.exists(path) else []
        at = rng.randint(0, len(old))
        fresh = [b"line %d.%d\n" % (number, n) for n in range(rng.randint(0, 4))]
        data = b"".join(old[:at] + fresh + old[at + rng.randint(0, 2) :])
        move = rng.random()
        if move < 0.5:
            studio.write(rng.choice(["S1", "S2"]), path, data)
        elif move < 0.75:
            studio.hand(path, data)
        elif move < 0.85 and repo.exists("b"):
            repo.rename("b", "c" if not repo.exists("c") else "e")
        else:
            commits.append(studio.commit(f"commit {number}"))
    check_sums(studio.run("stats"), lines_of(repo))
    for older, newer in itertools.pairwise(commits):
        check_sums(studio.run("stats", commit=newer), lines_of(repo, newer))
        check_sums(studio.run("stats", words=[newer]), added(repo, older, newer))
    ends = f"{commits[0]}..{commits[-1]}"
    check_sums(studio.run("stats", words=[ends]), added(repo, commits[0], commits[-1]))


def test_classes_are_those_of_blame(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "a", repo.read("a") + b"by the agent\n")
    studio.hand("new", "by nobody known\n")
    assert classes(studio.run("stats")) == {"agent": 1, "human": 30, "unknown": 1}


def test_commit_by_a_person_changes_no_share(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "new", "one\ntwo\n")
    before = classes(studio.run("stats"))
    studio.commit("second")
    assert classes(studio.run("stats")) == before
    assert classes(studio.run("stats", words=["HEAD"])) == {
        "agent": 2,
        "human": 0,
        "unknown": 0,
    }


def test_lines_go_to_the_model_that_was_used_when_they_were_written(
    studio: Studio,
) -> None:
    studio.start("S1", model="small")
    studio.prompt("S1", "go")
    studio.write("S1", "new", "one\n")
    studio.start("S1", model="large")
    studio.write("S1", "new", "one\ntwo\nthree\n")
    agents = rows(studio.run("stats"), "agents")
    assert [(row["agent"], row["lines"]) for row in agents] == [("claude-code", 3)]
    models = rows(agents[0], "models")
    assert [(row["model"], row["lines"]) for row in models] == [
        ("large", 2),
        ("small", 1),
    ]


def test_session_is_named_with_what_it_was_first_told(studio: Studio) -> None:
    studio.write("S1", "new", "one\n")
    studio.prompt("S1", "something else")
    (row,) = rows(studio.run("stats"), "sessions")
    assert (row["session"], row["prompt"]) == (studio.session("S1"), "prompt of S1")


def test_what_is_not_made_of_lines_is_named_and_not_counted(
    repo: Repo, studio: Studio
) -> None:
    repo.write("bin", b"a\0b\n")
    repo.write("min.js", b"x" * 70_000 + b"\n")
    repo.symlink("link", "a")
    found = studio.run("stats", paths=["bin", "min.js", "link"])
    assert found["lines"] == 0
    assert [(row["path"], row["reason"]) for row in rows(found, "not_by_line")] == [
        ("bin", "binary"),
        ("link", "a symbolic link"),
        ("min.js", "it has a line of more than 64 KiB"),
    ]


def test_ten_thousand_equal_lines_are_counted_each(studio: Studio) -> None:
    studio.write("S1", "new", "same\n" * 10_000)
    studio.hand("new", "same\n" * 10_001)
    assert classes(studio.run("stats", paths=["new"])) == {
        "agent": 10_000,
        "human": 0,
        "unknown": 1,
    }


def test_merge_brought_only_what_no_parent_has(repo: Repo, studio: Studio) -> None:
    repo.git("switch", "-qc", "side")
    studio.write("S1", "new", "side\n")
    studio.commit("on the side")
    repo.git("switch", "-q", "main")
    studio.hand("a", b"top\n" + repo.read("a"))
    studio.commit("on main")
    repo.git("merge", "-q", "--no-commit", "side")
    repo.append("new", "resolved\n")
    repo.git("add", "new")
    repo.git("commit", "-qm", "merge")
    assert studio.run("stats", words=["HEAD"])["lines"] == 1
    assert studio.run("stats", words=["HEAD~1..HEAD"])["lines"] == 2


def test_first_commit_brought_all_it_has(studio: Studio) -> None:
    assert studio.run("stats", words=["HEAD"])["lines"] == 30


def test_renamed_file_brings_only_its_changed_lines(repo: Repo, studio: Studio) -> None:
    repo.git("mv", "a", "moved")
    repo.append("moved", "more\n")
    studio.commit("moved")
    assert studio.run("stats", words=["HEAD"])["lines"] == 1


def test_three_dots_leave_out_what_the_other_side_did(
    repo: Repo, studio: Studio
) -> None:
    repo.git("switch", "-qc", "side")
    studio.hand("new", "side\n")
    studio.commit("on the side")
    repo.git("switch", "-q", "main")
    studio.hand("a", b"")
    studio.commit("on main")
    assert studio.run("stats", words=["main...side"])["lines"] == 1
    assert studio.run("stats", words=["main..side"])["lines"] == 11


def test_path_limits_what_is_counted(repo: Repo, studio: Studio) -> None:
    studio.hand("d/x", "1\n2\n")
    studio.hand("dd", "3\n")
    assert studio.run("stats", words=["d"])["lines"] == 2
    assert studio.run("stats", words=["HEAD", "a"])["lines"] == 10
    assert studio.run("stats", paths=["gone"])["lines"] == 0


@pytest.mark.parametrize("word", ["nowhere", "HEAD..nowhere", "deadbeef"])
def test_word_that_is_neither_is_a_usage_error(studio: Studio, word: str) -> None:
    with pytest.raises(UsageError, match="neither a revision nor a file"):
        studio.run("stats", words=[word])


def test_word_that_could_be_both_is_asked_about(repo: Repo, studio: Studio) -> None:
    repo.git("branch", "a")
    with pytest.raises(UsageError, match="ambiguous argument"):
        studio.run("stats", words=["a"])
    assert studio.run("stats", paths=["a"])["lines"] == 10


def test_commit_that_lost_an_object_is_counted_but_for_that_file(
    repo: Repo, studio: Studio
) -> None:
    studio.hand("new", "gone soon\n")
    commit = studio.commit("second")
    repo.damaged = True
    oid = repo.git("rev-parse", f"{commit}:new")
    repo.delete(f".git/objects/{oid[:2]}/{oid[2:]}")
    found = studio.run("stats", commit=commit)
    assert found["lines"] == 30
    assert [row["path"] for row in rows(found, "not_by_line")] == ["new"]
