"""What goes wrong around a turn.

::

    ShadowError
    └── TurnError (1)                 a turn, an undo or a rewind could not go on
        ├── RegistrationError         a tool's declaration is wrong
        ├── SessionBusy               the session has a turn or an undo at work
        ├── TurnClosed                the turn has ended
        ├── TurnCancelled             `cancel()` was called
        ├── ValidationFailed          the turn's own check said no
        ├── LimitExceeded             a bound of the turn was reached
        │   ├── ToolCallLimitExceeded
        │   ├── RoundTripLimitExceeded
        │   └── TimeLimitExceeded
        ├── SessionNotFound (2)       the session has no history
        ├── InvocationNotFound (2)    the session has no such invocation
        ├── NothingToUndo             everything is undone already
        ├── EngineError               an engine gave an undo up
        ├── UndoPending               an engine has not carried an undo out yet
        └── PartialUndo (4)           `raise_for_partial` found something not reversed

`ToolFailure` is different: a tool raises it to say "no" without ending the turn, and an inverse to
say that it did nothing; `FinalFailure` is one of an inverse that it is no use to try again.
`TurnError` and `PartialUndo` carry a report and are defined with it, in `report`.
Invariant: whatever ends a turn carries the rollback's report as `undo_report`.
"""

from gitshadow.errors import ExitCode
from gitshadow.sdk.turns.report import TurnError


class RegistrationError(TurnError):
    """Report a tool whose declaration is wrong."""


class SessionBusy(TurnError):
    """Report a session that has a turn or an undo at work; nothing was changed."""


class TurnClosed(TurnError):
    """Report a call in a turn that has ended."""


class TurnCancelled(TurnError):
    """Report that a turn was cancelled by `cancel()`; its effects were rolled back."""


class ValidationFailed(TurnError):
    """Report that a turn's own check said no or raised; its effects were rolled back."""


class LimitExceeded(TurnError):
    """Report a bound that a turn reached; its effects were rolled back.

    `limit` is the field of `Limits`: `tool_calls`, `round_trips` or `seconds`.
    """

    limit = ""


class ToolCallLimitExceeded(LimitExceeded):
    """Report one tool call too many."""

    limit = "tool_calls"


class RoundTripLimitExceeded(LimitExceeded):
    """Report one request to the model too many."""

    limit = "round_trips"


class TimeLimitExceeded(LimitExceeded):
    """Report a turn that took too long."""

    limit = "seconds"


class SessionNotFound(TurnError):
    """Report a session without history; nothing was changed."""

    exit_code = ExitCode.USAGE


class InvocationNotFound(TurnError):
    """Report an invocation that a session does not have; nothing was changed."""

    exit_code = ExitCode.USAGE


class NothingToUndo(TurnError):
    """Report a conversation that has no earlier point to return to."""


class EngineError(TurnError):
    """Report an undo that its engine gave up; what is done stays, `recover` does the rest."""


class UndoPending(TurnError):
    """Report an undo that has not ended in the time that was given; it goes on."""


class ToolFailure(Exception):
    """Raised by a tool that did nothing and wants the model to read why."""


class FinalFailure(ToolFailure):
    """Raised by an inverse that did nothing, and will not be able to either the next time."""
