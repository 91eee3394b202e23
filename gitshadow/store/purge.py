"""What a purge needs of objects: search them for texts, and rewrite history without contents.

A purged content is replaced by a text of its own, so that events keep their shape: a change is
still a change, and the refs rebuild the rows. Nothing of the content can be inferred from that text
or its oid. Rewriting writes objects only; the caller moves refs and rows. The same history and salt
give the same objects, so a purge that a crash interrupted can be repeated.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import UsageError
from gitshadow.model import GITLINK_MODE, TREE_MODE, Oid, RepoPath
from gitshadow.store.digests import digest
from gitshadow.store.git import Git
from gitshadow.store.paths import c_quoted
from gitshadow.store.repo import Repo
from gitshadow.store.trees import Entry

MARK = "[purged]"
"""The replacement of a text within a longer one, such as a prompt or an argument."""
# A shorter text is found everywhere, and would be replaced everywhere.
_LEAST_BYTES = 6
_FORM = re.compile(rb"agent-undo: this content was purged [0-9a-f]{32}\n")
_LENGTH = 69


def stand_in(oid: Oid, salt: bytes) -> bytes:
    """Return the replacement of a content; the same for the same salt."""
    # Each content gets a replacement of its own, so that a change between two purged contents is
    # still a change. The salt is deleted after the purge: without it nobody can test a guess of the
    # content.
    return f"agent-undo: this content was purged {digest(oid, key=salt)}\n".encode()


def is_purged(data: bytes) -> bool:
    """Return whether this is the replacement of a purged content."""
    return len(data) == _LENGTH and _FORM.fullmatch(data) is not None


def forms_of(texts: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return how texts may be spelled where we store them: as they are, in JSON, C-quoted.

    Raises:
        UsageError: one is so short that it would be found everywhere.
    """
    found: set[bytes] = set()
    for text in texts:
        if len(text.strip()) < _LEAST_BYTES:
            raise UsageError(
                f"cannot purge a text of fewer than {_LEAST_BYTES} bytes",
                hint="it would match too much: use the whole text",
            )
        plain = text.decode("utf-8", "surrogateescape")
        spelled = {plain, json.dumps(plain, ensure_ascii=False)[1:-1]}
        spelled.add(json.dumps(plain)[1:-1])
        found |= {one.encode("utf-8", "surrogateescape") for one in spelled}
        found |= {text, c_quoted(text)[1:-1].encode("ascii")}
    return ordered(found)


def ordered(forms: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return forms in the order that the other functions need: each once, longest first."""
    # The longest first: if a shorter form were replaced first, a part of a longer one would be
    # left.
    return tuple(sorted(set(forms), key=lambda form: (-len(form), form)))


def holds(data: bytes, forms: Sequence[bytes]) -> bool:
    """Return whether data contains any form of a text; `forms` are `ordered`."""
    for form in reversed(forms):
        if len(form) > len(data):
            return False
        if form in data:
            return True
    return False


def without(data: bytes, forms: Sequence[bytes]) -> bytes:
    """Return data with the mark for each form that it contains; JSON stays JSON."""
    done = _marked(data, forms)
    if done == data or data[:1] not in (b"{", b"["):
        return done
    try:
        json.loads(done)
    except (ValueError, RecursionError):
        # Replaced as bytes it is JSON no more, as with a number that contains the text. If it was
        # no JSON before, the bytes are right.
        with suppress(ValueError, RecursionError):
            return json.dumps(_without(json.loads(data), forms)).encode()
    return done


def _marked(data: bytes, forms: Sequence[bytes]) -> bytes:
    for form in forms:
        data = data.replace(form, MARK.encode())
    return data


def _without(value: object, forms: Sequence[bytes]) -> object:
    """Return a JSON value without them: a number that holds one becomes the mark."""
    if isinstance(value, dict):
        return {key: _without(each, forms) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, forms) for each in value]
    text = json.dumps(value).encode()
    cleared = _marked(text, forms)
    if cleared == text:
        return value
    return json.loads(cleared) if isinstance(value, str) else MARK


_MOST_BYTES = 256 * 1024 * 1024


class Gone(NamedTuple):
    """What is to be removed.

    `paths` may be directories; `blobs` are removed at any path; `messages` has new messages for
    commits of ours; `parents` are commits of the user's that no commit of ours may have as a parent
    any more.
    """

    paths: tuple[RepoPath, ...] = ()
    blobs: frozenset[Oid] = frozenset()
    messages: Mapping[Oid, bytes] = {}
    parents: frozenset[Oid] = frozenset()


class Rewriter:
    """Maps commits, trees and contents to their replacements.

    `blobs` has the contents that were found, `commits` the commits that changed.
    """

    def __init__(self, repo: Repo, gone: Gone, salt: bytes) -> None:
        self._repo = repo
        self._gone = gone
        self._salt = salt
        self._trees: dict[Oid, Oid] = {}
        self._inner: dict[Oid, dict[RepoPath, Entry]] = {}
        self._purged: dict[Oid, bool] = {}
        self.blobs: dict[Oid, Oid] = {}
        self.commits: dict[Oid, Oid] = {}

    def stands_for(self, path: RepoPath | None, oid: Oid) -> Oid | None:
        """Return the new oid for a row that names a content at a path; None if it is the same."""
        goes = oid in self._gone.blobs or (path is not None and self._covers(path))
        return self.blobs.get(oid) if goes else None

    def _covers(self, path: RepoPath) -> bool:
        return any(
            path == one or path.startswith(one + b"/") for one in self._gone.paths
        )

    def touches(self, tip: Oid) -> set[Oid]:
        """Return the objects of a chain that are to be replaced: contents, and commits by messages.

        Nothing is written.

        Raises:
            StoreError: an object could not be read.
        """
        found: set[Oid] = set()
        for info in self._repo.chain(tip):
            found.update(oid for _, oid in self._places(info.tree).values())
            if info.oid in self._gone.messages:
                found.add(info.oid)
        return found

    def tip(self, tip: Oid) -> Oid:
        """Return the replacement of a commit of ours, and rewrite its ancestors.

        Raises:
            StoreError: an object could not be read or written.
        """
        for info in self._repo.chain(tip):
            kept = (one for one in info.parents if one not in self._gone.parents)
            parents = tuple(self.commits.get(one, one) for one in kept)
            tree, message = self.tree(info.tree), self._gone.messages.get(info.oid)
            same = (tree, parents) == (info.tree, info.parents)
            if message is not None or not same:
                new = self._repo.recommit(info.oid, tree, parents, message)
                self.commits[info.oid] = new
        return self.commits.get(tip, tip)

    def tree(self, tree: Oid) -> Oid:
        """Return the replacement of a tree."""
        if tree not in self._trees:
            places = self._places(tree)
            changes: dict[RepoPath, Entry | None] = {
                path: (mode, self._cleared(oid)) for path, (mode, oid) in places.items()
            }
            new = self._repo.trees.splice(tree, changes) if changes else tree
            self._trees[tree] = new
        return self._trees[tree]

    def _cleared(self, oid: Oid) -> Oid:
        if oid not in self.blobs:
            self.blobs[oid] = self._repo.write_blob(stand_in(oid, self._salt))
        return self.blobs[oid]

    def _places(self, tree: Oid) -> dict[RepoPath, Entry]:
        """Return the entries of a tree whose content is to be replaced."""
        found = dict(self._holding(tree)) if self._gone.blobs else {}
        for path in self._gone.paths:
            entry = self._repo.trees.entry(tree, path)
            if entry is None:
                continue
            inner = {path: entry}
            if entry[0] == TREE_MODE:
                below = self._repo.trees.flat(entry[1])
                inner = {RepoPath(path + b"/" + p): e for p, e in below.items()}
            found |= {p: e for p, e in inner.items() if self._is_content(e)}
        return found

    def _is_content(self, entry: Entry) -> bool:
        mode, oid = entry
        if mode == GITLINK_MODE:
            return False
        # A content that was purged before stays as it is, so that a repeated purge gives the same
        # objects.
        if oid not in self._purged:
            self._purged[oid] = is_purged(self._repo.read_blob(oid))
        return not self._purged[oid]

    def _holding(self, tree: Oid) -> Mapping[RepoPath, Entry]:
        """Return where in a tree the contents are."""
        # Kept per tree: chains share most of their directories, and each is read once.
        if tree not in self._inner:
            found: dict[RepoPath, Entry] = {}
            for name, entry in self._repo.trees.listing(tree):
                if entry[0] == TREE_MODE:
                    below = self._holding(entry[1])
                    found |= {RepoPath(name + b"/" + p): e for p, e in below.items()}
                elif entry[1] in self._gone.blobs:
                    found[RepoPath(name)] = entry
            self._inner[tree] = found
        return self._inner[tree]


class Holding(NamedTuple):
    """The objects that contain a text; a tree has it in the name of a file."""

    blobs: frozenset[Oid] = frozenset()
    commits: frozenset[Oid] = frozenset()
    trees: frozenset[Oid] = frozenset()
    unsearched: int = 0


def search(git: Git, repo: Repo, forms: Sequence[bytes]) -> Holding:
    """Return every object that holds one of the forms of some texts.

    Raises:
        StoreError: an object could not be read.
    """
    found: dict[str, set[Oid]] = {"blob": set(), "commit": set(), "tree": set()}
    unsearched = 0
    for oid, kind, size in git.all_objects():
        if size > _MOST_BYTES:
            unsearched += 1
        elif kind in found and holds(repo.raw(oid), forms):
            found[kind].add(oid)
    return Holding(
        frozenset(found["blob"]),
        frozenset(found["commit"]),
        frozenset(found["tree"]),
        unsearched,
    )
