"""How names, paths, colours and signs beyond ASCII reach a terminal or a pipe.

What `printable` and `View.path` return has no control or format character.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gitshadow.words import is_plain as is_plain
from gitshadow.words import printable as printable

_STYLES: Mapping[str, str] = {
    "good": "\033[32m",
    "bad": "\033[31m",
    "warn": "\033[33m",
    "faint": "\033[2m",
    "bold": "\033[1m",
    "hunk": "\033[36m",
    "blue": "\033[34m",
    "violet": "\033[35m",
    "plain": "",
}
_RESET = "\033[m"


# Names in a repository are hostile input: an escape code, a line break or a mark of direction in
# the name of a file must not act on the terminal of who reads it.
def printable_line(text: str) -> str:
    """Return a line of a file's content for a terminal: like `printable`, but tabs stay."""
    return "\t".join(printable(part) for part in text.split("\t"))


def patch_style(line: str) -> str:
    """Return the style in which Git shows a line of a patch."""
    if line.startswith(("diff ", "index ", "--- ", "+++ ", "new ", "deleted ", "old ")):
        return "bold"
    if line.startswith("@@"):
        return "hunk"
    return {"+": "good", "-": "bad"}.get(line[:1], "plain")


class View(NamedTuple):
    """How to show things to who runs the command.

    `prefix` is the current directory relative to the worktree's top, without a trailing
    slash, as real bytes; empty at the top. Paths are shown relative to it. `terminal`
    says that a person reads along, so that long lists are cut (and say so). `width` is how
    many columns there are, 0 where lines may be of any length.
    """

    colour: bool = False
    terminal: bool = False
    prefix: bytes = b""
    width: int = 0

    def fold(self, text: str, indent: int = 0) -> Iterator[str]:
        """Yield a text in lines that fit, broken at spaces, all but the first indented."""
        # A word that is longer than a line, as a path may be, is not broken: people copy it.
        # Colour codes count as if they took room, which only breaks a line early.
        room = self.width or len(text)
        words = text.lstrip(" ").split(" ")
        line, fresh = " " * (len(text) - len(text.lstrip(" "))), True
        for word in words:
            if not fresh and len(line) + 1 + len(word) > room:
                yield line.rstrip()
                line, fresh = " " * indent, True
            line += word if fresh else f" {word}"
            fresh = False
        yield line

    def paint(self, text: str, style: str) -> str:
        """Return a text in one of our few styles, or as it is where there is no colour."""
        code = _STYLES[style]
        return f"{code}{text}{_RESET}" if self.colour and code and text else text

    def path(self, path: str) -> str:
        """Return a path of a document, relative to the current directory.

        Args:
            path: A path as documents spell it: plain, or C-quoted with its quotes.

        Returns:
            The plain path, or Git's C-quoted form where the plain one is not safe to print.
        """
        if not self.prefix and is_plain(path):
            return path
        # Imported here: most paths are plain, and the import takes 10 ms.
        from gitshadow.store import refs

        real = bytes(refs.parse_path(path))
        if self.prefix:
            real = os.path.relpath(b"/" + real, b"/" + self.prefix)
        try:
            plain = real.decode()
        except UnicodeDecodeError:
            return refs.quote(real)
        return plain if is_plain(plain) and plain[:1] != '"' else refs.quote(real)


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
