"""One repository's objects and refs, whatever reads them: the only way to them from here on.

Loose objects, packs, trees and commits are made and read here; a backend (`backends.port`) does
what depends on the format of the repository. Nothing of the user's (index, HEAD, branches, config,
reflogs) is ever written.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from gitshadow.errors import StoreError, UnsupportedError
from gitshadow.model import Oid
from gitshadow.store import objects
from gitshadow.store.backends.following import Engine, FollowedBackend
from gitshadow.store.backends.port import (
    STORE_HINT,
    Backend,
    ConfigEntry,
    HeadLog,
    RefLockedError,
    ReflogEntry,
    is_true,
)
from gitshadow.store.backends.ref_files import REF_PREFIX
from gitshadow.store.layout import MAIN_WORKTREE, Layout
from gitshadow.store.object_format import ObjectFormat, is_oid
from gitshadow.store.objects import (
    BrokenObjectError,
    CommitInfo,
    LooseObjects,
    NewCommit,
    pack_of,
)
from gitshadow.store.packs import Packs
from gitshadow.store.trees import Trees

__all__ = ["FORMAT_MARK", "HeadLog", "RefLockedError", "ReflogEntry", "Repo"]

FORMAT_MARK = b"\nAgent-Undo-Format: "
_MAX_LINE = 10_000
# A pack takes two syncs to the disk, and Git merges it with others later.
_PACKED_FROM = 64
_MOST_GATHERED_BYTES = 32 << 20
# Without a HEAD there is nothing on the other side to be older than; this is September 2001, before
# Git.
_OLD_DATE = 1_000_000_000
_EXPOSED = "refs/remotes/agent-undo/"


class Repo:
    """Read and write one repository's object store and our refs in it.

    `packs_added` is the number of packs that were added here, not by a packer.
    """

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        engine: Engine | None = None,
    ) -> None:
        self._backends = FollowedBackend(layout, environ, engine)
        self._objects = layout.objects_dir
        self._packing = layout.packing_dir
        self._gathered: dict[Oid, tuple[str, bytes]] | None = None
        self._gathered_bytes = 0
        self.packs_added = 0
        # What a person has asked Git to sync to the disk, a backend writes.
        self._syncs = self.config_is("core.fsyncObjectFiles", unset=False)
        self.loose = LooseObjects(self._objects, self.format)
        self.trees = Trees(self, self.format)

    @classmethod
    def open(cls, layout: Layout, engine: Engine | None = None) -> "Repo":
        """Open the repository of a worktree, with `engine` None through what is fit for it.

        Raises:
            UnsupportedError: neither libgit2 nor git can read it (another owner, an unknown
                extension), it is bare, or its files are elsewhere.
        """
        # Git, like libgit2, finds the user's configuration through the environment.
        repo = cls(layout, os.environ, engine)
        place = repo._named_place(layout)
        if place is None or place == os.path.realpath(layout.root):
            return repo
        repo.close()
        raise UnsupportedError(
            f"cannot record {layout.root}: by core.worktree its files are in {place}",
            hint=f"echo 'gitdir: {layout.git_dir}' >{place}/.git, and run it there",
        )

    def _named_place(self, layout: Layout) -> str | None:
        """Return where core.worktree says that the files are; a linked worktree has none."""
        named = self.config_get("core.worktree")
        if named is None or layout.worktree != MAIN_WORKTREE:
            return None
        return os.path.realpath(os.path.join(layout.git_dir, named))

    @property
    def format(self) -> ObjectFormat:
        """Return the format of the repository's object ids."""
        return self._backend.form

    @property
    def _backend(self) -> Backend:
        return self._backends.opened

    def close(self) -> None:
        """Close open packs and files."""
        self._backend.close()

    def refresh(self) -> None:
        """Forget all that is cached of the object store, which Git may have pruned."""
        # A backend would still find what is in its cache, or in a pack that it has open.
        self.let_go()
        self.trees.forget()

    def let_go(self) -> None:
        """Close open packs: a removed file takes space on the disk until it is closed."""
        self._backend.let_go()

    def has(self, oid: Oid) -> bool:
        """Return whether an object is in the store and can be read."""
        if self._gathered and oid in self._gathered:
            return True
        if self.loose.is_broken(oid):
            return self.is_packed(oid)
        return self._backend.exists(oid)

    def is_packed(self, oid: Oid) -> bool:
        """Return whether a pack of this repository has an object, loose or not."""
        return self._backend.is_packed(oid)

    def read_blob(self, oid: Oid) -> bytes:
        """Return a blob's bytes; raise StoreError if it is missing."""
        return self._read(oid, "blob")

    def packed_first(self) -> Callable[[Oid], bytes]:
        """Return `read_blob` for thousands of blobs of one history, most of them in packs.

        What is in a pack is not hashed again, as Git does not either (the pack's own checksums
        remain): that is nine tenths of the time to read a small blob.
        """
        packed = self._backend.packed_blobs()

        def read(oid: Oid) -> bytes:
            data = packed(oid) if is_oid(oid) else None
            return self.read_blob(oid) if data is None else data

        return read

    def read_tree(self, oid: Oid) -> bytes:
        """Return a tree's raw bytes; raise StoreError where it is missing."""
        return self._read(oid, "tree")

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
            few = len(gathered) < _PACKED_FROM and not self._syncs
            if few or self._backend.has_second_ids:
                self._backend.write_all(gathered)
            else:
                packs = Packs(self._objects, self._packing, self._backend.modes)
                packs.add(pack_of(gathered, self.format))
                self.packs_added += 1
        except OSError as error:
            raise _unwritten(error) from error
        self._gathered, self._gathered_bytes = {}, 0

    def write_blob(self, data: bytes) -> Oid:
        """Store a blob; return its oid."""
        return self._write("blob", data)

    def write_tree(self, data: bytes) -> Oid:
        """Store raw tree bytes; return the oid."""
        return self._write("tree", data)

    def write_commit(self, new: NewCommit) -> Oid:
        """Store a commit with our committer identity; no ref is touched."""
        return self._write("commit", objects.format_commit(new))

    def recommit(
        self,
        oid: Oid,
        tree: Oid,
        parents: Sequence[Oid],
        message: bytes | None = None,
    ) -> Oid:
        """Store a commit that differs from another only in tree, parents and perhaps message."""
        old = self._read(oid, "commit")
        data = objects.on_tree(old, tree, parents, message)
        return self._write("commit", data)

    def commit(self, oid: Oid) -> CommitInfo:
        """Read a commit; raise StoreError where it is missing or broken."""
        return objects.parse_commit(oid, self._read(oid, "commit"))

    def oldest_unshared(self, tip: Oid) -> int:
        """Return the oldest committer time among a commit and the parents of its unpushed line.

        Unpushed is what no remote-tracking ref reaches. If nothing was pushed, or the line is very
        long, it is the time of the commit itself.
        """
        own = self.commit(tip).committer_time
        try:
            is_pushed = bool(self.refs("refs/remotes/"))
            line = self._backend.unpushed(tip, _MAX_LINE) if is_pushed else {}
            if len(line) >= _MAX_LINE:
                return own
            ends = {one for ends in line.values() for one in ends if one not in line}
            return min([own, *(self.commit(one).committer_time for one in ends)])
        except StoreError:
            return own

    def date_before(self, head: Oid | None) -> int:
        """Return the committer date of commits of ours that build on HEAD (docs/format.md)."""
        # A fetch walks commits from the newest date back and offers them to the other side. Commits
        # that only we have would all be offered first; with an older date they come after the
        # shared ones.
        return _OLD_DATE if head is None else max(1, self.oldest_unshared(head) - 1)

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

    def raw(self, oid: Oid) -> bytes:
        """Return the bytes of an object of any kind; raise StoreError where it is missing."""
        return self._read_any(oid)[1]

    def _read(self, oid: Oid, kind: str) -> bytes:
        found, data = self._read_any(oid)
        if found != kind:
            raise StoreError(f"could not read object {oid}: not a {kind}")
        return data

    def _read_any(self, oid: Oid) -> tuple[str, bytes]:
        """Return kind and content of an object; a backend reads packs, never a loose file."""
        if self._gathered and oid in self._gathered:
            return self._gathered[oid]
        try:
            # Loose first: the newest objects are loose, and libgit2 must not open such a file (see
            # `objects`).
            found = self.loose.read(oid)
        except BrokenObjectError as error:
            try:
                return self._backend.read_packed(oid)
            except StoreError:
                raise error from None
        return self._backend.read(oid) if found is None else found

    def _write(self, kind: str, data: bytes) -> Oid:
        """Store an object; if its file is broken, it is written again."""
        oid = self.format.oid(kind, data)
        gathered = None if kind == "commit" else self._gathered
        if gathered is not None and oid in gathered:
            return oid
        try:
            if self._may_have(oid) or (self._syncs and gathered is None):
                # An object that exists is not written again, so a broken one would stay. One that
                # is whole gets a new mtime, which keeps Git from pruning it.
                self.loose.remove(oid)
                return self._backend.write(kind, data)
            if gathered is None:
                self._backend.write_all({oid: (kind, data)})
        except OSError as error:
            raise _unwritten(error) from error
        if gathered is not None:
            gathered[oid] = kind, data
            self._gathered_bytes += len(data)
            if self._gathered_bytes > _MOST_GATHERED_BYTES:
                self._write_gathered()
        return oid

    def _may_have(self, oid: Oid) -> bool:
        """Return whether an object is in the store; a new pack may have it all the same."""
        return self.loose.has(oid) or self._backend.may_be_packed(oid)

    def head(self) -> tuple[str | None, Oid | None]:
        """Return the branch that HEAD names (None: detached) and its commit (None: unborn).

        Raises:
            StoreError: HEAD or its branch cannot be read; that is never "unborn".
        """
        return self._backends.read(
            lambda backend: backend.head(), lambda found: found[1] is None
        )

    @property
    def head_log(self) -> HeadLog:
        """Return the reflog of this worktree's HEAD."""
        return self._backends.current().head_log

    def heads(self, limit: int) -> list[tuple[Oid, str]]:
        """Return the commits that HEAD is and was at, newest first, and what led there.

        As far as the reflog of this worktree shows, of which `limit` entries are read; the
        words are Git's (`commit (amend): …`), empty where it has none. The commits may be gone.
        """
        found: list[tuple[Oid | None, str]] = []
        with contextlib.suppress(StoreError):  # unborn, or unreadable
            found.append((self.head()[1], ""))
            for entry in reversed(self.head_log.newest(limit)):
                found += [(entry.new, entry.words), (entry.old, "")]
        return [(oid, words) for oid, words in found if oid is not None]

    def resolve(self, name: str) -> Oid | None:
        """Return the commit that a revision names (gitrevisions(7)), None for none."""
        # libgit2 reads up to the byte, and no process can be given it.
        return None if "\0" in name else self._backends.current().resolve(name)

    def ref(self, name: str) -> Oid | None:
        """Return the commit that a ref points at, or None where there is no such ref.

        Raises:
            StoreError: the ref exists but cannot be read; that is never "absent".
        """
        return self._backends.read(lambda backend: backend.ref(name))

    def refs(self, prefix: str = REF_PREFIX) -> dict[str, Oid]:
        """Return all refs below a prefix, by name."""
        return self._backends.read(lambda backend: backend.refs(prefix))

    def tips_of_user(self) -> frozenset[Oid]:
        """Return the commits that HEAD, branches and remote-tracking branches are at.

        Those that we show as remote branches are not the user's.
        """
        _, head = self.head()
        found = {
            oid
            for prefix in ("refs/heads/", "refs/remotes/")
            for name, oid in self.refs(prefix).items()
            if not name.startswith(_EXPOSED)
        }
        return frozenset(found | ({head} if head is not None else set()))

    def create_ref(self, name: str, oid: Oid) -> None:
        """Create a ref; raise StaleTipError if it exists already."""
        self._write_gathered()
        self._backends.write(name, lambda one: one.create_ref(name, oid), oid)

    def move_ref(self, name: str, old: Oid, new: Oid) -> None:
        """Move a ref from one commit to another; raise StaleTipError if it had moved."""
        self._write_gathered()
        self._backends.write(name, lambda one: one.move_ref(name, old, new), new)

    def force_ref(self, name: str, oid: Oid) -> None:
        """Set a ref whose present value cannot be read."""
        self._write_gathered()
        self._backends.write(name, lambda one: one.force_ref(name, oid), oid)

    def delete_ref(self, name: str) -> None:
        """Delete a ref; one that is absent or cannot be read is fine."""
        self._backends.delete(name)

    def broken_refs(self) -> list[str]:
        """Return our refs that cannot be read, sorted."""
        return self._backends.current().broken_refs()

    def config(self) -> Sequence[ConfigEntry]:
        """Return the configuration in the order in which later entries count.

        Raises:
            StoreError: it cannot be read.
        """
        return self._backend.config()

    def config_values(self, section: str) -> dict[str, list[str]]:
        """Return the config values of a section, by lower-case key without the section."""
        prefix = section.lower() + "."
        values: dict[str, list[str]] = {}
        for name, value in self._backend.config():
            if name.lower().startswith(prefix):
                key = name[len(prefix) :].lower()
                values.setdefault(key, []).append("true" if value is None else value)
        return values

    def config_get(self, name: str) -> str | None:
        """Return the last value of one config key, or None."""
        section, _, key = name.lower().rpartition(".")
        try:
            found = self.config_values(section).get(key)
        except StoreError:
            return None
        return found[-1] if found else None

    def config_is(self, name: str, *, unset: bool) -> bool:
        """Return whether a config key is true, by Git's words; `unset` where there is none."""
        found = self.config_get(name)
        return unset if found is None else is_true(found)

    def identity(self) -> tuple[bytes, bytes]:
        """Return the user's own name and e-mail address; ours for `human` where unset."""
        name = self.config_get("user.name") or "human"
        email = self.config_get("user.email") or "human@agent-undo.invalid"
        return name.encode("utf-8", "replace"), email.encode("utf-8", "replace")

    def push_settings(self) -> dict[str, tuple[bool, list[str]]]:
        """Return for each configured remote whether it mirrors, and its push refspecs."""
        found: dict[str, tuple[bool, list[str]]] = {}
        for full, value in self._backend.config():
            remote, _, name = full.removeprefix("remote.").rpartition(".")
            if not (full.startswith("remote.") and remote):
                continue
            mirror, specs = found.setdefault(remote, (False, []))
            if name == "mirror":
                mirror = is_true(value)
            elif name == "push" and value:
                specs.append(value)
            found[remote] = (mirror, specs)
        return found


def _unwritten(error: OSError) -> StoreError:
    detail = error.strerror or str(error).rpartition(": ")[2]
    return StoreError(f"could not write to the object store: {detail}", hint=STORE_HINT)
