"""The console script: hooks take the short way, everything else the command line.

Invariant: for `hook` nothing is imported that the hook program does not import itself.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitshadow.store.layout import Layout


def in_process(layout: "Layout", body: bytes) -> bytes:
    """Take a hook delivery without a daemon; the engine is imported only now."""
    from gitshadow.engine import local

    return local.deliver(layout, body)


def main() -> int:
    """Run the command line; return the exit code."""
    if len(sys.argv) > 2 and sys.argv[1] == "hook" and not sys.argv[2].startswith("-"):
        from gitshadow.ipc import hook

        # Taking the interpreter down in order would cost every hook 2 ms.
        os._exit(hook.main(sys.argv[2:], in_process))
    from gitshadow import cli

    return cli.main()
