"""What is known of how a call ended: a tool that raises may have had its effect before."""

from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import Unpack

import pytest

from gitshadow.errors import ExitCode, UsageError
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Outcome, Retry, Reversibility
from tests.sdk.turns.front import FREE, Front, Session, settled
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.test_pivot import pivotal, told
from tests.sdk.turns.world import AT_ONCE, BoomError, decorated


class Till:
    """Charges that are made, and then the answer is lost."""

    def __init__(self, *, charges: bool = True) -> None:
        self.charges = charges
        self.made: list[str] = []
        self.refunded: list[str] = []
        self.asked: list[str] = []
        self.now_ns = 10**18

    def charge(self, amount: int, *, idempotency_key: str) -> str:
        if self.charges:
            self.made.append(idempotency_key)
        raise TimeoutError("no answer")

    def refund(self, key: str) -> None:
        self.refunded.append(key)

    def arrived(self, arguments: Mapping[str, object], idempotency_key: str) -> object:
        self.asked.append(idempotency_key)
        made = idempotency_key in self.made
        return Outcome.success(idempotency_key) if made else False

    def declare(self, front: Front, **more: Unpack[ToolOptions]) -> None:
        front.tools.handler("till.refund", idempotent=True)(self.refund)
        options: ToolOptions = {
            "reversibility": Reversibility.COMPENSABLE,
            "inverse": lambda a, c, r: Inverse.tool("till.refund", key=r),
            "retry": AT_ONCE,
        }
        front.tools.tool("till.charge", **(options | more))(self.charge)


async def broken(front: Front) -> UndoReport:
    """Run a turn that a raising charge ends; return the report of its rollback."""
    with pytest.raises(TimeoutError) as caught:
        await front.session().called("till.charge", "c", amount=5)
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert isinstance(report, UndoReport)
    return report


async def test_a_tool_that_raises_after_its_effect_is_in_doubt(front: Front) -> None:
    """It is never guessed: not reversed, exit 4, and a person is asked to look."""
    till = Till()
    till.declare(front)
    report = await broken(front)
    assert told(report) == {"c": "in_doubt"}
    assert (report.exit_code, report.ok) == (ExitCode.PARTIAL, False)
    assert till.refunded == []
    assert [one.id for one in front.session().au.attention()] == ["c"]


async def test_the_probe_of_a_tool_that_raised_is_asked(front: Front) -> None:
    """By the key that the tool was given, so another charge of the same amount is not meant."""
    till = Till()
    till.declare(front, probe=till.arrived)
    report = await broken(front)
    assert told(report) == {"c": "compensated"}
    assert till.refunded == till.made == till.asked
    assert front.session().au.attention() == []


async def test_a_probe_that_says_no_settles_what_raised(front: Front) -> None:
    till = Till(charges=False)
    till.declare(front, probe=till.arrived)
    report = await broken(front)
    assert told(report) == {"c": "no_effect"}
    assert (till.refunded, front.session().au.attention()) == ([], [])


async def test_a_tool_that_is_sure_is_in_no_doubt(front: Front) -> None:
    """With `errors="nothing_done"` an exception ends the turn and leaves nothing to settle."""
    till = Till(charges=False)
    till.declare(front, errors="nothing_done")
    report = await broken(front)
    assert (report.items, report.exit_code) == ((), ExitCode.DONE)
    session = front.session()
    assert [one.outcome for one in session.au.calls("t-1")] == ["failed"]
    assert session.au.attention() == []


async def test_a_raising_call_that_the_turn_survives_is_listed(front: Front) -> None:
    """A program may catch the error and commit; then the doubt is for a person."""
    till = Till()
    till.declare(front, probe=till.arrived)
    session = front.session()
    async with session.turn() as turn:
        with pytest.raises(TimeoutError):
            await turn.call("till.charge", "c", amount=5)
    assert [one.id for one in session.au.attention()] == ["c"]
    await session.recover()
    assert session.au.attention() == []
    assert told(await session.undo("t-1")) == {"c": "compensated"}
    assert till.refunded == till.made


async def test_a_pivot_that_raised_holds(front: Front) -> None:
    """Nobody knows whether the point of no return was passed."""

    def work() -> None:
        raise BoomError("no answer")

    pivotal(front, work)
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            await turn.call("draft.create", title="before")
            await turn.call("order.place")
    assert told(turn.inner.report) == {"t-1.2": "in_doubt", "t-1.1": "declined"}
    assert list(front.world.state["drafts"]) == ["9"]


async def test_a_read_that_raised_is_in_no_doubt(front: Front) -> None:
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            await turn.call("toy.boom")
    assert turn.report.items == ()


async def test_a_raised_call_that_a_rewind_hid_is_a_duplicate(front: Front) -> None:
    """It may have had its effect, so a model that forgot it does not repeat it."""
    till = Till()
    till.declare(front)
    await broken(front)
    session = front.session()
    await session.rewind("t-1")
    async with session.turn() as turn:
        outcome = await turn.call("till.charge", amount=5)
    assert outcome.kind == "duplicate"
    assert len(till.made) == 1


async def test_a_held_call_that_always_raised_is_in_doubt(front: Front) -> None:
    """It may have been sent: only one that did nothing for sure has failed."""
    till = Till()
    retry = Retry(attempts=1, timeout_s=None)
    till.declare(front, hold=True, retry=retry, idempotent=True)
    session = front.session()
    turn = await session.called("till.charge", "c", amount=5)
    assert [one.state for one in turn.inner.released] == ["in_doubt"]
    assert told(await session.undo("t-1")) == {"c": "in_doubt"}


async def test_a_held_call_that_is_sure_has_failed(front: Front) -> None:
    till = Till(charges=False)
    retry = Retry(attempts=1, timeout_s=None)
    till.declare(front, hold=True, retry=retry, errors="nothing_done")
    session = front.session()
    turn = await session.called("till.charge", "c", amount=5)
    assert [one.state for one in turn.inner.released] == ["failed"]
    assert (await session.undo("t-1")).items == ()


async def test_wrong_arguments_are_an_outcome(front: Front) -> None:
    """The commonest mistake of a model: it reads why, nothing ran, and the turn goes on."""
    done: list[str] = []
    front.tools.tool("runtime.book", idempotent=True)(lambda title: done.append(title))
    session = front.session(policy=FREE)
    async with session.turn() as turn:
        outcome = await turn.call("runtime.book", name="x")
        await turn.call("runtime.book", title="x")
    assert done == ["x"]
    assert outcome.kind == "failed"
    assert outcome.text == (
        "cannot call runtime.book: missing a required argument: 'title'"
    )
    assert turn.inner.status == "committed"
    assert [one.outcome for one in session.au.calls("t-1")] == ["failed", "success"]


async def test_wrong_arguments_of_a_held_call_are_told_at_once(front: Front) -> None:
    till = Till()
    till.declare(front, hold=True)
    session = front.session()
    async with session.turn() as turn:
        outcome = await turn.call("till.charge", sum=5)
    assert (outcome.kind, session.au.held()) == ("failed", [])


async def test_capture_inverse_observe_and_verify_get_the_key(front: Front) -> None:
    """The key of the tool, where they ask for it by name."""
    seen: dict[str, str] = {}

    def put(*, idempotency_key: str) -> None:
        seen["tool"] = idempotency_key

    def capture(arguments: object, idempotency_key: str) -> None:
        seen["capture"] = idempotency_key

    def observe(arguments: object, *, idempotency_key: str) -> None:
        seen["observe"] = idempotency_key

    def inverse(a: object, c: object, r: object, idempotency_key: str) -> Inverse:
        seen["inverse"] = idempotency_key
        return Inverse.tool("box.undo")

    def verify(a: object, c: object, idempotency_key: str) -> bool:
        seen["verify"] = idempotency_key
        return True

    front.tools.handler("box.undo", idempotent=True)(lambda: None)
    front.tools.tool(
        "box.put",
        reversibility=Reversibility.REVERSIBLE,
        capture=capture,
        fingerprint=observe,
        inverse=inverse,
        verify=verify,
        retry=AT_ONCE,
    )(put)
    session = await front.after("box.put")
    seen.pop("observe")
    assert told(await session.undo("t-1")) == {"t-1.1": "reversed"}
    names = {"tool", "capture", "observe", "inverse", "verify"}
    assert (set(seen), len(set(seen.values()))) == (names, 1)


async def cut_short(recorded: Recorded, *, wrote: bool) -> Session:
    """Leave a turn in the middle of a call that writes `trip.md`; t-1 of the session."""
    front = recorded.front
    recorded.hand("trip.md", "old\n")
    target = recorded.repo.root / "trip.md"

    def write(path: str) -> None:
        if wrote:
            target.write_text("new\n")
        raise KeyboardInterrupt

    front.tools.tool("trip.write", files_only=True, paths=("path",))(write)
    session = front.session("s")
    turn = session.turn()
    await turn.__aenter__()
    with pytest.raises(KeyboardInterrupt):
        await turn.call("trip.write", "w", path=str(target))
    session.au.runtime.release()  # as the end of its process does
    front.close()
    front.opened.clear()
    return front.session("s")


async def test_a_file_call_that_was_cut_short_is_in_doubt(recorded: Recorded) -> None:
    """Nobody recorded its end, so what it wrote may be in no item; its paths are named."""
    session = await cut_short(recorded, wrote=True)
    report = await session.undo("t-1", scope={"effects"})
    (item,) = report.items
    assert (item.state, item.reason) == ("not_reversed", "in_doubt")
    assert "trip.md" in str(item.detail)
    assert report.exit_code == ExitCode.PARTIAL


async def test_a_file_call_that_wrote_nothing_is_seen_by_its_files(
    recorded: Recorded,
) -> None:
    """Its paths are as they were before it."""
    session = await cut_short(recorded, wrote=False)
    (item,) = (await session.undo("t-1", scope={"effects"})).items
    assert item.state == "no_effect"
    assert session.au.attention() == []


async def test_a_file_call_that_was_cut_short_is_looked_at_after_the_files(
    recorded: Recorded,
) -> None:
    """Where the undo of the turn restored them nothing is in doubt."""
    session = await cut_short(recorded, wrote=True)
    report = await session.undo("t-1")
    restored = recorded.text("trip.md") == "old\n"
    found = {one.call_id: one.state for one in report.items if one.call_id}
    assert found == {"w": "no_effect" if restored else "not_reversed"}
    assert restored


async def test_a_file_call_that_raised_is_covered_by_its_files(
    recorded: Recorded,
) -> None:
    """The recorder knows when it ended, so the files of the turn are all of it."""
    front = recorded.front

    def write(path: str) -> None:
        Path(path).write_text("half")
        raise BoomError("disk")

    front.tools.tool("trip.write", files_only=True, paths=("path",))(write)
    session = front.session("s")
    with pytest.raises(BoomError) as caught:
        await session.called("trip.write", "w", path=str(recorded.repo.root / "new.md"))
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert (report.ok, recorded.text("new.md")) == (True, None)
    assert session.au.attention() == []


async def test_wrong_arguments_behind_a_decorator_are_an_outcome(front: Front) -> None:
    """Nothing of the tool ran, so the model reads why, and the turn goes on."""
    done: list[str] = []

    @decorated
    @decorated
    def book(title: str, *, idempotency_key: str) -> None:
        done.append(title)

    front.tools.tool("runtime.book")(book)
    session = front.session()
    async with session.turn() as turn:
        outcome = await turn.call("runtime.book", name="x")
        await turn.call("runtime.book", title="x")
    assert outcome == Outcome.failed(
        "cannot call runtime.book: missing a required argument: 'title'"
    )
    assert (done, turn.inner.status) == (["x"], "committed")


async def test_a_type_error_inside_a_decorated_tool_is_in_doubt(front: Front) -> None:
    """It ran: that a call inside it did not fit says nothing of what it did before."""
    done: list[str] = []

    @decorated
    def book(title: str, again: bool = True) -> None:
        done.append(title)
        if again:
            book(name=title)

    front.tools.tool("runtime.book")(book)
    with pytest.raises(TypeError):
        async with front.session().turn() as turn:
            await turn.call("runtime.book", "b", title="x")
    assert (done, told(turn.inner.report)) == (["x"], {"b": "in_doubt"})


async def test_a_type_error_of_a_decorator_after_the_tool_is_in_doubt(
    front: Front,
) -> None:
    """The decorator gives the tool an argument that a model does not know of."""
    done: list[str] = []

    def book(runtime: str, title: str) -> str:
        done.append(runtime + title)
        return title

    @wraps(book)
    def around(**kwargs: str) -> object:
        return book("d", **kwargs) + 1  # type: ignore[operator]

    front.tools.tool("runtime.book")(around)
    with pytest.raises(TypeError):
        async with front.session().turn() as turn:
            await turn.call("runtime.book", "b", title="x")
    assert (done, told(turn.inner.report)) == (["dx"], {"b": "in_doubt"})


@pytest.mark.parametrize("passed", [True, False])
async def test_the_probe_of_a_pivot_says_whether_it_holds(
    front: Front, passed: bool
) -> None:
    """It is asked before the turn decides what to take back, and once."""
    asked: list[object] = []

    def work() -> None:
        raise BoomError("no answer")

    def probe(arguments: object) -> bool:
        asked.append(arguments)
        return passed

    front.tools.tool("order.place", pivot=True, probe=probe)(work)
    with pytest.raises(BoomError):
        async with front.session().turn() as turn:
            await turn.call("draft.create", title="before")
            await turn.call("order.place")
    assert told(turn.inner.report) == {
        "t-1.2": "undeclared" if passed else "no_effect",
        "t-1.1": "declined" if passed else "reversed",
    }
    assert list(front.world.state["drafts"]) == (["9"] if passed else [])
    assert asked == [{}]


async def test_the_probe_of_a_pivot_counts_in_a_savepoint(front: Front) -> None:
    def work() -> None:
        raise BoomError("no answer")

    front.tools.tool("order.place", pivot=True, probe=lambda arguments: False)(work)
    async with front.session().turn() as turn:
        with pytest.raises(BoomError):
            async with turn.savepoint("one"):
                await turn.call("draft.create", title="before")
                await turn.call("order.place")
    assert front.world.state["drafts"] == {}


@pytest.mark.parametrize("argument", ["call_id", "again"])
async def test_an_argument_that_is_named_like_ours_needs_the_mapping(
    front: Front, argument: str
) -> None:
    """It would not reach the tool, so nothing runs; in the mapping it does."""
    seen: list[object] = []

    def phone(call_id: str = "", again: bool = False) -> None:
        seen.append({"call_id": call_id, "again": again}[argument])

    front.tools.tool("runtime.phone")(phone)
    value = {"call_id": "x", "again": True}[argument]
    async with front.session().turn() as turn:
        with pytest.raises(UsageError, match="would not reach the tool"):
            await settled(turn.inner.call("runtime.phone", **{argument: value}))  # type: ignore[arg-type]
        await settled(turn.inner.call("runtime.phone", {argument: value}, call_id="c"))
    assert seen == [value]


async def test_a_call_id_that_is_no_text_is_refused(front: Front) -> None:
    """It was meant for a tool that takes what it is given."""
    front.tools.tool("runtime.phone")(lambda **given: None)
    async with front.session().turn() as turn:
        with pytest.raises(UsageError, match="would not reach the tool"):
            await settled(turn.inner.call("runtime.phone", call_id=7))  # type: ignore[arg-type]


async def settled_late(
    front: Front, till: Till, **more: Unpack[ToolOptions]
) -> Session:
    """Leave a charge that its probe settles when the undo asks; t-1 of the session."""
    options: ToolOptions = {"probe": till.arrived}
    till.declare(front, **(options | more))
    session = front.session(host=Host(clock=lambda: till.now_ns))
    async with session.turn() as turn:
        with pytest.raises(TimeoutError):
            await turn.call("till.charge", "c", amount=5)
    return session


async def test_a_call_that_a_probe_settled_was_not_seen(front: Front) -> None:
    """Nobody knows what it left, so a person may have written what is there now."""
    till = Till()
    session = await settled_late(front, till, fingerprint=lambda a: len(till.made))
    (item,) = (await session.undo("t-1")).items
    assert (item.state, item.reason) == ("not_reversed", "drifted")
    assert item.detail == (
        "the result of the call could not be observed:"
        " it was settled by a probe, so what it left was not seen"
    )
    (planned,) = (await session.plan("t-1")).items
    assert (planned.reason, planned.detail) == (item.reason, item.detail)
    assert till.refunded == []
    (item,) = (await session.undo("t-1", on_drift="overwrite")).items
    assert (item.state, till.refunded) == ("compensated", till.made)


async def test_a_call_that_a_probe_settled_has_its_undo_window(front: Front) -> None:
    """From when it started: nobody knows when it ended."""
    till = Till()
    session = await settled_late(front, till, undo_for="30d")
    started_ns = till.now_ns
    till.now_ns += 1
    await session.recover()
    (call,) = session.au.calls("t-1")
    assert call.expires_ns == started_ns + 30 * 24 * 3600 * 10**9
    till.now_ns = call.expires_ns + 1
    assert told(await session.undo("t-1")) == {"c": "expired"}
    assert till.refunded == []


async def test_a_call_that_a_probe_settled_has_its_residue(front: Front) -> None:
    till = Till()
    session = await settled_late(front, till, residue="the receipt was printed")
    (item,) = (await session.undo("t-1")).items
    assert item.residue == "the receipt was printed"


async def test_a_capture_that_failed_makes_no_inverse_after_a_probe(
    front: Front,
) -> None:
    """As for a call whose end was seen: the builder would get nothing."""
    till = Till()

    def capture(arguments: Mapping[str, object]) -> object:
        raise OSError("down")

    session = await settled_late(
        front, till, capture=capture, on_capture_failure="record"
    )
    (item,) = (await session.undo("t-1")).items
    assert (item.reason, item.error) == ("no_inverse", "OSError: down")


async def test_a_probe_is_asked_with_what_the_tool_was_given(front: Front) -> None:
    """The tool changed its arguments before it failed."""
    asked: list[object] = []

    def probe(arguments: Mapping[str, object]) -> bool:
        asked.append([arguments["row"], arguments["token"]])
        return False

    def put(row: list[int], token: list[str]) -> None:
        row.clear()
        token.clear()
        raise TimeoutError

    front.tools.tool("row.put", probe=probe, secrets=("token",))(put)
    with pytest.raises(TimeoutError):
        await front.session().called("row.put", row=[1], token=["abcdef"])
    assert asked == [[[1], ["abcdef"]]]
