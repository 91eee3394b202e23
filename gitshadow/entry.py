"""The console script: hooks and a prompt bypass the command line, everything else goes through it.

For these nothing is imported that their programs do not import themselves.
"""

import os
import sys

# Starting up creates thousands of objects that all stay. To search them for garbage takes 10 ms.
_GC_THRESHOLD = 100_000

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitshadow.store.layout import Layout


def in_process(layout: "Layout", body: bytes) -> bytes:
    """Process a hook delivery without a daemon; the recorder is imported only now."""
    from gitshadow.service import in_process

    return in_process.deliver(layout, body)


def git_hook_in_process(layout: "Layout", params: "Mapping[str, object]") -> None:
    """Process the call of a git hook without a daemon; the recorder is imported only now."""
    from gitshadow.service import in_process

    in_process.git_hook(layout, params)


def main() -> int:
    """Run the command line; return the exit code."""
    open_standard_streams()
    if len(sys.argv) > 2 and sys.argv[1] == "hook" and not sys.argv[2].startswith("-"):
        from gitshadow.ipc import hook

        # The orderly end of the interpreter would cost every hook 2 ms.
        os._exit(hook.main(sys.argv[2:], in_process))
    if sys.argv[1:2] == ["prompt"]:
        from gitshadow.ipc import prompt

        if prompt.OPTIONS.issuperset(sys.argv[2:]):
            os._exit(prompt.main(sys.argv[2:]))
    if sys.argv[1:2] in (["git-hook"], ["check"]):
        from gitshadow.ipc import handover

        handover.hand_over(sys.argv[1:])
    if sys.argv[1:2] == ["git-hook"] and not {"-h", "--help"} & set(sys.argv[2:]):
        from gitshadow.ipc import githook

        return githook.main(sys.argv[2:], git_hook_in_process)
    from gitshadow.ipc import command_client

    # The orderly end of the interpreter would cost 25 ms.
    os._exit(command_client.run(sys.argv, _run_here))


def _run_here() -> int:
    import gc

    gc.set_threshold(_GC_THRESHOLD)
    from gitshadow import cli

    code = cli.main()
    flush_streams()
    return code


def open_standard_streams() -> None:
    """Open what the caller has closed of the descriptors 0 to 2, as nowhere.

    The next file that is opened would get such a number, and a message would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # All lower ones are open, so this is the number that it gets.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def flush_streams() -> None:
    """Write what the streams still hold."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, or nobody reads it
            continue
