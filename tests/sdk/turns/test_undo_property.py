"""Random calls on a world in memory: what is reported as reversed is, and no person is overwritten.

The tools hand out live objects and change them and their arguments; what they observe may be no
JSON; inverses and observations fail; processes die; tools get other names.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.sdk.testing import MemoryStore
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility

KEYS = ("a", "b")
FREE = Policy(non_reversible="allow", duplicates="allow")
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from("xy"))
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from("pqr"), inner, max_size=3)
    ),
    max_leaves=4,
)
# An inverse cannot store these, and what observes them may not be able to say what it saw.
ODD = st.one_of(
    st.decimals(0, 3, places=1),
    st.binary(max_size=1),
    st.tuples(SCALARS, SCALARS),
    st.dictionaries(st.integers(0, 2), SCALARS, min_size=1, max_size=1),
    st.sets(st.sampled_from("xyz"), max_size=3),
)
VALUES = st.integers(0, 7).flatmap(lambda number: ODD if number == 7 else JSON)
PICKS = st.integers(0, 2)
ACTIONS = st.one_of(
    st.tuples(
        st.just("turn"),
        st.lists(
            st.tuples(st.sampled_from(KEYS), st.booleans(), VALUES),
            min_size=1,
            max_size=3,
        ),
        st.sampled_from(["", "", "", "", "raises", "dies"]),
    ),
    st.tuples(st.just("person"), st.sampled_from(KEYS), VALUES),
    st.tuples(st.just("rename")),
    st.tuples(st.just("undo"), PICKS, st.sampled_from(["", "", "put", "observe"])),
    # A person repairs by hand what an undo could not restore, and then it is tried again.
    st.tuples(st.just("repair"), PICKS, st.sampled_from(KEYS), VALUES),
)


class DiedError(BaseException):
    """The process dies inside a tool."""


@dataclass(slots=True)
class Change:
    """What a call found and left."""

    key: str
    before: object
    after: object


@dataclass(slots=True)
class LiveWorld:
    """Values in memory that tools, inverses and a person change.

    `by_person` are the keys whose value a person has written since the last tool or inverse.
    """

    values: dict[str, object] = field(
        default_factory=lambda: {"a": {"p": 1, "q": [2]}, "b": "x"}
    )
    by_person: set[str] = field(default_factory=set)
    store: MemoryStore = field(default_factory=MemoryStore)
    name: str = "box.set"
    broken: str = ""
    changes: dict[tuple[str, str], Change] = field(default_factory=dict)
    ends: str = ""
    overwritten: list[str] = field(default_factory=list)

    def opened(self) -> AgentUndo:
        """Open the session as another process would."""
        tools = ToolRegistry()
        tools.handler("box.put", idempotent=True)(self.put_back)
        options: dict[str, object] = {
            "reversibility": Reversibility.REVERSIBLE,
            "capture": self.look,
            "fingerprint": self.observe,
            "inverse": lambda a, c, r: Inverse.tool("box.put", key=a["key"], value=c),
            "probe": lambda a: True,
            "retry": Retry(attempts=2, backoff_s=0),
        }
        tools.add(self.name, self.set, **cast(ToolOptions, options))
        return AgentUndo.with_store(self.store, session="s", tools=tools, policy=FREE)

    def look(self, arguments: Mapping[str, object]) -> object:
        """Return a value itself, not a copy."""
        return self.values[str(arguments["key"])]

    def observe(self, arguments: Mapping[str, object]) -> object:
        """Return the same, if nothing is broken."""
        if self.broken == "observe":
            raise OSError("no answer")
        return self.look(arguments)

    def set(
        self, key: str, value: object, in_place: bool, holder: list[object]
    ) -> None:
        """Set a value, in the object that is there if that is possible; spoil the arguments."""
        current = self.values[key]
        if in_place and isinstance(current, dict) and isinstance(value, dict):
            current.clear()
            current.update(value)
        elif in_place and isinstance(current, list) and isinstance(value, list):
            current[:] = value
        else:
            self.values[key] = value
        holder.clear()
        self.by_person.discard(key)
        if self.ends == "dies":
            raise DiedError
        if self.ends == "raises":
            raise ValueError("no answer")

    def put_back(self, key: str, value: object) -> None:
        """Set a value as an inverse does."""
        if self.broken == "put":
            raise OSError("no route")
        if key in self.by_person:
            self.overwritten.append(key)
        self.values[key] = value

    def turn(self, calls: list[tuple[str, bool, object]], ends: str) -> None:
        """Run a turn; its last call may raise, or the process may die in it."""
        au = self.opened()
        turn = au.turn("t")
        turn.__enter__()
        caught: BaseException | None = None
        for number, (key, in_place, value) in enumerate(calls):
            before = deepcopy(self.values[key])
            self.ends = ends if number == len(calls) - 1 else ""
            arguments = {
                "key": key,
                "value": deepcopy(value),
                "in_place": in_place,
                "holder": [1],
            }
            try:
                turn.call(self.name, arguments, call_id=f"c{number}")
            except (DiedError, ValueError) as error:
                caught = error
            change = Change(key, before, deepcopy(self.values[key]))
            self.changes[turn.id, f"c{number}"] = change
        if ends == "dies":
            # The lock goes with the process; nothing else of it is done.
            au.runtime.release()
            return
        kind = None if caught is None else type(caught)
        before_end = deepcopy(self.values)
        turn.__exit__(kind, caught, None)
        if caught is not None:
            report = cast(UndoReport, caught.undo_report)  # type: ignore[attr-defined]
            self.check(turn.id, report, before_end)

    def person(self, key: str, value: object) -> None:
        """Write a value by hand."""
        self.values[key] = deepcopy(value)
        self.by_person.add(key)

    def rename(self) -> None:
        """Register the tool under another name."""
        self.name = "box.set" if self.name == "box.put_in" else "box.put_in"

    def repair(self, pick: int, key: str, value: object) -> None:
        """Let an undo fail, write by hand, and undo again."""
        self.undo(pick, "put")
        self.person(key, value)
        self.undo(pick, "")

    def undo(self, pick: int, broken: str) -> None:
        """Undo one turn, while something may be broken."""
        turns = sorted({turn for turn, _ in self.changes})
        if not turns:
            return
        turn, self.broken = turns[pick % len(turns)], broken
        before = deepcopy(self.values)
        planned = self.opened().plan(turn)
        assert self.values == before
        report = self.opened().undo(turn)
        self.check(turn, report, before)
        if broken != "put":
            self.compare(planned, report)
        self.broken = ""

    def check(self, turn: str, report: UndoReport, before: dict[str, object]) -> None:
        """Check that the report is true of the world."""
        # A person may have written the very value that a call left or found: that is no conflict.
        for key in self.overwritten:
            known = [one for one in self.changes.values() if one.key == key]
            texts = [repr(each) for one in known for each in (one.before, one.after)]
            assert repr(before[key]) in texts
        self.overwritten.clear()
        oldest: dict[str, Change] = {}
        for item in reversed(report.items):
            change = self.changes[turn, str(item.call_id)]
            if item.state == "reversed" and not item.already:
                oldest.setdefault(change.key, change)
        for key, change in oldest.items():
            assert self.values[key] == change.before
            self.by_person.discard(key)
        for key in self.values.keys() - oldest.keys():
            assert self.values[key] == before[key]

    def compare(self, planned: UndoReport, report: UndoReport) -> None:
        """Check that a plan has promised what was done, except where a probe was asked."""
        told = {item.call_id: item.state for item in planned.items}
        if any(item.reason == "in_doubt" for item in planned.items):
            return
        assert told == {item.call_id: item.state for item in report.items}


@settings(max_examples=150)
@given(st.lists(ACTIONS, max_size=10))
def test_what_is_reversed_is_as_before_and_no_person_is_overwritten(
    actions: list[tuple[object, ...]],
) -> None:
    world = LiveWorld()
    for name, *args in actions:
        cast(Callable[..., None], getattr(world, str(name)))(*args)
    assert world.overwritten == []
