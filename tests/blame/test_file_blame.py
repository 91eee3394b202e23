"""Blame in this process: parts of a file, and what is hard to blame."""

import base64
import os
from collections.abc import Iterator
from itertools import product

import pytest

from gitshadow.api import run
from gitshadow.blame.file_blame import traced
from gitshadow.blame.git_history import GitPast
from gitshadow.blame.owners import OriginSource, Owner, fresh
from gitshadow.errors import StoreError, UsageError
from gitshadow.model import Oid, RepoPath
from gitshadow.store.refs import display_path
from tests.support.context import Near, desk_of
from tests.support.repo import PathLike, Repo

PYTHON = """\
import os


class Tree:
    def grow(self):
        # a comment
        return 1

    def fall(self):
        return 2


def plant():
    return Tree()
"""


@pytest.fixture
def near(repo: Repo) -> Iterator[Near]:
    with desk_of(repo) as context:
        yield Near(repo, context)


def asked(near: Near, path: PathLike, **params: object) -> dict[str, object]:
    where = {"cwd": os.fsdecode(near.repo.path())}
    name = display_path(RepoPath(path if isinstance(path, bytes) else path.encode()))
    return run(near.context, "blame", {"path": name, **where, **params})


def numbers(near: Near, path: PathLike, *ranges: str, **params: object) -> list[int]:
    lines = asked(near, path, ranges=list(ranges), **params)["lines"]
    assert isinstance(lines, list)
    return [line[0] for line in lines]


def actors(near: Near, path: PathLike, **params: object) -> list[str]:
    document = asked(near, path, **params)
    owners, lines = document["owners"], document["lines"]
    assert isinstance(owners, list)
    assert isinstance(lines, list)
    return [str(owners[owner]["actor"]) for _, owner, _ in lines]


@pytest.mark.parametrize(
    "ranges",
    [
        ["/def/,+2"],
        ["/def/,/return/"],
        ["/return/,-2"],
        ["6,/return/"],
        [":Tree"],
        [":gr.w"],
        ["1,2", "/def/,+1", "/def/,+1"],
        [":grow", ":fall"],
        ["9,9", "^:grow"],
        ["9,9", "^/def/,+1"],
        ["/a\\|b/,+1"],
        ["/t(/,+1"],
    ],
)
@pytest.mark.parametrize("driver", [None, "python"])
def test_searches_find_what_git_finds(
    near: Near, ranges: list[str], driver: str | None
) -> None:
    if driver is not None:
        near.repo.write(".gitattributes", f"*.py diff={driver}\n")
    near.repo.write("t.py", PYTHON)
    near.repo.commit("tree")
    parts = [f"-L{one}" for one in ranges]
    said = near.repo.git("blame", "-s", *parts, "HEAD", "--", "t.py", check=False)
    gits = [int(row.split(")")[0].split()[-1]) for row in said.splitlines()]
    try:
        assert numbers(near, "t.py", *ranges) == gits
    except UsageError:
        assert gits == []


def test_searches_look_at_what_is_asked_for(near: Near) -> None:
    near.repo.write("t.py", PYTHON)
    near.context.observer.settle()
    then = str(asked(near, "t.py")["owners"][0]["seq"])  # type: ignore[index]
    near.repo.write("t.py", "# one\n" + PYTHON)
    assert numbers(near, "t.py", "/import/,+1") == [2]
    assert numbers(near, "t.py", "/import/,+1", at=then) == [1]
    near.repo.commit("tree")
    near.repo.write("t.py", PYTHON)
    assert numbers(near, "t.py", "/import/,+1", commit="HEAD") == [2]


@pytest.mark.parametrize("spec", ["/nowhere/", ":nowhere", "/(\\(/", "/x/,/y/", "1,/x"])
def test_search_that_finds_nothing_is_refused(near: Near, spec: str) -> None:
    with pytest.raises(UsageError, match="cannot use lines"):
        numbers(near, "a", spec)


def test_search_in_what_is_not_recorded_is_refused(near: Near) -> None:
    near.repo.write(".agent-undoignore", "b\n")
    near.repo.append("b", "more\n")
    assert numbers(near, "b", "11,+1") == [11]
    with pytest.raises(UsageError, match="its current content is not recorded"):
        numbers(near, "b", "/more/")


def test_copies_of_equal_lines_are_looked_for_in_bounded_time(near: Near) -> None:
    """Without a bound on steps this takes hours: the lines have 10^8 pairs, in runs."""
    near.repo.write("blank", "\n" * 10_000 + "-" * 200 + "\n")
    near.repo.write("from", "\n" * 10_000)
    near.context.observer.settle()
    agent = near.agent()
    agent.start()
    agent.prompt("go")
    agent.shell("rm from; yes '' | head -10000 >to; seq 10000 19999 >>to")
    assert set(actors(near, "to", copies=True)) == {"agent"}


def test_copy_within_the_file_stands_above_one_from_another(near: Near) -> None:
    block = "".join(f"a line that tells something, {n}\n" for n in range(3))
    near.repo.write("own", "top\n" + block)
    near.repo.write("other", block)
    near.context.observer.settle()
    agent = near.agent()
    agent.start()
    agent.prompt("go")
    agent.shell(f"printf '{block}top\\n' >own; echo >>other")
    document = asked(near, "own", copies=True)
    owners = document["owners"]
    assert isinstance(owners, list)
    assert {owner["path"] for owner in owners} == {"own"}


def test_short_and_foreign_lines_are_traced_nowhere() -> None:
    before = Owner(source=OriginSource.BEFORE, path=RepoPath(b"f"))
    vector = fresh(before, 3)
    assert traced(b"a\nb\nc\n", vector, lambda _: ()) == vector


def test_directory_fifo_and_submodule_are_named_as_what_they_are(near: Near) -> None:
    repo = near.repo
    inner = Repo.create(repo.root / "sub")
    repo.mkdir("d")
    os.mkfifo(repo.path("fifo"))
    assert inner.read("a")
    for path, kind in (
        ("d", "a directory"),
        (".", "a directory"),
        ("sub", "a directory"),
        ("fifo", "neither a file nor a link"),
    ):
        with pytest.raises(UsageError, match=f"it is {kind}"):
            asked(near, path)
    with pytest.raises(UsageError, match="cannot blame sub/a: not recorded"):
        asked(near, "sub/a")
    repo.delete("sub")


@pytest.mark.parametrize("path", ["gone", "link/a", "a/b", "\x1b[31m", "new\nline"])
def test_file_that_is_not_there_is_said(near: Near, path: str) -> None:
    near.repo.symlink("link", ".")
    with pytest.raises(UsageError, match="cannot find file"):
        asked(near, path)


def test_deleted_file_is_blamed_where_it_was(near: Near) -> None:
    near.repo.delete("a")
    near.context.observer.settle()
    with pytest.raises(UsageError, match="cannot find file a"):
        asked(near, "a")
    assert len(actors(near, "a", commit="HEAD")) == 10


def test_hundred_thousand_lines_have_an_owner_each(repo: Repo) -> None:
    lines = [f"line {number}\n" for number in range(100_000)]
    repo.write("many", "".join(lines))
    repo.commit("many")
    with desk_of(repo) as context:
        lines[77_777] = "changed\n"
        repo.write("many", "".join(lines))
        found = actors(Near(repo, context), "many")
    assert (len(found), found[77_777]) == (100_000, "unknown")
    assert found.count("human") == 99_999


def test_one_line_above_the_size_limit_is_gits(near: Near) -> None:
    near.repo.write("huge", b"x" * 21_000_000)
    near.repo.commit("huge")
    document = asked(near, "huge")
    assert len(base64.b64decode(str(document["content_base64"]))) == 21_000_000
    assert actors(near, "huge") == ["human"]


@pytest.mark.parametrize(
    ("data", "more", "expected"),
    [
        (b"a\r\nb\r\n", b"a\r\nb\r\nc\r\n", ["human", "human", "unknown"]),
        (b"a\r\nb\r\n", b"a\nb\n", ["unknown", "unknown"]),
        (b"a\nb", b"a\nb\nc", ["human", "human", "unknown"]),
        (b"\xe9\n\xfc\n", b"\xe9\n\xf6\n\xfc\n", ["human", "unknown", "human"]),
        (b"\0a\n\0b\n", b"\0a\n\0c\n\0b\n", ["human", "unknown", "human"]),
        (b"a\rb\n", b"a\rb\rc\n", ["unknown"]),
    ],
    ids=["crlf", "crlf to lf", "bare", "latin-1", "nul", "cr alone"],
)
def test_bytes_are_lines_as_git_has_them(
    repo: Repo, data: bytes, more: bytes, expected: list[str]
) -> None:
    repo.write("odd", data)
    repo.commit("odd")
    with desk_of(repo) as context:
        repo.write("odd", more)
        assert actors(Near(repo, context), "odd") == expected


def removed_blob(near: Near, data: bytes) -> None:
    """Write a content to `a`, then take its blob from the store."""
    near.repo.damaged = True
    near.repo.write("a", data)
    near.context.observer.settle()
    oid = near.repo.blob("a")
    os.unlink(near.repo.path(f".git/objects/{oid[:2]}/{oid[2:]}"))
    near.context.workspace.repo.refresh()


def test_state_that_is_lost_makes_its_lines_unknown(near: Near) -> None:
    removed_blob(near, b"one\ntwo\n")
    near.repo.write("a", "one\ntwo\nthree\n")
    document = asked(near, "a")
    owners = document["owners"]
    assert isinstance(owners, list)
    assert [owner["reason"] for owner in owners] == [
        "an earlier version of this file is missing from the object store"
    ]


def test_moment_whose_content_is_lost_is_an_error(near: Near) -> None:
    removed_blob(near, b"one\n")
    seq = near.context.workspace.db.number("SELECT MAX(seq) FROM events")
    near.repo.write("a", "two\n")
    near.context.observer.settle()
    with pytest.raises(StoreError, match="could not read object"):
        asked(near, "a", at=str(seq))


def test_partial_clone_is_not_fetched_from(repo: Repo) -> None:
    """Git would run `uploadpack`, which the repository's own configuration names."""
    repo.append("a", "later\n")
    repo.commit("second")
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = Repo(repo.root.parent / "partial")
    repo.git(
        "clone", "-q", "--filter=blob:none", f"file://{repo.root}", str(clone.root)
    )
    ran = repo.root.parent / "ran"
    clone.git("config", "remote.origin.uploadpack", f"touch {ran}; git-upload-pack")
    with desk_of(clone) as context:
        document = asked(Near(clone, context), "a")
    owners = document["owners"]
    assert isinstance(owners, list)
    assert [owner["reason"] for owner in owners] == [
        "git blame gave no author: objects are missing; git blame fetches them"
    ]
    assert not ran.exists()


def test_stash_that_comes_back_beside_other_lines_is_not_whoevers_shell_popped_it(
    near: Near,
) -> None:
    """Found by the fuzzer: a change of S2's that became one with S1's was all S1's."""
    theirs = "".join(f"a line that S2 wrote, number {number}\n" for number in range(3))
    s1, s2 = near.agent("s1"), near.agent("s2")
    for agent in (s2, s1):
        agent.start()
        agent.prompt("go")
    s2.write("a", near.repo.read("a").decode() + theirs)
    s2.stop()
    near.repo.git("stash", "-q")
    near.context.observer.settle()
    s1.shell("git stash pop -q; echo 'a line that S1 wrote' >>a")
    assert actors(near, "a") == ["human"] * 10 + ["unknown"] * 3 + ["agent"]


def test_undo_gives_a_file_that_was_moved_away_and_copied_back_to_its_authors(
    near: Near,
) -> None:
    """Nothing is written there: the like of what was moved away is in its place."""
    near.repo.append("a", "a person's line\n")
    near.context.observer.settle()
    before = actors(near, "a")
    agent = near.agent("s1")
    agent.start()
    agent.prompt("go")
    agent.shell("mv a x")
    agent.shell("cp x a")
    assert "agent" in actors(near, "a")
    after = actors(near, "a")
    for verb, expected in [("undo", before), ("redo", after), ("undo", before)]:
        near.undo(*(("undo", "s1") if verb == "undo" else (verb,)))
        assert actors(near, "a") == expected


def test_parts_of_a_stash_are_not_older_than_the_commit_below_it(near: Near) -> None:
    """BLAME-15: `git commit && git stash` in one second; the index of the stash is the commit's."""
    near.repo.git("commit", "-qm", "on top", "--allow-empty")
    near.repo.append("a", "more\n")
    near.repo.git("stash", "-q")
    ws = near.context.workspace
    ws.repo.refresh()
    past = GitPast(ws.repo, ws.git, ws.db)
    names = ("HEAD", "HEAD~1", "stash", "stash^2")
    found = [past.commit(Oid(near.repo.git("rev-parse", name))) for name in names]
    head, below, *parts = [one for one in found if one is not None]
    assert len(parts) == 2
    for part, other in product(parts, (head, below)):
        assert part.committer_time == other.committer_time
        assert not past.is_older(part, other)
        assert past.is_older(other, part)
