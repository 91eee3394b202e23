"""What is read and written through Git's plumbing, beyond what both backends do."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitshadow.errors import StaleTipError, StoreError, UnsupportedError
from gitshadow.model import Oid
from gitshadow.store.backends import following
from gitshadow.store.backends.following import Engine, open_backend
from gitshadow.store.backends.libgit2 import Libgit2Backend
from gitshadow.store.backends.plumbing import PlumbingBackend
from gitshadow.store.repo import RefLockedError
from gitshadow.store.repo import Repo as Store
from tests.support.kinds import DEFAULT, REFTABLE, Kind
from tests.support.newer_git import need_newer_git
from tests.support.repo import Repo
from tests.support.studio import layout_of

REF = "refs/agent-undo/s-1"


pytestmark = pytest.mark.kinds("sha1-files", "sha256-files", "sha1-reftable")


@contextmanager
def opened(repo: Repo) -> Iterator[PlumbingBackend]:
    backend = open_backend(layout_of(repo), os.environ, Engine.PLUMBING)
    assert isinstance(backend, PlumbingBackend)
    try:
        yield backend
    finally:
        backend.close()


def children() -> list[int]:
    """Return the processes that this one has started and that run."""
    out = subprocess.run(
        ["ps", "-wwo", "pid=,stat=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = (row.split(None, 2) for row in out.stdout.splitlines())
    return [int(r[0]) for r in rows if r[1][0] != "Z" and r[2].startswith("git")]


def test_every_child_may_be_killed_at_any_time(repo: Repo) -> None:
    repo.git("gc", "-q")
    tip = Oid(repo.git("rev-parse", "HEAD"))
    other = Oid(repo.git("commit-tree", "HEAD^{tree}", "-m", "x"))
    with opened(repo) as backend:
        backend.create_ref(REF, tip)
        for old, new in ((tip, other), (other, tip), (tip, other)):
            assert backend.read(tip)[0] == "commit"
            assert children()
            for pid in children():
                os.kill(pid, signal.SIGKILL)
            assert backend.read(tip)[0] == "commit"
            backend.move_ref(REF, old, new)
            assert backend.ref(REF) == new
        backend.let_go()
        assert children() == []
        with pytest.raises(StaleTipError):
            backend.move_ref(REF, tip, other)
        backend.delete_ref(REF)
        assert backend.ref(REF) is None


def test_objects_of_a_removed_pack_are_gone_at_once(repo: Repo) -> None:
    """A child that has the pack open would still find them."""
    repo.git("gc", "-q")
    tip = Oid(repo.git("rev-parse", "HEAD"))
    with opened(repo) as backend:
        assert backend.read(tip)[0] == "commit"
        assert backend.may_be_packed(tip)
        shutil.move(repo.git_dir / "objects" / "pack", repo.root.parent / "away")
        (repo.git_dir / "objects" / "pack").mkdir()
        assert not backend.may_be_packed(tip)
        assert not backend.exists(tip)
        assert not backend.is_packed(tip)
        with pytest.raises(StoreError, match="it is missing"):
            backend.read(tip)
    repo.damaged = True


def test_packed_content_that_does_not_match_its_name_is_an_error(repo: Repo) -> None:
    repo.write("a", os.urandom(5000))
    repo.commit("noise")
    repo.git("gc", "-q")
    blob = Oid(repo.git("rev-parse", "HEAD:a"))
    (pack,) = (repo.git_dir / "objects" / "pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 40):
        data[at] ^= 255
    pack.write_bytes(data)
    repo.damaged = True
    with opened(repo) as backend, pytest.raises(StoreError, match="could not read"):
        backend.read(blob)


def test_borrowed_objects_are_found_loose_and_packed(
    repo: Repo, repo_kind: Kind, tmp_path: Path
) -> None:
    lender = Repo.create(tmp_path / "lender")
    lender.write("x", "packed elsewhere\n")
    lender.commit("x")
    lender.git("gc", "-q")
    packed = Oid(lender.git("rev-parse", "HEAD:x"))
    loose = Oid(lender.git("hash-object", "-w", "--stdin", stdin=b"loose elsewhere\n"))
    borrows = repo.git_dir / "objects" / "info" / "alternates"
    borrows.write_text(f"{lender.git_dir}/objects\n")
    with opened(repo) as backend:
        assert backend.read(packed) == ("blob", b"packed elsewhere\n")
        assert backend.read(loose) == ("blob", b"loose elsewhere\n")
        assert backend.exists(packed)
        assert backend.exists(loose)
        assert not backend.is_packed(packed)


def test_object_that_exists_gets_a_new_time_instead_of_a_copy(repo: Repo) -> None:
    data = repo.read("a")
    blob = Oid(repo.git("rev-parse", "HEAD:a"))
    loose = repo.git_dir / "objects" / blob[:2] / blob[2:]
    with opened(repo) as backend:
        os.utime(loose, (1, 1))
        assert backend.write("blob", data) == blob
        assert loose.stat().st_mtime > 1
        repo.git("gc", "-q")
        (pack,) = (repo.git_dir / "objects" / "pack").glob("*.pack")
        os.utime(pack, (1, 1))
        backend.let_go()
        assert backend.write("blob", data) == blob
        assert pack.stat().st_mtime > 1
        assert not loose.exists()


def test_missing_object_of_a_partial_clone_is_not_fetched(
    repo: Repo, repo_kind: Kind, tmp_path: Path
) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    url, how = f"file://{repo.root}", ("clone", "-q", "--filter=blob:none")
    refs = (f"--ref-format={repo_kind.refs}",) if repo_kind.refs != "files" else ()
    repo.git(*how, "--no-checkout", *refs, url, str(tmp_path / "part"))
    part = Repo(tmp_path / "part")
    marker = tmp_path / "fetched"
    part.git("config", "remote.origin.uploadpack", f"touch {marker}; git-upload-pack")
    blob = Oid(repo.git("rev-parse", "HEAD:a"))
    with opened(part) as backend:
        assert backend.read(Oid(repo.git("rev-parse", "HEAD")))[0] == "commit"
        assert not backend.exists(blob)
        with pytest.raises(StoreError, match="missing"):
            backend.read(blob)
        assert backend.resolve("HEAD:a") is None
    assert not marker.exists()


def test_hooks_and_reflogs_of_the_user_see_nothing_of_it(
    repo: Repo, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    hook = f"#!/bin/sh\ntouch {marker}\n"
    repo.write(".git/hooks/reference-transaction", hook, 0o755)
    repo.git("config", "hook.spy.event", "reference-transaction")
    repo.git("config", "hook.spy.command", f"touch {marker}")
    repo.git("config", "core.logAllRefUpdates", "always")
    tip = Oid(repo.git("rev-parse", "HEAD"))
    marker.unlink(missing_ok=True)
    with opened(repo) as backend:
        backend.create_ref(REF, tip)
        backend.force_ref(REF, tip)
    assert not marker.exists()
    assert repo.git("log", "-g", "--format=%H", REF, check=False) == ""


def test_lock_of_all_refs_is_an_error_of_its_own(repo: Repo, repo_kind: Kind) -> None:
    tip = Oid(repo.git("rev-parse", "HEAD"))
    lock = "reftable/tables.list.lock" if repo_kind.refs == REFTABLE else f"{REF}.lock"
    with opened(repo) as backend:
        repo.write(f".git/{lock}", "")
        with pytest.raises(RefLockedError) as caught:
            backend.create_ref(REF, tip)
        assert caught.value.lock == str(repo.git_dir / lock)
        assert lock in str(caught.value.hint)
        repo.delete(f".git/{lock}")
        backend.create_ref(REF, tip)


def test_configuration_is_that_of_git_and_new_at_once(repo: Repo, sealed: Path) -> None:
    repo.git("config", "user.name", "Own Name")
    repo.git("config", "include.path", "more")
    (repo.git_dir / "more").write_text("[x]\n\tmore = 1\n")
    repo.append(".git/config", '[Remote "Mixed.Case"]\n\tMirror\n')
    with opened(repo) as backend:
        found = {entry.name: entry.value for entry in backend.config()}
        assert found["user.name"] == "Own Name"
        assert found["remote.Mixed.Case.mirror"] is None
        assert found["x.more"] == "1"
        assert "core.hookspath" not in found
        (repo.git_dir / "more").write_text("[x]\n\tmore = second\n")
        assert dict(backend.config())["x.more"] == "second"
        (sealed / ".gitconfig").write_text("[y]\n\tz = 3\n")
        assert dict(backend.config())["y.z"] == "3"
        (sealed / ".gitconfig").write_text("[include]\n\tpath = ~/later\n")
        assert "y.z" not in dict(backend.config())
        (sealed / "later").write_text("[y]\n\tz = 4\n")
        assert dict(backend.config())["y.z"] == "4"


def test_mistake_in_the_configuration_stops_no_write(repo: Repo, sealed: Path) -> None:
    """As with libgit2, recording goes on with the settings that were read last."""
    tip = Oid(repo.git("rev-parse", "HEAD"))
    other = Oid(repo.git("commit-tree", "HEAD^{tree}", "-m", "x"))
    with opened(repo) as backend:
        backend.create_ref(REF, tip)
        for file in (repo.git_dir / "config", sealed / ".gitconfig"):
            whole = file.read_text() if file.exists() else ""
            file.write_text(whole + "[broken\n")
            with pytest.raises(StoreError, match="bad config line"):
                backend.config()
            data = repo.read("a")
            assert backend.write("blob", data) == backend.form.blob(data)
            backend.write_all({backend.form.blob(b"new"): ("blob", b"new")})
            backend.move_ref(REF, tip, other)
            tip, other = other, tip
            file.write_text(whole)
            assert "x.y" not in dict(backend.config())
        assert backend.ref(REF) == tip


def test_revisions_are_those_of_git(repo: Repo) -> None:
    tip = Oid(repo.git("rev-parse", "HEAD"))
    with opened(repo) as backend:
        for name in ("HEAD", "main", "@", tip[:9], "main^0", ":/first", "main@{0}"):
            assert backend.resolve(name) == tip
        for name in ("none", "HEAD:a", "-x", "--all", "HEAD~5", ""):
            assert backend.resolve(name) is None


def test_newest_commits_that_no_remote_has_are_walked(repo: Repo) -> None:
    first = Oid(repo.git("rev-parse", "HEAD"))
    repo.git("update-ref", "refs/remotes/o/main", first)
    second, third = Oid(repo.commit("2")), Oid(repo.commit("3"))
    with opened(repo) as backend:
        assert dict(backend.unpushed(third, 9)) == {third: [second], second: [first]}
        assert dict(backend.unpushed(third, 1)) == {third: [second]}
        assert dict(backend.unpushed(first, 9)) == {}


def test_linked_worktree_of_relative_paths_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`extensions.relativeWorktrees` of git 2.48, which libgit2 refuses."""
    need_newer_git(monkeypatch)
    repo = Repo.create(tmp_path / "r")
    repo.git("worktree", "add", "-q", "--relative-paths", str(tmp_path / "w"))
    layout = layout_of(Repo(tmp_path / "w"))
    store = Store.open(layout)
    assert store.head() == ("refs/heads/w", repo.git("rev-parse", "HEAD"))
    store.close()


def test_libgit2_is_taken_where_it_is_known_to_be_right(
    repo: Repo, repo_kind: Kind
) -> None:
    backend = open_backend(layout_of(repo), os.environ)
    fit = Libgit2Backend if repo_kind == DEFAULT else PlumbingBackend
    assert isinstance(backend, fit)
    backend.close()


@pytest.mark.kinds("sha1-files")
@pytest.mark.parametrize("lie", ["head", "object", "nothing"])
def test_newer_libgit2_is_believed_only_if_git_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    repo = Repo.create(tmp_path / "r")
    found = Libgit2Backend(layout_of(repo), os.environ)
    found.ref_format = "reftable"
    if lie == "head":
        monkeypatch.setattr(found, "head", lambda: ("refs/heads/main", None))
    if lie == "object":
        monkeypatch.setattr(found, "read", lambda _: ("commit", b"other"))
    believed = lie == "nothing"
    layout = layout_of(repo)
    assert following._is_true(found, layout, os.environ, (1, 99)) is believed
    assert not following._is_true(found, layout, os.environ, (1, 9))
    found.close()


@pytest.mark.kinds("sha1-files")
def test_libgit2_that_reads_another_store_is_not_taken(tmp_path: Path) -> None:
    """HEAD is a placeholder where refs are no files (gitrepository-layout(5))."""
    repo = Repo.create(tmp_path / "r")
    repo.write(".git/HEAD", "ref: refs/heads/.invalid\n")
    found = Libgit2Backend(layout_of(repo), os.environ)
    assert not following._is_true(found, layout_of(repo), os.environ)
    found.close()
    repo.damaged = True


def test_format_that_nothing_reads_is_refused_with_a_hint(repo: Repo) -> None:
    repo.git("config", "core.repositoryFormatVersion", "1")
    repo.git("config", "extensions.unheardOf", "1")
    repo.damaged = True
    with pytest.raises(UnsupportedError, match="unheardof") as caught:
        open_backend(layout_of(repo), os.environ)
    assert "\n" not in caught.value.message
    assert "update git" in str(caught.value.hint)
