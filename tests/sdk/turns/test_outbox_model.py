"""AN-19 as a law: what is sent is what committed, came due, and was not taken back; each once."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gitshadow.sdk.testing import MemoryStore
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo

SECOND_NS = 1_000_000_000
FREE = Policy(non_reversible="allow", duplicates="allow")


@dataclass(slots=True)
class Program:
    """Run turns that hold calls, and know what must have been sent.

    `waiting` are the calls of committed turns that were not taken back, with the second from which
    they are due.
    """

    store: MemoryStore = field(default_factory=MemoryStore)
    now_s: int = 1
    sent: list[str] = field(default_factory=list)
    waiting: dict[tuple[str, str], int] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)

    def opened(self) -> AgentUndo:
        tools = ToolRegistry()
        tools.add("now.send", self.send, hold=True)
        tools.add("late.send", self.send, hold=True, delay_s=5)
        host = Host(clock=lambda: self.now_s * SECOND_NS)
        return AgentUndo.with_store(
            self.store, session="s", tools=tools, policy=FREE, host=host
        )

    def send(self, item: str) -> None:
        """Send."""
        self.sent.append(item)

    def turn(self, delays: list[bool], fails: bool) -> None:
        """Hold calls, delayed or not, in a turn that commits or fails."""
        self.due()
        au = self.opened()
        held: dict[tuple[str, str], int] = {}
        try:
            with au.turn("t") as turn:
                for number, late in enumerate(delays):
                    what = f"{turn.id}.{number}"
                    turn.call("late.send" if late else "now.send", item=what)
                    held[turn.id, what] = self.now_s + 5 * late
                if fails:
                    raise ValueError
                self.turns.append(turn.id)
                self.waiting |= held
        except ValueError:
            pass
        self.due()

    def undo(self, pick: int) -> None:
        """Take a committed turn back: what it still holds is never sent."""
        if not self.turns:
            return
        name = self.turns[pick % len(self.turns)]
        self.opened().undo(name)
        kept = {key: due for key, due in self.waiting.items() if key[0] != name}
        self.waiting = kept

    def release(self) -> None:
        """Have what is due sent."""
        self.opened().release()
        self.due()

    def due(self) -> None:
        """Move what is due from the waiting to the expected."""
        ready = [key for key, due in self.waiting.items() if due <= self.now_s]
        self.expected += [what for _, what in ready]
        for key in ready:
            del self.waiting[key]


ACTIONS = st.one_of(
    st.tuples(st.just("turn"), st.lists(st.booleans(), max_size=3), st.booleans()),
    st.tuples(st.just("undo"), st.integers(0, 9)),
    st.tuples(st.just("release")),
    st.tuples(st.just("wait"), st.integers(1, 6)),
)


@given(st.lists(ACTIONS, max_size=12))
def test_each_is_sent_once_or_never(actions: list[tuple[object, ...]]) -> None:
    """AN-19: whatever order of turns, failures, undos, waits and releases."""
    program = Program()
    for name, *args in actions:
        if name == "wait":
            assert isinstance(args[0], int)
            program.now_s += args[0]
        else:
            getattr(program, str(name))(*args)
        assert sorted(program.sent) == sorted(program.expected)
    held = {row.call for row in program.opened().held()}
    assert len(held) == len(program.waiting)
