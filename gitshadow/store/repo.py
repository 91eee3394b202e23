"""The repository's objects and refs through libgit2; the only importer of pygit2.

Nothing of the user's (index, HEAD, branches, config, reflogs) is ever written.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import pygit2
from pygit2.enums import DiffOption, ObjectType, Option, RepositoryOpenFlag

from gitshadow.errors import StaleTipError, StoreError, UnsupportedError
from gitshadow.model import Oid, RepoPath
from gitshadow.store import objects
from gitshadow.store.layout import Layout
from gitshadow.store.line_diff import Hunk, only_hunk
from gitshadow.store.loose_refs import REF_PREFIX, LooseRefs
from gitshadow.store.object_format import SHA1, ObjectFormat, is_oid
from gitshadow.store.objects import (
    BrokenObjectError,
    CommitInfo,
    LooseObjects,
    NewCommit,
    pack_of,
)
from gitshadow.store.packs import Packs
from gitshadow.store.trees import Entry, TreeChange, Trees

FORMAT_MARK = b"\nAgent-Undo-Format: "
LIBGIT2_VERSION = pygit2.LIBGIT2_VERSION
_PACKED_REFS = "packed references file"
"""How libgit2's message names a `packed-refs` that it cannot read."""
# Errors of the system when it cannot create a lock file, unlike that of a lock that exists.
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
_MAX_LINE = 10_000
# A pack takes two syncs to the disk, and Git merges it with others later.
_PACKED_FROM = 64
_MOST_GATHERED_BYTES = 32 << 20
_TRUE = frozenset({"true", "yes", "on", "1"})
_EXPOSED = "refs/remotes/agent-undo/"
# `git blame` compares files as text even if they look binary, and its hunks follow the indent
# heuristic. Other hunks would give lines to other commits than blame does.
_AS_BLAME = DiffOption.FORCE_TEXT | DiffOption.INDENT_HEURISTIC


def line_hunks(old: bytes, new: bytes, *, ignore_space: bool = False) -> list[Hunk]:
    r"""Return where the lines of two contents differ, in order, as `git blame` sees it.

    Bytes are compared as they are, also where they look binary; only `\n` ends a line. A last
    line without one is another line than one with it.
    """
    if not ignore_space:
        both_end = old.endswith(b"\n") and new.endswith(b"\n")
        only = only_hunk(old, new) if both_end else None
        if only is not None:
            return only
    flag = _AS_BLAME | (DiffOption.IGNORE_WHITESPACE if ignore_space else 0)
    patch = pygit2.Patch.create_from(
        old, new, flag=flag, context_lines=0, interhunk_lines=0
    )
    return [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in patch.hunks]


class RefLockedError(StoreError):
    """A ref cannot be written: another process holds its lock file, or left it behind."""


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


class Repo:
    """Read and write one repository's object store and our refs in it.

    `format` is that of its object ids, `packs_added` the number of packs that were added here,
    not by a packer.
    """

    def __init__(self, repository: pygit2.Repository, layout: Layout) -> None:
        # libgit2 opens no repository of another format.
        self.format: ObjectFormat = SHA1
        self._repository = repository
        self._common_dir = layout.common_dir
        self._objects = layout.objects_dir
        self._packing = layout.packing_dir
        self._known_packs: list[pygit2.OdbBackendPack] | None = None
        self._gathered: dict[Oid, tuple[str, bytes]] | None = None
        self._gathered_bytes = 0
        self.packs_added = 0
        # What a person has asked libgit2 to sync to the disk, it writes.
        self._syncs = (self.config_get("core.fsyncObjectFiles") or "") in _TRUE
        self.loose = LooseObjects(self._objects, self.format)
        self._loose_refs = LooseRefs(layout.common_dir)
        self.trees = Trees(self, self.format)

    @classmethod
    def open(cls, layout: Layout) -> "Repo":
        """Open the repository of a worktree.

        Raises:
            UnsupportedError: libgit2 cannot read it (SHA-256, reftable, another owner), or it
                is bare.
        """
        pygit2.option(Option.SET_EXTENSIONS, ["partialclone"], 1)
        try:
            repository = pygit2.Repository(layout.root, RepositoryOpenFlag.NO_SEARCH)
        except (pygit2.GitError, OSError, ValueError, KeyError) as error:
            detail = str(error).removeprefix(f"{layout.root}: ")
            raise UnsupportedError(
                f"could not open repository {layout.root}: {detail}",
                hint=_open_hint(detail, layout.root),
            ) from error
        if repository.is_bare:
            raise UnsupportedError(
                f"could not record {layout.root}: the repository is bare",
                hint="run this in a worktree",
            )
        return cls(repository, layout)

    def close(self) -> None:
        """Close open packs and files."""
        self._repository.free()

    def refresh(self) -> None:
        """Forget all that is cached of the object store, which Git may have pruned."""
        # libgit2 would still find what is in its cache, or in a pack that it has open.
        self.let_go()
        self.trees.forget()

    def let_go(self) -> None:
        """Close open packs: a removed file takes space on the disk until it is closed."""
        self._known_packs = None
        self._repository.free()

    def has(self, oid: Oid) -> bool:
        """Return whether an object is in the store and can be read."""
        if self._gathered and oid in self._gathered:
            return True
        if self.loose.is_broken(oid):
            return self.is_packed(oid)
        return bool(self._repository.odb.exists(oid))

    def is_loose(self, oid: Oid) -> bool:
        """Return whether an object is a file of its own."""
        return self.loose.has(oid)

    def is_packed(self, oid: Oid) -> bool:
        """Return whether a pack of this repository has an object, loose or not."""
        return bool(self._packs().exists(oid))

    def _packs(self) -> pygit2.OdbBackendPack:
        """Return a backend that reads packs only."""
        return pygit2.OdbBackendPack(self._objects)

    def _for_names(self) -> pygit2.Repository:
        """Return the repository for functions in which libgit2 itself reads objects."""
        # libgit2 1.9 never returns from a loose object whose file is cut short, so its reader of
        # loose objects is replaced by ours.
        repository = pygit2.Repository(
            self._repository.path, RepositoryOpenFlag.NO_SEARCH
        )
        odb = pygit2.Odb()
        odb.add_backend(_LooseBackend(self.loose), 2)
        odb.add_backend(self._packs(), 1)
        for other in _alternates(self._objects):
            odb.add_disk_alternate(other)
        repository.set_odb(odb)
        return repository

    def read_blob(self, oid: Oid) -> bytes:
        """Return a blob's bytes; raise StoreError if it is missing."""
        return self._read(oid, ObjectType.BLOB)

    def packed_first(self) -> Callable[[Oid], bytes]:
        """Return `read_blob` for thousands of blobs of one history, most of them in packs.

        What is in a pack is not hashed again, as Git does not either (the pack's own checksums
        remain): that is nine tenths of the time to read a small blob.
        """
        packs = self._packs()

        def read(oid: Oid) -> bytes:
            try:
                kind, data = packs.read(oid)
            except (KeyError, ValueError, pygit2.GitError, OSError):
                return self.read_blob(oid)
            return bytes(data) if kind == ObjectType.BLOB else self.read_blob(oid)

        return read

    def read_tree(self, oid: Oid) -> bytes:
        """Return a tree's raw bytes; raise StoreError where it is missing."""
        return self._read(oid, ObjectType.TREE)

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Write the blobs and trees of a block together, at the latest before the next ref moves.

        Many become one pack: it takes two files instead of one for each, and Git does not count
        them as loose. What is left when the block ends no ref needs; it may not be stored.
        """
        # Commits stay loose, because `maintenance.object_check` relies on it that everything below
        # a packed commit has been synced to the disk.
        if self._gathered is not None:
            yield
            return
        self._gathered, self._gathered_bytes = {}, 0
        try:
            yield
            with contextlib.suppress(StoreError):
                self._write_gathered()
        finally:
            self._gathered = None

    def _write_gathered(self) -> None:
        """Store what was gathered; after an error it stays, and is tried again with the next."""
        gathered = self._gathered
        if not gathered:
            return
        try:
            if len(gathered) < _PACKED_FROM and not self._syncs:
                for oid, (kind, data) in gathered.items():
                    self.loose.write(kind, data, oid)
            else:
                Packs(self._objects, self._packing).add(pack_of(gathered, self.format))
                self.packs_added += 1
        except OSError as error:
            raise _unwritten(error) from error
        self._gathered, self._gathered_bytes = {}, 0

    def write_blob(self, data: bytes) -> Oid:
        """Store a blob; return its oid."""
        return self._write(ObjectType.BLOB, data)

    def write_tree(self, data: bytes) -> Oid:
        """Store raw tree bytes; return the oid."""
        return self._write(ObjectType.TREE, data)

    def write_commit(self, new: NewCommit) -> Oid:
        """Store a commit with our committer identity; no ref is touched."""
        return self._write(ObjectType.COMMIT, objects.format_commit(new))

    def recommit(
        self,
        oid: Oid,
        tree: Oid,
        parents: Sequence[Oid],
        message: bytes | None = None,
    ) -> Oid:
        """Store a commit that differs from another only in tree, parents and perhaps message."""
        old = self._read(oid, ObjectType.COMMIT)
        data = objects.on_tree(old, tree, parents, message)
        return self._write(ObjectType.COMMIT, data)

    def commit(self, oid: Oid) -> CommitInfo:
        """Read a commit; raise StoreError where it is missing or broken."""
        return objects.parse_commit(oid, self._read(oid, ObjectType.COMMIT))

    def oldest_unshared(self, tip: Oid) -> int:
        """Return the oldest committer time among a commit and the parents of its unpushed line.

        Unpushed is what no remote-tracking ref reaches. If nothing was pushed, or the line is very
        long, it is the time of the commit itself.
        """
        own = self.commit(tip)
        try:
            walker = self._for_names().walk(tip)
            pushed = self.refs("refs/remotes/")
            for name in pushed:
                walker.hide(self._repository.lookup_reference(name).resolve().target)
            line = list(islice(walker, _MAX_LINE)) if pushed else []
        except (KeyError, ValueError, pygit2.GitError):
            return own.committer_time
        unpushed = {commit.id for commit in line}
        times = [own.committer_time]
        for commit in line if len(line) < _MAX_LINE else ():
            times += [c.commit_time for c in commit.parents if c.id not in unpushed]
        return min(times)

    def chain(self, tip: Oid, since: Oid | None = None) -> list[CommitInfo]:
        """Return the shadow commits of a chain by first parent, oldest first.

        Stops before `since`, and before the first commit that is not ours.
        """
        found: list[CommitInfo] = []
        at: Oid | None = tip
        while at is not None and at != since:
            info = self.commit(at)
            if FORMAT_MARK not in info.message:
                break
            found.append(info)
            at = info.parents[0] if info.parents else None
        found.reverse()
        return found

    def diff(self, old: Oid | None, new: Oid | None) -> list[TreeChange]:
        """Return the paths that differ between two trees, by path bytes."""
        return self.trees.diff(old, new)

    def entry(self, tree: Oid, path: RepoPath) -> Entry | None:
        """Return what a tree holds at a path, or None."""
        return self.trees.entry(tree, path)

    def unified_diff(self, before: bytes, after: bytes) -> str | None:
        """Return the hunks between two contents; None where either is binary.

        Bytes that are not UTF-8 are shown escaped.
        """
        patch = pygit2.Patch.create_from(before, after)
        if patch.delta.is_binary:
            return None
        data = patch.data
        start = data.find(b"@@")
        return "" if start < 0 else data[start:].decode("utf-8", "backslashreplace")

    def flat(self, tree: Oid) -> dict[RepoPath, Entry]:
        """Return every path of a tree that is not a directory."""
        return self.trees.flat(tree)

    def raw(self, oid: Oid) -> bytes:
        """Return the bytes of an object of any kind; raise StoreError where it is missing."""
        return self._read_any(oid)[1]

    def _read(self, oid: Oid, kind: ObjectType) -> bytes:
        found, data = self._read_any(oid)
        if found != kind.name.lower():
            raise StoreError(f"could not read object {oid}: not a {kind.name.lower()}")
        return data

    def _read_any(self, oid: Oid) -> tuple[str, bytes]:
        """Return kind and content of an object; libgit2 reads packs, never a loose file."""
        if self._gathered and oid in self._gathered:
            return self._gathered[oid]
        broken: BrokenObjectError | None = None
        try:
            # Loose first: the newest objects are loose, and libgit2 must not open such a file (see
            # `objects`).
            found = self.loose.read(oid)
            if found is not None:
                return found
        except BrokenObjectError as error:
            broken = error
        try:
            store = self._repository.odb if broken is None else self._packs()
            kind, data = store.read(oid)
        except (KeyError, ValueError, pygit2.GitError, OSError) as error:
            if broken is not None:
                raise broken from None
            raise StoreError(f"could not read object {oid}: {error}") from error
        return ObjectType(kind).name.lower(), bytes(data)

    def _write(self, kind: ObjectType, data: bytes) -> Oid:
        """Store an object; if its file is broken, it is written again."""
        name = kind.name.lower()
        oid = self.format.oid(name, data)
        gathered = None if kind == ObjectType.COMMIT else self._gathered
        if gathered is not None and oid in gathered:
            return oid
        try:
            if self._may_have(oid) or (self._syncs and gathered is None):
                # libgit2 does not write an object that exists, so a broken one would stay. One that
                # is whole gets a new mtime, which keeps Git from pruning it.
                self.loose.remove(oid)
                return Oid(str(self._repository.odb.write(kind, data)))
            if gathered is None:
                self.loose.write(name, data, oid)
        except (pygit2.GitError, OSError, ValueError) as error:
            raise _unwritten(error) from error
        if gathered is not None:
            gathered[oid] = name, data
            self._gathered_bytes += len(data)
            if self._gathered_bytes > _MOST_GATHERED_BYTES:
                self._write_gathered()
        return oid

    def _may_have(self, oid: Oid) -> bool:
        """Return whether an object is in the store; a new pack may have it all the same."""
        if self.loose.has(oid):
            return True
        # The packs are listed once, until `refresh` or `let_go`: an object that is stored twice
        # only takes space until its loose copy is pruned. Whether a pack is still there is looked
        # up, because Git may have removed it.
        if self._known_packs is None:
            self._known_packs = self._all_packs()
        packs = self._known_packs
        if not any(pack.exists(oid) for pack in packs):
            return False
        return any(pack.exists(oid) for pack in self._all_packs())

    def _all_packs(self) -> list[pygit2.OdbBackendPack]:
        places = (self._objects, *_alternates(self._objects))
        return [pygit2.OdbBackendPack(place) for place in places]

    def head(self) -> tuple[str | None, Oid | None]:
        """Return the branch that HEAD names (None: detached) and its commit (None: unborn).

        Raises:
            StoreError: HEAD or its branch cannot be read; that is never "unborn".
        """
        try:
            reference = self._repository.lookup_reference("HEAD")
            name = reference.target if isinstance(reference.target, str) else None
            try:
                return name, Oid(str(reference.resolve().target))
            except KeyError:
                return name, None
        except (KeyError, pygit2.GitError, ValueError) as error:
            raise _unread("read HEAD", error) from error

    def heads(self, limit: int) -> list[tuple[Oid, str]]:
        """Return the commits that HEAD is and was at, newest first, and what led there.

        As far as the reflog of this worktree shows, of which `limit` entries are read; the
        words are Git's (`commit (amend): …`), empty where it has none. The commits may be gone.
        """
        found: list[tuple[Oid, str]] = []
        try:
            reference = self._repository.lookup_reference("HEAD")
            found.append((Oid(str(reference.resolve().target)), ""))
            for entry in islice(reference.log(), limit):
                # libgit2 has None for an entry without a message, which `git worktree add` writes.
                found.append((Oid(str(entry.oid_new)), entry.message or ""))
                found.append((Oid(str(entry.oid_old)), ""))
        except (KeyError, ValueError, pygit2.GitError):
            pass  # unborn, or without a reflog
        return [(oid, words) for oid, words in found if oid.strip("0")]

    def resolve(self, name: str) -> Oid | None:
        """Return the commit that a revision names (gitrevisions(7)), None for none."""
        try:
            commit = self._for_names().revparse_single(name).peel(pygit2.Commit)
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return Oid(str(commit.id))

    def ref(self, name: str) -> Oid | None:
        """Return the commit that a ref points at, or None where there is no such ref.

        Raises:
            StoreError: the ref exists but cannot be read; that is never "absent".
        """
        try:
            reference = self._repository.references.get(name)
        except (pygit2.GitError, ValueError) as error:
            raise _unread(f"read ref {name}", error) from error
        return None if reference is None else Oid(str(reference.target))

    def refs(self, prefix: str = REF_PREFIX) -> dict[str, Oid]:
        """Return all refs below a prefix, by name."""
        try:
            found = self._repository.references.iterator()
            return {
                reference.name: Oid(str(reference.target))
                for reference in found
                if reference.name.startswith(prefix)
            }
        except (pygit2.GitError, ValueError) as error:
            raise _unread("list refs", error) from error

    def tips_of_user(self) -> frozenset[Oid]:
        """Return the commits that HEAD, branches and remote-tracking branches are at.

        Those that we show as remote branches are not the user's.
        """
        _, head = self.head()
        found = {
            oid
            for prefix in ("refs/heads/", "refs/remotes/")
            for name, oid in self.refs(prefix).items()
            if is_oid(oid) and not name.startswith(_EXPOSED)
        }
        return frozenset(found | ({head} if head is not None else set()))

    def create_ref(self, name: str, oid: Oid) -> None:
        """Create a ref; raise StaleTipError if it exists already."""
        self._write_gathered()
        try:
            self._repository.references.create(name, oid, force=False)
        except (pygit2.AlreadyExistsError, ValueError) as error:
            raise StaleTipError(f"could not create ref {name}: {error}") from error
        except (pygit2.GitError, OSError) as error:
            raise _ref_error(name, error) from error
        self._drop_reflog(name)

    def move_ref(self, name: str, old: Oid, new: Oid) -> None:
        """Move a ref from one commit to another; raise StaleTipError if it had moved."""
        self._write_gathered()
        try:
            reference = self._repository.references.get(name)
            # Compare-and-swap in two steps: this look finds what moved before, and `set_target`
            # compares under the ref's lock with the value that this look read.
            if reference is None or str(reference.target) != old:
                raise StaleTipError(f"could not move ref {name}: it is not at {old}")
            reference.set_target(new)
        except (pygit2.GitError, OSError, ValueError) as error:
            raise _ref_error(name, error) from error
        self._drop_reflog(name)

    def force_ref(self, name: str, oid: Oid) -> None:
        """Set a ref whose present value cannot be read."""
        self._write_gathered()
        try:
            self._loose_refs.discard_unreadable(name)
            self._repository.references.create(name, oid, force=True)
        except (pygit2.GitError, OSError, ValueError) as error:
            raise _ref_error(name, error) from error
        self._drop_reflog(name)

    def delete_ref(self, name: str) -> None:
        """Delete a ref, loose and packed; one that is absent or cannot be read is fine."""
        try:
            self._loose_refs.discard_unreadable(name)
            with contextlib.suppress(KeyError):
                self._repository.references.delete(name)
        except (pygit2.GitError, OSError) as error:
            raise _ref_error(name, error) from error
        self._drop_reflog(name)

    def broken_refs(self) -> list[str]:
        """Return our refs whose files cannot be read, sorted."""
        return self._loose_refs.broken()

    def _drop_reflog(self, name: str) -> None:
        """Delete the reflog that libgit2 writes with `core.logAllRefUpdates=always`."""
        # Git's gc keeps what a reflog names for 90 days (git-gc(1)): purged contents would stay.
        log = os.path.join(self._common_dir, "logs", name)
        with contextlib.suppress(OSError):
            os.unlink(log)
            os.removedirs(os.path.dirname(log))

    def path_is_ignored(self, path: str) -> bool:
        """Return whether Git's ignore rules exclude exactly this path."""
        return bool(self._repository.path_is_ignored(path))

    def config_values(self, section: str) -> dict[str, list[str]]:
        """Return the config values of a section, by lower-case key without the section."""
        prefix = section.lower() + "."
        values: dict[str, list[str]] = {}
        try:
            for entry in self._repository.config:
                if entry.name.lower().startswith(prefix):
                    key = entry.name[len(prefix) :].lower()
                    values.setdefault(key, []).append(
                        "true" if entry.value is None else entry.value
                    )
        except (pygit2.GitError, ValueError, OSError) as error:
            raise StoreError(f"could not read git config: {error}") from error
        return values

    def config_get(self, name: str) -> str | None:
        """Return the last value of one config key, or None."""
        try:
            return str(self._repository.config[name])
        except (KeyError, ValueError, pygit2.GitError, OSError):
            return None

    def identity(self) -> tuple[bytes, bytes]:
        """Return the user's own name and e-mail address; ours for `human` where unset."""
        name = self.config_get("user.name") or "human"
        email = self.config_get("user.email") or "human@agent-undo.invalid"
        return name.encode("utf-8", "replace"), email.encode("utf-8", "replace")

    def push_settings(self) -> dict[str, tuple[bool, list[str]]]:
        """Return for each configured remote whether it mirrors, and its push refspecs."""
        config = self._repository.config
        found: dict[str, tuple[bool, list[str]]] = {}
        try:
            for entry in config:
                remote, _, name = entry.name.removeprefix("remote.").rpartition(".")
                if not (entry.name.startswith("remote.") and remote):
                    continue
                mirror, specs = found.setdefault(remote, (False, []))
                if name == "mirror":
                    mirror = (entry.value or "true").lower() in _TRUE
                elif name == "push" and entry.value:
                    specs.append(entry.value)
                found[remote] = (mirror, specs)
        except (pygit2.GitError, ValueError, OSError) as error:
            raise StoreError(f"could not read git config: {error}") from error
        return found


def _alternates(objects: str) -> list[str]:
    """Return the object directories that a repository borrows from (gitrepository-layout(5))."""
    try:
        with open(os.path.join(objects, "info", "alternates"), "rb") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return []
    named = (os.fsdecode(line) for line in lines if line and not line.startswith(b"#"))
    return [os.path.join(objects, name) for name in named]


def _unwritten(error: Exception) -> StoreError:
    detail = str(error).rpartition(": ")[2]
    if isinstance(error, OSError) and error.strerror:
        detail = error.strerror
    return StoreError(
        f"could not write to the object store: {detail}",
        hint="check free space and permissions of the git directory",
    )


def _ref_error(name: str, error: Exception) -> StoreError:
    text = str(error)
    if isinstance(error, StoreError):
        return error
    if any(os.strerror(number) in text for number in _REFUSED):
        return StoreError(
            f"could not write ref {name}: {text}",
            hint="check free space and permissions of the git directory",
        )
    # libgit2 has one error class for all of these, so its message must distinguish them.
    if "lock" in text:
        return RefLockedError(
            f"could not write ref {name}: {text}",
            hint=f"if no git process runs, remove the file {name}.lock in the git directory",
        )
    if "old reference value" in text or "first parent" in text or "modified" in text:
        return StaleTipError(f"could not move ref {name}: {text}")
    return _unread(f"write ref {name}", error)


def _unread(what: str, error: Exception) -> StoreError:
    """Return the error for refs that cannot be read."""
    # One broken line of packed-refs hides all refs, from Git too. The file has the user's branches,
    # so only the user changes it.
    text = str(error)
    hint = (
        "keep a copy of packed-refs in the git directory, then remove its broken lines"
    )
    return StoreError(
        f"could not {what}: {text}", hint=hint if _PACKED_REFS in text else None
    )


def _open_hint(text: str, root: str) -> str:
    if "owned" in text or "owner" in text or "safe.directory" in text:
        return f"if you trust it: git config --global --add safe.directory {root}"
    if "object format" in text or "sha256" in text.lower():
        return "SHA-256 repositories are not supported yet by libgit2"
    if "extension" in text or "refstorage" in text:
        return "this repository format is not supported by libgit2"
    return "check that git itself can read it: git status"
