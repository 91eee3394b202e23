"""A purge as text: what went, from where, and who still has a copy and what to type about it.

Invariant: what lies in the user's own commits is never said to lie in our history.
"""

import shlex
from collections.abc import Iterator, Sequence

from gitshadow.messages.storage import PurgeAnswer, Remaining, RemainingCommit
from gitshadow.render.keep import mirror_warning
from gitshadow.render.style import View, printable
from gitshadow.words import counted

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
    if asked:
        yield _first(answer, dry=dry)
        yield from _beside(answer, dry=dry)
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


def _why(left: Remaining) -> str:
    """Say why objects are still there: Git's gc alone helps only where nothing holds them."""
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
    for ref in answer.fetched_dropped:
        done = "would be deleted" if dry else "deleted"
        yield f"{done} here, but the other machine still has it: {printable(ref)}"


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
    """Say how commits of the user's are rewritten; without our refs, which were rewritten."""
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
