"""Questions to the engine on threads of their own, and their answers back on the one that draws.

Invariant: an answer that nobody waits for any more is dropped; an error is an answer.
"""

from collections.abc import Callable
from typing import TypeVar

from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from gitshadow.errors import ShadowError

_T = TypeVar("_T")


class Answered(Message):
    """Bring an answer to the thread that draws."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Failed(Message):
    """Tell that a question has no answer."""

    def __init__(self, error: ShadowError, about: str) -> None:
        super().__init__()
        self.error, self.about = error, about


class Looked(Message):
    """Tell that a look at the journal has found something: nobody waited for it."""

    def __init__(self, deliver: Callable[[], None]) -> None:
        super().__init__()
        self.deliver = deliver


class Waiting(Message):
    """Tell that a question was asked, or that its answer is there."""

    def __init__(self, begun: bool) -> None:
        super().__init__()
        self.begun = begun


def ask(
    asker: Widget, about: str, question: Callable[[], _T], then: Callable[[_T], None]
) -> None:
    """Ask on a thread; a newer question about the same makes an older one void.

    Args:
        asker: Whom the answer goes to: it takes the messages of this module.
        about: What it is about; a failure names it.
        question: Runs on the thread.
        then: Runs on the thread that draws, with the answer.
    """

    def run() -> None:
        worker = get_current_worker()
        if worker.is_cancelled:
            return
        asker.post_message(Waiting(begun=True))
        try:
            answer = question()
        except ShadowError as error:
            if not worker.is_cancelled:
                asker.post_message(Failed(error, about))
        else:
            if not worker.is_cancelled:
                asker.post_message(Answered(lambda: then(answer)))
        finally:
            asker.post_message(Waiting(begun=False))

    asker.run_worker(run, name=about, group=about, exclusive=True, thread=True)
