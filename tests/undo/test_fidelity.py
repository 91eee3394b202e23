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
from tests.undo.recorder_world import Yard
from tests.undo.words import lines, reasons


def test_oops_restores_a_link_and_a_directory_behind_one(
    yard: Yard, tmp_path: Path
) -> None:
    """FID-03: a directory replaced by a link that leads out comes back; outside nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "one").write_text("theirs\n")
    os.symlink("a", yard.path("l"))
    yard.by("human").record()
    yard.write("d/one", "1\n")
    yard.write("d/two", "2\n")
    before = yard.tree_now()
    yard.by("s1", "t1")
    os.unlink(yard.path("l"))
    os.symlink("b", yard.path("l"))
    shutil.rmtree(yard.path("d"))
    os.symlink(outside, yard.path("d"))
    yard.record()
    after = yard.tree_now()
    assert yard.oops().status == "reversed"
    assert yard.tree_now() == before
    assert {one.name: one.read_text() for one in outside.iterdir()} == {
        "one": "theirs\n"
    }
    yard.redo()
    assert yard.tree_now() == after
    assert (outside / "one").read_text() == "theirs\n"


def test_oops_puts_a_file_back_where_a_directory_stands(yard: Yard) -> None:
    yard.by("s1", "t1")
    os.unlink(yard.path("a"))
    yard.record()
    yard.write("a/b/c", "x\n")
    yard.oops()
    assert yard.read("a").decode() == lines("a")


def test_oops_leaves_a_file_when_somebody_uses_the_directory(yard: Yard) -> None:
    yard.by("s1", "t1")
    os.unlink(yard.path("a"))
    yard.record()
    yard.write("a/b/c", "x\n")
    yard.by("human").write("a/own", "mine\n")
    report = yard.oops()
    assert ("a", "type_clash") in reasons(report)
    assert yard.read("a/own") == b"mine\n"


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)),
        b"",
        b"no end",
        b"\xef\xbb\xbfbom\n",
        "utf-16\n".encode("utf-16"),
    ],
)
def test_oops_returns_exact_bytes(yard: Yard, data: bytes) -> None:
    """FID-01: byte for byte."""
    yard.by("human").write("f", data)
    yard.by("s1").write("f", b"agent\n")
    yard.oops()
    assert yard.read("f") == data


def test_oops_returns_exact_modes(yard: Yard) -> None:
    """FID-02: all permission bits, also where only they changed."""
    modes = {"script": 0o755, "key": 0o600, "group": 0o640, "read": 0o444}
    yard.by("human")
    for name, mode in modes.items():
        yard.write(name, "x\n", mode)
    yard.by("s1", "t1")
    for name in modes:
        os.chmod(yard.path(name), 0o644)
        if name != "script":
            yard.write(name, "agent\n")
    yard.record()
    report = yard.oops()
    assert {name: yard.mode(name) for name in modes} == modes
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


def give(yard: Yard, path: str, name: str, value: bytes) -> None:
    try:
        os.setxattr(yard.path(path), name, value)
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
    yard: Yard, name: str, value: bytes, mode: int
) -> None:
    """FID-02: Git knows none of them, so the file in whose place another comes tells."""
    yard.by("human").write("f", "before\n", mode)
    yard.by("s1").write("f", "agent\n", mode)
    give(yard, "f", name, value)
    os.chmod(yard.path("f"), mode)
    yard.flush()
    report = yard.oops()
    assert yard.read("f") == b"before\n"
    assert os.getxattr(yard.path("f"), name) == value
    assert yard.mode("f") == mode
    assert report.not_covered == ()


def test_extended_attribute_that_cannot_be_set_is_named(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAW-05: the content comes back all the same."""
    yard.by("s1").write("a", "agent\n")
    give(yard, "a", "user.note", b"x")
    yard.flush()

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setxattr", refuse)
    report = yard.oops()
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
def test_oops_takes_odd_names(yard: Yard, name: bytes) -> None:
    """FID-05: any bytes."""
    yard.by("human").write(name, "x\n")
    yard.by("s1").write(name, "agent\n")
    report = yard.oops()
    assert yard.read(name) == b"x\n"
    assert refs.parse_path(report.items[0].path) == name


def test_oops_keeps_line_ends_of_the_human(yard: Yard) -> None:
    """FID-09: CRLF and the missing newline stay as the human left them."""
    yard.by("human").write("f", b"1\r\n2\r\n3")
    yard.by("s1").write("f", b"agent\r\n2\r\n3")
    yard.by("human").write("f", b"agent\r\n2\r\n3\r\nhuman")
    yard.oops()
    assert yard.read("f") == b"1\r\n2\r\n3\r\nhuman"


def test_oops_leaves_binary_content_that_changed_since(yard: Yard) -> None:
    """FID-10: left and named."""
    yard.by("human").write("f", b"\0one")
    yard.by("s1").write("f", b"\0two")
    yard.by("human").write("f", b"\0three")
    assert reasons(yard.oops()) == [("f", "binary")]
    assert yard.read("f") == b"\0three"


def test_oops_does_not_touch_what_is_so_already(yard: Yard) -> None:
    """FID-11: the equal file keeps its mtime, restored ones get a new one."""
    yard.by("s1", "t1")
    for name in ("a", "b", "c"):
        yard.write(name, "agent\n")
    yard.by("human").write("b", lines("b"))
    for name in ("a", "b", "c"):
        os.utime(yard.path(name), ns=(5, 5))
    report = yard.oops()
    assert [item.state.value for item in report.items] == [
        "reversed",
        "no_effect",
        "reversed",
    ]
    mtimes = [os.lstat(yard.path(name)).st_mtime_ns for name in ("a", "b", "c")]
    assert mtimes[1] == 5
    assert 5 not in (mtimes[0], mtimes[2])


def test_oops_breaks_hard_links(yard: Yard, tmp_path: Path) -> None:
    yard.by("s1").write("a", "agent\n")
    os.link(yard.path("a"), tmp_path / "twin")
    yard.oops()
    assert (tmp_path / "twin").read_text() == "agent\n"


def test_no_temporary_file_is_wider_than_the_key(yard: Yard) -> None:
    """FID-12: not for a moment."""
    yard.by("human").write("key", "secret\n", 0o600)
    yard.by("s1").write("key", "agent\n")
    os.chmod(yard.path("key"), 0o644)
    yard.record()
    seen: set[int] = set()

    def look(step: str) -> None:
        for name in os.listdir(yard.root):
            if TEMP_PREFIX in os.fsencode(name):
                seen.add(yard.mode(name))

    yard.oops(hook=look)
    assert seen == {0o600}
    assert yard.mode("key") == 0o600


def test_oops_leaves_two_files_that_want_one_place(yard: Yard) -> None:
    yard.by("s1").move("a", "d")
    yard.by("human").write("a", "mine\n")
    report = yard.oops()
    assert [item.reason for item in report.items] == [Reason.CONFLICT]
    assert (yard.read("a"), yard.read("d").decode()) == (b"mine\n", lines("a"))


def test_oops_undoes_an_exchange_of_names(yard: Yard) -> None:
    before = yard.tree_now()
    yard.by("s1", "t1").move("a", "t")
    yard.move("b", "a")
    yard.move("t", "b")
    after = yard.tree_now()
    assert yard.oops().status == "reversed"
    assert yard.tree_now() == before
    yard.redo()
    assert yard.tree_now() == after
