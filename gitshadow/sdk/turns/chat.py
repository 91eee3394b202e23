"""The sync front of the loop.

Invariant: one `send` is one turn.
"""

from collections.abc import Mapping
from typing import Literal

from gitshadow.sdk.turns.base_session import SessionFront
from gitshadow.sdk.turns.chat_loop import LoopCore
from gitshadow.sdk.turns.events import Message
from gitshadow.sdk.turns.model_io import ModelProvider
from gitshadow.sdk.turns.policy import Proposal
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo

_LABEL_CHARS = 60


class LoopFront:
    """Look at a loop, cancel it, answer its questions."""

    def __init__(self, front: SessionFront, core: LoopCore) -> None:
        self._front = front
        self._core = core

    @property
    def is_running(self) -> bool:
        """Tell whether a turn is at work."""
        return self._core.running

    @property
    def current_text(self) -> str:
        """Return what the model said in this turn so far; kept until the next one starts."""
        return self._core.text

    @property
    def active_tool_calls(self) -> list[str]:
        """Return the ids of the calls at work."""
        turn = self._core.turn
        return list(turn.active) if turn is not None else []

    @property
    def pending_confirmation(self) -> Proposal | None:
        """Return the call that waits for an answer, or None."""
        questions = self._core.turn.questions if self._core.turn is not None else []
        return questions[0].proposal if questions else None

    @property
    def last_usage_report(self) -> Mapping[str, object] | None:
        """Return what the provider said last about cost in this turn, or None."""
        return self._core.usage

    @property
    def last_schema_warnings(self) -> tuple[str, ...]:
        """Return what is wrong with schemas of tools; it never ends a turn."""
        return self._core.warnings

    @property
    def last_context_diagnostics(self) -> tuple[str, ...]:
        """Return which context sources failed in this turn, and how."""
        turn = self._core.turn
        return tuple(turn.setting.contexts.diagnostics) if turn is not None else ()

    def messages(self) -> list[Message]:
        """Return the conversation as a model gets it."""
        return self._front.messages()

    def cancel(self) -> None:
        """End the turn at the next event, request or call; a turn that has ended is not touched."""
        if self._core.turn is not None:
            self._core.turn.cancel()

    def answer(self, yes: bool) -> None:
        """Answer the pending confirmation, if there is one."""
        questions = self._core.turn.questions if self._core.turn is not None else []
        for question in questions[:1]:
            question.answer(yes)


class AgentSession(LoopFront):
    """Run a model with tools, turn by turn, on a session of `AgentUndo`.

    Args:
        au: The session.
        provider: The model.
        persona: Who the model is.
        directives: What it is to keep in mind.
    """

    def __init__(
        self,
        au: AgentUndo,
        provider: ModelProvider,
        *,
        persona: str = "",
        directives: tuple[str, ...] = (),
    ) -> None:
        super().__init__(au, LoopCore(provider, persona, directives))
        self._au = au

    def send(self, text: str, *, on_error: Literal["keep", "rewind"] = "keep") -> str:
        """Run one turn and return the model's answer.

        Args:
            text: What the user says; it stays in the conversation even if the turn fails.
            on_error: `rewind` takes a failed turn out of the conversation as well.

        Raises:
            SessionBusy: a turn or an undo is at work; nothing was changed.
            TurnCancelled: `cancel` was called.
            LimitExceeded: a bound was reached.
            Exception: what the provider or a tool raised; the turn was rolled back.
        """
        turn = self._au.turn(text[:_LABEL_CHARS])
        began = False
        try:
            with turn:
                began = self._core.running = True
                self._core.start(turn.core, self._au.messages())
                return self._au.drive(self._core.run(text))
        except Exception:
            if on_error == "rewind" and began:
                self._au.rewind(turn.id)
            raise
        finally:
            self._core.running = self._core.running and not began

    def undo_last(self, *, effects: bool = False) -> UndoReport:
        """Take the last message and what followed out of the conversation."""
        return self._au.undo_last(effects=effects)
