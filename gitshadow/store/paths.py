"""Paths: as text (Git's C-quoted form: printable ASCII), inside a worktree, writable. All pure.

For all bytes, unquote(quote(x)) = x and parse_path(display_path(x)) = x (Git's quote.c).
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath

_ESCAPES = {
    7: "a",
    8: "b",
    9: "t",
    10: "n",
    11: "v",
    12: "f",
    13: "r",
    34: '"',
    92: "\\",
}
_UNESCAPES = {text: code for code, text in _ESCAPES.items()}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# Blanks at the ends are quoted too, because tools that read trailers strip them.
_PLAIN = re.compile(rb"[!#-~](?:[ -~]*[!-~])?")
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|.)", re.DOTALL)
# With the short names of NTFS (`is_ntfs_dotgitmodules` in Git's path.c).
_GITMODULES = re.compile(rb"\.gitmodules|gitmod~[1-4]|gi7eba~[1-9]|gi7eb~[1-9][0-9]")
# Code points that HFS+ ignores in names (`next_hfs_char` in Git's utf8.c).
_IGNORABLE = tuple(
    chr(code).encode()
    for code in (
        *range(0x200C, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x206A, 0x2070),
        0xFEFF,
    )
)


def quote(value: bytes) -> str:
    """Return printable ASCII as it is, else Git's C-quoted form (quote.c)."""
    return value.decode("ascii") if _PLAIN.fullmatch(value) else c_quoted(value)


def quote_text(text: str) -> str:
    """Return the bytes of a text in the form of `quote`."""
    # Surrogates of `surrogateescape` become their bytes again. UTF-8 has no form for any others, so
    # they become `?`.
    try:
        return quote(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return quote(text.encode("utf-8", "replace"))


def unquote(text: str) -> bytes:
    """Return the bytes of a text that `quote` made.

    Raises:
        StoreError: the quotes do not close.
    """
    if not text.startswith('"'):
        return _encoded(text)
    match = _QUOTED.fullmatch(text)
    if match is None:
        raise StoreError(f"could not read quoted text {text[:40]!r}")
    return _unescape(match.group(1))


def display_path(path: RepoPath) -> str:
    """Return a path as documents spell it: text, or C-quoted where that would lose bytes."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return c_quoted(path)
    return c_quoted(path) if text.startswith('"') else text


def parse_path(text: str) -> bytes:
    """Return the bytes of a path that `display_path` made; other text is taken as it is.

    Raises:
        StoreError: it begins with a quote and is not a C-quoted form, or holds surrogates that
            stand for no byte.
    """
    if text.startswith('"'):
        return unquote(text)
    return _encoded(text)


def split_quoted(text: str) -> list[str]:
    """Split C-quoted forms with blanks between them.

    Raises:
        StoreError: there is something else in the text.
    """
    if _QUOTED.sub("", text).strip(" "):
        raise StoreError(f"could not read quoted text {text[:40]!r}")
    return [match.group() for match in _QUOTED.finditer(text)]


def c_quoted(value: bytes) -> str:
    """Return bytes in C-quoted form, with the quotes, also where they are plain."""
    parts = ['"']
    for byte in value:
        if byte in _ESCAPES:
            parts.append("\\" + _ESCAPES[byte])
        elif 0x20 <= byte < 0x7F:
            parts.append(chr(byte))
        else:
            parts.append(f"\\{byte:03o}")
    return "".join(parts) + '"'


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise StoreError(
            f"could not read text {text[:40]!r}: {error.reason}"
        ) from error


def _unescape(text: str) -> bytes:
    out = bytearray()
    at = 0
    for match in _ESCAPE.finditer(text):
        out += _encoded(text[at : match.start()])
        code = match.group(1)
        if len(code) == 3:
            out.append(int(code, 8) & 0xFF)
        elif code in _UNESCAPES:
            out.append(_UNESCAPES[code])
        else:
            raise StoreError(f"could not read escape \\{code} in quoted text")
        at = match.end()
    return bytes(out + _encoded(text[at:]))


class UnsafePathError(StoreError):
    """A path leaves the worktree, meets a link, or names Git's own directory."""


# An undo asks a dozen times for each of its paths.
@lru_cache(maxsize=4096)
def safe_path(path: RepoPath) -> bool:
    """Return whether a path may be written: relative, inside, and no spelling of `.git`."""
    # A worktree can be on NTFS or HFS+, where other names open `.git`: any case, trailing dots and
    # spaces, `git~1`, a stream suffix, ignorable code points; and a backslash can separate names.
    # Git refuses the same ones in `verify_path` and `fsck` (CVE-2014-9390, CVE-2019-1352).
    if not path or path.startswith(b"/") or path.find(b"\0") >= 0:
        return False
    return all(_safe_component(part) for part in path.split(b"/"))


def _safe_component(part: bytes) -> bool:
    if part in (b"", b".", b".."):
        return False
    # The quick way for nearly all names: this runs for each component of each path.
    if part.isascii() and b"git" not in part.lower():
        return True
    names = {_opened_by(piece) for piece in part.split(b"\\")}
    return names.isdisjoint((b".git", b"git~1"))


def _opened_by(name: bytes) -> bytes:
    """Return the name of the file that some file system would open by a name; lower case."""
    for ignorable in _IGNORABLE:
        name = name.replace(ignorable, b"")
    return name.lower().split(b":", 1)[0].rstrip(b". ")


def safe_link(path: RepoPath) -> bool:
    """Return whether a symbolic link may be at a path: Git takes none as `.gitmodules`."""
    # `git fsck`, and servers with it, refuse a history with one (CVE-2018-11235).
    name = path.rpartition(b"/")[2]
    return _GITMODULES.fullmatch(_opened_by(name)) is None


def check_path(path: RepoPath) -> None:
    """Raise UnsafePathError for a path that must never be written."""
    if not safe_path(path):
        raise UnsafePathError(f"cannot use path {path!r}: it is not a safe name")


def parents(path: RepoPath) -> Iterator[RepoPath]:
    """Yield the directories above a path, outermost first."""
    at = path.find(b"/")
    while at >= 0:
        yield RepoPath(path[:at])
        at = path.find(b"/", at + 1)


def is_within(path: RepoPath, top: RepoPath) -> bool:
    """Return whether a path is `top` or below it; `b""` is above all."""
    return not top or path == top or path.startswith(top + b"/")


def any_within(paths: Iterable[RepoPath | None], tops: Collection[RepoPath]) -> bool:
    """Return whether one of some paths is one of the tops, or below one; None is nowhere."""
    return any(
        path is not None and is_within(path, top) for path in paths for top in tops
    )


def absolute(path: bytes, cwd: bytes | None, root: bytes) -> bytes:
    """Return an absolute normal path; a relative one starts at the cwd, else at the root."""
    base = cwd if cwd is not None and cwd.startswith(b"/") else root
    joined = posixpath.normpath(posixpath.join(base, path))
    # POSIX lets a system treat two leading slashes differently from one; Linux does not.
    return b"/" + joined.lstrip(b"/")


def inside(path: bytes, root: bytes) -> RepoPath | None:
    """Return the repo-relative form of an absolute normal path; None outside and for the root.

    Paths below `.git` are outside too.
    """
    prefix = root.rstrip(b"/") + b"/"
    if not path.startswith(prefix):
        return None
    relative = path[len(prefix) :]
    if not relative or relative.split(b"/", 1)[0] == b".git":
        return None
    return RepoPath(relative)
