"""Undo and provenance for AI coding agents, inside Git.

Invariant: importing this package loads nothing else, so that the hook program starts fast; what
agent programs import from it is loaded when it is asked for. Types: `__init__.pyi`.
"""

__version__ = "0.1.0"

_HOMES = {
    "gitshadow.errors": ("RefusedError", "ShadowError", "UsageError"),
    "gitshadow.sdk.turns.async_chat": ("AsyncAgentSession",),
    "gitshadow.sdk.turns.async_session": ("AsyncAgentUndo", "AsyncTurn"),
    "gitshadow.sdk.turns.chat": ("AgentSession",),
    "gitshadow.sdk.turns.errors": (
        "FinalFailure",
        "InvocationNotFound",
        "LimitExceeded",
        "NothingToUndo",
        "RegistrationError",
        "SessionBusy",
        "SessionNotFound",
        "ToolFailure",
        "TurnCancelled",
        "UndoPending",
        "ValidationFailed",
    ),
    "gitshadow.sdk.turns.host": ("Context", "Host", "Program"),
    "gitshadow.sdk.turns.inverse_kinds": ("Allowed",),
    "gitshadow.sdk.turns.policy": ("Limits", "Policy", "Proposal", "Verdict"),
    "gitshadow.sdk.turns.registry": ("ToolRegistry",),
    "gitshadow.sdk.turns.report": ("UndoItem", "UndoReport"),
    "gitshadow.sdk.turns.session": ("AgentUndo", "Turn"),
    "gitshadow.sdk.turns.turn_states": ("TurnStatus",),
    "gitshadow.sdk.turns.values": (
        "Conflict",
        "Inverse",
        "OnDrift",
        "Outcome",
        "OutcomeKind",
        "Retry",
        "Reversibility",
        "Scope",
        "Secret",
        "UndoEntry",
    ),
    "gitshadow.undo.report": ("Reason", "State", "Status"),
}
# Names that were here before, and where what extends gitshadow imports them from.
_MOVED = {
    "gitshadow.errors": (
        "JournalBusyError",
        "JournalError",
        "NotInitialisedError",
        "StoreError",
        "UnsupportedError",
    ),
    "gitshadow.messages.undo": ("Uncovered",),
    "gitshadow.sdk.turns.bench": ("EngineProvider",),
    "gitshadow.sdk.turns.compensation_engine": ("JournalEngine",),
    "gitshadow.sdk.turns.errors": (
        "EngineError",
        "RoundTripLimitExceeded",
        "TimeLimitExceeded",
        "ToolCallLimitExceeded",
        "TurnClosed",
    ),
    "gitshadow.sdk.turns.events": ("Message",),
    "gitshadow.sdk.integrations.hooks": ("HookedTurns", "take_hook"),
    "gitshadow.sdk.turns.json_values": ("NotStorableError",),
    "gitshadow.sdk.turns.model_io": (
        "ModelProvider",
        "ModelRequest",
        "TextDelta",
        "ToolCall",
        "ToolDefinition",
        "Usage",
    ),
    "gitshadow.sdk.turns.policy": ("VerdictKind",),
    "gitshadow.sdk.turns.protocols": (
        "CompensationEngine",
        "ContextSource",
        "McpCaller",
        "RevisionProvider",
        "SessionStore",
        "UndoTransaction",
        "UndoTransactionProvider",
    ),
    "gitshadow.sdk.turns.report": ("Domain", "PartialUndo", "TurnError", "UndoKind"),
    "gitshadow.sdk.turns.tool": ("ToolOptions",),
    "gitshadow.sdk.turns.values": ("Release",),
    "gitshadow.undo.report": ("Action",),
}

__all__ = ["__version__", *(name for names in _HOMES.values() for name in names)]


def __dir__() -> list[str]:
    """Return the public names, which are not here before they are asked for."""
    return __all__


def __getattr__(name: str) -> object:
    """Load a public name from where it lives; one that has moved is given with a warning."""
    for homes in (_HOMES, _MOVED):
        for module, names in homes.items():
            if name in names:
                import importlib

                if homes is _MOVED:
                    import warnings

                    said = f"import {name} from {module}, not from {__name__}"
                    warnings.warn(said, DeprecationWarning, stacklevel=2)
                return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
