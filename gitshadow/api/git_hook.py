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
    """Take the call of a git hook, everything written before it recorded first.

    A window opens where other hooks run after ours. Where we stand around them it is theirs
    (`chained`), where a manager calls us the manager's (`managed`), where Git runs them the
    commit's (`beside`), but for the time in which a person writes the message. A reference
    transaction comes in the middle of a git command: nothing waits for that command here.
    """
    event, commits = request.event, context.commits
    if event == _REFS:
        context.observer.settle_soon()
        return NothingAnswer()
    above = _above(request)
    ours = bool(above) and commits.belongs_to(above[0])
    over = commits.gone() or event in _ENDS or (event == _DONE and ours)
    process = _runner(request, event, above)
    if process is not None and request.managed:
        # A manager has taken changes away before it calls the first of its hooks.
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
    """Have the message of a commit that a person makes name whose lines it commits."""
    message = request.message
    if message is None:
        return
    from gitshadow.interchange import commit_trailers  # it takes blame along

    asked = commit_trailers.MessageContext(
        message, request.source or "", request.index_
    )
    if request.event == _WRITTEN:
        commit_trailers.finish(context, asked)
    elif _git_verb(above) not in _REPLAYS:
        commit_trailers.prepare(context, asked)


def _git_verb(above: tuple[ProcessId, ...]) -> bytes | None:
    """Return what the nearest git above was called for, None where that is not to be seen."""
    for process in above:
        words = command_line(process.pid)
        if not words or os.path.basename(words[0]) != b"git":
            continue
        rest = iter(words[1:])
        for word in rest:
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
