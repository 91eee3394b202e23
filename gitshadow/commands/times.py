"""Moments as people type them, turned into nanoseconds since the epoch."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gitshadow.errors import UsageError


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


_SECOND_NS = 10**9
_UNITS_NS: Mapping[str, int] = {
    "s": _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "h": 3600 * _SECOND_NS,
    "d": 86400 * _SECOND_NS,
    "w": 7 * 86400 * _SECOND_NS,
}
_UNIT_WORDS: Mapping[str, str] = {
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
_UNIT_OF = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
# `2h05m` has a zero in front; what has more of them is the beginning of an object id.
_PART = re.compile(r"(0?[0-9]|[1-9][0-9]{1,11}) *([a-z]+)[ ,]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")
_FORMS = "use 5m, 2h30m, '10 minutes ago', 2026-11-21 or 2026-11-21T08:00:00Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment(words: str, now_ns: int) -> int:
    """Return the moment that somebody names.

    Args:
        words: `now`, `today`, `yesterday`, a length of time before now (`5m`, `2h30m`,
            `10 minutes ago`), or a date with or without a time (RFC 3339; without a zone
            the local one; a date alone means its midnight).
        now_ns: The present.

    Raises:
        UsageError: the words are none of these, or lie before 1970.
    """
    moment = find_moment(words, now_ns)
    if moment is None:
        raise UsageError(f"invalid time: {words!r}", hint=_FORMS)
    return moment


def find_moment(words: str, now_ns: int) -> int | None:
    """Return the moment that somebody names, None where the words name no moment."""
    plain = words.strip()
    length = parse_length(plain.lower().removesuffix("ago"))
    # A length before the epoch is a typing error: it would silently mean "everything".
    if length is not None:
        return now_ns - length if length <= now_ns else None
    if plain.lower() in ("now", "today", "yesterday"):
        return _named(plain.lower(), now_ns)
    if not _DATE.fullmatch(plain):
        return None
    try:
        return _nanoseconds(datetime.fromisoformat(plain))
    except (ValueError, OverflowError):
        return None


def parse_length(words: str) -> int | None:
    """Return a length of time (`30d`, `2h30m`, `10 minutes`) in ns, None if it is none.

    Each unit is named once: `12d228d` is the beginning of an object id.
    """
    position, plain = 0, words.strip()
    lengths_ns: dict[str, int] = {}
    while position < len(plain):
        match = _PART.match(plain, position)
        unit = _UNIT_OF.get(match[2]) if match else None
        if match is None or unit is None or unit in lengths_ns:
            return None
        lengths_ns[unit] = int(match[1]) * _UNITS_NS[unit]
        position = match.end()
    return sum(lengths_ns.values()) if lengths_ns else None


def _named(word: str, now_ns: int) -> int | None:
    if word == "now":
        return now_ns
    today = datetime.fromtimestamp(now_ns // _SECOND_NS).replace(
        hour=0, minute=0, second=0
    )
    return _nanoseconds(today - timedelta(days=word == "yesterday"))


def _nanoseconds(moment: datetime) -> int | None:
    """Count exactly, without floating point; None before the epoch."""
    # `timestamp()` is a float, whose steps are 240 ns by now: not exact in nanoseconds.
    passed = moment.astimezone(UTC) - _EPOCH
    seconds = passed.days * 86400 + passed.seconds
    return None if seconds < 0 else seconds * _SECOND_NS + passed.microseconds * 1000
