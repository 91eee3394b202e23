"""Build the extension for VS Code as it is published: `python -m tests.support.extension FILE`.

Asks npm; Node.js is in the development environment.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.agents.install import NODE, NPM

_SOURCE = Path(__file__).parents[2] / "hooks/vscode"
NAME = "gitshadow.vsix"


def build() -> bytes:
    """Return the extension with the packages that it needs.

    Raises:
        subprocess.CalledProcessError: npm or vsce failed, and said why.
    """
    with tempfile.TemporaryDirectory() as made:
        work, programs = Path(made, "vscode"), Path(made, "bin")
        shutil.copytree(_SOURCE, work)
        programs.mkdir()
        # vsce asks the npm that is on the PATH.
        (programs / "node").symlink_to(NODE)
        (programs / "npm").symlink_to(NPM)
        environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        for words in (("install", "--no-audit", "--no-fund"), ("run", "package")):
            npm = [str(programs / "npm"), *words]
            subprocess.run(npm, cwd=work, env=environ, check=True)
        return (work / NAME).read_bytes()


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(build())
