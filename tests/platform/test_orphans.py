"""Who becomes the parent of what a command leaves running."""

import os
import subprocess

from gitshadow.platform.linux.machine import adopting_orphans

_LEAVE = "exec 3<&0; (read go; exec cut -d ' ' -f 4 /proc/self/stat) <&3 &"


def parent_of_an_orphan() -> int:
    """Start a process whose parent ends; return its new parent."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", _LEAVE], stdin=pipe, stdout=pipe) as shell:
        shell.wait()
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(b"go\n")
        shell.stdin.close()
        return int(shell.stdout.read())


def test_orphans_are_adopted_in_the_block_alone() -> None:
    """Those that came after it would stay as zombies: nobody waits for them."""
    before = parent_of_an_orphan()
    with adopting_orphans():
        assert parent_of_an_orphan() == os.getpid()
        os.wait()
    assert before == parent_of_an_orphan() != os.getpid()
