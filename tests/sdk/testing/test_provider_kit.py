"""AN-32: what a host plugs in is checked by rules, each of which can fail."""

from collections.abc import Callable

import pytest

from gitshadow.sdk.testing import RevisionProviderKit, UndoProviderKit
from gitshadow.sdk.turns.values import Revision, UndoEntry
from tests.sdk.testing.broken import failures, rules_of


class Page:
    """A document: lines, the machinery that takes them back, and a counter of changes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.marks: list[int] = []
        self.entries: list[UndoEntry] = []

    @property
    def provider(self) -> "Page":
        return self

    def change(self) -> object:
        self.count += 1
        self.lines.append(f"line {self.count}")
        return None

    def look(self) -> object:
        return list(self.lines)

    def begin_transaction(self, label: str) -> "Page":
        self.marks.append(len(self.lines))
        return self

    def add_entry(self, entry: UndoEntry) -> None:
        self.entries.append(entry)

    def commit(self) -> None:
        self.marks.pop()

    def rollback(self) -> None:
        del self.lines[self.marks.pop() :]

    def current_revision(self) -> Revision:
        return self.count


class Slow:
    """The same document, all of it awaited."""

    def __init__(self) -> None:
        self.page = Page()

    @property
    def provider(self) -> "Slow":
        return self

    async def change(self) -> object:
        return self.page.change()

    async def look(self) -> object:
        return self.page.look()

    async def begin_transaction(self, label: str) -> "Slow":
        self.page.begin_transaction(label)
        return self

    async def add_entry(self, entry: UndoEntry) -> None:
        self.page.add_entry(entry)

    async def commit(self) -> None:
        self.page.commit()

    async def rollback(self) -> None:
        self.page.rollback()

    async def current_revision(self) -> Revision:
        return f"r{self.page.count}"


class TestUndo(UndoProviderKit):
    @pytest.fixture(params=[Page, Slow])
    def subject(self, request: pytest.FixtureRequest) -> Page | Slow:
        made: Page | Slow = request.param()
        return made


class TestRevisions(RevisionProviderKit):
    @pytest.fixture(params=[Page, Slow])
    def subject(self, request: pytest.FixtureRequest) -> Page | Slow:
        made: Page | Slow = request.param()
        return made


class Discarding(Page):
    """A commit takes back what it was to keep."""

    def commit(self) -> None:
        self.rollback()


class OneByOne(Page):
    """A rollback takes the last change back alone."""

    def rollback(self) -> None:
        self.marks.pop()
        del self.lines[-1:]


class LeftOpen(Page):
    """A rollback leaves its mark where the next one finds it."""

    def rollback(self) -> None:
        del self.lines[self.marks[0] :]


class Hasty(Page):
    """A rollback always takes something."""

    def rollback(self) -> None:
        del self.lines[min(self.marks.pop(), len(self.lines) - 1) :]


class Chatty(Page):
    """An entry is written into the document."""

    def add_entry(self, entry: UndoEntry) -> None:
        self.lines.append(entry.tool_call_id)


class Choosy(Page):
    """A transaction needs a name."""

    def begin_transaction(self, label: str) -> "Page":
        assert label, "no label"
        return super().begin_transaction(label)


class Deaf(Page):
    """Only a rollback after an entry is one."""

    def rollback(self) -> None:
        mark = self.marks.pop()
        if [entry for entry in self.entries if entry.tool_name == "x.do"]:
            del self.lines[mark:]


class Objects(Page):
    """A revision is an object."""

    def current_revision(self) -> Revision:
        return (self.count,)  # type: ignore[return-value]


class Ticking(Page):
    """To ask is to count."""

    def current_revision(self) -> Revision:
        self.count += 1
        return self.count


class Toggling(Page):
    """There are two revisions."""

    def current_revision(self) -> Revision:
        return self.count % 2


class Ahead(Page):
    """Every third answer is the next revision."""

    asked = 0

    def current_revision(self) -> Revision:
        self.asked += 1
        return self.count + int(self.asked % 2 == 0 and self.count > 0)


BROKEN_UNDO: dict[str, Callable[[], Page]] = {
    "test_a_commit_keeps_what_was_done": Discarding,
    "test_a_rollback_restores_the_document": OneByOne,
    "test_turns_follow_each_other": LeftOpen,
    "test_a_turn_without_work_changes_nothing": Hasty,
    "test_entries_change_nothing": Chatty,
    "test_any_label_is_taken": Choosy,
    "test_a_failed_turn_restores_the_document": Deaf,
}
BROKEN_REVISIONS: dict[str, Callable[[], Page]] = {
    "test_a_revision_is_a_number_or_a_text": Objects,
    "test_a_revision_is_steady": Ticking,
    "test_every_change_is_a_revision": Toggling,
    "test_a_tool_gets_the_revision_of_its_call": Ahead,
}


@pytest.mark.parametrize("rule", sorted(rules_of(UndoProviderKit)))
def test_each_rule_of_undo_is_failed_by_what_breaks_it(rule: str) -> None:
    assert failures(UndoProviderKit, [rule], BROKEN_UNDO[rule]) == {rule}


@pytest.mark.parametrize("rule", sorted(rules_of(RevisionProviderKit)))
def test_each_rule_of_revisions_is_failed_by_what_breaks_it(rule: str) -> None:
    assert failures(RevisionProviderKit, [rule], BROKEN_REVISIONS[rule]) == {rule}
