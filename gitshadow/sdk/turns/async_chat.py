"""The async front of the loop.

`make fronts` generates `chat`, the sync front, from this module. A cancelled task ends `send` at
once, also in a stream that stalls.
"""

from typing import Literal

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.chat_loop import LABEL_CHARS, ChatLoop
from gitshadow.sdk.turns.option_checks import one_of
from gitshadow.sdk.turns.report import UndoReport


class AsyncAgentSession(ChatLoop[AsyncAgentUndo]):
    """Run a model with tools, turn by turn, on a session of `AsyncAgentUndo`.

    Args:
        au: The session.
        provider: The model.
        persona: A description of the model's role.
        directives: Rules for the model.
    """

    async def send(
        self, text: str, *, on_error: Literal["keep", "rewind"] = "keep"
    ) -> str:
        """Run one turn and return the model's answer.

        Args:
            text: The user's words; they stay in the conversation even if the turn fails.
            on_error: `rewind` removes a failed turn from the conversation as well.

        Raises:
            UsageError: `on_error` is neither.
            SessionBusy: a turn or an undo of the session is running; nothing was changed.
            TurnCancelled: `cancel` was called.
            LimitExceeded: a limit was reached.
            Exception: the exception of the provider or a tool; the turn was rolled back.
        """
        one_of("keep", "rewind")("on_error", on_error)
        turn = self._au.turn(text[:LABEL_CHARS])
        began = False
        try:
            async with turn:
                began = self.is_running = True
                work = self._run(turn.core, self._au.messages(), text)
                return await self._au.drive(work)
        except Exception:
            if on_error == "rewind" and began:
                await self._au.rewind(turn.id)
            raise
        finally:
            self.is_running = self.is_running and not began

    async def undo_last(self, *, effects: bool = False) -> UndoReport:
        """Remove the last message and all later ones from the conversation."""
        return await self._au.undo_last(effects=effects)
