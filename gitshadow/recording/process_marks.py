"""Which sessions are known to write with their own process and those below it, and with no other.

What a program said of itself is kept in memory only: it says so again with each event.
"""

from gitshadow.adapters import registry
from gitshadow.attribution.native_ids import is_command, is_of_process
from gitshadow.model import Session


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
