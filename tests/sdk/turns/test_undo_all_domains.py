"""One undo of all that a turn did: effects, state, artifacts, files; one op and one report."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gitshadow.errors import JournalError, RefusedError, UsageError
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.service import client
from gitshadow.store.journal.saga_rows import NewEvent, SagaRow
from tests.sdk.turns.front import Session
from tests.sdk.turns.recorded import Recorded
from tests.support.repo import Repo


def told(report: UndoReport) -> list[tuple[str, str, str]]:
    """Return domain, name and state of every item, in order."""
    return [
        (item.domain.value, item.path or item.tool, item.state.value)
        for item in report.items
    ]


def kinds(session: Session, kind: str = "undo_phase") -> list[str]:
    """Return the phases of the session's undos, as they were begun and ended."""
    from gitshadow.sdk.turns import json_values

    bodies = [
        json_values.parse(row.body) for row in session.au.log() if row.kind == kind
    ]
    return [
        f"{body['phase']} {'ended' if 'part' in body else 'begun'}" for body in bodies
    ]


async def busy_turn(recorded: Recorded, session: Session) -> None:
    """Run a turn that has an effect, a state, an artifact and two files; t-1 of the session."""
    async with session.turn("a busy turn") as turn:
        await turn.call("draft.create", "d", title="x")
        await turn.set_state(k=1)
        await turn.save("report", b"first")
        await turn.call("shell.run", "w", path="new", text="agent\n")
        recorded.repo.write("a", "agent\n" + (recorded.text("a") or ""))


ALL = [
    ("effects", "shell.run", "no_effect"),
    ("effects", "draft.create", "reversed"),
    ("state", "k", "reversed"),
    ("artifacts", "report", "reversed"),
    ("files", "a", "reversed"),
    ("files", "new", "reversed"),
]


async def test_a_turn_is_undone_whole(recorded: Recorded) -> None:
    """Effects, then state and artifacts, then files: one op, one report, one commit."""
    before = recorded.text("a")
    session = recorded.front.session()
    await busy_turn(recorded, session)
    report = await session.undo("t-1")
    assert told(report) == ALL
    assert (report.status, report.exit_code) == ("reversed", 0)
    assert (recorded.text("a"), recorded.text("new")) == (before, None)
    assert session.au.state == {}
    assert session.au.artifacts.load("report") is None
    assert recorded.front.world.state["drafts"] == {}
    assert report.hidden_invocations == ("t-1",)
    (op,) = recorded.rows("ops")
    assert (op["id"], op["commit"]) == (report.op_id, report.commit)


async def test_the_order_of_the_phases(recorded: Recorded) -> None:
    """The present is recorded first; each phase is written down before and after."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    await session.undo("t-1")
    assert kinds(session) == [
        *("snapshot begun", "snapshot ended", "effects begun", "effects ended"),
        *("state begun", "state ended", "files begun", "files ended"),
    ]


async def test_an_inverse_may_wait_for_the_files(recorded: Recorded) -> None:
    """`after_files=True`; all others run while the turn's files still stand."""
    seen: list[tuple[str, str | None]] = []
    from gitshadow.sdk.turns.values import Inverse, Reversibility

    tools = recorded.front.tools

    def declare(name: str, *, late: bool) -> None:
        tools.add(
            f"{name}.do",
            lambda: None,
            reversibility=Reversibility.REVERSIBLE,
            inverse=lambda a, c, r: Inverse.tool(f"{name}.undo"),
            after_files=late,
        )
        undo = lambda: seen.append((name, recorded.text("new")))  # noqa: E731
        tools.handler(f"{name}.undo", idempotent=True)(undo)

    declare("early", late=False)
    declare("late", late=True)
    session = recorded.front.session()
    async with session.turn() as turn:
        await turn.call("late.do")
        await turn.call("early.do")
        recorded.repo.write("new", "agent\n")
    report = await session.undo("t-1")
    assert seen == [("early", "agent\n"), ("late", None)]
    assert [name for _, name, _ in told(report)] == ["early.do", "new", "late.do"]


async def test_later_work_of_a_person_stays(recorded: Recorded) -> None:
    """LAW-04: a line that a person added to a file of the turn is kept."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    recorded.hand("a", (recorded.text("a") or "") + "person\n")
    report = await session.undo("t-1")
    text = recorded.text("a") or ""
    assert (text.startswith("agent"), text.endswith("person\n")) == (False, True)
    assert report.status == "reversed"


async def test_a_conflict_is_left_and_named(recorded: Recorded) -> None:
    """`on_conflict` is passed through; the default leaves the file alone: exit 4."""
    before = recorded.text("a") or ""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    recorded.hand("a", "person\n" + before)
    report = await session.undo("t-1")
    states = {
        name: (state, item.reason)
        for (_, name, state), item in zip(told(report), report.items, strict=True)
    }
    assert states["a"] == ("not_reversed", "conflict")
    assert states["new"] == ("reversed", None)
    assert (report.status, report.exit_code) == ("partial", 4)
    assert recorded.text("a") == "person\n" + before
    again = await session.undo("t-1", on_conflict="overwrite")
    assert (again.status, recorded.text("a")) == ("reversed", before)


async def test_undoing_twice_does_nothing_twice(recorded: Recorded) -> None:
    """ENG-03 for all domains: exit 0, nothing changes, nothing is called."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    await session.undo("t-1")
    recorded.hand("new", "person\n")
    calls = recorded.front.world.names
    again = await session.undo("t-1")
    assert (again.status, again.exit_code) == ("nothing_to_do", 0)
    assert again.already_undone
    assert (recorded.text("new"), recorded.front.world.names) == ("person\n", calls)


async def test_a_failing_turn_rolls_its_files_back(recorded: Recorded) -> None:
    """Settled decision: automatically, inside `with au.turn(...)`; the transcript stays."""
    before = recorded.text("a")
    session = recorded.front.session()
    with pytest.raises(ValueError, match="no") as caught:
        async with session.turn() as turn:
            await turn.say("user", "go", kind="user")
            await turn.call("draft.create", title="x")
            await turn.set_state(k=1)
            await turn.call("shell.run", path="new", text="agent\n")
            recorded.repo.write("a", "agent\n")
            raise ValueError("no")
    report: UndoReport = caught.value.undo_report  # type: ignore[attr-defined]
    assert (recorded.text("a"), recorded.text("new")) == (before, None)
    assert (report.kind, report.status) == ("rollback", "reversed")
    assert session.au.turns()[0].status == "rolled_back"
    assert [message.text for message in session.au.messages()] == ["go"]
    assert session.au.state == {}
    (op,) = recorded.rows("ops")
    assert op["id"] == report.op_id


async def test_a_savepoint_rolls_the_files_of_its_part_back(
    recorded: Recorded,
) -> None:
    """AN-30: what the turn wrote before it stays; what no call wrote is named."""
    session = recorded.front.session()
    async with session.turn() as turn:
        await turn.call("shell.run", "outer", path="outer", text="1\n")
        try:
            async with turn.savepoint("risky"):
                await turn.call("shell.run", "inner", path="inner", text="2\n")
                recorded.repo.write("loose", "3\n")
                raise ValueError("no")
        except ValueError as error:
            report: UndoReport = error.undo_report  # type: ignore[attr-defined]
    assert [row for row in told(report) if row[0] == "files"] == [
        ("files", "inner", "reversed")
    ]
    assert [one.what for one in report.not_covered] == ["loose"]
    assert recorded.text("inner") is None
    assert (recorded.text("outer"), recorded.text("loose")) == ("1\n", "3\n")
    after = await session.undo("t-1")
    assert after.ok
    assert (recorded.text("outer"), recorded.text("loose")) == (None, None)


SCOPES = {
    "files": ["files a", "files new"],
    "effects": ["effects shell.run", "effects draft.create"],
    "state": ["state k"],
    "artifacts": ["artifacts report"],
    "events": [],
}


@pytest.mark.parametrize("scope", list(SCOPES))
async def test_each_scope_touches_only_itself(recorded: Recorded, scope: str) -> None:
    """AN-26."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    report = await session.undo("t-1", scope={scope})
    assert [f"{domain} {name}" for domain, name, _ in told(report)] == SCOPES[scope]
    live = {event.invocation for event in session.au.live_events()}
    found = {
        "files": recorded.text("new") is None,
        "effects": recorded.front.world.state["drafts"] == {},
        "state": session.au.state == {},
        "artifacts": session.au.artifacts.load("report") is None,
        "events": "t-1" not in live,
    }
    assert [name for name, undone in found.items() if undone] == [scope]


async def test_effects_out_of_scope_are_named(recorded: Recorded) -> None:
    """What is not covered is always printed; a tool of files alone is none."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    report = await session.undo("t-1", scope={"files"})
    assert [one.what for one in report.not_covered] == ["draft.create d"]


async def test_an_unknown_scope_is_a_usage_error(recorded: Recorded) -> None:
    """AN-26: with the words there are."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    with pytest.raises(UsageError, match="no scope"):
        await session.undo("t-1", scope={"everything"})


async def test_a_token_covers_every_domain(recorded: Recorded) -> None:
    """AN-04: a file or a state that changed since the plan was shown is another plan."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    plan = await session.plan("t-1")
    assert told(plan) == ALL
    recorded.hand("a", (recorded.text("a") or "") + "person\n")
    with pytest.raises(RefusedError, match="changed"):
        await session.undo("t-1", token=plan.token)
    assert recorded.front.world.inverses == []
    assert session.au.state == {"k": 1}
    fresh = await session.plan("t-1")
    report = await session.undo("t-1", token=fresh.token)
    assert told(report) == ALL


async def test_a_plan_changes_nothing(recorded: Recorded) -> None:
    """AN-04: no inverse, no file, no event, no op."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    before = (recorded.text("a"), session.au.events(), session.au.log())
    plan = await session.plan("t-1")
    assert (plan.status, plan.exit_code, plan.op_id) == ("planned", 0, None)
    assert (recorded.text("a"), session.au.events(), session.au.log()) == before
    assert recorded.front.world.inverses == []
    assert recorded.rows("ops") == []


async def test_state_that_was_set_again_since_is_left(recorded: Recorded) -> None:
    """LAW-04 for state and artifacts: another turn's values stay, unless asked for."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    async with session.turn() as turn:
        await turn.set_state(k=2)
    report = await session.undo("t-1", scope={"state"})
    (item,) = report.items
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert session.au.state == {"k": 2}
    await session.undo("t-1", scope={"state"}, on_drift="overwrite")
    assert session.au.state == {}


async def test_atomic_refuses_up_front(recorded: Recorded) -> None:
    """`atomic=True` does nothing where not everything can be taken back."""
    session = recorded.front.session()
    async with session.turn() as turn:
        await turn.call("mail.send", to="x")
        await turn.call("draft.create", title="x")
        await turn.call("shell.run", path="new", text="agent\n")
    with pytest.raises(RefusedError, match="as a whole"):
        await session.undo("t-1", atomic=True)
    assert recorded.text("new") == "agent\n"
    assert recorded.front.world.inverses == []


async def test_atomic_stops_where_a_part_fails(recorded: Recorded) -> None:
    """Later phases do not begin; `resume` goes on with them."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    errors: list[Exception] = [ValueError("no")] * 3
    recorded.front.world.trouble["undo:draft"] = errors
    report = await session.undo("t-1", atomic=True)
    states = {name: state for _, name, state in told(report)}
    assert (states["draft.create"], states["new"]) == ("not_reversed", "not_reversed")
    assert (recorded.text("new"), session.au.state) == ("agent\n", {"k": 1})
    assert report.op_id is not None
    done = await session.resume(report.op_id)
    assert (done.status, recorded.text("new")) == ("reversed", None)


async def test_a_failure_in_one_domain_keeps_no_other_back(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AN-09: partial, the files' status honest, and `resume` does what is left alone."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    store = session.au.runtime.store
    save = store.save

    def failing(rows: Sequence[SagaRow]) -> None:
        if any(isinstance(row, NewEvent) for row in rows):
            raise JournalError("could not write the state")
        save(rows)

    monkeypatch.setattr(store, "save", failing)
    report = await session.undo("t-1")
    monkeypatch.setattr(store, "save", save)
    assert (report.status, report.exit_code) == ("partial", 4)
    states = {name: state for _, name, state in told(report)}
    assert states["state"] == "not_reversed"
    assert (states["a"], states["new"]) == ("reversed", "reversed")
    assert recorded.text("new") is None
    assert session.au.state == {"k": 1}
    assert report.op_id is not None
    recorded.hand("new", "person\n")
    calls = recorded.front.world.names
    done = await session.resume(report.op_id)
    assert told(done) == ALL
    assert (session.au.state, recorded.text("new")) == ({}, "person\n")
    assert recorded.front.world.names == calls


async def test_a_recorder_that_cannot_be_asked_is_a_failure_of_the_files_alone(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AN-09: never reported as success."""
    from gitshadow.sdk.turns import file_recording

    session = recorded.front.session()
    await busy_turn(recorded, session)

    def no_answer(*args: object) -> dict[str, object]:
        raise JournalError("no answer")

    monkeypatch.setattr(file_recording, "answer", no_answer)
    report = await session.undo("t-1")
    monkeypatch.setattr(file_recording, "answer", client.answer)
    assert told(report)[-1] == ("files", "files", "not_reversed")
    assert (report.status, session.au.state) == ("partial", {})
    assert report.op_id is not None
    done = await session.resume(report.op_id)
    assert (done.status, recorded.text("new")) == ("reversed", None)


async def test_what_was_not_told_is_not_covered(recorded: Recorded) -> None:
    """A turn that the recorder does not know is named."""
    session = recorded.front.session()
    spool = Path(recorded.layout.spool_dir)
    async with session.turn() as turn:
        for waiting in spool.iterdir():
            waiting.unlink()
        spool.rmdir()
        await turn.call("shell.run", "c", path="new", text="agent\n")
        spool.mkdir()
    report = await session.undo("t-1")
    assert "files of c" in [one.what for one in report.not_covered]
    assert recorded.text("new") is None


async def test_what_was_not_recorded_is_not_covered(recorded: Recorded) -> None:
    """Files of a turn that ran without the recorder stay, and that is said."""
    from gitshadow.sdk.turns.host import Host

    silent = recorded.front.session("s", host=Host(files=False))
    await silent.called("shell.run", path="new", text="agent\n")
    silent.au.close()
    recorded.front.opened.clear()
    report = await recorded.front.session("s").undo("t-1")
    assert [(one.what, one.why) for one in report.not_covered] == [
        ("files of t-1", "it was not reported to the recorder")
    ]
    assert recorded.text("new") == "agent\n"


async def test_single_calls_take_their_files_along(recorded: Recorded) -> None:
    """AN-29: `only` is about calls: their effects and their files, nothing of the turn's."""
    session = recorded.front.session()
    await busy_turn(recorded, session)
    report = await session.undo("t-1", only={"w"})
    assert [row for row in told(report) if row[0] == "files"] == [
        ("files", "new", "reversed")
    ]
    assert (recorded.text("new"), session.au.state) == (None, {"k": 1})


def test_the_users_branch_is_never_touched(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAW-02: index, HEAD and branches are as before."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    recorded = Recorded.make(repo, tmp_path / "world")
    before = repo.git("for-each-ref", "refs/heads"), repo.git("ls-files", "-s")
    session = recorded.front.session()
    assert isinstance(session.au, AgentUndo)
    with session.au.turn("go") as turn:
        turn.call("shell.run", {"path": "a", "text": "agent\n"})
    session.au.undo("t-1")
    after = repo.git("for-each-ref", "refs/heads"), repo.git("ls-files", "-s")
    assert after == before
    recorded.front.close()
