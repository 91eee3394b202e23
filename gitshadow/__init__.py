"""Undo and provenance for AI coding agents, inside Git.

Invariant: importing this package loads nothing else, so that the hook program starts fast; what
agent programs import from it is loaded when it is asked for. Types: `__init__.pyi`.
"""

__version__ = "0.1.0"

_HOMES = {
    "gitshadow.errors": (
        *("JournalBusyError", "JournalError", "NotInitialisedError", "RefusedError"),
        *("ShadowError", "StoreError", "UnsupportedError", "UsageError"),
    ),
    "gitshadow.turns.achat": ("AsyncAgentSession",),
    "gitshadow.turns.aio": ("AsyncAgentUndo", "AsyncTurn"),
    "gitshadow.turns.chat": ("AgentSession",),
    "gitshadow.turns.engine": ("JournalEngine",),
    "gitshadow.turns.errors": (
        *("EngineError", "FinalFailure", "InvocationNotFound", "LimitExceeded"),
        *("NothingToUndo", "PartialUndo", "RegistrationError"),
        *("RoundTripLimitExceeded", "SessionBusy", "SessionNotFound"),
        *("TimeLimitExceeded", "ToolCallLimitExceeded", "ToolFailure"),
        *("TurnCancelled", "TurnClosed", "TurnError", "UndoPending"),
        "ValidationFailed",
    ),
    "gitshadow.turns.events": ("Message",),
    "gitshadow.turns.external": ("Allowed",),
    "gitshadow.turns.hooked": ("HookedTurns",),
    "gitshadow.turns.host": ("Context", "Host"),
    "gitshadow.turns.machine": ("TurnStatus",),
    "gitshadow.turns.model_io": (
        *("ModelProvider", "ModelRequest", "TextDelta", "ToolCall", "ToolDefinition"),
        "Usage",
    ),
    "gitshadow.turns.payloads": ("take_hook",),
    "gitshadow.turns.policy": (
        "Limits",
        "Policy",
        "Proposal",
        "Verdict",
        "VerdictKind",
    ),
    "gitshadow.turns.program": ("Program",),
    "gitshadow.turns.protocols": (
        *(
            "CompensationEngine",
            "ContextSource",
            "EngineProvider",
            "McpCaller",
            "RevisionProvider",
            "SessionStore",
            "UndoTransaction",
        ),
        "UndoTransactionProvider",
    ),
    "gitshadow.turns.records": ("NotStorableError",),
    "gitshadow.turns.registry": ("ToolOptions", "ToolRegistry"),
    "gitshadow.turns.report": ("Domain", "UndoItem", "UndoKind", "UndoReport"),
    "gitshadow.turns.session": ("AgentUndo", "Turn"),
    "gitshadow.turns.values": (
        *("Conflict", "Inverse", "OnDrift", "Outcome", "OutcomeKind", "Release"),
        *("Retry", "Reversibility", "Scope", "Secret", "UndoEntry"),
    ),
    "gitshadow.undo.report": ("Action", "Reason", "State", "Status", "Uncovered"),
}


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    for module, names in _HOMES.items():
        if name in names:
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
