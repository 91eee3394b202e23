"""Whose process one is: variables and ancestry ranked together, the nearest recorded owner wins.

A variable was given by the nearest ancestor that does not carry it itself. One that the agents
in between carry too is an outer agent's, let through, and loses to a nearer process.
Invariant: pure. Where a claim cannot be placed and might be the nearer one, all that might be
the nearest are returned, never one of them picked.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.attribution.markers import NATIVE_MARKERS, SESSION_VARIABLE
from gitshadow.model import Actor, Session

_GIVEN = 0.5


class AncestorProcess(NamedTuple):
    """Hold one process of a chain from a process to its ancestors.

    `sessions` are those whose agent it is. `variables` are None where they cannot be read.
    """

    sessions: tuple[str, ...]
    variables: Mapping[str, str] | None


class _Claim(NamedTuple):
    """Hold one claim and between which distances its maker stands.

    `sessions` are empty for one that is not recorded here: it claims for nobody, but what is
    farther has no claim either.
    """

    sessions: tuple[str, ...]
    least: float
    most: float


class KnownSessions:
    """Find recorded sessions of agents by what processes show of them."""

    def __init__(self, sessions: Iterable[Session]) -> None:
        agents = [one for one in sessions if one.actor is Actor.AGENT]
        self._natives = {(one.agent, one.native_id): one.id for one in agents}
        self._agents = {one.id: one.agent for one in agents}
        self._parents = {one.id: one.parent for one in agents}

    def has(self, session: str) -> bool:
        """Tell whether a session is one of these."""
        return session in self._agents

    def agent(self, session: str) -> str | None:
        """Return the agent of a session."""
        return self._agents.get(session)

    def native(self, agent: str, native: str) -> str | None:
        """Return the session that an agent calls so."""
        return self._natives.get((agent, native))

    def line(self, session: str) -> tuple[str, ...]:
        """Return a session and those above it, nearest first."""
        found: list[str] = []
        here: str | None = session
        while here is not None and here not in found:
            found.append(here)
            here = self._parents.get(here)
        return tuple(found)

    def root(self, session: str) -> str:
        """Return the topmost session above one."""
        return self.line(session)[-1]


def owners(chain: Sequence[AncestorProcess], known: KnownSessions) -> tuple[str, ...]:
    """Return the sessions to which a process may belong.

    Args:
        chain: The process itself and its ancestors as far as they are seen, nearest first.
        known: The recorded sessions.

    Returns:
        Those of one family, the innermost last, when it is clear whose it is; those of several
        when it is not; nothing when nobody recorded owns it.
    """
    claims = [*_by_process(chain), *_by_variables(chain, known)]
    nearest = [
        one for one in claims if not any(other.most < one.least for other in claims)
    ]
    if any(not one.sessions for one in nearest):
        return ()
    found = {session for one in nearest for session in one.sessions}
    return tuple(sorted(found, key=lambda one: (len(known.line(one)), one)))


def _by_process(chain: Sequence[AncestorProcess]) -> Iterator[_Claim]:
    for distance, link in enumerate(chain):
        if link.sessions:
            yield _Claim(link.sessions, distance, distance)


def _by_variables(
    chain: Sequence[AncestorProcess], known: KnownSessions
) -> Iterator[_Claim]:
    carried = (chain[0].variables if chain else None) or {}
    declared = carried.get(SESSION_VARIABLE)
    if declared:
        sessions = (declared,) if known.has(declared) else ()
        yield _placed(chain, SESSION_VARIABLE, sessions)
    for agent in dict.fromkeys(NATIVE_MARKERS.values()):
        markers = [n for n, owner in NATIVE_MARKERS.items() if owner == agent]
        names = [name for name in markers if carried.get(name)]
        if names:
            yield from _by_native(chain, known, agent, names)


def _by_native(
    chain: Sequence[AncestorProcess],
    known: KnownSessions,
    agent: str,
    names: Sequence[str],
) -> Iterator[_Claim]:
    """Claim for the session that an agent's own variables name.

    One that is not recorded claims nothing, but its agent did not start the process for the
    session that it runs now.
    """
    carried = chain[0].variables or {}
    for name in names:
        session = known.native(agent, carried[name])
        if session is not None:
            yield _placed(chain, name, (session,))
            return
    for name in names:
        found = _placed(chain, name, ())
        maker = int(found.most + 1) if found.most < len(chain) - 1 else None
        if maker is not None and _is_agent(chain[maker], agent, known):
            yield found


def _is_agent(link: AncestorProcess, agent: str, known: KnownSessions) -> bool:
    return any(known.agent(session) == agent for session in link.sessions)


def _placed(
    chain: Sequence[AncestorProcess], name: str, sessions: tuple[str, ...]
) -> _Claim:
    """Say how far the process stands that gave its children a variable.

    What a process gives its children is nearer to them than itself, by less than one step. Of
    two variables of one maker none is nearer: whoever adopts an orphan looks like its maker.
    """
    value = (chain[0].variables or {})[name]
    least, most = 1, math.inf
    for distance, link in enumerate(chain[1:], start=1):
        if link.variables is None:
            continue
        if link.variables.get(name) != value:
            most = distance
            break
        least = distance + 1
    return _Claim(sessions, least - _GIVEN, most - _GIVEN)
