"""du, pack, prune, purge, reindex as text."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitshadow.messages.storage import (
    ClearedMirror,
    DuAnswer,
    PackAnswer,
    PruneAnswer,
    PurgeAnswer,
    ReindexAnswer,
    Remaining,
    RemainingCommit,
)
from gitshadow.render.style import View, printable
from gitshadow.render.text import local_time
from gitshadow.words import byte_size, counted

_DEAREST = 10
_KINDS: Mapping[str, str] = {
    "reviews": "review marks",
    "artifacts": "artifacts of agent programs",
    "other": "sessions from other machines, and refs without a session here",
}


def du_lines(answer: DuAnswer, view: View) -> Iterator[str]:
    """Yield what the history costs, the dearest sessions first."""
    total, packs = answer.total, answer.packs
    yield (
        f"{byte_size(total.bytes)} in {counted(total.objects, 'object')}"
        " of the history,"
        f" {byte_size(answer.bytes)} in the journal and other files"
    )
    yield (
        f"{counted(packs.count_, 'pack')} of its own,"
        f" {byte_size(packs.bytes)};"
        f" {counted(answer.loose, 'loose object')} and"
        f" {counted(answer.packed, 'pack')} in the whole repository"
    )
    dearest = answer.sessions
    for one in dearest[:_DEAREST]:
        yield f"  {byte_size(one.bytes):>10}  {printable(one.id)}"
    for other in answer.other:
        name = _KINDS.get(other.kind, other.kind)
        yield f"  {byte_size(other.bytes):>10}  {printable(name)}"
    if len(dearest) > _DEAREST:
        yield f"  and {counted(len(dearest) - _DEAREST, 'session')} more: --json lists them all"


def pack_lines(answer: PackAnswer, view: View) -> Iterator[str]:
    """Yield what was packed and what there is now."""
    found = answer.packed
    yield f"{counted(found, 'object')} packed" if found else "nothing new to pack"
    if answer.merged:
        yield f"{counted(answer.merged, 'pack')} merged into one"
    yield f"the history has {counted(answer.packs, 'pack')}, {byte_size(answer.bytes)}"


def prune_lines(answer: PruneAnswer, view: View) -> Iterator[str]:
    """Yield the sessions that went, or would go."""
    count = counted(len(answer.dropped), "session")
    if not answer.dropped:
        yield f"nothing to delete{_staying(answer)}"
        return
    would = answer.dry_run
    yield f"would delete {count} permanently" if would else f"deleted {count}"
    for one in answer.dropped:
        yield f"  {printable(one.id)}, started {local_time(one.started or '')}"
    if not would:
        yield "the space is freed by the next: git gc"
    yield from mirror_warning(answer.mirrors, view)


def _staying(answer: PruneAnswer) -> str:
    """Return why nothing goes: which sessions stay."""
    said = [f"{answer.open} in open agent sessions"] if answer.open else []
    said += [f"{answer.kept} with a pin, or your own from today"] if answer.kept else []
    said += [f"{answer.needed} that these sessions need"] if answer.needed else []
    return f"; sessions kept: {', '.join(said)}" if said else ""


def mirror_warning(mirrors: Iterable[ClearedMirror], view: View) -> Iterator[str]:
    """Yield what mirrors dropped, and why they still have something."""
    warning = view.paint("warning:", "warn")
    for one in mirrors:
        place = printable(one.place)
        for ref in one.dropped:
            yield f"deleted from the mirror, which had the only copy: {printable(ref)}"
        for ref in one.held:
            yield f"{warning} the mirror {place} still holds it: {printable(ref)}"
        if one.trouble:
            yield f"{warning} the mirror {place} still holds it: {printable(one.trouble)}"


def reindex_lines(answer: ReindexAnswer, view: View) -> Iterator[str]:
    """Yield what was rebuilt from the refs, and where the old journal is."""
    yield (
        f"journal rebuilt: {counted(answer.events, 'event')} of "
        f"{counted(answer.sessions, 'session')} from the refs, "
        f"{counted(answer.salvaged, 'other row')} from the old journal"
    )
    for table in answer.damaged:
        yield f"{view.paint('warning:', 'warn')} could not read all of {printable(table)}"
    for ref in answer.unreadable:
        yield f"{view.paint('warning:', 'warn')} could not read {printable(ref)}"
    if answer.set_aside:
        yield f"the old journal was kept: {printable(answer.set_aside)}"


_COLUMNS = {
    "turns.prompt": "prompts",
    "saga_calls.intent": "arguments of tool calls",
    "saga_calls.content": "results of tool calls",
    "saga_calls.inverse": "inverses of tool calls",
    "saga_log.body": "lines of the saga log",
    "saga_events.text": "messages of agent programs",
    "saga_events.body": "whole messages of agent programs",
    "saga_state.value": "values of agent programs",
    "saga_ops.report": "reports of effects",
    "ops.report": "reports of undos",
}


def purge_lines(answer: PurgeAnswer, view: View) -> Iterator[str]:
    """Yield what was purged, and where a copy still is."""
    dry, left = answer.dry_run, answer.remains
    asked = bool(answer.names or answer.texts)
    if answer.prompts is not None:
        yield _of_prompts(answer, answer.prompts)
    if asked:
        yield _first(answer, dry=dry)
        yield from _beside(answer, dry=dry)
    for ref in answer.fetched_dropped:
        done = "would be deleted" if dry else "deleted"
        yield f"{done} here, but the other machine still has it: {printable(ref)}"
    if asked:
        yield from _warnings(answer, view)
    if dry:
        return
    objects = left.objects
    if not objects:
        yield "no object in the repository contains purged content"
        return
    yield f"{counted(objects, 'purged content')} still in objects{_why(left)}"
    yield from _copies(answer, left)
    for path in answer.on_disk:
        yield f"still on disk: {printable(path)}; your next change to it will be recorded"


def _of_prompts(answer: PurgeAnswer, stored: int) -> str:
    if not stored and not answer.contents:
        return "nothing to purge: no prompt is stored"
    done = "would be erased" if answer.dry_run else "erased"
    said = f"{counted(stored, 'prompt')} {done} from the journal"
    if answer.contents:
        said += f", and those in {counted(answer.contents, 'commit')} of the history"
    return said


def _why(left: Remaining) -> str:
    """Return why objects are still there: Git's gc deletes only what nothing refers to."""
    if left.commits or left.staged:
        return ": Git keeps your commits"
    if left.history or left.fetched or left.standing:
        return ", and stays there as long as this contains it:"
    return ", until: git gc --prune=now"


def _first(answer: PurgeAnswer, *, dry: bool) -> str:
    count, moved = answer.contents, len(answer.rewritten)
    shown = ", ".join(map(printable, answer.names)) or "all that contain the text"
    if not count:
        shown = ", ".join(map(printable, answer.names)) or "that text"
        return f"nothing to purge: the history has no content of {shown}"
    done = "would be purged" if dry else "purged"
    return f"{counted(count, 'content')} {done} from {counted(moved, 'ref')}: {shown}"


def _beside(answer: PurgeAnswer, *, dry: bool) -> Iterator[str]:
    held = answer.rows
    said = [f"{_COLUMNS.get(key, key)} ({held[key]})" for key in held]
    if said:
        done = "would be marked" if dry else "marked"
        yield f"in the journal [purged] {done} in: {', '.join(map(printable, said))}"
    files = [printable(name) for name in answer.files]
    if files:
        done = "would be cleared or removed" if dry else "cleared or removed"
        yield f"below .git/agent-undo {done}: {', '.join(files)}"
    if count := answer.effects:
        done = "could" if dry else "can"
        whose = "its" if count == 1 else "their"
        yield f"{counted(count, 'effect')} {done} no longer be undone: {whose} inverse contained it"


def _warnings(answer: PurgeAnswer, view: View) -> Iterator[str]:
    warning = view.paint("warning:", "warn")
    yield from mirror_warning(answer.mirrors, view)
    for name in answer.journal_holds:
        yield (
            f"{warning} {printable(name)} still contains it: another process is"
            f" reading it; purge again"
        )
    if count := sum(answer.named.values()) + answer.named_files:
        yield f"{warning} {count} file names or ids contain it and were kept"
    if count := answer.unsearched:
        yield f"{warning} {counted(count, 'object')} too large to be searched"


def _copies(answer: PurgeAnswer, left: Remaining) -> Iterator[str]:
    """Name each copy and what to type about it."""
    copies = left.commits
    for one in copies:
        commit, path = one.commit[:12], one.path
        what = printable(path) if path else "it in the commit message"
        kept = ", ".join(map(_short, one.refs)) or "your reflog alone"
        yield f"  your commit {commit} contains {what} ({kept})"
    yield from _advice(answer, copies)
    for path in left.staged:
        yield f"  your index contains {printable(path)}"
    for path in left.history:
        yield f"  the history has the same content as {printable(path)}: purge it too"
    fetched = left.fetched
    for ref in fetched:
        yield f"  fetched history contains it: {printable(ref)}"
    if fetched:
        yield "    to delete it here: the same purge with --fetched; a fetch restores it"
    for commit in left.standing:
        yield f"  sessions are based on {commit[:12]}, a commit that no branch contains"
    if left.standing and not copies:
        yield "    to release it: the same purge again, then: git gc --prune=now"


def _advice(answer: PurgeAnswer, copies: Sequence[RemainingCommit]) -> Iterator[str]:
    """Yield the commands by which users rewrite their own commits."""
    # Only branches and tags are named: our refs were rewritten already, and git-filter-repo would
    # rewrite them once more, to commits that the journal does not know.
    if not copies:
        return
    reached = {ref for one in copies for ref in one.refs}
    refs = sorted(
        ref for ref in reached if ref.startswith(("refs/heads/", "refs/tags/"))
    )
    if refs:
        paths = sorted({one.path for one in copies if one.path})
        what = ["--replace-text", "FILE"]
        if not answer.texts and paths:
            what = ["--invert-paths", *(w for p in paths for w in ("--path", p))]
        words = ["git", "filter-repo", "--force", *what, "--refs", *refs]
        yield f"    to rewrite it yourself: {printable(shlex.join(words))}"
    yield "    then: git reflog expire --expire=now --all, this purge again, git gc --prune=now"


def _short(ref: str) -> str:
    for prefix in ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/"):
        if ref.startswith(prefix):
            return printable(ref.removeprefix(prefix))
    return printable(ref)
