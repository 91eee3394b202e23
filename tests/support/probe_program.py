"""A program that is started like `git-agent-undo` and says what it finds: `PROBE VERB …`.

`PROBE SERVE PROGRAM` is its server.
Every test runs it twice, in its own process and through a command server, and compares.
"""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from types import ModuleType

from gitshadow import entry
from gitshadow.ipc import own_process


def facts() -> dict[str, object]:
    """Return what a process has from who started it."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = "deleted"
    mask = os.umask(0)
    os.umask(mask)
    limits = [resource.getrlimit(n) for n in range(16)]
    ignored = [
        int(number)
        for number in signal.valid_signals()
        if signal.getsignal(number) == signal.SIG_IGN
    ]
    streams = [
        (one.encoding, one.errors, one.line_buffering, one.isatty())
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ]
    return {
        "argv": sys.argv,
        "cwd": cwd,
        "environ": dict(os.environ),
        "umask": mask,
        "limits": limits,
        "nice": os.nice(0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "ignored": ignored,
        "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "streams": streams,
        "inherited": [n for n in range(3, 64) if _is_inherited(n)],
        "threads": threading.active_count(),
        "parent": own_process.parent(),
        "stdin": sys.stdin.read() if "read" in sys.argv else "",
    }


def _is_inherited(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def probe() -> int:
    """Do what the first argument says; return the exit code."""
    verb, *rest = sys.argv[1:] or ["facts"]
    if verb == "facts":
        print(json.dumps(facts()))
    elif "served" in sys.argv:
        print(int(own_process.pid() != os.getpid()))
    elif verb == "say":
        print(rest[0])
        print(rest[0], file=sys.stderr)
    elif verb == "exit":
        return int(rest[0])
    elif verb == "signal":
        sys.stdout.write("".join(rest[1:]))
        sys.stderr.write("".join(rest[1:]))
        os.kill(os.getpid(), int(rest[0]))
    elif verb == "sleep":
        print(os.getpid(), flush=True)
        signal.pause()
    elif verb == "child":
        # One that is being forked when the signal comes would not get it, and outlive the test.
        with subprocess.Popen(["sleep", "1000"]):
            print(os.getpid(), flush=True)
    elif verb == "leave":
        nowhere = subprocess.DEVNULL
        left = subprocess.Popen(["sleep", "1000"], stdout=nowhere, stderr=nowhere)
        print(left.pid)
    elif verb == "ask":
        from gitshadow.commands.options import ask_yes

        answer = ask_yes("Really?", default=False)
        print("answer:", answer)
    elif verb == "page":
        from gitshadow.render import output

        output.show((f"line {n}" for n in range(int(rest[0]))), pager=rest[1])
        print("after the pager")
    elif verb == "append":
        with open(rest[0], "ab") as stream:
            stream.write(b"x")
    return 0


def _no_fork() -> int:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _no_rehearsal(beginning: object) -> None:
    raise LookupError("nothing to rehearse")


def _no_watches(directories: Iterable[bytes]) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _contained(args: Sequence[str] | None = None) -> int:
    try:
        code = probe()
        print(end="", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    return code


def main() -> int:
    """Serve, or run one command line."""
    if sys.argv[1:2] == ["SERVE"]:
        from gitshadow import cli
        from gitshadow.platform.linux import inotify

        cli.main = _contained
        if sys.argv[3:] == ["NO FORK"]:
            os.fork = _no_fork
        if sys.argv[3:] == ["NO WATCHES"]:
            inotify.watch_changes = _no_watches
        from gitshadow.command_server import __main__ as server
        from gitshadow.command_server import worker

        if sys.argv[3:] == ["NO REHEARSAL"]:
            worker._rehearse = _no_rehearsal

        # A file of the program that a test may change.
        module = ModuleType("gitshadow.changed")
        module.__file__ = os.environ["PROBE_MODULE"]
        sys.modules[module.__name__] = module

        return server.main(sys.argv[2])
    # A client imports no command line if the server has it.
    stand_in = ModuleType("gitshadow.cli")
    vars(stand_in)["main"] = _contained
    sys.modules[stand_in.__name__] = stand_in
    return entry.direct() if sys.argv[1:2] in (["up"], ["none"]) else entry.main()


if __name__ == "__main__":
    sys.exit(main())
