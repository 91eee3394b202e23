"""How people's editors save a file, as the system calls that they make.

Each function saves `text` into `target` and returns what ends the editor afterwards. Vim is the
real one, where it is installed; the others are done as their sources do it.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

Finish = Callable[[], object]
_WAIT_S = 10.0


def plain(target: Path, text: str) -> Finish:
    """Truncate and write, as `cat >`, nano and VS Code do (Node's `fs.writeFile`)."""
    target.write_text(text, encoding="ascii")
    return _nothing


def atomic(target: Path, text: str) -> Finish:
    """Write beside and rename, as VS Code does where asked to (postfix `.vsctmp`)."""
    beside = target.with_name(target.name + ".vsctmp")
    _synced(beside, text)
    beside.rename(target)
    return _nothing


def jetbrains(target: Path, text: str) -> Finish:
    """Write beside, keep the old one, rename, delete the old one: SafeFileOutputStream."""
    new = target.with_name(target.name + "___jb_tmp___")
    old = target.with_name(target.name + "___jb_old___")
    _synced(new, text)
    target.rename(old)
    new.rename(target)
    old.unlink()
    return _nothing


def vim_in_place(target: Path, text: str) -> Finish:
    """Edit in vim with a backup copy, the file written in place; vim stays open."""
    return _vim(target, text, "set backupcopy=yes", "sleep 10")


def vim_by_rename(target: Path, text: str) -> Finish:
    """Edit in vim, the old file renamed away; vim stays open."""
    return _vim(target, text, "set backupcopy=no", "sleep 10")


def vim_and_quit(target: Path, text: str) -> Finish:
    """Edit in vim as it comes, save and quit at once: no swap file is left to be seen."""
    return _vim(target, text, "set nocompatible", "quit!")


def _vim(target: Path, text: str, setting: str, then: str) -> Finish:
    line = text.removesuffix("\n")
    change = f"call setline(1, {line!r})"
    commands = ("set swapfile writebackup", setting, change, "sleep 30m", "write", then)
    process = subprocess.Popen(
        ["vim", "-N", "-u", "NONE", "-i", "NONE", "--not-a-term"]
        + [word for command in commands for word in ("-c", command)]
        + [target.name],
        cwd=target.parent,
        env={**os.environ, "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + _WAIT_S
    while not _holds(target, line):
        if time.monotonic() > deadline:
            process.kill()
            raise TimeoutError("vim did not save")
        time.sleep(0.002)

    def finish() -> None:
        process.kill()
        process.wait()
        swap = target.with_name(f".{target.name}.swp")
        swap.unlink(missing_ok=True)

    return finish


def _holds(target: Path, line: str) -> bool:
    try:
        return target.read_text(encoding="ascii") == line + "\n"
    except OSError:
        return False


def _synced(path: Path, text: str) -> None:
    with path.open("w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _nothing() -> None:
    return None


PATTERNS: dict[str, Callable[[Path, str], Finish]] = {
    "plain write, in place (VS Code, nano)": plain,
    "atomic rename (VS Code)": atomic,
    "safe write (JetBrains)": jetbrains,
}
if shutil.which("vim") is not None:
    PATTERNS |= {
        "vim, in place": vim_in_place,
        "vim, backup and rename": vim_by_rename,
        "vim, save and quit": vim_and_quit,
    }
