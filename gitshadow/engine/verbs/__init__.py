"""The verbs of the engine: a name, a desk and parameters in, one JSON document out.

The same functions answer in the daemon and without it.
Invariant: a verb returns plain JSON values and raises only ShadowError.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

from gitshadow.engine.desk import Desk
from gitshadow.errors import UsageError

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
    "git_hook": "record",
    "journal_gap": "record",
    "log": "look",
    "sessions": "look",
    "turns": "look",
    "ops": "look",
    "show": "show",
    "diff": "states",
    "cat": "states",
    "undo": "undo",
    "pin": "pins",
    "pins": "pins",
    "unpin": "pins",
    "expose": "share",
    "unexpose": "share",
    "push": "share",
    "prune": "keep",
    "du": "keep",
    "doctor": "doctor",
}


def run(desk: Desk, verb: str, params: Params) -> Document:
    """Run one verb.

    Raises:
        UsageError: there is no such verb.
        ShadowError: what the verb raises.
    """
    module = _MODULES.get(verb)
    if module is None:
        raise UsageError(f"could not run {verb}: there is no such verb")
    function: Verb = getattr(import_module(f"{__name__}.{module}"), verb)
    return function(desk, params)
