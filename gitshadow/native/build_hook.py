"""Put `git-agent-undo` into a wheel: the native client, or a script of Python without a compiler.

The build backend loads this file by its path, before anything is installed (hatchling, custom build
hooks). `GITSHADOW_NATIVE=off` leaves the compiler out of it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "GITSHADOW_NATIVE"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wpedantic")
_HERE = Path(__file__).parent
_NAME = "git-agent-undo"
_SCRIPT = """\
#!python
import sys

from gitshadow.entry import main

sys.exit(main())
"""


class CustomBuildHook(BuildHookInterface[Any]):
    """Compile the client for a wheel, and for an installation from the working tree."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the program to the wheel; `version` is not used."""
        if self.target_name != "wheel":
            return
        self._made = tempfile.mkdtemp()
        program = Path(self._made) / _NAME
        if tag := compile_client(program):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{tag}"
        else:
            program.write_text(_SCRIPT)
            program.chmod(0o755)
        build_data["shared_scripts"][str(program)] = _NAME

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Remove what was compiled; the parameters are not used."""
        if self.target_name == "wheel":
            shutil.rmtree(self._made)


def compile_client(program: Path, *flags: str) -> str | None:
    """Compile the client into a program; return where that runs, as a wheel says it, or None."""
    is_linux = sysconfig.get_platform().startswith("linux")
    if not is_linux or os.environ.get(SWITCH, "").lower() == "off":
        return None
    package = (_HERE.parent / "__init__.py").read_text()
    version = re.search(r'^__version__ = "(.+)"', package, re.MULTILINE)
    if version is None:
        return None
    words = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, *flags]
    words += [f'-DGITSHADOW_VERSION="{version[1]}"', str(_HERE / "client.c")]
    if shutil.which(words[0]) is None:
        return None
    platform = re.sub(r"\W", "_", sysconfig.get_platform())
    machine = platform.removeprefix("linux_")
    # Without shared libraries it starts sooner, and runs beside every C library (PEP 600, PEP 656).
    # Not every system has the static ones.
    anywhere = f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
    for how, tag in ((["-static"], anywhere), ([], platform)):
        made = subprocess.run(
            [*words, *how, "-o", str(program)], check=False, capture_output=True
        )
        if made.returncode == 0:
            return tag
    return None
