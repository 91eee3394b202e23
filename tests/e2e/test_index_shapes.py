"""LAW-01: whatever Git's index looks like, what is recorded is what is on the disk.

Git's index is a witness for the content of clean files. Each test reads everything once and
compares. So many files change at a time that the witness is asked (`IndexView.is_cheaper`).
"""

import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gitshadow.platform.stamps import RACY_NS
from gitshadow.store.object_format import ObjectFormat
from tests.conftest import FULL, on_both
from tests.e2e.test_watches import begin_with_few_watches
from tests.support import audit
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.waiting import until

_PATHS = [f"d{number % 7}/f{number}" for number in range(150)]
_DAY_NS = 86_400_000_000_000
_LIE = """\
#!/bin/sh
# The protocol of version 2 of core.fsmonitor: a token, and the paths that changed; githooks(5).
printf 'token\\0'
"""
MakeShadow = Callable[..., Shadow]


def _nothing(_: Repo) -> None:
    """Leave it as it is."""


class Shape(NamedTuple):
    """How the index, or what it knows of files, is made odd.

    `renew` does again what is undone when Git writes the index, or somebody writes files.
    """

    prepare: Callable[[Repo], None]
    renew: Callable[[Repo], None] = _nothing


def _run(*words: str) -> Callable[[Repo], None]:
    def run(repo: Repo) -> None:
        repo.git(*words)

    return run


def _flag(flag: str) -> Shape:
    def mark(repo: Repo) -> None:
        repo.git("update-index", flag, *_PATHS[::2])

    return Shape(mark)


def _split(repo: Repo) -> None:
    repo.git("config", "core.splitIndex", "true")
    repo.git("config", "splitIndex.maxPercentChange", "100")
    repo.git("update-index", "--split-index")


def _sparse(*how: str) -> Shape:
    def set_up(repo: Repo) -> None:
        repo.git("sparse-checkout", "set", *how)

    return Shape(set_up)


def _cached_untracked(repo: Repo) -> None:
    repo.git("config", "core.untrackedCache", "true")
    repo.git("update-index", "--force-untracked-cache")
    repo.git("status")


def _lying_monitor(repo: Repo) -> None:
    hook = repo.root.parent / "monitor"
    hook.write_text(_LIE)
    hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(hook))
    repo.git("config", "core.fsmonitorHookVersion", "2")
    repo.git("update-index", "--fsmonitor")
    repo.git("status")


def _linked_as_files(repo: Repo) -> None:
    """Have links be plain files, as on file systems without links."""
    repo.git("config", "core.symlinks", "false")
    repo.delete("link")
    repo.git("checkout", "link")
    assert stat.S_ISREG(os.lstat(repo.path("link")).st_mode)


def _dated(ns: int) -> Callable[[Repo], None]:
    """Give all files a time, and Git's index that knowledge."""

    def date(repo: Repo) -> None:
        for path in _PATHS:
            os.utime(repo.path(path), ns=(ns, ns))
        repo.git("update-index", "-q", "--refresh", check=False)

    return date


def _index_at(ns: int) -> Callable[[Repo], None]:
    def date(repo: Repo) -> None:
        os.utime(repo.git_dir / "index", ns=(ns, ns))

    return date


def _clock_back(repo: Repo) -> None:
    """Leave all times in the future, those of the files before that of the index."""
    future_ns = _now_ns(repo) + _DAY_NS
    _dated(future_ns)(repo)
    _index_at(future_ns + _DAY_NS)(repo)


def _as_old_as_files(repo: Repo) -> None:
    """Have the index be written in the moment of the newest file."""
    newest_ns = max(os.lstat(repo.path(path)).st_mtime_ns for path in _PATHS)
    _index_at(newest_ns)(repo)


def _now_ns(repo: Repo) -> int:
    repo.write(".git/now", "")
    return os.lstat(repo.path(".git/now")).st_mtime_ns


def _unrefreshed(repo: Repo) -> None:
    """Touch every file behind Git's back."""
    for path in _PATHS:
        os.utime(repo.path(path))


def _stale_lock(repo: Repo) -> None:
    repo.write(".git/index.lock", "of a command that was killed")


def _conflicted(repo: Repo) -> None:
    """Leave a merge with a conflict half done."""
    repo.git("switch", "-qc", "theirs")
    repo.write("a", "theirs\n")
    repo.commit("theirs")
    repo.git("switch", "-q", "main")
    repo.write("a", "ours\n")
    repo.commit("ours")
    repo.git("merge", "-q", "theirs", check=False)


def _intended(repo: Repo) -> None:
    """Have entries that only version 3 of the index can hold."""
    repo.write("intended", "later\n")
    repo.git("add", "-N", "intended")


SHAPES = {
    "plain": Shape(_nothing),
    "split": Shape(_split),
    "sparse checkout": _sparse("--no-cone", "/*", "!/d1/"),
    "sparse index": _sparse("--cone", "--sparse-index", "d0", "d2", "d3", "d4"),
    "version 4": Shape(_run("update-index", "--index-version", "4")),
    "intended entries": Shape(_intended),
    "without a checksum": Shape(_run("config", "index.skipHash", "true")),
    "locked": Shape(_nothing, _stale_lock),
    "stale": Shape(_nothing, _unrefreshed),
    "racily clean": Shape(_nothing, _as_old_as_files),
    "conflicted": Shape(_conflicted),
    "fsmonitor": Shape(_lying_monitor),
    "untracked cache": Shape(_cached_untracked),
    "assume-unchanged": _flag("--assume-unchanged"),
    "skip-worktree": _flag("--skip-worktree"),
    "ignored stat": Shape(_run("config", "core.ignoreStat", "true")),
    "minimal stat": Shape(_run("config", "core.checkStat", "minimal")),
    "untrusted ctime": Shape(_run("config", "core.trustctime", "false")),
    "no file modes": Shape(_run("config", "core.fileMode", "false")),
    "no links": Shape(_linked_as_files),
    "times in the future": Shape(_dated(4_000_000_000_000_000_000)),
    "times before 1970": Shape(_dated(-5_000_000_001)),
    "times after 2106": Shape(_dated((2**32 + 5) * 1_000_000_000)),
    "clock gone back": Shape(_clock_back, _clock_back),
}


_NOTABLE = (
    "sparse index",
    "split",
    "racily clean",
    "assume-unchanged",
    "clock gone back",
)
"""Those of a short run, in which `init` is tried with more of them (tests/maintenance)."""


def populate(repo: Repo) -> None:
    """Commit files on two branches that differ in each of them."""
    repo.symlink("link", "a")
    rewrite(repo, "main")
    repo.commit("main")
    repo.git("switch", "-qc", "other")
    rewrite(repo, "side")
    repo.commit("other")
    repo.git("switch", "-q", "main")


def rewrite(repo: Repo, word: str, paths: Sequence[str] = _PATHS) -> None:
    """Give files a new content of the same size."""
    for path in paths:
        repo.write(path, f"{word} {path}\n")


def rewrite_unseen(repo: Repo, word: str) -> None:
    """Do that to those that are there, so that neither their size nor their mtime shows it."""
    for path in _PATHS:
        if repo.exists(path):
            kept = os.lstat(repo.path(path))
            repo.write(path, f"{word} {path}\n")
            os.utime(repo.path(path), ns=(kept.st_atime_ns, kept.st_mtime_ns))


def settle(repo: Repo) -> None:
    """Let the index be newer than all files, as a moment after a checkout."""
    newest = max(os.lstat(repo.path(one)).st_ctime_ns for one in audit.on_disk(repo))
    until(lambda: _index_touched(repo) > newest + RACY_NS)


def _index_touched(repo: Repo) -> int:
    os.utime(repo.git_dir / "index")
    return (repo.git_dir / "index").stat().st_mtime_ns


def switch(repo: Repo) -> None:
    """Have Git write the other branch over whatever is there, unless it refuses."""
    lock = repo.git_dir / "index.lock"
    lock.unlink(missing_ok=True)
    # It does where it was told not to look at files that did change.
    repo.git("checkout", "-q", "--force", "other", check=False)


def check_bytes(shadow: Shadow) -> None:
    """Read everything once: it is what is recorded, stored, and in the recorded tree."""
    shadow.ok("flush")
    repo = shadow.repo
    disk = audit.on_disk(repo)
    assert audit.recorded_states(repo) == disk
    tree = audit.recorded_tree(repo)
    present = audit.with_git_modes(disk)
    assert {path: tree.get(path) for path in present} == present
    head = audit.files_of_tree(repo, "HEAD")
    left_out = {path: tree[path] for path in tree.keys() - present.keys()}
    assert {path: head.get(path) for path in left_out} == left_out
    skipped = repo.git("ls-files", "-t", check=False).splitlines()
    assert {f"S {os.fsdecode(path)}" for path in left_out} <= set(skipped)
    oids = "".join(f"{oid}\n" for oid, _ in tree.values()).encode()
    assert "missing" not in repo.git("cat-file", "--batch-check", stdin=oids)


@on_both("shape", SHAPES if FULL else _NOTABLE)
def test_what_is_recorded_is_what_is_there(
    repo: Repo, make_shadow: MakeShadow, shape: str
) -> None:
    """LAW-01: at `init`, after writes, over a switch, and of what was written with no daemon."""
    populate(repo)
    SHAPES[shape].prepare(repo)
    settle(repo)
    SHAPES[shape].renew(repo)
    shadow = make_shadow(repo)
    shadow.init()
    check_bytes(shadow)
    rewrite_unseen(repo, "mine")
    SHAPES[shape].renew(repo)
    check_bytes(shadow)
    switch(repo)
    SHAPES[shape].renew(repo)
    check_bytes(shadow)
    settle(repo)
    SHAPES[shape].renew(repo)
    shadow.ok("stop")
    rewrite_unseen(repo, "late")
    repo.delete("d0/f0")
    repo.chmod("d0/f7", 0o755)
    repo.write("d0/new", "new\n")
    shadow.ok("start")
    check_bytes(shadow)
    (repo.git_dir / "index.lock").unlink(missing_ok=True)


def _of_version_9(data: bytes, objects: ObjectFormat) -> bytes:
    body = data[:4] + (9).to_bytes(4, "big") + data[8 : -objects.size]
    return body + objects.hasher(body).digest()


def _of_a_needed_extension(data: bytes, objects: ObjectFormat) -> bytes:
    body = data[: -objects.size] + b"newx" + (1).to_bytes(4, "big") + b"x"
    return body + objects.hasher(body).digest()


def _cut_short(data: bytes, _objects: ObjectFormat) -> bytes:
    return data[: len(data) // 2]


_SPOILS = (_of_version_9, _of_a_needed_extension, _cut_short)


@on_both("spoil", _SPOILS if FULL else _SPOILS[:1])
def test_what_is_recorded_is_what_is_there_where_git_cannot_read_its_index(
    repo: Repo, shadow_d: Shadow, spoil: Callable[[bytes, ObjectFormat], bytes]
) -> None:
    """LAW-01: a newer git may have written it, or a crash; files are read then."""
    populate(repo)
    check_bytes(shadow_d)
    index = repo.git_dir / "index"
    whole = index.read_bytes()
    index.write_bytes(spoil(whole, repo.object_format))
    assert repo.git("ls-files", check=False) == ""
    rewrite_unseen(repo, "mine")
    check_bytes(shadow_d)
    assert "cannot read the index of this repository" in shadow_d("doctor").out
    shadow_d.ok("stop")
    rewrite_unseen(repo, "late")
    repo.write("d0/new", "new\n")
    shadow_d.ok("start")
    check_bytes(shadow_d)
    index.write_bytes(whole)
    rewrite_unseen(repo, "last")
    check_bytes(shadow_d)
    shadow_d.verify()


@on_both()
def test_what_is_recorded_is_what_is_there_without_watches(
    repo: Repo, shadow_d: Shadow
) -> None:
    """LAW-01, ROB-16: each barrier walks, and so finds what nobody hinted at."""
    populate(repo)
    check_bytes(shadow_d)
    shadow_d.ok("stop")
    begin_with_few_watches(shadow_d)
    rewrite_unseen(repo, "mine")
    check_bytes(shadow_d)
    switch(repo)
    check_bytes(shadow_d)
    shadow_d.ok("stop")
