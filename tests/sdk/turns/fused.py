"""A process that is killed before the n-th command of what it does with a session."""

import os
import signal
from collections.abc import Callable

from gitshadow.sdk.turns.commands import Command
from gitshadow.sdk.turns.driver import Driver
from gitshadow.sdk.turns.session import AgentUndo

_DONE = 0


class Fused(Driver):
    """A driver that is killed before its n-th command."""

    left = 0

    def perform(self, command: Command) -> object:
        Fused.left -= 1
        if Fused.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().perform(command)


def killed_at(
    opened: Callable[[], AgentUndo], act: Callable[[AgentUndo], object], at: int
) -> bool:
    """Act in a process of its own and kill it there; tell whether it was at work until then."""
    pid = os.fork()
    if pid == 0:
        try:
            au = opened()
            Fused.left = at
            au._driver = Fused(au._runtime)
            act(au)
        finally:
            os._exit(_DONE)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (_DONE, -signal.SIGKILL)
    return status != _DONE
