"""The native ids of sessions that no hook of an agent has opened, and what they tell.

A hook brings the id that its agent gave the session. All other sessions get one here. What a
program said of its own process is kept in memory only: it says so again with each event.
"""

import os

from gitshadow.adapters import registry
from gitshadow.attribution.process import ProcessId
from gitshadow.model import Actor, Session

_GUESSED = "pid-"
_COMMAND = "exec-"
_BY_PERSON = "manual-"
_OF_PROCESS = "process-"
RECORDED_BY_HAND = "recorded-by-hand"
"""That of the session of an agent for what `record` was told."""
_WITHOUT_HOOKS = (_GUESSED, _COMMAND, _BY_PERSON, _OF_PROCESS, RECORDED_BY_HAND)


def guessed_id(process: ProcessId) -> str:
    """Return the native id of the session of an agent's process without hooks."""
    return f"{_GUESSED}{process.pid}-{process.started}"


def new_command_id() -> str:
    """Return a native id for a session that `exec` opens for a command."""
    return f"{_COMMAND}{os.urandom(8).hex()}"


def new_id_by_person(*, of_process: bool = False) -> str:
    """Return a native id for a session that somebody opens by hand, maybe for a process."""
    return f"{_OF_PROCESS if of_process else _BY_PERSON}{os.urandom(8).hex()}"


def is_guessed(session: Session) -> bool:
    """Return whether a session is an agent's because of its process alone."""
    return session.actor is Actor.AGENT and session.native_id.startswith(_GUESSED)


def is_command(session: Session) -> bool:
    """Return whether `exec` opened a session, for a command."""
    return session.native_id.startswith(_COMMAND)


def is_by_person(session: Session) -> bool:
    """Return whether a session was opened by hand, without an id of its own."""
    return session.native_id.startswith((_BY_PERSON, _OF_PROCESS))


def is_of_process(session: Session) -> bool:
    """Return whether a session was opened by hand for all that a process and its children write."""
    return session.native_id.startswith(_OF_PROCESS)


def is_hooked(session: Session) -> bool:
    """Return whether a hook of an agent opened a session."""
    return not session.native_id.startswith(_WITHOUT_HOOKS)


class ProcessMarks:
    """The sessions of programs that named their own process."""

    def __init__(self) -> None:
        self._named: set[str] = set()
        self._alone: set[str] = set()

    def name(self, session_id: str) -> None:
        """Note that the process of a session is the program itself that reports it."""
        self._named.add(session_id)

    def writes_alone(self, session_id: str) -> None:
        """Note that nothing but the process of a session, and those below it, writes for it."""
        self._alone.add(session_id)

    def is_program(self, session: Session) -> bool:
        """Return whether the process of a session runs its tools itself, as no agent does."""
        return session.id in self._named | self._alone or is_of_process(session)

    def is_alone(self, session: Session) -> bool:
        """Return whether what other processes write is not the session's."""
        # The process of a wrapped command, whatever its agent is, is not the agent's.
        if is_command(session):
            return False
        if session.id in self._alone or is_of_process(session):
            return True
        return registry.traits(session.agent or "").shells_below
