"""Texts that all messages and pages share: numbers with nouns, near misses, escapes."""

from collections.abc import Iterable, Mapping

_HARMLESS = frozenset("\u00a0\u200d\u202f\u3000")
"""Not printable for Python, but without effect: odd spaces, the joiner inside emoji."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 file`, `2 files`, `0 entries`.

    Args:
        count: How many.
        noun: What there is one of.
        plural: What there are several of, where an `s` does not do.
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def did_you_mean(
    typed: str, known: Iterable[str], meaning: Mapping[str, str] | None = None
) -> str | None:
    """Return a question that names similar words; None if there are none.

    Args:
        typed: The word that is none of them.
        known: The words.
        meaning: What the question names in place of a word.
    """
    # Imported here, because quick commands use this module and seldom mistype.
    from difflib import get_close_matches

    near = get_close_matches(typed, list(known), n=3)
    meant = dict.fromkeys((meaning or {}).get(word, word) for word in near)
    return f"did you mean {' or '.join(meant)}?" if near else None


def ago(seconds: float) -> str:
    """Return how long ago something was: `just now`, `2 min ago`, `3 h ago`, `5 days ago`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    if minutes < 48 * 60:
        return f"{minutes // 60} h ago"
    return f"{minutes // (24 * 60)} days ago"


def byte_size(count_bytes: int) -> str:
    """Return a number of bytes as people read it (`1.5 MiB`)."""
    amount, unit = float(count_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return (
        f"{amount:.0f} {_UNITS[unit]}" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
    )


def shortened(text: str, most: int) -> str:
    """Return a text, cut between words where it is longer than so many characters."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return f"{cut.rpartition(' ')[0].rstrip() or cut}…"


def is_plain(text: str) -> bool:
    """Return whether a text can be printed unchanged."""
    # Nearly every text is printable, and one call in C answers for all its characters.
    return text.isprintable() or all(_is_safe(char) for char in text)


def printable(text: str) -> str:
    r"""Return a text on one line in which every unsafe character is an escape (`\x1b`)."""
    if is_plain(text):
        return text
    return "".join(
        char if _is_safe(char) else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _is_safe(char: str) -> bool:
    return char.isprintable() or char in _HARMLESS
