"""Random histories as values: who does what to which files, and what is taken back.

Every line, binary content and link target carries a token of its writer that is unlike any other,
so that it can be told at any time whose bytes are where. A step is five small numbers; what it
means depends on the files that are there, so nearly every step does something.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from gitshadow.model import LINK_MODE, EventKind

Entry = tuple[int, bytes]
"""Mode as in `FileVersion`, and the bytes (a link's target)."""

Tree = dict[bytes, Entry]

Change = tuple[str, bytes, Entry | bytes | None]
"""One act on a tree: `put` an entry, `drop` a path, `move` it to another name, or `bring` an entry
by moving a file in that is older than the recording, to a free name or over a file."""

MAY_COME = frozenset({EventKind.CREATE, EventKind.MODIFY, EventKind.TYPE})
"""The rows of a file that is moved in."""

PATHS = (b"a", b"b", b"d/x", b"d/e/z", b"c", b"d/y", b"a/in", b"q\xff \n", b"-r [*]")
_DIRECTORIES = (b"d", b"d/e", b"n", b"n/e", b"a")
_MODES = (0o100644, 0o100600, 0o100755)
_TOKEN = re.compile(rb"<[a-z0-9]+:[0-9]+>")
AGENTS = ("s1", "s2")
WRITERS = ("s1", "human", "s2", "unknown")

EDITS = (
    *("insert",) * 5,
    *("change",) * 2,
    *("cut",) * 2,
    *("create",) * 2,
    *("delete", "rename", "rename", "move", "remove", "chmod", "chmod"),
    *("link", "binary", "empty", "crlf", "endless", "swap", "clear"),
    *("revert", "turn", "turn", "pin"),
    *("bring", "bring", "temporary", "temporary", "begin", "finish", "fresh", "round"),
    *("rebuild", "rebuild"),
    *("commit", "commit", "amend", "switch", "switch", "reset", "discard", "stash"),
    *("trip", "trip", "unseen"),
)
GIT = frozenset({"commit", "amend", "switch", "reset", "discard", "stash"})
"""Git commands; a stash is popped where there is one, `reset` goes to the commit before."""

UNSEEN = (
    ("commit", "switch", "switch"),
    ("commit", "switch"),
    ("commit", "reset"),
    ("commit", "amend", "switch", "commit", "switch"),
    ("switch", "commit", "switch", "reset"),
    ("commit", "commit", "reset", "switch", "switch"),
)
"""What Git does in between after an edit, and nobody looks before all of it is done."""

UNDOS = (
    *("oops",) * 4,
    *("session",) * 3,
    *("turn_back",) * 2,
    *("redo",) * 3,
    *("event", "op", "op", "file"),
    *("at", "at", "restored", "restored", "pinned", "hunks", "hunks", "only"),
)
MOMENTS = frozenset({"at", "restored", "pinned"})

HOOKED = ("wait", "wait", "wait", "deny", "unheard", "die", "away")
"""What only hooks can tell: a call waits for permission and runs or is denied, its first hook
never comes, its agent dies in it, or a person writes in the other worktree meanwhile."""

Step = tuple[int, str, int, int, int]


def steps(verbs: Sequence[str]) -> st.SearchStrategy[Step]:
    """Return steps with these verbs: writer, verb, and three numbers below 12."""

    def step(drawn: bytes) -> Step:
        verb = verbs[int.from_bytes(drawn[1:3]) * len(verbs) >> 16]
        return drawn[0] % 4, verb, drawn[3] % 12, drawn[4] % 12, drawn[5] % 12

    # One draw of bytes: to draw five values takes longer than to play what they mean.
    return st.binary(min_size=6, max_size=6).map(step)


def histories(longest: int) -> st.SearchStrategy[list[Step]]:
    """Return histories of edits, undone now and then, and undone at the end."""
    return st.tuples(
        st.lists(steps(EDITS), min_size=1, max_size=longest),
        st.lists(steps((*EDITS, *UNDOS, *UNDOS)), max_size=longest),
        st.lists(steps(UNDOS), min_size=1, max_size=3),
    ).map(lambda parts: [step for part in parts for step in part])


def is_private(step: Step) -> bool:
    """Return whether a step gives a file a mode that Git does not keep."""
    return step[1] == "chmod" and _MODES[step[4] % 3] == 0o100600


def hooked_histories(longest: int) -> st.SearchStrategy[list[tuple[bool, Step]]]:
    """Return histories of agents with hooks; each step is in the linked worktree or not."""
    at = st.just(False) | st.integers(0, 3).map(lambda number: number == 0)
    edits = (*EDITS, *HOOKED, *HOOKED)
    return st.tuples(
        st.lists(st.tuples(at, steps(edits)), min_size=1, max_size=longest),
        st.lists(st.tuples(at, steps((*edits, *UNDOS))), max_size=longest),
        st.lists(st.tuples(at, steps(UNDOS)), min_size=1, max_size=3),
    ).map(lambda parts: [step for part in parts for step in part])


def base() -> Tree:
    """Return what every history begins with."""
    tree: Tree = {}
    for at, path in enumerate((b"a", b"b", b"d/x", b"q\xff \n")):
        rows = [b"<base:%d>\n" % (10 * at + row) for row in range(4)]
        tree[path] = (0o100644, b"".join(rows))
    return tree


def tokens(tree: Tree) -> set[bytes]:
    """Return every token that is somewhere in a tree."""
    return {token for _, data in tree.values() for token in tokens_in(data)}


def tokens_in(data: bytes) -> set[bytes]:
    """Return every token in some bytes."""
    return set(_TOKEN.findall(data))


def changed(tree: Tree, changes: Sequence[Change]) -> Tree:
    """Return a tree after some changes."""
    now = dict(tree)
    for verb, path, what in changes:
        if verb in ("put", "bring"):
            assert isinstance(what, tuple)
            now[path] = what
        elif verb == "drop":
            del now[path]
        else:
            assert isinstance(what, bytes)
            moved = {what + old[len(path) :]: now.pop(old) for old in below(now, path)}
            now |= moved
    return now


def below(tree: Tree, path: bytes) -> list[bytes]:
    """Return a file, or all that is in a directory."""
    return sorted(one for one in tree if one == path or one.startswith(path + b"/"))


def is_free(tree: Tree, path: bytes) -> bool:
    """Tell whether a file can be made there: nothing has the name, no file is above it."""
    if below(tree, path):
        return False
    return not any(path.startswith(one + b"/") for one in tree)


@dataclass(slots=True)
class Script:
    """Turn steps into changes of the tree as it is; it remembers what was there once."""

    written: int = 0
    past: dict[bytes, list[Entry]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)

    def turn(self, who: str) -> str | None:
        """Return the turn that a session is in."""
        return f"t{self.turns.get(who, 1)}" if who in AGENTS else None

    def edit(self, tree: Tree, step: Step) -> list[Change]:
        """Return what an editing step does to a tree; nothing where it cannot be done."""
        who, verb = WRITERS[step[0]], step[1]
        if verb == "turn":
            self.turns[who] = self.turns.get(who, 1) + 1
            return []
        changes = list(self._changes(tree, step))
        for path, entry in tree.items():
            if entry not in self.past.setdefault(path, []):
                self.past[path].append(entry)
        return changes

    def _token(self, who: str) -> bytes:
        self.written += 1
        return b"<%s:%d>" % (who.encode(), self.written)

    def _changes(self, tree: Tree, step: Step) -> Iterator[Change]:
        verb, one, two = step[1], step[2], step[3]
        files = sorted(tree)
        if verb in ("create", "bring") or not files:
            path = PATHS[one % len(PATHS)]
            over = verb == "bring" and path in tree
            if over or is_free(tree, path):
                how = "bring" if verb == "bring" else "put"
                yield how, path, (_MODES[0], self._token(WRITERS[step[0]]) + b"\n")
        elif verb in ("temporary", "begin", "finish"):
            yield from self._through_temporary(tree, step)
        elif verb == "round":
            yield from self._round(tree, step)
        elif verb in ("move", "remove", "rebuild"):
            yield from self._on_directory(tree, step)
        elif verb == "revert":
            path = PATHS[one % len(PATHS)]
            known = self.past.get(path, [])
            if known and (path in tree or is_free(tree, path)):
                yield "put", path, known[two % len(known)]
        else:
            yield from self._on_file(tree, files[one % len(files)], step)

    def _on_directory(self, tree: Tree, step: Step) -> Iterator[Change]:
        top = _DIRECTORIES[step[2] % len(_DIRECTORIES)]
        other = _DIRECTORIES[step[3] % len(_DIRECTORIES)]
        inside = [path for path in below(tree, top) if path != top]
        if not inside:
            return
        if step[1] == "move":
            if not other.startswith(top + b"/") and is_free(tree, other):
                yield "move", top, other
            return
        if step[1] == "rebuild":
            yield from self._rebuild(tree, top, step)
            return
        for path in inside:
            yield "drop", path, None
        if step[4] % 2:
            yield "put", top, (LINK_MODE, self._token(WRITERS[step[0]]))

    def _rebuild(self, tree: Tree, top: bytes, step: Step) -> Iterator[Change]:
        """Put a directory aside and make it anew, as `mv dist x; build; mv x dist.old` does."""
        who = WRITERS[step[0]]
        if any(path.startswith((b"w/", b"old/")) for path in tree):
            return
        yield "move", top, b"w"
        for path in below(tree, top)[step[4] % 2 :]:
            yield "put", path, (_MODES[0], self._token(who) + b"\n")
        yield "move", b"w", b"old"

    def _on_file(self, tree: Tree, path: bytes, step: Step) -> Iterator[Change]:
        verb, two, at = step[1], step[3], step[4]
        mode, data = tree[path]
        if verb == "delete":
            yield "drop", path, None
        elif verb == "fresh":
            self.written += 1
            yield "move", path, b"new%d/er/f" % self.written
        elif verb == "rename":
            other = PATHS[two % len(PATHS)]
            if is_free({**tree, path: (0, b"")}, other):
                yield "move", path, other
        elif verb == "swap":
            yield from self._swap(tree, path, step)
        elif verb == "chmod":
            if mode != LINK_MODE:
                yield "put", path, (_MODES[at % 3], data)
        elif verb == "link":
            yield "put", path, (LINK_MODE, self._token(WRITERS[step[0]]))
        elif verb == "clear":  # a directory takes the file's place
            yield "drop", path, None
            inner = path + b"/in"
            if len(path) < 3:
                yield "put", inner, (_MODES[0], self._token(WRITERS[step[0]]) + b"\n")
        else:
            plain = _MODES[0] if mode == LINK_MODE else mode
            text = b"" if mode == LINK_MODE else data
            yield "put", path, (plain, self._text(text, step))

    def _through_temporary(self, tree: Tree, step: Step) -> Iterator[Change]:
        """Write a file by a temporary one and a rename, in one step or in two."""
        path = PATHS[step[2] % len(PATHS)]
        if path not in tree and not is_free(tree, path):
            return
        temporary = path + b".tmp.7.a1"
        if step[1] != "finish":
            entry = (_MODES[0], self._token(WRITERS[step[0]]) + b"\n")
            if temporary in tree or is_free(tree, temporary):
                yield "put", temporary, entry
        if step[1] != "begin" and (step[1] == "temporary" or temporary in tree):
            yield "move", temporary, path

    def _round(self, tree: Tree, step: Step) -> Iterator[Change]:
        """Let three names go round: a file goes, a directory takes its name, a file the other."""
        inside = below(tree, b"d")
        files = [path for path in sorted(tree) if b"/" not in path]
        if b"d" in inside or not inside or not files:
            return
        path = files[step[3] % len(files)]
        yield "drop", path, None
        yield "move", b"d", path
        yield "put", b"d", (_MODES[0], self._token(WRITERS[step[0]]) + b"\n")

    def _swap(self, tree: Tree, path: bytes, step: Step) -> Iterator[Change]:
        """Exchange the names of two files."""
        files = sorted(tree)
        other = files[step[3] % len(files)]
        if other != path and is_free(tree, b"t"):
            yield "move", path, b"t"
            yield "move", other, path
            yield "move", b"t", other

    def _text(self, data: bytes, step: Step) -> bytes:
        """Return a file's bytes after an edit of its lines."""
        verb, at = step[1], step[4]
        if verb == "empty":
            return b""
        token = self._token(WRITERS[step[0]])
        if verb == "binary":
            return b"\0\xff" + token
        rows = data.splitlines(keepends=True)
        where = min(at, len(rows))
        if verb == "cut":
            rows = rows[: at % (len(rows) or 1)] + rows[at % (len(rows) or 1) + 1 :]
        elif verb == "change" and rows:
            rows[at % len(rows)] = token + b"\n"
        elif verb == "crlf":
            rows.insert(where, token + b"\r\n")
        elif verb == "endless":
            rows.append(token)
        else:
            rows.insert(where, token + b"\n")
        return b"".join(rows)
