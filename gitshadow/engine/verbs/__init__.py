"""The verbs of the engine: a name, a desk and parameters in, one JSON document out.

The same functions answer in the daemon and without it.
Invariant: a verb returns plain JSON values and raises only ShadowError.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from gitshadow.engine.desk import Desk
from gitshadow.errors import UsageError
from gitshadow.undo import recovered

Document = dict[str, object]
Params = Mapping[str, object]
Verb = Callable[[Desk, Params], Document]

_MODULES: Mapping[str, str] = {
    "init": "init",
    "status": "status",
    "flush": "record",
    "record": "record",
    "session_start": "record",
    "session_end": "record",
    "exec_begin": "record",
    "exec_end": "record",
    "git_hook": "githook",
    "journal_gap": "record",
    "log": "look",
    "sessions": "look",
    "turns": "look",
    "ops": "look",
    "show": "show",
    "diff": "states",
    "cat": "states",
    "blame": "blame",
    "stats": "stats",
    "check": "check",
    "review": "review",
    "reviews": "review",
    "unreview": "review",
    "import_file": "importing",
    "import_claims": "importing",
    "export_events": "events",
    "export_traces": "export",
    "export_notes": "export",
    "export_remove": "export",
    "undo": "undo",
    "pin": "pins",
    "pins": "pins",
    "unpin": "pins",
    "report": "report",
    "expose": "expose",
    "unexpose": "expose",
    "push": "share",
    "prune": "keep",
    "du": "keep",
    "doctor": "doctor",
}


_UNATTENDED = frozenset({"exec_begin", "exec_end", "git_hook", "journal_gap"})
"""What no person reads the answer of."""


def run(desk: Desk, verb: str, params: Params) -> Document:
    """Run one verb; what became of interrupted undos is told with the first answer.

    Raises:
        UsageError: there is no such verb.
        ShadowError: what the verb raises.
    """
    module = _MODULES.get(verb)
    if module is None:
        raise UsageError(f"could not run {verb}: there is no such verb")
    function: Verb = getattr(import_module(f"{__name__}.{module}"), verb)
    document = function(desk, params)
    if verb not in _UNATTENDED:
        ws = desk.workspace
        told = recovered.take_notes(ws.db, ws.layout.worktree)
        if told:
            document["recovered"] = told
    return document
