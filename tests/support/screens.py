"""Screens of the view in this process: `play(PlanScreen(engine, wish), steps)`.

Nothing waits for a time: `seen` waits for a condition, as `until` does.
"""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from textual.app import App
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from gitshadow.commands.client import raise_if_error
from gitshadow.commands.times import parse_moment
from gitshadow.messages.backend import HistoryBackend
from gitshadow.messages.codec import A, JsonObject, Q, Verb, decode, encode
from gitshadow.messages.undo import UNDO, FileUndoAnswer, FileUndoRequest, UndoTarget
from gitshadow.service import in_process
from gitshadow.store.layout import Layout, recorded
from gitshadow.ui.app import UiSettings, ViewApp
from gitshadow.ui.glyphs import Glyphs
from tests.support.repo import Repo
from tests.support.studio import layout_of
from tests.support.waiting import HANGS_S

Steps = Callable[["Play"], Awaitable[None]]


@dataclass(slots=True)
class Direct:
    """Answer what the view asks in this process, as a command without a daemon does.

    `held` stops the next application before it begins, until it is set; `entered` says that it
    has come so far.
    """

    layout: Layout
    held: threading.Event | None = None
    entered: threading.Event = field(default_factory=threading.Event)
    lock_s: float = 5.0

    def ask(self, verb: str, params: Mapping[str, object], /) -> JsonObject:
        """Run one verb at the top of the worktree."""
        full = {"cwd": self.layout.root, **params}
        document = in_process.run(self.layout, verb, full, lock_timeout_s=self.lock_s)
        raise_if_error(document)
        return document

    def send(self, verb: Verb[Q, A], request: Q, /) -> A:
        """Run one typed verb."""
        return decode(verb.answer, self.ask(verb.name, encode(request)))

    def plan(self, wish: FileUndoRequest, /) -> FileUndoAnswer:
        """Plan."""
        return self.send(UNDO, wish)

    def apply(self, wish: FileUndoRequest, token: str, /) -> FileUndoAnswer:
        """Apply."""
        if self.held is not None:
            self.entered.set()
            assert self.held.wait(HANGS_S)
        return self.send(UNDO, wish._replace(yes=True, token=token))

    def mark(self) -> object:
        """Return time and size of the journal's file."""
        found = os.stat(self.layout.journal)
        return found.st_mtime_ns, found.st_size

    def worktrees(self) -> Sequence[str]:
        """Return the names of the recorded worktrees, this one first."""
        names = {one.worktree for one in recorded(self.layout)}
        return (self.layout.worktree, *sorted(names - {self.layout.worktree}))

    def there(self, worktree: str, /) -> "Direct":
        """Return the engine of a worktree."""
        if worktree == self.layout.worktree:
            return self
        (found,) = (one for one in recorded(self.layout) if one.worktree == worktree)
        return Direct(found)


def wish_of(
    verb: str,
    targets: Sequence[str] = (),
    *,
    paths: Sequence[str] = (),
    only: tuple[str, ...] = (),
    at: str | None = None,
    pin: str | None = None,
) -> FileUndoRequest:
    """Return a request about ids and paths."""
    named = (*map(UndoTarget, targets), *(UndoTarget(path, True) for path in paths))
    return FileUndoRequest(verb, named, only, at=at, pin=pin)


def direct(repo: Repo) -> Direct:
    """Return the engine of a repository that nobody else has open."""
    return Direct(layout_of(repo))


class _Bare(App[object]):
    """Show one screen or one widget, and keep what it was left with."""

    def __init__(self, shown: Widget, glyphs: Glyphs) -> None:
        super().__init__()
        self.shown, self.glyphs = shown, glyphs
        self.answers: list[object] = []

    def on_mount(self) -> None:
        if isinstance(self.shown, Screen):
            self.push_screen(self.shown, self.answers.append)
        else:
            self.mount(self.shown)
            self.shown.focus()


@dataclass(slots=True)
class Play:
    """A running app, and what a person does with it."""

    app: App[object]
    pilot: Pilot[object]

    @property
    def answers(self) -> list[object]:
        """Return what the screen was left with, once it was."""
        assert isinstance(self.app, _Bare)
        return self.app.answers

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self.pilot.press(*keys)

    def type(self, *keys: str) -> None:
        """Press keys in one go, as a terminal sends what was typed while nobody read it."""
        for key in keys:
            self.app.post_message(Key(key, key if len(key) == 1 else None))

    async def seen(self, *words: str) -> str:
        """Wait until the screen shows all these words; return what it shows."""
        await self.until(lambda: all(one in self.text() for one in words), words)
        return self.text()

    async def until(self, holds: Callable[[], bool], what: object = "") -> None:
        """Wait for a condition."""
        try:
            async with asyncio.timeout(HANGS_S):
                while not holds():
                    await self.pilot.pause()
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"waited for {what}:\n{self.text()}") from None

    def text(self) -> str:
        """Return what is on the screen, line by line."""
        # textual has no public way to the text; its own snapshots go through SVG
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join(strip.text.rstrip() for strip in strips)


def play(
    shown: Widget,
    steps: Steps,
    *,
    size: tuple[int, int] = (80, 24),
    unicode: bool = True,
) -> list[object]:
    """Show a screen or a widget on a terminal of some size, take steps, end.

    Returns:
        What the screen was left with.
    """

    async def run() -> list[object]:
        app = _Bare(shown, Glyphs(unicode))
        async with app.run_test(size=size, notifications=True) as pilot:
            await steps(Play(app, pilot))
        return app.answers

    return asyncio.run(run())


def view(
    engine: HistoryBackend,
    steps: Steps,
    *,
    size: tuple[int, int] = (80, 24),
    setting: UiSettings | None = None,
) -> None:
    """Show the whole view on a terminal of some size, take steps, end."""
    plain = UiSettings("r", lambda words: parse_moment(words, time.time_ns()))

    async def run() -> None:
        app = ViewApp(lambda told: engine, setting or plain)
        async with app.run_test(size=size, notifications=True) as pilot:
            await steps(Play(app, pilot))

    asyncio.run(run())
