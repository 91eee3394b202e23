"""A repository that libgit2 cannot open, through Git's own plumbing.

Loose refs, `packed-refs`, reftables, pack indexes and loose objects are read here; what is in packs
is read by a `git cat-file` that is kept open, and refs are moved by a `git update-ref`. Nothing is
fetched from a partial clone's remote, and no hook of the repository runs. `git config` is asked
again once one of the files of the configuration changed.
In a repository with a second id of each object (`extensions.compatObjectFormat`), Git writes the
pair of ids when it writes an object, never later, into a file whose format still changes. It maps
no tree or commit that refers to an object without a pair, and `git commit` fails. So an object of
ours that Git finds in its place, as the blob of a staged file, must be one that Git has written.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from gitshadow.errors import StaleTipError, StoreError
from gitshadow.model import Oid
from gitshadow.store.backends.git_pipes import Answers, DeadError, GitPipe
from gitshadow.store.backends.pack_indexes import PackIndexes
from gitshadow.store.backends.port import (
    FILES,
    REFTABLE,
    STORE_HINT,
    ConfigEntry,
    HeadLog,
    RefLockedError,
    alternates,
    alternates_file,
    is_true,
)
from gitshadow.store.backends.ref_files import FileHeadLog, LooseRefs, RefFiles, is_safe
from gitshadow.store.backends.reftable import ReftableHeadLog, Reftables
from gitshadow.store.git import OFFLINE, SAFE, WAITING, Git
from gitshadow.store.git_settings import (
    Stamps,
    scrubbed_environment,
    stamp_of,
    stamps_before,
    stamps_of,
    without_hooks,
)
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import ObjectFormat
from gitshadow.store.objects import BrokenObjectError, LooseObjects, pack_of
from gitshadow.store.shared_modes import SETTING, SharedModes

EXTENSION = "extensions.compatobjectformat"
# Git waits for this lock without an end, and keeps it for one line (loose.c).
_LOCK = "loose-object-idx.lock"
_WAIT_S = 5.0
_LOOK_S = 0.01
# Git's words, which LC_ALL=C keeps in English (object-file-convert.c).
_UNMAPPED = ("failed to map", "failed to convert object")
# What we pass with `-c` ourselves.
_OURS = b"command line:"
# Replacements (git-replace(1)) would show other bytes than those of the object that is named.
_PLAIN = {**OFFLINE, "GIT_NO_REPLACE_OBJECTS": "1"}
_WRITING = ("-c", "core.logAllRefUpdates=false")
_UPDATE = (*WAITING, "update-ref", "--stdin", "-z")
# A ref of ours that a power cut destroys is found and repaired (`maintenance.object_check`).
_UNSYNCED = ("-c", "core.fsync=none")
# A child keeps each commit in memory that it ever pointed a ref at.
_MOST_UPDATES = 1000
# Git's words, which LC_ALL=C keeps in English (lockfile.c, refs/files-backend.c, reftable/error.c).
_LOCKED = (".lock': file exists", "cannot lock references")
_REFUSED = (
    "no space left",
    "quota exceeded",
    "read-only file system",
    "permission denied",
)


class Configuration:
    """The configuration that one worktree sees."""

    def __init__(self, layout: Layout, environ: Mapping[str, str], git: Git) -> None:
        self._layout = layout
        self._environ = environ
        self._git = git
        self._entries: list[ConfigEntry] = []
        self._stamps: Stamps = {}

    def entries(self) -> Sequence[ConfigEntry]:
        """Return all entries, in the order in which later ones count.

        Raises:
            StoreError: git cannot read them.
        """
        if not self._stamps or stamps_of(self._stamps) != self._stamps:
            self._stamps = stamps_before(self._layout, self._environ, self._read)
        return self._entries

    def known(self) -> Sequence[ConfigEntry]:
        """Return the same; while a file has a mistake, as when somebody edits it, those before.

        Raises:
            StoreError: git cannot read them, and never could.
        """
        try:
            return self.entries()
        except StoreError:
            if not self._stamps:
                raise
            return self._entries

    def get(self, name: str) -> str | None:
        """Return the last value of a key, None if there is none."""
        found = [entry.value for entry in self.known() if entry.name == name]
        return ("true" if found[-1] is None else found[-1]) if found else None

    def _read(self) -> list[ConfigEntry]:
        out = self._git.run("config", "--list", "-z", "--show-origin")
        cells = out.split(b"\0")
        rows = zip(cells[::2], cells[1::2], strict=False)
        self._entries = [
            _entry(os.fsdecode(row))
            for origin, row in rows
            if not origin.startswith(_OURS)
        ]
        return self._entries


def _entry(row: str) -> ConfigEntry:
    name, marked, value = row.partition("\n")
    return ConfigEntry(name, value if marked else None)


class PlumbingBackend:
    """The objects and refs of one repository through processes of Git; see `port.Backend`."""

    def __init__(
        self, layout: Layout, environ: Mapping[str, str], form: ObjectFormat
    ) -> None:
        """Open the repository.

        Raises:
            StoreError: its configuration cannot be read, or its refs are of an unknown format.
        """
        self.form = form
        self._layout = layout
        self._environ = {**scrubbed_environment(dict(environ)), **_PLAIN}
        self._git = Git(layout, dict(environ))
        self._config = Configuration(layout, environ, self._git)
        self.ref_format = self._config.get("extensions.refstorage") or FILES
        if self.ref_format not in (FILES, REFTABLE):
            raise StoreError(f"cannot read refs of the format {self.ref_format!r}")
        self._refs: RefFiles | Reftables
        self.head_log: HeadLog
        if self.ref_format == REFTABLE:
            self._refs = tables = Reftables(layout, form)
            self.head_log = ReftableHeadLog(tables.own)
        else:
            self._refs = RefFiles(layout, form)
            self.head_log = FileHeadLog(layout.git_dir)
        self._loose_refs = LooseRefs(layout.common_dir, form)
        self._own_packs = PackIndexes([layout.objects_dir], form)
        self.modes = SharedModes(self._config.get(SETTING))
        self._loose = LooseObjects(layout.objects_dir, form, self.modes)
        self.has_second_ids = self._config.get(EXTENSION) is not None
        self._borrow()
        self._reader = self._pipe("cat-file", "--batch")
        # To delete a ref Git may write `packed-refs`. It has the user's refs, too, as a table has.
        self._remover = self._pipe(*_WRITING, *_UPDATE)
        self._writer = self._remover
        if self.ref_format == FILES and self._config.get("core.fsync") is None:
            self._writer = self._pipe(*_UNSYNCED, *_WRITING, *_UPDATE)
        self._updates = 0

    def _borrow(self) -> None:
        """Note from which object directories the repository borrows now."""
        own = self._layout.objects_dir
        self._lent = stamp_of(alternates_file(own))
        others = alternates(own)
        self._packs = PackIndexes([own, *others], self.form)
        self._borrowed = [LooseObjects(other, self.form) for other in others]

    def _borrows_anew(self) -> bool:
        """Return whether the repository has got another list of those since; it is used then."""
        lent = stamp_of(alternates_file(self._layout.objects_dir))
        if lent == self._lent:
            return False
        # `git repack -adl` removes what is borrowed now. A child reads the list when it begins.
        self.let_go()
        self._lent = lent
        return True

    def _pipe(self, *args: str) -> GitPipe:
        """Return a git command in this repository that is kept open."""
        layout = self._layout
        place = (f"--git-dir={layout.git_dir}", f"--work-tree={layout.root}")
        words = ["git", *SAFE, *place, *args]
        return GitPipe(words, layout.root, self._environ, self._hookless)

    def _hookless(self) -> Mapping[str, str]:
        return without_hooks(entry.name for entry in self._config.known())

    def close(self) -> None:
        """End all children and close all files."""
        self.let_go()

    def let_go(self) -> None:
        """End all children, which keep packs open, and forget packs and tables."""
        for pipe in (self._reader, self._writer, self._remover):
            pipe.close()
        self._own_packs.let_go()
        self._packs.let_go()
        # If the list cannot be read now, what was borrowed before is.
        with suppress(StoreError, OSError):
            self._borrow()
        if isinstance(self._refs, Reftables):
            self._refs.let_go()

    # Objects

    def read(self, oid: Oid) -> tuple[str, bytes]:
        broken: StoreError | None = None
        for other in self._borrowed:
            try:
                found = other.read(oid)
            except BrokenObjectError as error:
                broken = error
                continue
            if found is not None:
                return found
        if self._packs.known_having(oid) or self._packs.having(oid):
            return self._checked(oid)
        if self._borrows_anew():
            return self.read(oid)
        raise broken or StoreError(f"could not read object {oid}: it is missing")

    def read_packed(self, oid: Oid) -> tuple[str, bytes]:
        # Git looks into packs first, so the loose file is not opened.
        if self._own_packs.having(oid) is None:
            raise StoreError(f"could not read object {oid}: it is in no pack")
        return self._checked(oid)

    def packed_blobs(self) -> Callable[[Oid], bytes | None]:

        def read(oid: Oid) -> bytes | None:
            if self._own_packs.known_having(oid) is None:
                return None
            kind, data = self._contents(oid)
            return data if kind == "blob" else None

        return read

    def _checked(self, oid: Oid) -> tuple[str, bytes]:
        kind, data = self._contents(oid)
        if self.form.oid(kind, data) != oid:
            raise BrokenObjectError(
                f"could not read object {oid}: its content does not match its name"
            )
        return kind, data

    def _contents(self, oid: Oid) -> tuple[str, bytes]:
        """Return what a pack has; the caller has found it in an index."""
        # Nothing else is asked: git ends, or fetches, at what is missing in a partial clone.
        try:
            found = self._reader.ask(f"{oid}\n".encode("ascii"), _object)
        except DeadError as error:
            raise StoreError(f"could not read object {oid}: {error.said}") from error
        if found is None:
            raise StoreError(f"could not read object {oid}: git does not find it")
        return found

    def exists(self, oid: Oid) -> bool:
        if self._loose.has(oid) or any(one.has(oid) for one in self._borrowed):
            return True
        known = self._packs.known_having(oid) or self._packs.having(oid)
        return known is not None or (self._borrows_anew() and self.exists(oid))

    def is_packed(self, oid: Oid) -> bool:
        return self._own_packs.having(oid) is not None

    def may_be_packed(self, oid: Oid) -> bool:
        return self._packs.known_having(oid) is not None

    def write(self, kind: str, data: bytes) -> Oid:
        # As Git's own `write_object_file` (object-file.c): a new mtime instead of a second copy.
        oid = self.form.oid(kind, data)
        if not (self._touched(self._loose.path(oid)) or self._touched_pack(oid)):
            self.write_all({oid: (kind, data)})
        if is_true(self._config.get("core.fsyncobjectfiles") or "false"):
            _sync(self._loose.path(oid))
        return oid

    def write_all(self, objects: Mapping[Oid, tuple[str, bytes]]) -> None:
        if self.has_second_ids and self._unpacked(objects):
            return
        # From the first that has no second id on, Git has stored none of them.
        for oid, (kind, data) in objects.items():
            if not (self.has_second_ids and self._unpacked({oid: (kind, data)})):
                # It may refer to what Git got without writing it, as by a clone. Git cannot commit
                # such a tree either.
                self._loose.write(kind, data, oid)

    def _unpacked(self, objects: Mapping[Oid, tuple[str, bytes]]) -> bool:
        """Have Git store objects as loose ones; return whether each has a second id."""
        lock = os.path.join(self._layout.objects_dir, _LOCK)
        deadline = time.monotonic() + _WAIT_S
        while os.path.exists(lock):
            if time.monotonic() > deadline:
                raise StoreError(
                    f"could not write to the object store: {lock} exists",
                    hint="if no git process runs, remove this file",
                )
            time.sleep(_LOOK_S)
        # One process for all: `git hash-object` takes one kind at a time, and refuses what
        # git-fsck(1) warns of.
        data = pack_of(objects, self.form).pack_data
        try:
            self._git.run("unpack-objects", "-q", stdin=data)
        except StoreError as error:
            if any(words in error.message.lower() for words in _UNMAPPED):
                return False
            why = error.message.removeprefix("cannot run git unpack-objects: ")
            text = f"could not write to the object store: {why}"
            raise StoreError(text, hint=error.hint or STORE_HINT) from error
        return True

    def _touched(self, path: str) -> bool:
        try:
            os.utime(path)
        except OSError:
            return False
        return True

    def _touched_pack(self, oid: Oid) -> bool:
        index = self._packs.known_having(oid)
        # A pack of unreachable objects has a time of each, and its own does not count.
        return index is not None and not index.is_cruft and self._touched(index.pack)

    # Refs

    def head(self) -> tuple[str | None, Oid | None]:
        return self._refs.head()

    def ref(self, name: str) -> Oid | None:
        return self._refs.ref(name)

    def refs(self, prefix: str) -> dict[str, Oid]:
        return self._refs.refs(prefix)

    def create_ref(self, name: str, oid: Oid) -> None:
        if self.ref(name) is not None:
            raise StaleTipError(f"could not create ref {name}: it exists")
        self._update(name, f"create {name}\0{oid}\0", oid)

    def move_ref(self, name: str, old: Oid, new: Oid) -> None:
        # Git compares under the ref's lock; this look spares a process where it has moved already.
        if self.ref(name) != old:
            raise StaleTipError(f"could not move ref {name}: it is not at {old}")
        self._update(name, f"update {name}\0{new}\0{old}\0", new)

    def force_ref(self, name: str, oid: Oid) -> None:
        self._loose_refs.discard_unreadable(name)
        self._update(name, f"update {name}\0{oid}\0\0", oid)

    def delete_ref(self, name: str) -> None:
        self._loose_refs.discard_unreadable(name)
        if self._refs.exists(name):
            self._update(name, f"delete {name}\0\0", None)

    def broken_refs(self) -> list[str]:
        return self._loose_refs.broken()

    def _update(self, name: str, command: str, wanted: Oid | None) -> None:
        """Run one command of git-update-ref(1) as a transaction; it leads to a wanted value."""
        # In reftables git writes refs of any name (2.55).
        if not (name.startswith("refs/") and is_safe(name)):
            raise StoreError(f"could not write ref {name!r}: not a name of a ref")
        question = f"start\0option no-deref\0{command}commit\0"
        self._updates += 1
        if self._updates % _MOST_UPDATES == 0:
            self._writer.close()
        writer = self._remover if wanted is None else self._writer
        while True:
            was_open = writer.is_open
            try:
                writer.ask_once(os.fsencode(question), _committed)
                break
            except DeadError as error:
                # It ends with each error. If it was killed, the ref may have moved before. What an
                # older child says may come from what it read long ago.
                if not error.said and self._is_at(name, wanted):
                    break
                if not was_open:
                    raise self._error(name, wanted, error.said) from error
        self._loose_refs.drop_reflog(name)

    def _is_at(self, name: str, oid: Oid | None) -> bool:
        with suppress(StoreError):
            return self.ref(name) == oid
        return False

    def _error(self, name: str, wanted: Oid | None, said: str) -> StoreError:
        text = f"could not write ref {name}: {said or 'git was killed'}"
        lower = said.lower()
        if any(words in lower for words in _REFUSED):
            return StoreError(text, hint=STORE_HINT)
        if any(words in lower for words in _LOCKED):
            is_table = self.ref_format == REFTABLE
            usual = f"{REFTABLE}/tables.list.lock" if is_table else f"{name}.lock"
            # After an empty line Git explains what a lock is.
            short = text.partition("; ; ")[0]
            return RefLockedError(short, usual, self._layout.common_dir)
        stale = ("but expected", "reference already exists", "reference is missing")
        if wanted is not None and any(words in lower for words in stale):
            return StaleTipError(text)
        return StoreError(text)

    # What only Git's own rules say

    def resolve(self, name: str) -> Oid | None:
        how = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        # What follows `:/` is a pattern up to the end, and names commits alone.
        asked = name if name.startswith(":/") else name + "^{commit}"
        out = self._git.run(*how, asked, ok=(0, 1, 128))
        return Oid(out.decode("ascii").strip()) if out else None

    def unpushed(self, tip: Oid, most: int) -> Mapping[Oid, Iterable[Oid]]:
        how = ("rev-list", "--parents", f"--max-count={most}", tip)
        try:
            out = self._git.run(*how, "--not", "--remotes", "--")
        except StoreError:
            return {}
        rows = (row.split() for row in out.decode("ascii").splitlines())
        return {Oid(row[0]): [Oid(one) for one in row[1:]] for row in rows}

    def config(self) -> Sequence[ConfigEntry]:
        return self._config.entries()


def _object(answers: Answers) -> tuple[str, bytes] | None:
    """Read one answer of `git cat-file --batch`."""
    words = answers.line().split(b" ")
    if len(words) != 3 or not words[2].isdigit():
        return None
    data = answers.take(int(words[2]))
    answers.take(1)
    return words[1].decode("ascii"), data


def _committed(answers: Answers) -> None:
    """Read the answers to one transaction."""
    for step in (b"start: ok", b"commit: ok"):
        if answers.line() != step:
            raise EOFError


def _sync(path: str) -> None:
    """Write a file to the disk, if there is one: what is in a pack is there already."""
    for one, flags in ((path, 0), (os.path.dirname(path), os.O_DIRECTORY)):
        try:
            file = os.open(one, os.O_RDONLY | os.O_CLOEXEC | flags)
        except FileNotFoundError:
            return
        try:
            os.fsync(file)
        finally:
            os.close(file)
