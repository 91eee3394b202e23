"""Bytes in, bytes out: content, modes, links, names and what stands in the way."""

import errno
import os
import shutil
import struct
from pathlib import Path

import pytest

from gitshadow.store import refs
from gitshadow.store.files import TEMP_PREFIX
from gitshadow.undo.report import Reason
from tests.support.engine import Engine
from tests.support.repo import ten_lines
from tests.undo.words import reasons


def test_oops_restores_a_link_and_a_directory_behind_one(
    engine: Engine, tmp_path: Path
) -> None:
    """FID-03: a directory replaced by a link that leads out comes back; outside nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "one").write_text("theirs\n")
    kept_ns = (outside / "one").stat().st_mtime_ns
    os.symlink("a", engine.path("l"))
    engine.by("human").record()
    engine.write("d/one", "1\n")
    engine.write("d/sub/two", "2\n", 0o755)
    before = engine.tree_now()
    engine.by("s1", "t1")
    os.unlink(engine.path("l"))
    os.symlink("b", engine.path("l"))
    shutil.rmtree(engine.path("d"))
    os.symlink(outside, engine.path("d"))
    engine.record()
    after = engine.tree_now()
    assert engine.oops().status == "reversed"
    assert engine.tree_now() == before
    assert {one.name: one.read_text() for one in outside.iterdir()} == {
        "one": "theirs\n"
    }
    engine.redo()
    assert engine.tree_now() == after
    assert (outside / "one").read_text() == "theirs\n"
    assert (outside / "one").stat().st_mtime_ns == kept_ns


def test_oops_returns_deleted_links_as_links(engine: Engine, tmp_path: Path) -> None:
    """FID-04: the same target bytes; never followed, never replaced by their content."""
    (tmp_path / "target").write_text("theirs\n")
    targets = {
        "dangling": b"no/such/file",
        "absolute": os.fsencode(tmp_path / "target"),
        "odd": b"caf\xe9/\xff",
    }
    for name, target in targets.items():
        os.symlink(target, engine.path(name))
    engine.by("human").record()
    before = engine.tree_now()
    for name in targets:
        os.unlink(engine.path(name))
    engine.by("s1").record()
    assert engine.oops().status == "reversed"
    assert engine.tree_now() == before
    assert (tmp_path / "target").read_text() == "theirs\n"


def test_oops_puts_a_file_back_where_a_directory_stands(engine: Engine) -> None:
    engine.by("s1", "t1")
    os.unlink(engine.path("a"))
    engine.record()
    engine.write("a/b/c", "x\n")
    engine.oops()
    assert engine.read("a").decode() == ten_lines("a")


def test_oops_leaves_a_file_when_somebody_uses_the_directory(engine: Engine) -> None:
    engine.by("s1", "t1")
    os.unlink(engine.path("a"))
    engine.record()
    engine.write("a/b/c", "x\n")
    engine.by("human").write("a/own", "mine\n")
    report = engine.oops()
    assert ("a", "type_clash") in reasons(report)
    assert engine.read("a/own") == b"mine\n"


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)),
        b"",
        b"\0\0\0a\0",
        b"\xff\xfe\x80 \xc3\n",
        b"no end",
        b"\xef\xbb\xbfbom\n",
        "utf-16\n".encode("utf-16"),
    ],
)
def test_oops_returns_exact_bytes(engine: Engine, data: bytes) -> None:
    """FID-01: byte for byte."""
    engine.by("human").write("f", data)
    engine.by("s1").write("f", b"agent\n")
    engine.oops()
    assert engine.read("f") == data


def test_oops_returns_exact_modes(engine: Engine) -> None:
    """FID-02: all permission bits, also where only they changed."""
    modes = {"script": 0o755, "key": 0o600, "group": 0o640, "read": 0o444}
    engine.by("human")
    for name, mode in modes.items():
        engine.write(name, "x\n", mode)
    engine.by("s1", "t1")
    for name in modes:
        os.chmod(engine.path(name), 0o644)
        if name != "script":
            engine.write(name, "agent\n")
    engine.record()
    report = engine.oops()
    assert {name: engine.mode(name) for name in modes} == modes
    actions = {item.path: item.action.value for item in report.items}
    assert actions["script"] == "chmod"


# acl(5): version 2, then tag, permissions and id of owner, user 65534, group, mask, others.
ACCESS_LIST = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, who)
    for tag, rights, who in (
        (1, 6, 0xFFFFFFFF),
        (2, 4, 65534),
        (4, 4, 0xFFFFFFFF),
        (16, 4, 0xFFFFFFFF),
        (32, 0, 0xFFFFFFFF),
    )
)
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)


def give(engine: Engine, path: str, name: str, value: bytes) -> None:
    try:
        os.setxattr(engine.path(path), name, value)
    except OSError as error:
        pytest.skip(f"this file system, or this user, cannot set {name}: {error}")


@pytest.mark.parametrize(
    ("name", "value", "mode"),
    [
        ("user.note", b"kept \xff", 0o444),
        ("security.capability", CAPABILITY, 0o755),
        ("system.posix_acl_access", ACCESS_LIST, 0o640),
    ],
)
def test_extended_attributes_of_the_replaced_file_stay(
    engine: Engine, name: str, value: bytes, mode: int
) -> None:
    """FID-02: Git knows none of them, so the file in whose place another comes tells."""
    engine.by("human").write("f", "before\n", mode)
    engine.by("s1").write("f", "agent\n", mode)
    give(engine, "f", name, value)
    os.chmod(engine.path("f"), mode)
    engine.flush()
    report = engine.oops()
    assert engine.read("f") == b"before\n"
    assert os.getxattr(engine.path("f"), name) == value
    assert engine.mode("f") == mode
    assert report.not_covered == ()


def test_extended_attribute_that_cannot_be_set_is_named(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAW-05: the content comes back all the same."""
    engine.by("s1").write("a", "agent\n")
    give(engine, "a", "user.note", b"x")
    engine.flush()

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setxattr", refuse)
    report = engine.oops()
    assert report.status == "reversed"
    assert [(one.what, one.path) for one in report.not_covered] == [
        ("user.note of a", "a")
    ]


@pytest.mark.parametrize(
    "name",
    [
        b"sp ace",
        b"new\nline",
        b"tab\t",
        b'qu"ote',
        b"*",
        b"[x]",
        b"-f",
        b":x",
        b"\xff\xfe",
    ],
)
def test_oops_takes_odd_names(engine: Engine, name: bytes) -> None:
    """FID-05: any bytes."""
    engine.by("human").write(name, "x\n")
    engine.by("s1").write(name, "agent\n")
    report = engine.oops()
    assert engine.read(name) == b"x\n"
    assert refs.parse_path(report.items[0].path) == name


def test_oops_keeps_line_ends_of_the_human(engine: Engine) -> None:
    """FID-09: CRLF and the missing newline stay as the human left them."""
    engine.by("human").write("f", b"1\r\n2\r\n3")
    engine.by("s1").write("f", b"agent\r\n2\r\n3")
    engine.by("human").write("f", b"agent\r\n2\r\n3\r\nhuman")
    engine.oops()
    assert engine.read("f") == b"1\r\n2\r\n3\r\nhuman"


def test_oops_leaves_binary_content_that_changed_since(engine: Engine) -> None:
    """FID-10: left and named."""
    engine.by("human").write("f", b"\0one")
    engine.by("s1").write("f", b"\0two")
    engine.by("human").write("f", b"\0three")
    assert reasons(engine.oops()) == [("f", "binary")]
    assert engine.read("f") == b"\0three"


def test_oops_does_not_touch_what_is_so_already(engine: Engine) -> None:
    """FID-11: the equal file keeps its mtime, restored ones get a new one."""
    engine.by("s1", "t1")
    for name in ("a", "b", "c"):
        engine.write(name, "agent\n")
    engine.by("human").write("b", ten_lines("b"))
    for name in ("a", "b", "c"):
        os.utime(engine.path(name), ns=(5, 5))
    report = engine.oops()
    assert [item.state.value for item in report.items] == [
        "reversed",
        "no_effect",
        "reversed",
    ]
    mtimes = [os.lstat(engine.path(name)).st_mtime_ns for name in ("a", "b", "c")]
    assert mtimes[1] == 5
    assert 5 not in (mtimes[0], mtimes[2])


def test_oops_breaks_hard_links(engine: Engine, tmp_path: Path) -> None:
    engine.by("s1").write("a", "agent\n")
    os.link(engine.path("a"), tmp_path / "twin")
    engine.oops()
    assert (tmp_path / "twin").read_text() == "agent\n"


def test_no_temporary_file_is_wider_than_the_key(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FID-12: not for a moment, also while it is written and has no final mode yet."""
    engine.by("human").write("key", "secret\n", 0o600)
    engine.by("s1").write("key", "agent\n")
    os.chmod(engine.path("key"), 0o644)
    engine.record()
    seen: set[int] = set()

    def look(step: str) -> None:
        for name in os.listdir(engine.root):
            if TEMP_PREFIX in os.fsencode(name):
                seen.add(engine.mode(name))

    def set_last(fd: int, mode: int) -> None:
        look("written")
        os.chmod(fd, mode)

    monkeypatch.setattr(os, "fchmod", set_last)
    engine.oops(hook=look)
    assert seen == {0o600}
    assert engine.mode("key") == 0o600


def test_oops_leaves_two_files_that_want_one_place(engine: Engine) -> None:
    engine.by("s1").move("a", "d")
    engine.by("human").write("a", "mine\n")
    report = engine.oops()
    assert [item.reason for item in report.items] == [Reason.CONFLICT]
    assert (engine.read("a"), engine.read("d").decode()) == (b"mine\n", ten_lines("a"))


def test_oops_undoes_an_exchange_of_names(engine: Engine) -> None:
    before = engine.tree_now()
    engine.by("s1", "t1").move("a", "t")
    engine.move("b", "a")
    engine.move("t", "b")
    after = engine.tree_now()
    assert engine.oops().status == "reversed"
    assert engine.tree_now() == before
    engine.redo()
    assert engine.tree_now() == after
