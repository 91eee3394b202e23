"""Undo and provenance for AI coding agents, inside Git.

Invariant: importing this package loads nothing else, so that the hook program starts fast; what
agent programs import from it is loaded when it is asked for. Types: `__init__.pyi`.
"""

__version__ = "0.1.0"

_HOMES = {
    "gitshadow.errors": (
        "JournalBusyError",
        "JournalError",
        "NotInitialisedError",
        "RefusedError",
        "ShadowError",
        "StoreError",
        "UnsupportedError",
        "UsageError",
    ),
    "gitshadow.messages.undo": ("Uncovered",),
    "gitshadow.sdk.turns.async_chat": ("AsyncAgentSession",),
    "gitshadow.sdk.turns.async_session": ("AsyncAgentUndo", "AsyncTurn"),
    "gitshadow.sdk.turns.bench": ("EngineProvider",),
    "gitshadow.sdk.turns.chat": ("AgentSession",),
    "gitshadow.sdk.turns.compensation_engine": ("JournalEngine",),
    "gitshadow.sdk.turns.errors": (
        "EngineError",
        "FinalFailure",
        "InvocationNotFound",
        "LimitExceeded",
        "NothingToUndo",
        "RegistrationError",
        "RoundTripLimitExceeded",
        "SessionBusy",
        "SessionNotFound",
        "TimeLimitExceeded",
        "ToolCallLimitExceeded",
        "ToolFailure",
        "TurnCancelled",
        "TurnClosed",
        "UndoPending",
        "ValidationFailed",
    ),
    "gitshadow.sdk.turns.events": ("Message",),
    "gitshadow.sdk.turns.hook_payloads": ("take_hook",),
    "gitshadow.sdk.turns.hook_turns": ("HookedTurns",),
    "gitshadow.sdk.turns.host": ("Context", "Host", "Program"),
    "gitshadow.sdk.turns.inverse_kinds": ("Allowed",),
    "gitshadow.sdk.turns.json_values": ("NotStorableError",),
    "gitshadow.sdk.turns.model_io": (
        "ModelProvider",
        "ModelRequest",
        "TextDelta",
        "ToolCall",
        "ToolDefinition",
        "Usage",
    ),
    "gitshadow.sdk.turns.policy": (
        "Limits",
        "Policy",
        "Proposal",
        "Verdict",
        "VerdictKind",
    ),
    "gitshadow.sdk.turns.protocols": (
        "CompensationEngine",
        "ContextSource",
        "McpCaller",
        "RevisionProvider",
        "SessionStore",
        "UndoTransaction",
        "UndoTransactionProvider",
    ),
    "gitshadow.sdk.turns.registry": ("ToolRegistry",),
    "gitshadow.sdk.turns.report": (
        "Domain",
        "PartialUndo",
        "TurnError",
        "UndoItem",
        "UndoKind",
        "UndoReport",
    ),
    "gitshadow.sdk.turns.session": ("AgentUndo", "Turn"),
    "gitshadow.sdk.turns.tool": ("ToolOptions",),
    "gitshadow.sdk.turns.turn_states": ("TurnStatus",),
    "gitshadow.sdk.turns.values": (
        "Conflict",
        "Inverse",
        "OnDrift",
        "Outcome",
        "OutcomeKind",
        "Release",
        "Retry",
        "Reversibility",
        "Scope",
        "Secret",
        "UndoEntry",
    ),
    "gitshadow.undo.report": ("Action", "Reason", "State", "Status"),
}


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    for module, names in _HOMES.items():
        if name in names:
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
