"""What names a recorded state (`--at`, the sides of a diff): a time, an id or a pin.

Invariant: a time goes to the engine as nanoseconds, an id as it was typed.
"""

import time

from gitshadow.commands.times import find_moment, parse_moment


def state_named(words: str | None) -> int | str | None:
    """Return what a person names: a moment, else an id as typed; None for None.

    Raises:
        UsageError: the words are neither a time nor a single word, as ids are.
    """
    if words is None:
        return None
    now_ns = time.time_ns()
    moment = find_moment(words, now_ns)
    if moment is not None:
        return moment
    return parse_moment(words, now_ns) if " " in words or not words else words
