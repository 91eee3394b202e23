"""Tests of a host's own undo and of its revisions, for inheritance.

Everything under test may be a plain function or a coroutine function: each rule runs in an event
loop of its own.
Invariant: a rule reads only the document, never the implementation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Protocol, TypeVar

from gitshadow.sdk.testing.memory_store import MemoryStore
from gitshadow.sdk.turns.async_session import AsyncAgentUndo, AsyncTurn
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.protocols import (
    RevisionProvider,
    UndoTransaction,
    UndoTransactionProvider,
)
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Reversibility, UndoEntry

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")


def _in_a_loop(
    rule: Callable[[K, S], Coroutine[object, object, None]],
) -> Callable[[K, S], None]:
    """Return a rule as a test that runs it in an event loop of its own."""

    @wraps(rule)
    def test(self: K, subject: S) -> None:
        asyncio.run(rule(self, subject))

    return test


class UndoableDocument(Protocol):
    """A document and its undo provider, which is under test."""

    @property
    def provider(self) -> UndoTransactionProvider:
        """Return the provider, the same one every time."""
        ...

    def change(self) -> Awaitable[object] | object:
        """Change the document as a tool would; no two changes are equal."""
        ...

    def look(self) -> Awaitable[object] | object:
        """Return the content of the document, as a value that can be compared."""
        ...


class VersionedDocument(Protocol):
    """A document and the provider of its revisions, which is under test."""

    @property
    def provider(self) -> RevisionProvider:
        """Return the provider, the same one every time."""
        ...

    def change(self) -> Awaitable[object] | object:
        """Change the document; no two changes are equal."""
        ...


class UndoProviderKit:
    """Rules for an `UndoTransactionProvider`.

    Inherit from it, and override the fixture `subject`: an `UndoableDocument`, new for each test.
    """

    @_in_a_loop
    async def test_a_commit_keeps_what_was_done(
        self, subject: UndoableDocument
    ) -> None:
        """The next rolled-back turn does not change it."""
        before = await _settled(subject.look())
        after = await _kept_turn(subject)
        assert after != before, "change() changes nothing: no rule could fail"
        assert await _settled(subject.look()) == after
        await _lost_turn(subject)
        assert await _settled(subject.look()) == after

    @_in_a_loop
    async def test_a_rollback_restores_the_document(
        self, subject: UndoableDocument
    ) -> None:
        """A rollback reverts all changes since the transaction began."""
        before = await _settled(subject.look())
        await _lost_turn(subject, changes=3)
        assert await _settled(subject.look()) == before

    @_in_a_loop
    async def test_turns_follow_each_other(self, subject: UndoableDocument) -> None:
        """A transaction has no effect on the next one."""
        for _ in range(3):
            kept = await _kept_turn(subject, changes=2)
            await _lost_turn(subject)
            await _lost_turn(subject)
            assert await _settled(subject.look()) == kept

    @_in_a_loop
    async def test_a_turn_without_work_changes_nothing(
        self, subject: UndoableDocument
    ) -> None:
        """A turn without calls has a transaction too."""
        await _kept_turn(subject)
        before = await _settled(subject.look())
        await _lost_turn(subject, changes=0)
        assert await _settled(subject.look()) == before
        assert await _kept_turn(subject, changes=0) == before

    @_in_a_loop
    async def test_entries_change_nothing(self, subject: UndoableDocument) -> None:
        """An entry names a call, which need not have changed the document."""
        before = await _settled(subject.look())
        opened = await _begun(subject)
        for call in ("c1", "c2"):
            await _settled(opened.add_entry(UndoEntry(call, "x.do", "")))
            assert await _settled(subject.look()) == before
        await _settled(opened.commit())
        assert await _settled(subject.look()) == before

    @_in_a_loop
    async def test_any_label_is_taken(self, subject: UndoableDocument) -> None:
        """People and models write labels."""
        for label in ("", "ü\n'\"%s{}", "x" * 10_000):
            before = await _settled(subject.look())
            await _lost_turn(subject, label=label)
            assert await _settled(subject.look()) == before

    @_in_a_loop
    async def test_a_failed_turn_restores_the_document(
        self, subject: UndoableDocument
    ) -> None:
        """A session rolls back after an exception of a tool."""
        before = await _settled(subject.look())
        async with _session(subject, Host(undo=subject.provider)) as au:
            try:
                async with au.turn("failing") as turn:
                    await _change(turn)
                    raise LookupError
            except LookupError:
                pass
            assert await _settled(subject.look()) == before
            async with au.turn("well") as turn:
                await _change(turn)
        assert await _settled(subject.look()) != before


class RevisionProviderKit:
    """Check a `RevisionProvider`.

    Inherit from it, and override the fixture `subject`: a `VersionedDocument`, new for each test.
    """

    @_in_a_loop
    async def test_a_revision_is_a_number_or_a_text(
        self, subject: VersionedDocument
    ) -> None:
        """It is stored in the journal and passed to tools."""
        await _settled(subject.change())
        found = await _settled(subject.provider.current_revision())
        assert type(found) in (int, str), f"a revision is int or str: {found!r}"

    @_in_a_loop
    async def test_a_revision_is_steady(self, subject: VersionedDocument) -> None:
        """Reading it changes nothing."""
        found = [await _settled(subject.provider.current_revision()) for _ in range(3)]
        assert found[1:] == found[:-1]

    @_in_a_loop
    async def test_every_change_is_a_revision(self, subject: VersionedDocument) -> None:
        """A new revision after each change; a stale one of a model must never match again."""
        found = [await _settled(subject.provider.current_revision())]
        for _ in range(4):
            await _settled(subject.change())
            found.append(await _settled(subject.provider.current_revision()))
        assert len(set(found)) == 5, f"revisions repeat: {found}"

    @_in_a_loop
    async def test_a_tool_gets_the_revision_of_its_call(
        self, subject: VersionedDocument
    ) -> None:
        """This holds after an earlier call changed the document."""
        provider = subject.provider
        au = _session(subject, Host(revisions=provider))
        async with au, au.turn("two calls") as turn:
            for _ in range(2):
                now = await _settled(provider.current_revision())
                assert (await _change(turn)) == now


async def _begun(subject: UndoableDocument, label: str = "a turn") -> UndoTransaction:
    return await _settled(subject.provider.begin_transaction(label))


async def _work(
    subject: UndoableDocument, changes: int, label: str = "a turn"
) -> UndoTransaction:
    opened = await _begun(subject, label)
    for number in range(changes):
        await _settled(subject.change())
        await _settled(opened.add_entry(UndoEntry(f"c{number}", "x.do", "Did x")))
    return opened


async def _kept_turn(subject: UndoableDocument, *, changes: int = 1) -> object:
    """Run a turn that commits; return the document before the commit."""
    opened = await _work(subject, changes)
    found = await _settled(subject.look())
    await _settled(opened.commit())
    return found


async def _lost_turn(
    subject: UndoableDocument, *, changes: int = 1, label: str = "a turn"
) -> None:
    """Run a turn that is rolled back."""
    await _settled((await _work(subject, changes, label)).rollback())


def _session(
    subject: UndoableDocument | VersionedDocument, host: Host
) -> AsyncAgentUndo:
    """Return a session with one tool that changes the document and returns its revision."""
    tools = ToolRegistry()

    # To the session it is a read: the host's own machinery undoes it.
    @tools.tool("document.change", reversibility=Reversibility.READ_ONLY)
    async def change(revision: object) -> object:
        await _settled(subject.change())
        return revision

    return AsyncAgentUndo.with_store(MemoryStore(), session="s", tools=tools, host=host)


async def _change(turn: AsyncTurn) -> object:
    outcome = await turn.call("document.change")
    assert outcome.ok, outcome.text
    return outcome.content


async def _settled(value: T | Awaitable[T]) -> T:
    return await value if isinstance(value, Awaitable) else value
