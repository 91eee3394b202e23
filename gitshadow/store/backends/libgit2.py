"""A repository through libgit2: SHA-1 objects, refs as files; as fast as it gets.

Only this module and `content_diff` import pygit2.
"""

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

import pygit2
from pygit2.enums import ConfigLevel, ObjectType, Option, RepositoryOpenFlag

from gitshadow.errors import StaleTipError, StoreError, UnsupportedError
from gitshadow.model import Oid
from gitshadow.store.backends.port import (
    FILES,
    REFTABLE,
    STORE_HINT,
    ConfigEntry,
    HeadLog,
    RefLockedError,
    alternates,
    alternates_file,
)
from gitshadow.store.backends.ref_files import (
    PACKED_HINT,
    FileHeadLog,
    LooseRefs,
    RefFiles,
)
from gitshadow.store.backends.reftable import ReftableHeadLog, Reftables
from gitshadow.store.git import WAITING, Git
from gitshadow.store.git_settings import stamp_of
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import format_named
from gitshadow.store.objects import LooseObjects
from gitshadow.store.shared_modes import SETTING, SharedModes

_PACKED_REFS = "packed references file"
"""How libgit2's message names a `packed-refs` that it cannot read."""
_LOCKED = ("failed to lock file", os.strerror(errno.EEXIST))
"""What it says of a lock that exists, at once or after another look (filebuf.c)."""
# Errors of the system when it cannot create a lock file, unlike that of a lock that exists.
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
_FAILURES = (KeyError, ValueError, pygit2.GitError)
VERSION = tuple(int(part) for part in pygit2.LIBGIT2_VERSION.split(".")[:2])


def read_environment() -> None:
    """Have libgit2 look again where the environment says that Git's configuration is."""
    for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG):
        # None stands for what libgit2 finds itself.
        pygit2.option(Option.SET_SEARCH_PATH, level, None)


class _LooseBackend(pygit2.OdbBackend):
    """Loose objects for libgit2 as `LooseObjects` reads them; a broken one is absent."""

    def __init__(self, objects: LooseObjects) -> None:
        super().__init__()
        self._objects = objects

    def read_cb(self, oid: pygit2.Oid | str) -> tuple[int, bytes]:
        """Return kind and content."""
        try:
            found = self._objects.read(Oid(str(oid)))
        except StoreError as error:
            raise KeyError(str(oid)) from error
        if found is None:
            raise KeyError(str(oid))
        return int(ObjectType[found[0].upper()]), found[1]

    def read_header_cb(self, oid: pygit2.Oid | str) -> tuple[int, int]:
        """Return kind and size."""
        kind, content = self.read_cb(oid)
        return kind, len(content)

    def read_prefix_cb(self, prefix: str) -> tuple[int, bytes, str]:
        """Return kind, content and id of the one object whose id begins like that."""
        found = self._objects.with_prefix(prefix)
        if len(found) != 1:
            raise KeyError(prefix)
        return *self.read_cb(found[0]), found[0]

    def exists_cb(self, oid: pygit2.Oid | str) -> bool:
        """Whether the object is there."""
        return self._objects.has(Oid(str(oid)))

    def exists_prefix_cb(self, prefix: str) -> str:
        """Return the id of the one object whose id begins like that."""
        found = self._objects.with_prefix(prefix)
        if len(found) != 1:
            raise KeyError(prefix)
        return found[0]

    def refresh_cb(self) -> None:
        """Do nothing: nothing is cached."""


class Libgit2Backend:
    """The objects and refs of one repository through libgit2; see `port.Backend`."""

    def __init__(self, layout: Layout, environ: Mapping[str, str]) -> None:
        """Open the repository.

        Raises:
            UnsupportedError: libgit2 cannot read it; the message has its words.
        """
        pygit2.option(Option.SET_EXTENSIONS, ["partialclone"], 1)
        try:
            self._repository = pygit2.Repository(
                layout.root, RepositoryOpenFlag.NO_SEARCH
            )
        except (pygit2.GitError, OSError, ValueError, KeyError) as error:
            raise UnsupportedError(
                str(error).removeprefix(f"{layout.root}: ")
            ) from error
        self._git = Git(layout, dict(environ))
        self._objects = layout.objects_dir
        self._common_dir = layout.common_dir
        self.has_second_ids = False
        self._lent = stamp_of(alternates_file(self._objects))
        self._known_packs: list[pygit2.OdbBackendPack] | None = None
        self.form = format_named(self.setting("extensions.objectformat") or "sha1")
        self.ref_format = self.setting("extensions.refstorage") or FILES
        self.modes = SharedModes(self.setting(SETTING))
        self._loose = LooseObjects(layout.objects_dir, self.form, self.modes)
        self._loose_refs = LooseRefs(layout.common_dir, self.form)
        # libgit2 makes an object of each ref that it lists, also of thousands that are not ours.
        self._listed: RefFiles | Reftables = RefFiles(layout, self.form)
        self.head_log: HeadLog = FileHeadLog(layout.git_dir)
        if self.ref_format == REFTABLE:
            self._listed = tables = Reftables(layout, self.form)
            self.head_log = ReftableHeadLog(tables.own)

    @property
    def is_bare(self) -> bool:
        """Return whether the repository has no worktree."""
        return bool(self._repository.is_bare)

    def setting(self, name: str) -> str | None:
        """Return the last value of one config key, or None."""
        try:
            return str(self._repository.config[name])
        except (*_FAILURES, OSError):
            return None

    def close(self) -> None:
        """Close open packs and files."""
        self._repository.free()

    def let_go(self) -> None:
        self._known_packs = None
        self._repository.free()

    # Objects

    def read(self, oid: Oid) -> tuple[str, bytes]:
        try:
            return self._read(self._repository.odb, oid)
        except StoreError:
            if not self._borrows_anew():
                raise
            return self._read(self._repository.odb, oid)

    def _borrows_anew(self) -> bool:
        """Return whether the list of borrowed stores is another one; it is used then."""
        # libgit2 reads it when it opens the store.
        lent = stamp_of(alternates_file(self._objects))
        if lent == self._lent:
            return False
        self._lent = lent
        self.let_go()
        return True

    def read_packed(self, oid: Oid) -> tuple[str, bytes]:
        return self._read(self._packs(), oid)

    def _read(
        self, store: pygit2.Odb | pygit2.OdbBackendPack, oid: Oid
    ) -> tuple[str, bytes]:
        try:
            kind, data = store.read(oid)
        except KeyError as error:
            raise StoreError(f"could not read object {oid}: it is missing") from error
        except (*_FAILURES, OSError) as error:
            raise StoreError(f"could not read object {oid}: {error}") from error
        return ObjectType(kind).name.lower(), bytes(data)

    def packed_blobs(self) -> Callable[[Oid], bytes | None]:
        packs = self._packs()

        def read(oid: Oid) -> bytes | None:
            try:
                kind, data = packs.read(oid)
            except (*_FAILURES, OSError):
                return None
            return bytes(data) if kind == ObjectType.BLOB else None

        return read

    def exists(self, oid: Oid) -> bool:
        if self._repository.odb.exists(oid):
            return True
        return self._borrows_anew() and bool(self._repository.odb.exists(oid))

    def is_packed(self, oid: Oid) -> bool:
        return bool(self._packs().exists(oid))

    def may_be_packed(self, oid: Oid) -> bool:
        # The packs are listed once: an object that is stored twice only takes space until its loose
        # copy is pruned. Whether a pack is still there is looked up, because Git may have removed
        # it.
        if self._known_packs is None:
            self._known_packs = self._all_packs()
        if not any(pack.exists(oid) for pack in self._known_packs):
            return False
        return any(pack.exists(oid) for pack in self._all_packs())

    def _packs(self) -> pygit2.OdbBackendPack:
        """Return a backend that reads packs only."""
        return pygit2.OdbBackendPack(self._objects)

    def _all_packs(self) -> list[pygit2.OdbBackendPack]:
        places = (self._objects, *alternates(self._objects))
        return [pygit2.OdbBackendPack(place) for place in places]

    def write(self, kind: str, data: bytes) -> Oid:
        try:
            oid = Oid(str(self._repository.odb.write(ObjectType[kind.upper()], data)))
        except (pygit2.GitError, ValueError) as error:
            detail = str(error).rpartition(": ")[2]
            raise StoreError(
                f"could not write to the object store: {detail}", hint=STORE_HINT
            ) from error
        self.modes.adjust_below(self._objects, f"{oid[:2]}/{oid[2:]}")
        return oid

    def write_all(self, objects: Mapping[Oid, tuple[str, bytes]]) -> None:
        for oid, (kind, data) in objects.items():
            self._loose.write(kind, data, oid)

    def _for_names(self) -> pygit2.Repository:
        """Return the repository for functions in which libgit2 itself reads objects."""
        # libgit2 1.9 never returns from a loose object whose file is cut short, so its reader of
        # loose objects is replaced by ours.
        repository = pygit2.Repository(
            self._repository.path, RepositoryOpenFlag.NO_SEARCH
        )
        odb = pygit2.Odb()
        odb.add_backend(_LooseBackend(self._loose), 2)
        odb.add_backend(self._packs(), 1)
        for other in alternates(self._objects):
            odb.add_disk_alternate(other)
        repository.set_odb(odb)
        return repository

    # Refs

    def head(self) -> tuple[str | None, Oid | None]:
        try:
            reference = self._repository.lookup_reference("HEAD")
            name = reference.target if isinstance(reference.target, str) else None
            try:
                return name, Oid(str(reference.resolve().target))
            except KeyError:
                return name, None
        except _FAILURES as error:
            raise _unread("read HEAD", error) from error

    def ref(self, name: str) -> Oid | None:
        try:
            reference = self._repository.references.get(name)
            return None if reference is None else _target(reference)
        except (pygit2.GitError, ValueError) as error:
            raise _unread(f"read ref {name}", error) from error

    def refs(self, prefix: str) -> dict[str, Oid]:
        return self._listed.refs(prefix)

    def create_ref(self, name: str, oid: Oid) -> None:
        try:
            self._repository.references.create(name, oid, force=False)
        except (pygit2.AlreadyExistsError, ValueError) as error:
            raise StaleTipError(f"could not create ref {name}: {error}") from error
        except (pygit2.GitError, OSError) as error:
            raise self._error(name, error) from error
        self._written(name)

    def move_ref(self, name: str, old: Oid, new: Oid) -> None:
        try:
            reference = self._repository.references.get(name)
            # Compare-and-swap in two steps: this look finds what moved before, and `set_target`
            # compares under the ref's lock with the value that this look read.
            if reference is None or str(reference.target) != old:
                raise StaleTipError(f"could not move ref {name}: it is not at {old}")
            reference.set_target(new)
        except (pygit2.GitError, OSError, ValueError) as error:
            raise self._error(name, error) from error
        self._written(name)

    def force_ref(self, name: str, oid: Oid) -> None:
        try:
            self._loose_refs.discard_unreadable(name)
            self._repository.references.create(name, oid, force=True)
        except (pygit2.GitError, OSError, ValueError) as error:
            raise self._error(name, error) from error
        self._written(name)

    def _written(self, name: str) -> None:
        self.modes.adjust_below(self._common_dir, name)
        self._loose_refs.drop_reflog(name)

    def delete_ref(self, name: str) -> None:
        """Delete a ref and its reflog, loose and packed; one that is absent is fine."""
        # libgit2 takes the lock of packed-refs only after it has read the file, and not at all for
        # a loose ref (refdb_fs.c, 1.9): a `git pack-refs` at that moment would bring a deleted ref
        # back, or lose what it has just packed.
        try:
            self._loose_refs.discard_unreadable(name)
            is_there = self._repository.references.get(name) is not None
        except (pygit2.GitError, OSError, ValueError) as error:
            raise self._error(name, error) from error
        if is_there:
            self._delete(name)
        self._loose_refs.drop_reflog(name)

    def _delete(self, name: str) -> None:
        try:
            self._git.run(*WAITING, "update-ref", "--no-deref", "-d", name)
        except StoreError as error:
            text = f"could not write ref {name}: {error.message}"
            if ".lock': file exists" in error.message.lower():
                short = text.partition("; ; ")[0]
                raise RefLockedError(short, f"{name}.lock", self._common_dir) from error
            raise StoreError(text, hint=error.hint) from error

    def _error(self, name: str, error: Exception) -> StoreError:
        text = str(error)
        if isinstance(error, StoreError):
            return error
        message = f"could not write ref {name}: {text}"
        if any(os.strerror(number) in text for number in _REFUSED):
            return StoreError(message, hint=STORE_HINT)
        # libgit2 has one error class for all of these, so its message must distinguish them.
        if any(words in text for words in _LOCKED):
            return RefLockedError(message, f"{name}.lock", self._common_dir)
        stale = ("old reference value", "first parent", "modified")
        if any(words in text for words in stale):
            return StaleTipError(f"could not move ref {name}: {text}")
        return _unread(f"write ref {name}", error)

    def broken_refs(self) -> list[str]:
        return self._loose_refs.broken()

    # What only Git's own rules say

    def resolve(self, name: str) -> Oid | None:
        try:
            commit = self._for_names().revparse_single(name).peel(pygit2.Commit)
        except _FAILURES:
            return None
        return Oid(str(commit.id))

    def unpushed(self, tip: Oid, most: int) -> Mapping[Oid, Iterable[Oid]]:
        try:
            walker = self._for_names().walk(tip)
            for oid in self.refs("refs/remotes/").values():
                walker.hide(oid)
            return {
                Oid(str(commit.id)): [Oid(str(one)) for one in commit.parent_ids]
                for commit in islice(walker, most)
            }
        except (*_FAILURES, StoreError):
            return {}

    def config(self) -> Sequence[ConfigEntry]:
        try:
            return [ConfigEntry(one.name, one.value) for one in self._repository.config]
        except (pygit2.GitError, ValueError, OSError) as error:
            raise StoreError(f"could not read git config: {error}") from error


def _target(reference: pygit2.Reference) -> Oid | None:
    """Return what a ref points at in the end; None if that does not exist."""
    if not isinstance(reference.target, str):
        return Oid(str(reference.target))
    try:
        return Oid(str(reference.resolve().target))
    except KeyError:
        return None


def _unread(what: str, error: Exception) -> StoreError:
    """Return the error for refs that cannot be read."""
    # One broken line of packed-refs hides all refs, from Git too. The file has the user's branches,
    # so only the user changes it.
    text = str(error)
    return StoreError(
        f"could not {what}: {text}", hint=PACKED_HINT if _PACKED_REFS in text else None
    )
