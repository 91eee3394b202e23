"""The native client, compiled as an installation compiles it."""

import atexit
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import gitshadow
from tests.support.tools import need

SOURCE = Path(gitshadow.__file__).parent / "native"
NAME, DIRECT = "git-agent-undo", "git-agent-undo-direct"


def compiled(*flags: str) -> Path:
    """Return a new native client; without a compiler the test is skipped, or fails."""
    if sys.platform != "linux":
        pytest.skip("the native client asks a server, which only Linux has")
    need("cc")
    program = Path(tempfile.mkdtemp()) / NAME
    program.parent.chmod(0o755)
    atexit.register(shutil.rmtree, program.parent)
    hook = runpy.run_path(str(SOURCE / "build_hook.py"))
    assert hook["compile_client"](program, *flags), "cc could not compile it"
    return program


def beside(program: Path, script: str) -> Path:
    """Put a script where a client looks for the program that runs a command directly.

    Args:
        program: The client.
        script: Its text in Python.
    """
    direct = program.with_name(DIRECT)
    direct.write_text(f"#!{sys.executable}\n{script}")
    direct.chmod(0o755)
    return program
