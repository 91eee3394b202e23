"""Our few signs beyond ASCII on a terminal that has none of them.

Invariant: nothing is lost: what has no plain form becomes an escape that names it.
"""

from collections.abc import Mapping

PLAIN = "gitshadow.plain"
"""The name under which `plainly` is registered as an error handler of codecs."""

_PLAIN_FORMS: Mapping[str, str] = {
    "…": "...",
    "→": "->",
    "–": "-",
    "—": "-",
    "↶": "<-",
    "↷": "->",
    "⟲": "<-",
    "×": "x",
    "≤": "<=",
    "·": "-",
}
_VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")


def named_locale(environ: Mapping[str, str]) -> str:
    """Return the name of the locale for characters as locale(7) finds it, `C` where none is."""
    return next((environ[name] for name in _VARIABLES if environ.get(name)), "C")


def is_plain_locale(environ: Mapping[str, str]) -> bool:
    """Tell whether the locale is C or POSIX; none at all is too."""
    return named_locale(environ).upper() in ("C", "POSIX")


def plainly(error: UnicodeError) -> tuple[str, int]:
    """Handle characters that an encoding has not: a plain form, else an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    said = error.object[error.start : error.end]
    plain = "".join(
        _PLAIN_FORMS.get(char) or char.encode("ascii", "backslashreplace").decode()
        for char in said
    )
    return plain, error.end
