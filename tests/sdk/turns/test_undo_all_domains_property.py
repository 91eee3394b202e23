"""Random turns of a program and random work of a person: what an undo of one turn may touch."""

from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.turns.recorded import Recorded
from tests.support.repo import Repo

FILES = ("shared", "other")
Act: TypeAlias = tuple[str, str]
ACTS = st.lists(
    st.tuples(st.sampled_from(["agent", "between", "draft"]), st.sampled_from(FILES)),
    min_size=1,
    max_size=4,
)
HISTORIES = st.lists(
    st.tuples(ACTS, st.lists(st.sampled_from(FILES), max_size=2)),
    min_size=1,
    max_size=4,
)


@pytest.fixture(autouse=True)
def without_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything done in this process."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")


def appended(recorded: Recorded, path: str, line: str) -> str:
    """Return a file's text with one more line at its end."""
    return (recorded.text(path) or "") + line + "\n"


def run_turn(recorded: Recorded, au: AgentUndo, number: int, acts: list[Act]) -> None:
    """Run one turn: calls that write and draft, and writes between calls."""
    with au.turn(f"turn {number}") as turn:
        turn.set_state({f"k{number}": number})
        for index, (kind, path) in enumerate(acts):
            line = f"agent {number}.{index}"
            if kind == "draft":
                turn.call("draft.create", {"title": line})
            elif kind == "agent":
                text = appended(recorded, path, line)
                turn.call("shell.run", {"path": path, "text": text})
            else:
                recorded.repo.write(path, appended(recorded, path, line))


def check(
    recorded: Recorded, au: AgentUndo, report: UndoReport, undone: int, last: int
) -> None:
    """Check that everybody else's work stands, and that the report says what became of the rest."""
    left = {item.path for item in report.items if item.state == "not_reversed"}
    assert sum(report.counts.values()) == len(report.items)
    for path in FILES:
        lines = (recorded.text(path) or "").splitlines()
        mine = [line for line in lines if line.startswith(f"agent {undone}.")]
        assert bool(mine) == (path in left)
    drafts = recorded.front.world.state["drafts"].values()
    assert not [one for one in drafts if one.startswith(f"agent {undone}.")]
    expected = {f"k{n}": n for n in range(1, last + 1) if n != undone}
    assert au.state == expected


@settings(max_examples=15)
@given(history=HISTORIES, data=st.data())
def test_an_undo_takes_its_turn_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[list[Act], list[str]]],
    data: st.DataObject,
) -> None:
    """LAW-03 to LAW-05: a person's lines stay, the turn's go or are named."""
    place: Path = tmp_path_factory.mktemp("property")
    recorded = Recorded.make(Repo.create(place / "repo", ()), place / "world")
    for path in FILES:
        recorded.hand(path, "first\nsecond\nthird\n")
    persons: dict[str, list[str]] = {path: [] for path in FILES}
    session = recorded.front.session()
    assert isinstance(session.au, AgentUndo)
    with closing(session.au) as au:
        for number, (acts, edits) in enumerate(history, start=1):
            run_turn(recorded, au, number, acts)
            for path in edits:
                line = f"person {number}.{len(persons[path])}"
                persons[path].append(line)
                recorded.hand(path, f"{line}\n{recorded.text(path)}")
        undone = data.draw(st.integers(1, len(history)))
        others = {
            path: [
                line
                for line in (recorded.text(path) or "").splitlines()
                if not line.startswith(f"agent {undone}.")
            ]
            for path in FILES
        }
        report = au.undo(f"t-{undone}")
        check(recorded, au, report, undone, len(history))
        for path in FILES:
            kept = (recorded.text(path) or "").splitlines()
            assert [one for one in kept if one in others[path]] == others[path]
            assert set(persons[path]) <= set(kept)
        assert au.undo(f"t-{undone}").op_id != report.op_id
        assert au.verify() is None
