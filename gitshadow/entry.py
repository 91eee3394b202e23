"""The scripts: a command line is run by the command server, or here by what its first word needs.

Hooks and a prompt bypass the command line: for these nothing is imported that their programs do not
import themselves.
"""

import os
import sys

# Starting up creates thousands of objects that all stay. To search them for garbage takes 10 ms.
_GC_THRESHOLD = 100_000
_QUICK = frozenset({"hook", "prompt", "git-hook"})
"""What is as quick in Python alone."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """Have the command server run the command line, or run it here; without the native client."""
    open_standard_streams()
    words = sys.argv[1:]
    # The orderly end of the interpreter would cost 2 ms, and 25 ms where much was imported.
    if words and words[0] in _QUICK:
        os._exit(run(words))
    from gitshadow.ipc import command_client

    os._exit(command_client.run(sys.argv, lambda: run(words)))


def direct() -> int:
    """Run what the native client does not have the server run: `NAME up|none PROGRAM WORD…`."""
    server = sys.argv[1]
    del sys.argv[:2]
    open_standard_streams()
    words = sys.argv[1:]
    code = run(words)
    if server == "none":
        from gitshadow.ipc import command_client

        is_hook = words[:1] == ["hook"]
        command_client.start_if_wanted(sys.argv[0], behind=is_hook)
    os._exit(code)


def run(words: "Sequence[str]") -> int:
    """Run a command line in this process; return its exit code."""
    verb, rest = (words[0], list(words[1:])) if words else ("", [])
    if verb == "hook" and rest and not rest[0].startswith("-"):
        from gitshadow.ipc import hook

        return hook.main(rest, in_process)
    if verb == "prompt":
        from gitshadow.ipc import prompt

        if prompt.OPTIONS.issuperset(rest):
            return prompt.main(rest)
    if verb in ("git-hook", "check"):
        from gitshadow.ipc import handover

        handover.hand_over(words)
    if verb == "git-hook" and not {"-h", "--help"} & set(rest):
        from gitshadow.ipc import githook

        return githook.main(rest, git_hook_in_process)
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
