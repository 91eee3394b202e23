"""The sessions of writes that no agent claims: the person's, and nobody's.

Invariant: an id changes at the first write of a UTC day and after eight idle hours, never back.
"""

from collections.abc import Callable

from gitshadow.model import Actor, Session

IDLE_NS = 8 * 3_600 * 1_000_000_000
_DAY_NS = 24 * 3_600 * 1_000_000_000


def is_current(last: Session, now_ns: int) -> bool:
    """Tell whether the last personal session still takes the writes that are noticed now.

    Time that seems to run backwards (writes found late) never opens a new one.
    """
    if last.ended_ns is not None:
        return False
    seen_ns = max(last.started_ns, last.last_seen_ns or 0)
    if now_ns - seen_ns >= IDLE_NS:
        return False
    return now_ns // _DAY_NS <= last.started_ns // _DAY_NS


def personal_session(
    actor: Actor,
    last: Session | None,
    now_ns: int,
    name: Callable[[str, str, int], str],
) -> Session:
    """Return the session that takes a personal write noticed now.

    Args:
        actor: HUMAN or UNKNOWN.
        last: The newest session of that actor, None when there was none.
        now_ns: The present moment.
        name: Gives the id of a new session of an agent, by its native id and first moment.

    Returns:
        `last` itself where it goes on, else a new session that the caller stores.
    """
    if last is not None and is_current(last, now_ns):
        return last
    native = f"{actor.value}-{now_ns}"
    return Session(
        id=name(actor.value, native, now_ns),
        native_id=native,
        actor=actor,
        agent=None,
        started_ns=now_ns,
        last_seen_ns=now_ns,
    )
