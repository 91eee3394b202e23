"""gitignore patterns, matched on bytes exactly as Git matches them.

libgit2 1.9 answers otherwise where a `!` rule negates a rule of another file (`*` in
`info/exclude`, `!a` in `.gitignore`), takes only UTF-8 names and costs 8 µs a name; PyPI pathspec
works on text. So this follows `dir.c` and `wildmatch.c` of git 2.39; a property test compares it
with `git check-ignore`. With `core.ignoreCase` rules and paths match by ASCII letters of any case.
Invariant: pure; no pattern, however hostile, takes more than polynomial time.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_SPECIAL = re.compile(rb"[*?\[\\]")
_TOKEN = re.compile(rb"\*+|\\?.|\\", re.DOTALL)
_NEVER = rb"(?!)"
# Indexing bytes gives numbers.
_SLASH = 0x2F
_CLASSES: dict[bytes, Callable[[bytes], bool]] = {
    b"alnum": bytes.isalnum,
    b"alpha": bytes.isalpha,
    b"blank": lambda c: c in (b" ", b"\t"),
    b"cntrl": lambda c: c < b" " or c == b"\x7f",
    b"digit": bytes.isdigit,
    b"graph": lambda c: b" " < c < b"\x7f",
    b"lower": bytes.islower,
    b"print": lambda c: b" " <= c < b"\x7f",
    b"punct": lambda c: b" " < c < b"\x7f" and not c.isalnum(),
    b"space": lambda c: c in (b" ", b"\t", b"\n", b"\r"),
    b"upper": bytes.isupper,
    b"xdigit": lambda c: c in b"0123456789abcdefABCDEF",
}
_BYTES = tuple(bytes([number]) for number in range(256))


@dataclass(frozen=True)
class IgnoreRule:
    """Store one line of a rule file.

    `floating` rules have no slash and look at the last name alone; the others at the whole path
    below the directory of their file. Those with `folds` match paths in lower case.
    """

    text: bytes
    negated: bool
    directories_only: bool
    floating: bool
    folds: bool = False

    @property
    def is_literal(self) -> bool:
        """Return whether a rule has no wildcards."""
        return _SPECIAL.search(self.text) is None

    def leads_into(self, directory: bytes) -> bool:
        """Return whether what the rule names may lie below a directory.

        Never for a floating rule, nor for one that begins with a wildcard: it would be everywhere.
        """
        parts = self.text.split(b"/")
        directory = directory.lower() if self.folds else directory
        if self.floating or _SPECIAL.search(parts[0]):
            return False
        names = directory.split(b"/")
        for part, name in zip(parts[:-1], names, strict=False):
            if part == b"**":
                return True
            source = _translate(part, floating=True, folds=self.folds)
            if not re.fullmatch(source, name, re.DOTALL):
                return False
        return len(names) < len(parts)

    @cached_property
    def source(self) -> bytes:
        """Return the regular expression that the name or path must match whole."""
        if self.floating:
            return _translate(self.text, floating=True, folds=self.folds)
        found = _SPECIAL.search(self.text)
        start = found.start() if found else len(self.text)
        # Git compares the literal head first and matches the rest as a pattern of its own,
        # so that `foo**/bar` takes `foobar` too.
        rest = _translate(self.text[start:], floating=False, folds=self.folds)
        head = self.text[:start]
        return re.escape(head.lower() if self.folds else head) + rest

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Return `source`, compiled."""
        return re.compile(self.source, re.DOTALL)


class RuleList:
    """Match paths against the rules of one file; the last rule that matches decides."""

    def __init__(self, rules: Sequence[IgnoreRule]) -> None:
        # Within one file the last matching pattern decides; gitignore(5).
        self._rules = tuple(reversed(rules))
        self._folds = any(rule.folds for rule in rules)
        floating = [rule for rule in rules if rule.floating]
        rooted = [rule for rule in rules if not rule.floating]
        self._names = frozenset(rule.text for rule in floating if rule.is_literal)
        self._paths = frozenset(rule.text for rule in rooted if rule.is_literal)
        self._endings = tuple(
            rule.text[1:] for rule in floating if _is_ending(rule.text)
        )
        odd = [
            rule
            for rule in floating
            if not rule.is_literal and not _is_ending(rule.text)
        ]
        # One joined expression refuses most names at once; only a name that it takes is tried rule
        # by rule.
        self._odd_name = _any_of(odd)
        self._odd_path = _any_of([rule for rule in rooted if not rule.is_literal])

    def __bool__(self) -> bool:
        return bool(self._rules)

    @property
    def rules(self) -> Sequence[IgnoreRule]:
        """Return the rules, the deciding one first."""
        return self._rules

    def decide(self, path: bytes, *, is_dir: bool) -> IgnoreRule | None:
        """Return the rule that decides about exactly this path, ancestors left aside.

        Args:
            path: Below the directory of the rule file, without a trailing slash.
            is_dir: A real directory, not a link to one.
        """
        if self._folds:
            path = path.lower()
        name = path[path.rfind(b"/") + 1 :]
        # Nearly all files match no rule, and a walk asks for each of them.
        if not self._may_match(name, path):
            return None
        for rule in self._rules:
            if rule.directories_only and not is_dir:
                continue
            if rule.pattern.fullmatch(name if rule.floating else path):
                return rule
        return None

    def candidates(self, directory: bytes, names: Collection[bytes]) -> set[bytes]:
        """Return the names of one directory that a rule may match; no rule matches the others.

        Args:
            directory: Below that of the rule file, with a trailing slash unless it is empty.
            names: Of what is in it.
        """
        if not self._folds:
            return self._candidates(directory, names)
        lowered: dict[bytes, list[bytes]] = {}
        for name in names:
            lowered.setdefault(name.lower(), []).append(name)
        found = self._candidates(directory.lower(), lowered.keys())
        return {name for one in found for name in lowered[one]}

    def _candidates(self, directory: bytes, names: Collection[bytes]) -> set[bytes]:
        # One pass for each kind of rule: `decide` takes five times as long for a name.
        found = set(self._names.intersection(names))
        if self._endings:
            found.update(name for name in names if name.endswith(self._endings))
        if self._odd_name is not None:
            found.update(filter(self._odd_name.fullmatch, names))
        if self._paths:
            found.update(name for name in names if directory + name in self._paths)
        if (odd := self._odd_path) is not None:
            found.update(name for name in names if odd.fullmatch(directory + name))
        return found

    def _may_match(self, name: bytes, path: bytes) -> bool:
        """Return, cheaply, whether any rule may match."""
        if name in self._names or name.endswith(self._endings) or path in self._paths:
            return True
        if self._odd_name is not None and self._odd_name.fullmatch(name):
            return True
        return self._odd_path is not None and bool(self._odd_path.fullmatch(path))


def parse_rules(data: bytes, *, folds: bool = False) -> RuleList:
    """Read a rule file's bytes; empty lines and comments are skipped.

    Args:
        data: What the file has.
        folds: Whether letters match in any case (`core.ignoreCase`).
    """
    # Git skips a UTF-8 byte order mark at the start of the file (`skip_utf8_bom`).
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rules = [_parse_line(line, folds=folds) for line in lines]
    return RuleList([rule for rule in rules if rule is not None])


def parse_patterns(patterns: Iterable[str], *, folds: bool = False) -> RuleList:
    """Read patterns that came as text, one each; `folds` is as for `parse_rules`."""
    data = "\n".join(patterns).encode("utf-8", "surrogateescape")
    return parse_rules(data, folds=folds)


def _parse_line(line: bytes, *, folds: bool) -> IgnoreRule | None:
    """Read one line as `add_patterns_from_buffer` and `parse_path_pattern` do."""
    if line.startswith(b"#"):
        return None
    # Git keeps patterns as C strings, so a NUL byte ends one.
    text = _trim(line.removesuffix(b"\r").split(b"\0", 1)[0])
    negated = text.startswith(b"!")
    text = text.removeprefix(b"!")
    directories_only = text.endswith(b"/")
    text = text.removesuffix(b"/")
    floating = b"/" not in text
    text = text.removeprefix(b"/")
    if not text:
        return None
    # A bracket is compared by other rules (`_member`).
    if folds and b"[" not in text:
        text = text.lower()
    return IgnoreRule(text, negated, directories_only, floating, folds)


def _trim(line: bytes) -> bytes:
    """Drop trailing spaces, but not one behind a backslash."""
    stripped = line.rstrip(b" ")
    if stripped == line:
        return line
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    return line[: len(stripped) + backslashes % 2]


def _is_ending(text: bytes) -> bool:
    return text.startswith(b"*") and _SPECIAL.search(text, 1) is None


def _any_of(rules: Sequence[IgnoreRule]) -> re.Pattern[bytes] | None:
    if not rules:
        return None
    return re.compile(b"|".join(b"(?:%b)" % r.source for r in rules), re.DOTALL)


_STAR = rb"[^/]*"
_DEEP = rb"(?:[^/]*/)*"
_DEEP_SLASH = rb"(?:[^/]*/)+"
_REST = rb".*"
_DEEPS = (_DEEP, _DEEP_SLASH)


def _translate(text: bytes, *, floating: bool, folds: bool) -> bytes:
    """Translate a pattern into a regular expression, `_NEVER` where nothing can match.

    With `folds` it matches what is in lower case.
    """
    parts: list[bytes] = []
    at = 0
    while at < len(text):
        if text[at : at + 1] == b"[":
            part, at = _bracket(text, at, folds=folds)
        else:
            # Each character begins a token, so the next one begins here.
            token = next(_TOKEN.finditer(text, at))
            part, at = _token(text, token, floating=floating, folds=folds)
        if part == _NEVER:
            return _NEVER
        parts.append(part)
    # A wildcard followed by another never gives back what it took: the leftmost place for what is
    # between two of a kind is as good as any later one, because the second takes whatever is left.
    return _settle(
        parts,
        _DEEPS,
        lambda inner: _settle(inner, (_STAR,), lambda rest: b"".join(rest)),
    )


def _token(
    text: bytes, found: re.Match[bytes], *, floating: bool, folds: bool
) -> tuple[bytes, int]:
    token, end = found[0], found.end()
    if token.startswith(b"*"):
        return _stars(text, found.start(), end, floating=floating)
    if token == b"?":
        return rb"[^/]", end
    if token == b"\\":
        return _NEVER, end
    literal = token.removeprefix(b"\\")
    return re.escape(literal.lower() if folds else literal), end


def _stars(text: bytes, start: int, end: int, *, floating: bool) -> tuple[bytes, int]:
    """Translate a run of stars; two or more between slashes span directories."""
    alone = start == 0 or text[start - 1] == _SLASH
    if floating or end - start < 2 or not alone:
        return _STAR, end
    if end == len(text):
        return _REST, end
    if text[end] == _SLASH:
        return _DEEP, end + 1
    if text[end : end + 2] == b"\\/":
        return _DEEP_SLASH, end + 2
    return _STAR, end


def _settle(
    parts: Sequence[bytes],
    wilds: Sequence[bytes],
    join: Callable[[Sequence[bytes]], bytes],
) -> bytes:
    """Make every wildcard of a kind lazy and final but the last one."""
    pieces: list[tuple[bytes, list[bytes]]] = [(b"", [])]
    for part in parts:
        if part in wilds:
            pieces.append((part, []))
        else:
            pieces[-1][1].append(part)
    text = join(pieces[0][1])
    for wild, between in pieces[1:-1]:
        # Atomic groups, in `re` since Python 3.11, never go back, so the time stays polynomial.
        text += rb"(?>%b?%b)" % (wild, join(between))
    for wild, rest in pieces[1:][-1:]:
        text += wild + join(rest)
    return text


def _bracket(text: bytes, at: int, *, folds: bool) -> tuple[bytes, int]:
    """Translate `[...]`; an unfinished one, or an unknown class, makes nothing match."""
    at += 1
    negated = text[at : at + 1] in (b"!", b"^")
    at += negated
    chosen: set[bytes] = set()
    previous = b""
    first = True
    while first or text[at : at + 1] != b"]":
        first = False
        start = at
        members, previous, at = _member(text, at, previous)
        if at < 0:
            return _NEVER, len(text)
        chosen |= members
        # wildmatch.c folds what is in a range or a class, and not a single letter. `[:upper:]` is
        # the one class to which that makes a difference.
        if folds and (len(members) > 1 or text[start : start + 1] == b"-"):
            chosen |= {member.lower() for member in members}
    if negated:
        chosen = set(_BYTES) - chosen
    # A bracket never takes a slash: Git matches with WM_PATHNAME.
    chosen.discard(b"/")
    if not chosen:
        return _NEVER, len(text)
    return b"[" + b"".join(b"\\x%02x" % c[0] for c in sorted(chosen)) + b"]", at + 1


def _member(text: bytes, at: int, previous: bytes) -> tuple[set[bytes], bytes, int]:
    """Read one member of a bracket: what it takes, the start of a range, where to go on.

    The place is -1 where the bracket is broken.
    """
    char = text[at : at + 1]
    after = text[at + 1 : at + 2]
    if char == b"[" and after == b":":
        end = text.find(b"]", at + 2)
        if end < 0:
            return set(), b"", -1
        if end > at + 2 and text[end - 1 : end] == b":":
            # An unknown class makes the whole pattern match nothing, as in wildmatch.c.
            test = _CLASSES.get(text[at + 2 : end - 1])
            if test is None:
                return set(), b"", -1
            return {c for c in _BYTES if c.isascii() and test(c)}, b"", end + 1
    if char == b"-" and previous and after not in (b"", b"]"):
        at += 1
        at += after == b"\\"
        stop = text[at : at + 1]
        if not stop:
            return set(), b"", -1
        return {c for c in _BYTES if previous <= c <= stop}, b"", at + 1
    if char == b"\\":
        at += 1
        char = text[at : at + 1]
    if not char:
        return set(), b"", -1
    return {char}, char, at + 1
