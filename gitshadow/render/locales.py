"""Our few signs beyond ASCII on a terminal that has none of them."""

from collections.abc import Mapping

# The name under which `plainly` is registered as an error handler of codecs.
PLAIN = "gitshadow.plain"

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
    """Return whether the locale is C or POSIX, which is also what no locale means."""
    # Python reads these locales as UTF-8 (PEP 538, PEP 540), but the terminal may not.
    return named_locale(environ).upper() in ("C", "POSIX")


def plainly(error: UnicodeError) -> tuple[str, int]:
    """Handle characters that an encoding has not: a plain form, else an escape."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    said = error.object[error.start : error.end]
    # What has no plain form becomes an escape, so that no character is lost.
    plain = "".join(
        _PLAIN_FORMS.get(char) or char.encode("ascii", "backslashreplace").decode()
        for char in said
    )
    return plain, error.end
