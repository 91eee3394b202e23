"""What Git tracks, as `git ls-files` has it, whatever the index looks like."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath
from gitshadow.recording import index
from gitshadow.recording.index import GitHold, IndexView
from gitshadow.store import git_index
from gitshadow.store.files import WorkFiles
from gitshadow.store.git import Git
from gitshadow.store.git_index import rules_of
from gitshadow.store.layout import discover
from gitshadow.store.object_format import SHA1
from gitshadow.store.repo import Repo as Store
from tests.support.repo import Repo
from tests.support.waiting import until


@pytest.fixture
def view(repo: Repo) -> Iterator[IndexView]:
    with_store = open_view(repo)
    yield with_store[0]
    with_store[1].close()


def open_view(repo: Repo) -> tuple[IndexView, Store]:
    found = discover(str(repo.root))
    assert found is not None
    store = Store.open(found)
    return IndexView(found, Git(found, dict(os.environ)), store), store


def listed(repo: Repo) -> set[bytes]:
    out = repo.git("ls-files", "-z").encode("utf-8", "surrogateescape")
    return {path for path in out.split(b"\0") if path}


def test_paths_are_those_of_ls_files(repo: Repo, view: IndexView) -> None:
    assert view.paths() == listed(repo) == {b"a", b"b", b"c"}


def test_paths_are_asked_again_when_the_index_changed(
    repo: Repo, view: IndexView
) -> None:
    assert not view.contains(RepoPath(b"n"))
    repo.write("n", "x")
    assert not view.contains(RepoPath(b"n"))
    repo.git("add", "n")
    assert view.contains(RepoPath(b"n"))
    assert view.paths() == {b"a", b"b", b"c", b"n"}


def test_contains_what_head_has_when_the_index_has_it_no_more(
    repo: Repo, view: IndexView
) -> None:
    repo.git("rm", "-q", "--cached", "a")
    assert RepoPath(b"a") not in view.paths()
    assert view.contains(RepoPath(b"a"))
    repo.commit("keeps a")
    repo.git("rm", "-q", "--cached", "a")
    repo.git("commit", "-qm", "forgets a")
    assert not view.contains(RepoPath(b"a"))


def test_under_is_what_lies_below_a_directory(repo: Repo, view: IndexView) -> None:
    for path in (b"d/x", b"d/e/y", b"d.x", b"d0", b"d/\xff", b"dd/z"):
        repo.write(path, "x")
    repo.commit("more")
    assert view.under(RepoPath(b"d")) == [b"d/e/y", b"d/x", b"d/\xff"]
    assert view.under(RepoPath(b"d/e")) == [b"d/e/y"]
    assert view.under(RepoPath(b"d.x")) == []
    assert list(view.under(RepoPath(b""))) == sorted(listed(repo))


@pytest.mark.parametrize(
    "shape", ["split", "version 4", "untracked cache", "fsmonitor"]
)
def test_paths_are_read_whatever_the_index_looks_like(repo: Repo, shape: str) -> None:
    repo.write("d/n", "x")
    repo.git("add", "d/n")
    if shape == "fsmonitor":
        repo.git("config", "core.fsmonitor", "touch ran")
    else:
        option = {
            "split": "--split-index",
            "version 4": "--index-version=4",
            "untracked cache": "--untracked-cache",
        }[shape]
        repo.git("update-index", option)
    view, store = open_view(repo)
    assert view.paths() == {b"a", b"b", b"c", b"d/n"}
    assert not repo.exists("ran")
    store.close()


def test_skipped_are_what_a_sparse_checkout_leaves_out(repo: Repo) -> None:
    for path in ("in/x", "out/y", "out/deep/z"):
        repo.write(path, "x")
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    view, store = open_view(repo)
    assert view.sparse()
    assert view.skipped() == {b"out/y", b"out/deep/z"}
    assert {b"a", b"in/x", b"out/y"} <= view.paths()
    store.close()


def spoil(repo: Repo) -> bytes:
    """Make the index one of a version that no git knows; return it as it was."""
    index = Path(repo.root, ".git", "index")
    whole = index.read_bytes()
    index.write_bytes(whole[:4] + (99).to_bytes(4, "big") + whole[8:])
    return whole


def test_paths_are_those_of_head_when_git_cannot_read_the_index(
    repo: Repo, view: IndexView
) -> None:
    tip = repo.git("rev-parse", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{tip},sub")
    repo.git("commit", "-qm", "submodule")
    whole = spoil(repo)
    assert view.paths() == {b"a", b"b", b"c", b"sub"}
    assert view.gitlinks() == {b"sub"}
    assert "index version 99" in str(view.unreadable)
    assert view.staged([RepoPath(b"a")]) == {}
    assert view.converted([RepoPath(b"a")]) == ()
    Path(repo.root, ".git", "index").write_bytes(whole)
    assert view.paths() == {b"a", b"b", b"c", b"sub"}
    assert view.unreadable is None


def test_paths_are_the_last_ones_when_git_cannot_read_the_index_any_more(
    repo: Repo, view: IndexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("n", "x")
    repo.git("add", "n")
    assert RepoPath(b"n") in view.paths()
    spoil(repo)
    asked: list[Git] = []

    def staged(git: Git) -> bytes:
        asked.append(git)
        return plain(git)

    plain = git_index.staged
    monkeypatch.setattr(git_index, "staged", staged)
    assert view.paths() == view.paths() == {b"a", b"b", b"c", b"n"}
    assert len(asked) == 1  # once a second at most
    monkeypatch.setattr(view, "_again_at", 0.0)
    assert RepoPath(b"n") in view.paths()
    assert len(asked) == 2


def test_skipped_are_the_last_ones_when_git_cannot_read_the_index_any_more(
    repo: Repo,
) -> None:
    repo.write("out/y", "x")
    repo.commit("more")
    repo.git("sparse-checkout", "set", "--cone", "in")
    view, store = open_view(repo)
    fresh, other = open_view(repo)
    assert view.skipped() == {b"out/y"}
    spoil(repo)
    assert view.skipped() == {b"out/y"}
    with pytest.raises(StoreError, match="ls-files"):
        fresh.skipped()
    store.close()
    other.close()


def test_skipped_are_none_without_a_sparse_checkout(view: IndexView) -> None:
    assert not view.sparse()
    assert view.skipped() == set()


def test_paths_hold_unmerged_and_intended_entries_once(
    repo: Repo, view: IndexView
) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("a", "side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("a", "main\n")
    repo.commit("main")
    repo.git("merge", "side", check=False)
    repo.write("n", "x")
    repo.git("add", "-N", "n")
    assert repo.git("ls-files", "-u") != ""
    assert view.paths() == {b"a", b"b", b"c", b"n"}
    assert list(view.under(RepoPath(b""))) == [b"a", b"b", b"c", b"n"]


def test_gitlinks_are_the_submodules(repo: Repo, view: IndexView) -> None:
    tip = repo.git("rev-parse", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{tip},sub")
    assert view.gitlinks() == {b"sub"}
    assert view.contains(RepoPath(b"sub"))


def test_head_follows_commits_and_is_none_when_unborn(
    repo: Repo, view: IndexView
) -> None:
    entry = view.head_entry(RepoPath(b"a"))
    assert entry == (0o100644, repo.blob("a"))
    repo.write("a", "new\n")
    repo.commit("new")
    assert view.head_entry(RepoPath(b"a")) == (0o100644, repo.blob("a"))
    assert view.head_tree() == repo.git("rev-parse", "HEAD^{tree}")
    repo.git("checkout", "-q", "--orphan", "new")
    assert view.head_tree() is None
    assert view.head_entry(RepoPath(b"a")) is None


def test_head_stays_the_last_one_when_its_branch_is_broken(
    repo: Repo, view: IndexView
) -> None:
    tree = repo.git("rev-parse", "main^{tree}").strip()
    assert view.head_tree() == tree
    repo.write(".git/refs/heads/main", "")
    assert view.head_tree() == tree


def test_no_index_means_nothing_is_in_it(repo: Repo, view: IndexView) -> None:
    repo.delete(".git/index")
    assert view.paths() == frozenset()
    assert view.contains(RepoPath(b"a"))


def is_ignored(repo: Repo, path: bytes) -> bool:
    found = discover(str(repo.root))
    assert found is not None
    return bool(rules_of(Git(found, dict(os.environ)), [RepoPath(path)]))


def test_ignored_is_what_git_says_also_of_names_that_are_no_text(repo: Repo) -> None:
    repo.write(".gitignore", b"*.log\nbuild/\n\xff*\n")
    assert is_ignored(repo, b"x.log")
    assert is_ignored(repo, b"build/")
    assert not is_ignored(repo, b"build")
    assert not is_ignored(repo, b"a")
    assert is_ignored(repo, b"\xff\xfe")
    assert is_ignored(repo, b"d/\xfe.log")
    assert not is_ignored(repo, b"\xfe")
    repo.write(".gitignore", b"*.log\n!keep*\n")
    assert is_ignored(repo, b"\xfe.log")
    assert not is_ignored(repo, b"keep\xfe.log")
    repo.symlink("link", "d")
    assert not is_ignored(repo, b"link/\xfe.log")


@pytest.mark.kinds("sha1-files", "sha256-files")
@pytest.mark.parametrize("ending", [b"", b"\xff"])
def test_ignored_is_no_pathspec_with_magic(repo: Repo, ending: bytes) -> None:
    repo.write(".gitignore", b"*.log\n/:own*\n")
    for name in (b":own", b":(top)x.log", b":!x.log", b":(exclude)x.log", b":/x.log"):
        expected = not ending or name == b":own"
        assert is_ignored(repo, name + ending) == expected, name
    for name in (b":x", b":!x", b":^x", b":(glob)x"):
        assert not is_ignored(repo, name + ending), name


def test_reading_leaves_the_index_as_it_is(repo: Repo, view: IndexView) -> None:
    os.utime(repo.path("a"), ns=(1, 1))
    before = repo.snapshot()
    view.paths()
    view.skipped()
    is_ignored(repo, b"\xff")
    assert repo.snapshot() == before


def test_blobs_of_head_need_no_proof_and_staged_ones_do(
    repo: Repo, view: IndexView
) -> None:
    """What Git has just written from a blob is not unpacked once more."""
    repo.write("n", "staged\n")
    repo.git("add", "n")
    # Otherwise all of it may have changed since without another stat.
    os.utime(repo.git_dir / "index")
    files = WorkFiles(str(repo.root), SHA1)
    looks = {RepoPath(p): files.look(RepoPath(p)) for p in (b"a", b"n")}
    known = {path: look for path, look in looks.items() if look is not None}
    staged = repo.git("rev-parse", ":n").strip()
    assert view.stored(known).keys() == {b"a", b"n"}
    loose = repo.git_dir / "objects" / staged[:2] / staged[2:]
    loose.chmod(0o600)
    loose.write_bytes(loose.read_bytes()[:-4])
    assert view.stored(known).keys() == {b"a"}


def held(repo: Repo) -> GitHold:
    """Return the wait for a git command that has released the lock just now."""
    hold = GitHold(str(repo.git_dir), str(repo.root))
    assert not hold.look()
    assert hold.is_on
    return hold


def test_hold_is_over_when_head_has_moved_to_a_branch(repo: Repo) -> None:
    """CAP-18: nothing is waited for once Git has done all."""
    hold = held(repo)
    hold.note(head_moved=True)
    assert hold.look()


def test_hold_goes_on_when_head_is_detached(repo: Repo) -> None:
    """CAP-18: a rebase moves HEAD for each commit, and goes on."""
    repo.git("checkout", "-q", "--detach")
    hold = held(repo)
    hold.note(head_moved=True)
    assert not hold.look()


def test_hold_goes_on_when_the_index_is_locked_again(repo: Repo) -> None:
    hold = held(repo)
    hold.note(head_moved=True)
    lock = repo.git_dir / "index.lock"
    with lock.open("w"):
        assert not hold.look()
    lock.unlink()
    assert not hold.look()


@pytest.mark.parametrize("waits", [False, True])
def test_hold_goes_on_while_the_command_that_had_the_lock_is_at_work(
    repo: Repo, waits: bool
) -> None:
    """CAP-18: the scheduler may stop it before it moves HEAD; one that waits is at an editor."""
    lock = repo.git_dir / "index.lock"
    last = "import time; time.sleep(600)" if waits else "\nwhile True: pass"
    first = (
        "import sys; f = open(sys.argv[1], 'x'); print(flush=True); input(); f.close()"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", f"{first}; {last}", str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    with program:
        program.stdout.readline()
        hold = GitHold(str(repo.git_dir), str(repo.root))
        assert not hold.look()
        lock.unlink()
        program.stdin.write(b"\n")
        program.stdin.flush()
        if waits:
            until(hold.look)
        else:
            end = time.monotonic() + 5 * index._HEAD_GRACE_S
            while time.monotonic() < end:
                assert not hold.look()
        program.kill()
    until(hold.look)


def test_hold_begins_where_the_lock_is_released_while_its_holder_is_looked_for(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = repo.git_dir / "index.lock"
    lock.touch()
    hold = GitHold(str(repo.git_dir), str(repo.root))

    def nobody(_: str) -> tuple[int, ...]:
        lock.unlink()
        return ()

    monkeypatch.setattr(index, "lock_holders", nobody)
    assert not hold.look()
    assert not hold.look()
    until(hold.look)


def test_hold_goes_on_while_a_command_works_that_was_not_seen_with_the_lock(
    repo: Repo, tmp_path: Path
) -> None:
    """CAP-18: it released the lock before anybody looked, and has not moved HEAD yet."""
    git = tmp_path / "git"
    git.symlink_to(sys.executable)
    words = [str(git), "-c", "print(flush=True)\nwhile True: pass"]
    with subprocess.Popen(words, cwd=repo.root, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        hold = held(repo)
        end = time.monotonic() + 5 * index._HEAD_GRACE_S
        while time.monotonic() < end:
            assert not hold.look()
        program.kill()
    until(hold.look)


def test_mark_of_an_index_without_checksum_tells_every_byte(
    repo: Repo, view: IndexView
) -> None:
    """Git leaves it out with index.skipHash, and a tick of the clock has room for two writes."""
    names = [f"file-{number:04}" for number in range(1500)]
    rows = "".join(f"100644 {SHA1.empty_blob} 0\t{name}\0" for name in names)
    repo.git("update-index", "-z", "--index-info", stdin=rows.encode())
    path = repo.git_dir / "index"
    whole = path.read_bytes()
    marks = set()
    for name in (b"file-0700", b"file-07_0"):
        plain = whole.replace(b"file-0700", name)[: -SHA1.size]
        path.write_bytes(plain + bytes(SHA1.size))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        marks.add(view.mark())
    assert len(marks) == 2
    assert None not in marks
