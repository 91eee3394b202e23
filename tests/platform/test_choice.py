"""Which platform a process has, and that nobody else knows about operating systems."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gitshadow import platform
from gitshadow.config import WatchBackend
from gitshadow.platform.linux import Linux
from gitshadow.platform.macos import MacOS
from gitshadow.platform.portable import Portable
from tests.support.waiting import HANGS_S

PACKAGE = Path(platform.__file__).parent.parent
SPECIAL = re.compile(
    r"/proc|inotify|xattr|systemd|launchd|sys\.platform|ctypes|boot_id|statx|fanotify|prctl"
    r"|SO_PEERCRED|LOCAL_PEERCRED|fcntl\.F_|pidfd|kqueue|memfd|posix_fadvise|RUSAGE_THREAD"
    r"|CLOCK_BOOTTIME|watchfiles|psutil|platform\.(?:linux|macos|portable)\b",
    re.IGNORECASE,
)
ALLOWED = {
    # Values of a setting, and its meaning for a person.
    "config.py": {"inotify", "watchfiles"},
    # What `daemon start --at-login` writes, and where, for a person.
    "commands/daemon.py": {"systemd", "launchd"},
    # What root gets installed, and when it is started, for a person.
    "commands/witness.py": {"systemd"},
    # A key of journals that earlier versions wrote.
    "maintenance/startup_repair.py": {"boot_id"},
}


@pytest.mark.parametrize(
    ("system", "wanted", "name"),
    [
        ("linux", "", "linux"),
        ("linux", "auto", "linux"),
        ("linux", "portable", "portable"),
        ("darwin", "", "macos"),
        ("darwin", "portable", "portable"),
        ("freebsd14", "", "portable"),
    ],
)
def test_platform_is_that_of_the_system_unless_the_portable_one_is_wanted(
    system: str, wanted: str, name: str
) -> None:
    assert platform.chosen(system, wanted) == name


def test_nothing_outside_the_platform_names_an_operating_systems_specialities() -> None:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("platform/"):
            words = {word.lower() for word in SPECIAL.findall(path.read_text("utf-8"))}
            if words:
                found[name] = words
    assert found == ALLOWED


@pytest.mark.parametrize("name", ["linux", "macos", "portable"])
def test_import_of_a_platform_loads_none_of_its_parts(name: str) -> None:
    code = (
        "import os, sys, time, gitshadow.platform; before = set(sys.modules)\n"
        f"import gitshadow.platform.{name}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    systems = {f"gitshadow.platform.{one}" for one in ("linux", "macos", "portable")}
    assert set(done.stdout.split()) <= systems


def test_each_platform_has_watchers_that_are_values_of_the_setting() -> None:
    assert tuple(WatchBackend) == Linux.WATCHERS
    assert MacOS.WATCHERS == Portable.WATCHERS == ("auto", "watchfiles")


def test_linux_knows_everything_and_the_others_say_what_they_do_not() -> None:
    assert Linux.UNKNOWN == ()
    assert set(MacOS.UNKNOWN) < set(Portable.UNKNOWN)


def test_only_linux_needs_no_note_before_it_is_trusted() -> None:
    assert Linux.NOTE is None
    assert MacOS.NOTE == "experimental on macOS: not yet run on a real one"
    assert Portable.NOTE is not None
    assert Portable.NOTE.startswith("only Linux and macOS are supported")
