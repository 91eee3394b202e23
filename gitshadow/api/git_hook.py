"""What Git's own hooks tell: HEAD moved, or a commit begins and its hooks rewrite files.

Source: githooks(5), git 2.56; pre-commit 4.7.
"""

import os

from gitshadow.attribution.process import ProcessId, ancestors, command_line
from gitshadow.messages.record import GitHookRequest, NothingAnswer
from gitshadow.recording.commit_window import started_ns
from gitshadow.recording.context import RecorderContext

_BEGINNINGS = frozenset({"pre-commit", "pre-merge-commit", "commit-msg", "post-commit"})
_ENDS = frozenset({"prepare-commit-msg"})
_WRITTEN = "commit-msg"
_REPLAYS = frozenset({b"cherry-pick", b"revert", b"rebase", b"am", b"merge", b"pull"})
_DONE = "hooks-done"
_REFS = "reference-transaction"


def git_hook(context: RecorderContext, request: GitHookRequest) -> NothingAnswer:
    """Record everything written before a call of a git hook; open or close a window.

    A window is open while other hooks run after ours. If our script calls them (`chained`) it
    belongs to the script, if a manager calls us (`managed`) to the manager, and if Git runs them
    (`beside`) to the commit, but not while a person writes the message.
    """
    event, commits = request.event, context.commits
    # A reference transaction comes in the middle of a git command, which must not wait for a walk.
    if event == _REFS:
        context.observer.settle_soon()
        return NothingAnswer()
    above = _above(request)
    ours = bool(above) and commits.belongs_to(above[0])
    over = commits.gone() or event in _ENDS or (event == _DONE and ours)
    process = _runner(request, event, above)
    if process is not None and request.managed:
        # pre-commit stashes unstaged changes before its first hook runs, so the window begins when
        # its process began.
        commits.begin(
            process, min(context.workspace.clock.now_ns(), started_ns(process))
        )
    context.observer.settle()
    if over:
        commits.end()
    if process is not None:
        commits.begin(process, context.workspace.clock.now_ns())
    _write_trailers(context, request, above)
    return NothingAnswer()


def _write_trailers(
    context: RecorderContext, request: GitHookRequest, above: tuple[ProcessId, ...]
) -> None:
    """Add trailers that name the authors of the lines to the message of a person's commit."""
    message = request.message
    if message is None:
        return
    # Imported only here, because it imports all of blame and every git command runs this hook.
    from gitshadow.interchange import commit_trailers

    asked = commit_trailers.MessageContext(
        message, request.source or "", request.index_
    )
    if request.event == _WRITTEN:
        commit_trailers.finish(context, asked)
    elif _git_verb(above) not in _REPLAYS:
        commit_trailers.prepare(context, asked)


def _git_verb(above: tuple[ProcessId, ...]) -> bytes | None:
    """Return the verb of the nearest git process above, None if there is none or it is hidden."""
    for process in above:
        words = command_line(process.pid)
        if not words or os.path.basename(words[0]) != b"git":
            continue
        rest = iter(words[1:])
        for word in rest:
            # Only these of Git's own options take their value as a word of its own.
            if word in (b"-c", b"-C"):
                next(rest, None)
            elif not word.startswith(b"-"):
                return word
        return None
    return None


def _above(request: GitHookRequest) -> tuple[ProcessId, ...]:
    return ancestors(request.pid) if request.pid is not None else ()


def _runner(
    request: GitHookRequest, event: str | None, above: tuple[ProcessId, ...]
) -> ProcessId | None:
    """Return the process that runs other hooks after ours and ends with them, if any."""
    if event == _DONE:
        return None
    if request.chained or request.managed:
        return above[0] if above else None
    beside = request.beside and event in _BEGINNINGS
    for process in above if beside else ():
        words = command_line(process.pid)
        if words and os.path.basename(words[0]) == b"git":
            return process
    return None
