"""Owners of many files: the same answer as blame of each, and few children."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from gitshadow.blame.line_owners import FileOwners, Owning
from gitshadow.model import Oid, RepoPath
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of

NAMING = "feature\n\nCo-Authored-By: Claude <noreply@anthropic.com>\n"
Open = Callable[[Repo], Studio]


@pytest.fixture
def open_it() -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda repo: stack.enter_context(studio_of(repo))


def told(owned: FileOwners) -> list[tuple[object, ...]]:
    return [(c.actor, c.confidence, c.reason, c.session) for c in owned.credits]


def blamed(studio: Studio, path: str, **params: object) -> list[tuple[object, ...]]:
    document = studio.run("blame", path=path, **params)
    owners, lines = document["owners"], document["lines"]
    assert isinstance(owners, list)
    assert isinstance(lines, list)
    rows = [owners[number] for _, number, _ in lines]
    return [
        (row["actor"], row["confidence"], row["reason"], row.get("session"))
        for row in rows
    ]


def lived_in(repo: Repo, open_it: Open) -> Studio:
    """Return a repository with every sort of file, recorded from the second commit on."""
    repo.write("theirs", "one\ntwo\n")
    repo.commit(NAMING)
    repo.git("mv", "theirs", "moved")
    repo.commit("moved by a person")
    repo.write("loose", "not committed\n")
    repo.append("b", "not committed either\n")
    studio = open_it(repo)
    studio.write("S1", "a", repo.read("a") + b"by the agent\n")
    studio.write("S1", "new", "agent\nagent\n")
    studio.commit("second")
    studio.hand("new", "agent\nhand\nagent\n")
    studio.write("S2", "later", "not yet committed\n")
    return studio


def test_owners_on_disk_are_those_of_blame(repo: Repo, open_it: Open) -> None:
    studio = lived_in(repo, open_it)
    owning = Owning(studio.context)
    for path in ("a", "b", "c", "moved", "loose", "new", "later"):
        owned = owning.on_disk(RepoPath(path.encode()))
        assert owned.data == repo.read(path)
        assert told(owned) == blamed(studio, path), path


@pytest.mark.parametrize("rev", ["HEAD", "HEAD~1", "HEAD~2", "HEAD~3"])
def test_owners_in_a_commit_are_those_of_blame(
    repo: Repo, open_it: Open, rev: str
) -> None:
    studio = lived_in(repo, open_it)
    owning, commit = Owning(studio.context), Oid(repo.git("rev-parse", rev))
    for path in repo.git("ls-tree", "--name-only", rev).split():
        owned = owning.committed(RepoPath(path.encode()), commit)
        assert told(owned) == blamed(studio, path, commit=rev), path


def test_file_that_nobody_touched_is_older_in_a_commit_too(
    repo: Repo, open_it: Open
) -> None:
    """BLAME: what was committed before recording began is the author's, with no event of it."""
    studio = open_it(repo)
    rows = blamed(studio, "a", commit="HEAD")
    assert {row[0] for row in rows} == {"human"}


def test_commit_made_unseen_after_the_beginning_is_nobodys(
    repo: Repo, open_it: Open
) -> None:
    repo.write(".gitignore", "hidden\n")
    repo.commit("rules")
    studio = open_it(repo)
    repo.write("hidden", "never recorded\n")
    repo.git("add", "-f", "hidden")
    repo.git("commit", "-qm", "more", "hidden")
    rows = blamed(studio, "hidden", commit="HEAD")
    assert [row[0] for row in rows] == ["unknown"]


def test_staged_content_keeps_its_owners_when_the_disk_goes_on(
    repo: Repo, open_it: Open
) -> None:
    studio = open_it(repo)
    studio.write("S1", "new", "agent\n")
    repo.git("add", "new")
    blob = Oid(repo.git("rev-parse", ":new"))
    studio.hand("new", "hand\n")
    owned = Owning(studio.context).staged(RepoPath(b"new"), blob)
    assert [credit.session for credit in owned.credits] == [studio.session("S1")]


def test_staged_content_that_is_heads_is_gits(repo: Repo, open_it: Open) -> None:
    studio = open_it(repo)
    owned = Owning(studio.context).staged(
        RepoPath(b"a"), Oid(repo.git("rev-parse", ":a"))
    )
    assert {credit.actor for credit in owned.credits} == {"human"}


def counted(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> list[RepoPath]:
    """Return a list in which every path appears that `git blame` is asked for."""
    asked: list[RepoPath] = []
    git = studio.context.workspace.git
    blame = git.blame

    def count(commit: Oid, path: RepoPath, *, options: Sequence[str] = ()) -> bytes:
        asked.append(path)
        return blame(commit, path, options=options)

    monkeypatch.setattr(git, "blame", count)
    return asked


def test_git_blame_is_not_asked_for_files_without_events(
    repo: Repo, open_it: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio = lived_in(repo, open_it)
    asked = counted(studio, monkeypatch)
    owning = Owning(studio.context)
    for path in (b"c", b"moved", b"new"):
        owning.on_disk(RepoPath(path))
    assert asked == [b"moved"]


def test_git_blame_is_not_asked_for_what_git_switched(
    repo: Repo, open_it: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch made elsewhere, checked out and left again, costs nothing; one made here does."""
    for name in ("a", "b"):
        repo.append(name, "side\n")
    repo.git("add", "--all")
    tree = repo.git("write-tree")
    made = repo.git("commit-tree", "-p", "HEAD", "-m", "elsewhere", tree)
    repo.git("branch", "side", made)
    repo.git("reset", "-q", "--hard")
    studio = open_it(repo)
    repo.git("switch", "-q", "side")
    studio.context.observer.settle()
    repo.append("b", "unseen\n")
    repo.git("commit", "-qam", "made here")
    studio.context.observer.settle()
    told_by_blame = {path: blamed(studio, path) for path in ("a", "b", "c")}
    asked = counted(studio, monkeypatch)
    owning, head = Owning(studio.context), Oid(repo.git("rev-parse", "HEAD"))
    for path, expected in told_by_blame.items():
        where = RepoPath(path.encode())
        assert told(owning.on_disk(where)) == expected
        assert told(owning.committed(where, head)) == expected
    assert b"a" not in asked
    assert b"c" not in asked
    assert [row[0] for row in told_by_blame["b"]] == ["human"] * 11 + ["unknown"]
