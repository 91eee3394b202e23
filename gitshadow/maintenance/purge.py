"""Purge: rewrite history and journal without the content of paths, some texts, or all prompts.

Our own files come first (journal, its copies, spool, pages, logs), then objects, rows and refs. A
note exists from before the first change of the history until after the last one, and whoever opens
the repository next continues from it.
Invariant: nothing of the user is changed and nothing outside our state directory is written: where
their commits or index have the content, it is reported and kept. History counts as ours only if one
of our trees has it.
"""

import os
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from gitshadow.adapters.base import BadPayload, HookEvent
from gitshadow.attribution.delivery import parse_spool
from gitshadow.errors import (
    JournalError,
    LockedError,
    RefusedError,
    StoreError,
    UsageError,
)
from gitshadow.messages.storage import Remaining, RemainingCommit
from gitshadow.model import Oid, RepoPath
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.spool import clear_prompts, discard, rewrite
from gitshadow.recording.workspace import Workspace
from gitshadow.store import git_index, refs
from gitshadow.store.git import AS_STORED, OF_THE_USER, Git
from gitshadow.store.journal import purge as journal
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.purge import TextCounts
from gitshadow.store.layout import Layout, recorded
from gitshadow.store.lock import acquire_all
from gitshadow.store.packs import Packer
from gitshadow.store.paths import any_within
from gitshadow.store.purge import (
    Gone,
    Holding,
    Rewriter,
    forms_of,
    holds,
    ordered,
    search,
    without,
)
from gitshadow.store.refs import display_path
from gitshadow.store.repo import Repo

_MOST_COMMITS = 20
_SIDES = ("-wal", "-shm")
_JOURNAL = "journal.db"
_MOST_BYTES = 64 * 1024 * 1024
_LOCK_S = 20.0
_SALT_BYTES = 16
_LEAST_TEXT, _MOST_TEXT = 16, 64 * 1024
_MOST_TEXTS = 100


NOTHING_LEFT = Remaining(0, (), (), (), (), ())


def remains(ws: Workspace) -> Remaining:
    """Search every object for what was purged; what is found nowhere is not asked for again."""
    there = ws.git.sizes(journal.awaited(ws.db))
    with ws.db.write():
        journal.await_gone(ws.db, sorted(there))
    if not there:
        return NOTHING_LEFT
    own = own_refs(ws)
    held = sorted({path for _, path in _held(ws, own, there)})
    return Remaining(
        len(there),
        tuple(_copies(ws, there)),
        tuple(map(display_path, git_index.staged_as(ws.git, there))),
        tuple(map(display_path, held)),
        tuple(fetched_with(ws, there)),
        tuple(sorted(forsaken(ws, there))),
    )


def own_refs(ws: Workspace, *, apart: bool = True) -> dict[str, Oid]:
    """Return the refs of ours and what is shown of them, without what was fetched.

    Args:
        ws: The worktree.
        apart: Whether review marks and artifacts are among them.
    """
    found = {
        ref: tip
        for ref, tip in ws.repo.refs().items()
        if not refs.is_fetched(ref) and (apart or not refs.is_apart(ref))
    }
    return found | ws.repo.refs(refs.EXPOSED_PREFIX)


def fetched_with(ws: Workspace, there: Collection[Oid]) -> list[str]:
    """Return the refs of other machines whose chains hold anything of it, sorted."""
    found = {ref: tip for ref, tip in ws.repo.refs().items() if refs.is_fetched(ref)}
    if not found or not _held(ws, found, there):
        return []
    return sorted(ref for ref, tip in found.items() if _held(ws, {ref: tip}, there))


def forsaken(ws: Workspace, there: Collection[Oid]) -> frozenset[Oid]:
    """Return the commits that held it, that the user has left, and that our chains build on."""
    parents = {
        parent
        for tip in own_refs(ws).values()
        for info in ws.repo.chain(tip)[:1]
        for parent in info.parents
    }
    left = ws.git.forsaken(parents)
    return frozenset(
        one for one in left if ws.git.holding(there, one, "--not", *OF_THE_USER)
    )


def _copies(ws: Workspace, there: Collection[Oid]) -> list[RemainingCommit]:
    found: set[tuple[Oid, RepoPath | None]] = set()
    for oid, path in ws.git.holding(there, *OF_THE_USER):
        # No path: the commit itself has it, in its message.
        if not path:
            found.add((oid, None))
            continue
        found |= {(one, path) for one in _commits_with(ws, oid)}
    reaching = {commit: _reaching(ws, commit) for commit, _ in found}
    ordered = sorted(found, key=lambda one: (one[0], one[1] or b""))
    return [
        RemainingCommit(
            commit, None if path is None else display_path(path), reaching[commit]
        )
        for commit, path in ordered
    ]


def _commits_with(ws: Workspace, blob: Oid) -> Sequence[Oid]:
    """Return the user's commits that brought or took a content, newest first, at most so many.

    Where Git cannot compare their trees, the newest commits that hold it.
    """
    try:
        return [*islice(_changing(ws, blob), _MOST_COMMITS)]
    except StoreError:  # a clone without trees has only those that were looked at
        tips = sorted(ws.repo.tips_of_user())
        return [tip for tip in tips if ws.git.holding({blob}, "--no-walk", tip)]


def _changing(ws: Workspace, blob: Oid) -> Iterator[Oid]:
    # With `--find-object`, Git would fetch every content that differs from the remote of a partial
    # clone, or end.
    how = (AS_STORED, "log", "--format=%H", "--raw", "--no-renames", "--no-abbrev")
    commit, rest, wanted, last = b"", b"", blob.encode("ascii"), b""
    for part in ws.git.lines(*how, *OF_THE_USER):
        *rows, rest = (rest + part).split(b"\n")
        for row in rows:
            if not row.startswith(b":"):
                commit = row or commit
            elif wanted in row.split(b" ", 4)[2:4] and commit != last:
                last = commit
                yield Oid(commit.decode("ascii"))


def _reaching(ws: Workspace, commit: Oid) -> tuple[str, ...]:
    found = ws.git.refs_with(commit)
    ours = (refs.REF_PREFIX, refs.EXPOSED_PREFIX)
    return tuple(ref for ref in found if not ref.startswith(ours))


def _held(
    ws: Workspace, found: Mapping[str, Oid], there: Collection[Oid]
) -> list[tuple[Oid, RepoPath]]:
    """Return what the chains at some refs hold themselves, without what they are built on."""
    infos = [info for tip in found.values() for info in ws.repo.chain(tip)]
    said = [(info.oid, RepoPath(b"")) for info in infos if info.oid in there]
    return said + ws.git.holding_below(there, {info.tree for info in infos})


class Scrubbing(NamedTuple):
    """What holds the texts: columns of the journal, and files below our directory."""

    found: TextCounts = TextCounts()
    files: tuple[str, ...] = ()


def look(layout: Layout, db: Db, forms: Sequence[bytes]) -> Scrubbing:
    """Find what holds any form of some texts; nothing is changed."""
    if not forms:
        return Scrubbing()
    files = (os.path.relpath(path, layout.state_dir) for path in _files(layout, forms))
    return Scrubbing(journal.find_texts(db, forms), tuple(sorted(files)))


def clear_files(layout: Layout, forms: Sequence[bytes]) -> None:
    """Remove a text from all of our files except the journal.

    Copies of the journal, pages, and payloads that have it outside a prompt go as a whole; of
    others the text alone.
    """
    for path in _files(layout, forms):
        top = os.path.relpath(path, layout.state_dir).split(os.sep)[0]
        if top == "spool":
            rewrite(layout, path, partial(_without_texts, forms))
            if os.path.isfile(path) and _is_held(path, forms):
                discard(path)
        elif top == "pages" or top.startswith(_JOURNAL + "."):
            for side in ("", *_SIDES):
                with suppress(FileNotFoundError):
                    os.unlink(path + side)
        else:
            with open(path, "r+b") as handle:
                data = handle.read(_MOST_BYTES)
                handle.seek(0)
                handle.write(without(data, forms))
                handle.truncate()
                os.fsync(handle.fileno())


def _without_texts(
    forms: Sequence[bytes], event: HookEvent | BadPayload
) -> HookEvent | BadPayload:
    if isinstance(event, BadPayload) or event.prompt is None:
        return event
    prompt = without(event.prompt.encode("utf-8", "surrogatepass"), forms)
    return replace(event, prompt=prompt.decode("utf-8", "surrogatepass"))


def still_there(layout: Layout, forms: Sequence[bytes]) -> list[str]:
    """Return the files of the journal whose bytes hold a text, used pages or free ones."""
    names = (layout.journal + side for side in ("", *_SIDES))
    return [os.path.basename(path) for path in names if journal.in_bytes(path, forms)]


def _files(layout: Layout, forms: Sequence[bytes]) -> Iterator[str]:
    own = {layout.journal + side for side in ("", *_SIDES)}
    for directory, inner, names in os.walk(layout.state_dir):
        if directory == layout.state_dir and "fetched" in inner:
            # Journals of other machines are rebuilt from their refs, and those are reported.
            inner.remove("fetched")
        for name in names:
            path = os.path.join(directory, name)
            if path not in own and os.path.isfile(path) and _is_held(path, forms):
                yield path


def _is_held(path: str, forms: Sequence[bytes]) -> bool:
    name = os.path.basename(path)
    if name.startswith(_JOURNAL + ".") and not name.endswith(_SIDES):
        return journal.in_copy(path, forms)
    if os.path.basename(os.path.dirname(path)) == "spool":
        delivery = parse_spool(path)
        if delivery is not None and holds(delivery.payload, forms):
            return True
    return journal.in_bytes(path, forms)


class Survey(NamedTuple):
    """What a purge takes, before it takes it.

    `gone` has paths with every name that they had, `contents` the blobs and commits of ours that
    go, `refs` the chains to be rewritten, `forms` how the texts are spelled, `holding` every object
    with a text in it, of any author; `elsewhere` what of journal and files holds one, `on_disk` the
    recorded files that do. `prompts`: how many the journal has, if all go.
    """

    gone: Gone
    contents: frozenset[Oid] = frozenset()
    refs: tuple[str, ...] = ()
    forms: tuple[bytes, ...] = ()
    holding: Holding = Holding()
    elsewhere: Scrubbing = Scrubbing()
    on_disk: tuple[RepoPath, ...] = ()
    prompts: int | None = None


NOTHING = Survey(Gone())


def survey(ws: Workspace, paths: Sequence[RepoPath], texts: Sequence[bytes]) -> Survey:
    """Find all that a purge of paths, or of texts wherever they occur, removes; nothing changes.

    Raises:
        UsageError: a text is too short, or a path is the top of the worktree.
        StoreError: an object could not be read.
    """
    if RepoPath(b"") in paths:
        raise UsageError(
            "cannot purge the whole worktree",
            hint="to delete the whole history: git agent-undo prune --all",
        )
    names = tuple(journal.names_of(ws.db, paths)) if paths else ()
    forms = forms_of(texts)
    holding = search(ws.git, ws.repo, forms) if forms else Holding()
    own = own_refs(ws, apart=bool(forms))
    messages = _messages(ws.repo, own.values(), holding.commits, forms)
    gone = Gone(names, holding.blobs, messages)
    rewriter = Rewriter(ws.repo, gone, b"")
    found = {ref: rewriter.touches(tip) for ref, tip in own.items()}
    contents = frozenset[Oid]().union(*found.values())
    forms = ordered((*forms, *(_whole_texts(ws.repo, contents) if paths else ())))
    states = ws.states.all()
    return Survey(
        gone,
        contents,
        tuple(sorted(ref for ref, held in found.items() if held)),
        forms,
        holding,
        look(ws.layout, ws.db, forms),
        tuple(
            sorted(
                path
                for path, state in states.items()
                if state.version.oid in holding.blobs or any_within((path,), names)
            )
        ),
    )


def survey_prompts(ws: Workspace) -> Survey:
    """Find every prompt of the history and the journal; nothing changes."""
    messages: dict[Oid, bytes] = {}
    touched: list[str] = []
    for ref, tip in sorted(own_refs(ws).items()):
        texts = {
            one.oid: refs.without_prompt(one.message) for one in ws.repo.chain(tip)
        }
        found = {oid: text for oid, text in texts.items() if text is not None}
        touched += [ref] * bool(found)
        messages |= found
    files = (
        os.path.relpath(path, ws.layout.state_dir)
        for path in _copies_with_prompts(ws.layout)
    )
    fetched = (tip for ref, tip in ws.repo.refs().items() if refs.is_fetched(ref))
    theirs = frozenset(
        one.oid
        for tip in fetched
        for one in ws.repo.chain(tip)
        if refs.without_prompt(one.message) is not None
    )
    return Survey(
        Gone(messages=messages),
        frozenset(messages),
        tuple(touched),
        holding=Holding(commits=theirs),
        elsewhere=Scrubbing(files=tuple(sorted(files))),
        prompts=journal.count_prompts(ws.db),
    )


def _copies_with_prompts(layout: Layout) -> Iterator[str]:
    """Yield the copies of what the journal had: pages, and journals that were set aside."""
    for directory, _, names in os.walk(layout.state_dir):
        for name in names:
            is_copy = name.startswith(_JOURNAL + ".")
            if is_copy or directory == layout.pages_dir:
                yield os.path.join(directory, name)


def purge(context: RecorderContext, found: Survey) -> None:
    """Remove what was found from history, journal and files.

    Raises:
        LockedError: another worktree is being recorded, an agent program is at work, or somebody
            packs.
        RefusedError: a call that waits to be sent holds a text.
        StoreError, JournalError: it stopped there; `finish` goes on.
    """
    ws = context.workspace
    with ExitStack() as held:
        # The daemons of other worktrees, and agent programs, write to the same journal.
        locks = (one.lock for one in recorded(ws.layout))
        acquire_all(held, (one for one in locks if one != ws.layout.lock), _LOCK_S)
        if found.elsewhere.found.rows or found.prompts:
            acquire_all(held, ws.layout.saga_locks(), _LOCK_S)
        packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
        held.enter_context(packer.alone(_LOCK_S))
        unsent = journal.unsent(ws.db, found.forms) if found.forms else []
        if unsent:
            # It would go out with the mark.
            session, call = unsent[0]
            raise RefusedError(
                f"cannot purge: call {call} of {session} contains it and is waiting to be sent",
                hint=f"undo its turn first: git agent-undo program saga show {call}",
            )
        clear_files(ws.layout, found.forms if found.elsewhere.files else ())
        if found.prompts is not None:
            clear_prompts(ws.layout)
            for path in _copies_with_prompts(ws.layout):
                with suppress(FileNotFoundError):
                    os.unlink(path)
        salt = secrets.token_bytes(_SALT_BYTES)
        with ws.db.write():
            # From here on, the next program that opens it finishes an interrupted purge.
            journal.begin(ws.db, found.gone, salt)
            if found.prompts is not None:
                journal.clear_prompts(ws.db)
            journal.clear_texts(ws.db, found.forms, found.elsewhere.found)
            known = {*journal.awaited(ws.db), *_all_of(found)}
            journal.await_gone(ws.db, sorted(known))
        _purge(context, packer, found.gone, salt)


def finish(context: RecorderContext) -> None:
    """Do again what a crash interrupted."""
    ws = context.workspace
    noted = journal.under_way(ws.db)
    if noted is None:
        return
    packer = Packer(ws.layout, Git(ws.layout, dict(ws.environ)))
    with suppress(LockedError), packer.alone(_LOCK_S):
        _purge(context, packer, *noted)


def fetched_holding(ws: Workspace, found: Survey) -> list[str]:
    """Return the refs of other machines that `drop_fetched` would drop after this purge."""
    return fetched_with(ws, {*journal.awaited(ws.db), *_all_of(found)})


def drop_fetched(context: RecorderContext) -> list[str]:
    """Drop the refs of other machines that hold what was purged; their journals follow.

    What the other machine has is its own; the next fetch gets it again.

    Raises:
        StoreError, JournalError: it could not be done.
    """
    ws = context.workspace
    found = fetched_with(ws, journal.awaited(ws.db))
    for ref in found:
        ws.repo.delete_ref(ref)
    if found:
        context.others.close()
        ingest.follow(ws.layout, ws.repo)
    return found


def proof(ws: Workspace, found: Survey) -> list[str]:
    """Search every object and the journal's bytes again; return the journal's files that hold it.

    Objects that hold a text and were not known are awaited from now on.

    Raises:
        StoreError: an object could not be read.
    """
    if not found.forms:
        return []
    again = search(ws.git, ws.repo, found.forms) if found.holding != Holding() else None
    if again is not None:
        with ws.db.write():
            known = {*journal.awaited(ws.db), *again.blobs, *again.commits}
            journal.await_gone(ws.db, sorted(known))
    return still_there(ws.layout, found.forms)


def _messages(
    repo: Repo, tips: Collection[Oid], held: Collection[Oid], forms: Sequence[bytes]
) -> dict[Oid, bytes]:
    """Return what those commits of ours are to say whose message holds a text."""
    if not held:
        return {}
    infos = (info for tip in tips for info in repo.chain(tip) if info.oid in held)
    return {info.oid: without(info.message, forms) for info in infos}


def _whole_texts(repo: Repo, contents: Collection[Oid]) -> tuple[bytes, ...]:
    """Return contents as they may be in an argument: whole, of a length that is no chance.

    Of many versions the shortest ones: each is looked for in all that the journal has.
    """
    found = {repo.raw(oid).strip() for oid in contents}
    texts = [one for one in found if _LEAST_TEXT <= len(one) <= _MOST_TEXT]
    # Each text is searched in the whole journal, so only the shortest ones are.
    chosen = sorted((one for one in texts if b"\0" not in one), key=len)
    return forms_of(chosen[:_MOST_TEXTS])


def _all_of(found: Survey) -> set[Oid]:
    return {*found.contents, *found.holding.blobs, *found.holding.commits}


def _purge(context: RecorderContext, packer: Packer, gone: Gone, salt: bytes) -> None:
    ws = context.workspace
    rewriter, moved = _rewritten(ws, gone, salt)
    known = {*journal.awaited(ws.db), *rewriter.blobs}
    # Chains may be based on commits that the user has left and that still hold it. These are only
    # known now, so the chains are rewritten once more, without them.
    if left := forsaken(ws, known):
        rewriter, moved = _rewritten(ws, gone._replace(parents=left), salt)
    tree = ws.recorder.row.tree
    new_tree = rewriter.tree(tree) if tree is not None and ws.repo.has(tree) else tree
    # Rows before refs: an interrupted purge starts again from the old refs and writes the same
    # commits, so rows that are renamed already still fit.
    _rename(ws, rewriter)
    for ref, (old, new) in moved.items():
        ws.repo.move_ref(ref, old, new)
    _release(ws, packer, rewriter)
    shutil.rmtree(ws.layout.pages_dir, ignore_errors=True)
    ws.states.forget()
    ws.repo.refresh()
    if new_tree is not None:
        ws.recorder.set_tree(new_tree, ws.recorder.row.head, ws.recorder.row.head_ref)
    # It fails if somebody reads the journal or the disk is full; `proof` then reports the bytes
    # that are left.
    with suppress(JournalError):
        journal.squeeze(ws.db)
    with ws.db.write():
        journal.end(ws.db)


def _rewritten(
    ws: Workspace, gone: Gone, salt: bytes
) -> tuple[Rewriter, dict[str, tuple[Oid, Oid]]]:
    """Write what stands for each ref of ours, and for what is shown of it; nothing moves yet."""
    rewriter = Rewriter(ws.repo, gone, salt)
    own = own_refs(ws, apart=bool(gone.blobs or gone.messages))
    found = {ref: (tip, rewriter.tip(tip)) for ref, tip in own.items()}
    return rewriter, {ref: pair for ref, pair in found.items() if pair[0] != pair[1]}


def _rename(ws: Workspace, rewriter: Rewriter) -> None:
    def tree_of(tree: Oid) -> Oid:
        try:
            return rewriter.tree(tree)
        except StoreError:
            # The row may be that of a worktree that was deleted with its objects.
            return tree

    with ws.db.write():
        journal.rename(ws.db, rewriter.stands_for)
        journal.rename_commits(ws.db, rewriter.commits)
        journal.rename_trees(ws.db, tree_of)
        known = {*journal.awaited(ws.db), *rewriter.blobs}
        journal.await_gone(ws.db, sorted(known))


def _release(ws: Workspace, packer: Packer, rewriter: Rewriter) -> None:
    """Give Git every pack that has anything old in it, and look at all refs again."""
    gone = {*journal.awaited(ws.db), *rewriter.commits}
    for pack in packer.packs.ours():
        if packer.packs.holds_any(pack, gone):
            packer.packs.release(pack)
    packer.forget()
