"""The verbs: an opened worktree and a request in, an answer out.

The same functions answer in the daemon and without it. A verb's module is imported when the verb
is called first. The annotation of a function's `request` is the type that its parameters are
parsed as. A verb raises only ShadowError.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from gitshadow.errors import UnknownIdError, UsageError
from gitshadow.messages.codec import JsonObject, Params, encode, parse
from gitshadow.query.rows import with_machine
from gitshadow.recording.context import RecorderContext
from gitshadow.undo.effective import take_notes

# Each takes its own type of request, which `parse` has made by its annotation.
_VerbFunction: TypeAlias = Callable[[RecorderContext, Any], NamedTuple]

# The verbs of each module.
_VERBS: Mapping[str, tuple[str, ...]] = {
    "status": ("init", "status"),
    "record": (
        "flush",
        "record",
        "session_start",
        "session_end",
        "exec_begin",
        "exec_end",
        "git_hook",
        "journal_gap",
    ),
    "lists": ("log", "sessions", "turns", "ops", "pin", "pins", "unpin"),
    "history": ("history",),
    "show": ("show",),
    "states": ("diff", "cat"),
    "blame": ("blame", "stats"),
    "review": ("check", "review", "reviews", "unreview"),
    "imports": ("import_file", "import_claims"),
    "export": ("export_events", "export_traces", "export_notes", "export_remove"),
    "undo": ("undo",),
    "staging": ("stage", "commit", "adopt", "split", "carried", "carry"),
    "own_session": (
        "own_session",
        "own_above",
        "own_changes",
        "own_undone",
        "own_undo",
    ),
    "report": ("report",),
    "sharing": ("expose", "unexpose", "mirror", "came_back", "push", "fetch"),
    "upkeep": ("prune", "purge"),
    "doctor": ("doctor",),
}
_MODULES = {verb: name for name, verbs in _VERBS.items() for verb in verbs}

# Verbs that only look, and the field with what they look at: it may be another machine's.
_NAMED_BY: Mapping[str, str] = {
    "log": "session",
    "history": "session",
    "turns": "session",
    "diff": "session",
    "report": "session",
    "show": "id",
}
# Verbs that read the content of files on the disk, or begin to write.
_ON_THE_PRESENT = frozenset(
    {
        "blame",
        "carried",
        "carry",
        "cat",
        "check",
        "commit",
        "diff",
        "exec_begin",
        "pin",
        "record",
        "report",
        "review",
        "session_start",
        "split",
        "stage",
        "stats",
        "undo",
    }
)
# No person reads their answers, so a note in one of them would be lost.
_UNATTENDED = frozenset({"exec_begin", "exec_end", "git_hook", "journal_gap"})


def run(context: RecorderContext, verb: str, params: Params) -> JsonObject:
    """Run one verb; the first answer also reports what became of interrupted undos.

    Raises:
        UsageError: there is no such verb, or it cannot use these parameters.
        ShadowError: what the verb raises.
    """
    module = _MODULES.get(verb)
    if module is None:
        raise UsageError(f"no such verb: {verb}")
    function: _VerbFunction = getattr(import_module(f"{__name__}.{module}"), verb)
    try:
        if verb in _ON_THE_PRESENT:
            context.hold_present()
        request = parse(function.__annotations__["request"], params)
        document = encode(_run_where(context, function, _NAMED_BY.get(verb), request))
    finally:
        context.others.close()
    if verb not in _UNATTENDED:
        ws = context.workspace
        told = take_notes(ws.db, ws.layout.worktree)
        if told:
            document["recovered"] = told
    return document


def _run_where(
    context: RecorderContext,
    function: _VerbFunction,
    named_by: str | None,
    request: NamedTuple,
) -> NamedTuple:
    """Run a verb here, or on the history of the machine that has what it is about."""
    typed = None if named_by is None else getattr(request, named_by)
    if named_by is None or typed is None or not context.others.machines():
        try:
            return function(context, request)
        except UnknownIdError as error:
            # Another machine may know the id: that explains more than "cannot find".
            from gitshadow.query.resolve import explained

            raise explained(context, error) from None
    # This import takes 3 ms; only who has fetched pays for it.
    from gitshadow.query.resolve import routed

    machine, id = routed(context, typed)
    if machine is None:
        return function(context, request)
    there = request._replace(**{named_by: id})
    return with_machine(function(context.others.context(machine), there), machine)
