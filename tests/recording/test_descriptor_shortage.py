"""Where no file descriptor is left, nothing is taken for gone, unreadable or without rules."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.attribution.delivery import parse_spool
from gitshadow.capture.coverage import read_outside, read_scope
from gitshadow.errors import is_shortage, shortage_behind
from gitshadow.model import RepoPath
from gitshadow.store.backends.ref_files import FileHeadLog
from gitshadow.store.files import WorkFiles
from gitshadow.store.object_format import SHA1

_OPENERS: dict[str, Callable[[str], object]] = {
    "glance": lambda root: WorkFiles(root, SHA1).glance(RepoPath(b"file")),
    "rules of the worktree": lambda root: read_scope(
        WorkFiles(root, SHA1), RepoPath(b"file")
    ),
    "rules outside it": lambda root: read_outside(f"{root}/file"),
    "spooled payload": lambda root: parse_spool(f"{root}/file"),
    "log of HEAD": lambda root: FileHeadLog(root).newest(1),
}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("what", _OPENERS)
def test_shortage_is_an_error_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, number: int
) -> None:
    (tmp_path / "file").write_text("*.key\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "HEAD").write_text("")

    def none_left(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", none_left)
    monkeypatch.setattr("builtins.open", none_left)
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        _OPENERS[what](str(tmp_path))
    monkeypatch.undo()
    assert is_shortage(raised.value)


def test_shortage_is_known_without_a_number() -> None:
    error = OSError("HEAD: could not open 'x': " + os.strerror(errno.EMFILE))
    assert shortage_behind(error) is not None
    assert shortage_behind(OSError(errno.EACCES, "Permission denied")) is None
    assert shortage_behind(OSError("something else")) is None
