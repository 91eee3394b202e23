"""Loose refs, `packed-refs` and HEAD are read as Git reads them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.errors import StoreError
from gitshadow.store.backends.ref_files import FileHeadLog, RefFiles
from gitshadow.store.object_format import format_named
from tests.support.examples import SHARED_FIXTURE
from tests.support.repo import Repo
from tests.support.studio import layout_of

_PARTS = st.sampled_from(["a", "a-b", "a.b", "b", "é", "z" * 40])
_NAMES = st.lists(_PARTS, min_size=1, max_size=3).map("/".join)
_STEPS = st.lists(
    st.tuples(_NAMES, st.sampled_from(["put", "tag", "drop", "link", "pack"])),
    max_size=10,
)


pytestmark = pytest.mark.kinds("sha1-files", "sha256-files")


def refs_of(repo: Repo) -> RefFiles:
    form = repo.git("rev-parse", "--show-object-format=storage")
    return RefFiles(layout_of(repo), format_named(form))


def by_git(repo: Repo) -> dict[str, str]:
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


@settings(max_examples=20, suppress_health_check=SHARED_FIXTURE)
@given(steps=_STEPS)
def test_any_history_of_refs_reads_as_git_reads_it(
    repo: Repo, steps: list[tuple[str, str]]
) -> None:
    refs, tip = refs_of(repo), repo.git("rev-parse", "HEAD")
    for name, what in steps:
        ref = f"refs/heads/{name}"
        if what == "put":
            repo.git("update-ref", ref, tip, check=False)
        elif what == "tag":
            repo.git("tag", "-f", "-m", "x", name, check=False)
        elif what == "drop":
            repo.git("update-ref", "-d", "--no-deref", ref, check=False)
        elif what == "link":
            repo.git("symbolic-ref", ref, "refs/heads/main", check=False)
        else:
            repo.git("pack-refs", "--all")
        expected = by_git(repo)
        assert refs.refs("refs/") == expected
        for one, oid in expected.items():
            assert refs.ref(one) == oid
        assert refs.ref("refs/heads/none") is None


def test_each_of_many_packed_refs_is_found(repo: Repo) -> None:
    """With peeled tags between them, at both ends, and where there is none."""
    tip = repo.git("rev-parse", "HEAD")
    lines = [f"create refs/heads/n/{number:04} {tip}\n" for number in range(500)]
    repo.git("update-ref", "--stdin", stdin="".join(lines).encode())
    for number in range(0, 40, 3):
        repo.git("tag", "-m", "x", f"n{number}")
    repo.git("pack-refs", "--all", "--prune")
    refs = refs_of(repo)
    for name, oid in by_git(repo).items():
        assert refs.ref(name) == oid
    for name in ("refs/a", "refs/heads/n/0100x", "refs/tags/n", "refs/zz"):
        assert refs.ref(name) is None
    assert len(refs.refs("refs/heads/n/01")) == 100


def test_packed_refs_of_an_old_git_are_not_sorted(repo: Repo) -> None:
    tip = repo.git("rev-parse", "HEAD")
    rows = [f"{tip} refs/heads/{name}\n" for name in "zkacm"]
    (repo.git_dir / "packed-refs").write_text(
        "# pack-refs with: peeled\n" + "".join(rows)
    )
    refs = refs_of(repo)
    for name in (f"refs/heads/{one}" for one in "zkacm"):
        assert refs.ref(name) == tip
        assert refs.refs(name)[name] == tip


@pytest.mark.parametrize("line", ["garbage", "", "1234 refs/heads/x", "\0"])
def test_broken_line_hides_no_ref_behind_absence(repo: Repo, line: str) -> None:
    repo.git("pack-refs", "--all", "--prune")
    with (repo.git_dir / "packed-refs").open("a") as stream:
        stream.write(f"{line}\n")
    refs = refs_of(repo)
    for name in ("refs/heads/none", "refs/zzz"):
        with pytest.raises(StoreError, match="packed-refs") as caught:
            refs.ref(name)
        assert "keep a copy" in str(caught.value.hint)
    with pytest.raises(StoreError, match="packed-refs"):
        refs.refs("refs/")


@pytest.mark.parametrize("content", [b"", b"\0" * 41, b"1234\n", b"ref: ../../x\n"])
def test_broken_ref_is_an_error_and_not_listed(repo: Repo, content: bytes) -> None:
    repo.git("pack-refs", "--all")
    repo.write(".git/refs/heads/main", content)
    refs = refs_of(repo)
    with pytest.raises(StoreError, match="could not read ref"):
        refs.ref("refs/heads/main")
    with pytest.raises(StoreError, match="could not read HEAD"):
        refs.head()
    assert refs.refs("refs/heads/") == {}
    repo.damaged = True


def test_refs_of_a_worktree_are_its_own_where_git_says_so(
    repo: Repo, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    linked = Repo(tmp_path / "w")
    linked.git("commit", "-q", "--allow-empty", "-m", "x")
    linked.git("update-ref", "refs/worktree/own", "HEAD")
    own = refs_of(linked)
    assert own.head() == ("refs/heads/side", linked.git("rev-parse", "HEAD"))
    assert own.refs("refs/") == by_git(linked)
    assert refs_of(repo).refs("refs/") == by_git(repo)
    assert refs_of(repo).ref("refs/worktree/own") is None


def test_head_that_is_a_link_is_symbolic(repo: Repo) -> None:
    """As git wrote it before 2005, and still reads it."""
    tip = repo.git("rev-parse", "HEAD")
    repo.delete(".git/HEAD")
    repo.symlink(".git/HEAD", "refs/heads/main")
    refs = refs_of(repo)
    assert refs.head() == ("refs/heads/main", tip)
    repo.delete(".git/HEAD")
    repo.damaged = True
    with pytest.raises(StoreError, match="could not read HEAD"):
        refs.head()


def test_descriptor_shortage_is_an_error_and_not_absence(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    refs, log = refs_of(repo), FileHeadLog(str(repo.git_dir))
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refused)
        with pytest.raises(StoreError, match="Too many open files"):
            refs.ref("refs/heads/main")
        with pytest.raises(OSError, match="Too many open files"):
            log.newest(1)
    assert refs.ref("refs/heads/main") is not None
