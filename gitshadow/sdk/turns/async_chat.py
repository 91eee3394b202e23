"""The async front of the loop.

Invariant: one `send` is one turn.
"""

from typing import Literal

from gitshadow.sdk.turns.async_session import AsyncAgentUndo
from gitshadow.sdk.turns.chat import LoopFront
from gitshadow.sdk.turns.chat_loop import LoopCore
from gitshadow.sdk.turns.model_io import ModelProvider
from gitshadow.sdk.turns.report import UndoReport

_LABEL_CHARS = 60


class AsyncAgentSession(LoopFront):
    """Run a model with tools, turn by turn; as `AgentSession`, awaited."""

    def __init__(
        self,
        au: AsyncAgentUndo,
        provider: ModelProvider,
        *,
        persona: str = "",
        directives: tuple[str, ...] = (),
    ) -> None:
        super().__init__(au, LoopCore(provider, persona, directives))
        self._au = au

    async def send(
        self, text: str, *, on_error: Literal["keep", "rewind"] = "keep"
    ) -> str:
        """Run one turn and return the model's answer; as `AgentSession.send`.

        A cancelled task ends at once, also in a stream that stalls.
        """
        turn = self._au.turn(text[:_LABEL_CHARS])
        began = False
        try:
            async with turn:
                began = self._core.running = True
                self._core.start(turn.core, self._au.messages())
                return await self._au.drive(self._core.run(text))
        except Exception:
            if on_error == "rewind" and began:
                await self._au.rewind(turn.id)
            raise
        finally:
            self._core.running = self._core.running and not began

    async def undo_last(self, *, effects: bool = False) -> UndoReport:
        """Take the last message and what followed out of the conversation."""
        return await self._au.undo_last(effects=effects)
