"""`git agent-undo exec`: run a command and record what it writes.

Whatever fails here, the command is run and its exit code is ours.
"""

import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from gitshadow.commands.client import find_layout, send
from gitshadow.commands.error_handler import contain
from gitshadow.commands.options import utf8
from gitshadow.config import stores_prompts
from gitshadow.errors import ShadowError
from gitshadow.messages.record import (
    EXEC_BEGIN,
    EXEC_END,
    ExecBeginRequest,
    ExecEndRequest,
)
from gitshadow.platform import current
from gitshadow.render.style import printable

SESSION_VARIABLE = "GITSHADOW_SESSION"
AGENT_VARIABLE = "GITSHADOW_AGENT"

_LOOK_S = 1.0
"""How often to look for the end of the command without a signal of it."""
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
# The child is in our process group: the terminal sends its signals (Ctrl-C, Ctrl-Z) to both, and
# job control works as without us. Only a signal that a process sends to us alone is passed on.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Python ignores these at its start, and an ignored signal stays ignored in a new program
# (signal(7)): without this, `exec -- yes | head` would print an error.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


@click.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option(
    "--agent",
    callback=utf8,
    default="generic",
    show_default=True,
    help="The agent that makes the changes.",
)
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def command(agent: str, argv: tuple[str, ...]) -> int:
    """Run a command and record its changes as AGENT's, in a new session.

    The command's input, output, environment and exit code are unchanged. If a signal ends it,
    the exit code is 128 plus the signal's number.
    """
    begun = _begin(agent, argv)
    if begun is None:
        return run_child(argv, os.environ)
    root, opened = begun
    added = {SESSION_VARIABLE: opened.session, AGENT_VARIABLE: agent}
    # The kernel's counters of a process go to its parent when it ends. Without this those of an
    # orphan go to init, and the recorder would conclude that the command did not write its files.
    with current().machine_facts().adopting_orphans():
        code = run_child(argv, {**os.environ, **added})
        _end(opened, root, code)
    return code


def _begin(agent: str, argv: Sequence[str]) -> tuple[str, ExecEndRequest] | None:
    """Open a session; return the top of the worktree and what will end the session.

    None if recording is off or, after one line that says so, if that failed.
    """
    # A daemon that runs already has another environment.
    told = argv if stores_prompts(None, os.environ) else ()
    request = ExecBeginRequest(
        agent=agent,
        argv=tuple(word.encode("utf-8", "replace").decode() for word in told),
        pid=os.getpid(),
        session=os.environ.get(SESSION_VARIABLE),
    )
    try:
        root = contain(find_layout).root
        opened = contain(lambda: send(EXEC_BEGIN, request)).answer
    except ShadowError as error:
        _complain("not recorded", error)
        return None
    if not opened.session:
        return None
    return root, ExecEndRequest(opened.session, opened.call or "")


def _end(opened: ExecEndRequest, root: str, code: int) -> None:
    def sent() -> None:
        # The command may have deleted our directory, or made a repository of it.
        with suppress(OSError):
            os.chdir(root)
        send(EXEC_END, opened._replace(exit=code), root_hint=root)

    try:
        contain(sent)
    except KeyboardInterrupt:
        # The command is over, and its session ends with our process.
        return
    except ShadowError as error:
        _complain("the end was not recorded", error)


def _complain(what: str, error: ShadowError) -> None:
    print(f"git-agent-undo: {what}: {printable(error.message)}", file=sys.stderr)


def run_child(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a command in the foreground to its end and return its code as a shell has it.

    Args:
        argv: The command's words; the first is looked up in PATH.
        environ: The command's whole environment.

    Returns:
        The exit code; 128 and the signal's number; 127 or 126 where it cannot be started.
    """
    # If our parent ignores SIGCHLD, the kernel would reap the child and its exit code be lost. A
    # handler, because BSD and macOS discard a signal that is ignored by default, even for one who
    # waits for it with sigwait(2) (psignal in their kern_sig.c). The child begins with the default.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waited = {*_PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        try:
            pid = os.posix_spawnp(
                argv[0],
                list(argv),
                environ,
                setsigmask=before,
                setsigdef=_IGNORED_BY_PYTHON,
            )
        except (OSError, ValueError) as error:  # a ValueError: its name is empty
            return _not_started(argv[0], error)
        return _wait(pid, waited)
    finally:
        # A Ctrl-C that ended the command is not to interrupt us as soon as the mask is gone.
        _drop_pending(waited)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _drop_pending(waited: set[signal.Signals]) -> None:
    # To wait for one might never end, because another thread may be given it first. A pending
    # signal is discarded as soon as it is ignored; POSIX, sigaction().
    for number in signal.sigpending() & waited:
        ignored = signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN
        before = signal.signal(number, ignored)
        signal.signal(number, before or signal.SIG_DFL)


def _not_started(name: str, error: OSError | ValueError) -> int:
    number = getattr(error, "errno", errno.ENOENT)
    missing = number in (errno.ENOENT, errno.ENOTDIR)
    reason = "command not found" if missing else os.strerror(number)
    print(f"git-agent-undo: {printable(name)}: {reason}", file=sys.stderr)
    return _NOT_FOUND if missing else _NOT_EXECUTABLE


def _wait(pid: int, waited: set[signal.Signals]) -> int:
    """Wait for the child; pass on what a process, not the terminal, has sent us."""
    while True:
        # Adopted processes end, too, and one signal can report several ends.
        while (done := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if done[0] == pid:
                code = os.waitstatus_to_exitcode(done[1])
                return code if code >= 0 else 128 - code
        # Another thread may have been given the signal of an end, so it is looked for now and then.
        got = current().machine_facts().await_signal(waited, _LOOK_S)
        # The child has got that of a Ctrl-C already.
        if got is not None and got.number != signal.SIGCHLD and not got.by_kernel:
            os.kill(pid, got.number)
