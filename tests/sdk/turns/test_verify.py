"""AN-31, AN-33: an inverse's word is not taken for it, and only its own version runs it."""

from collections.abc import Mapping

import pytest

from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.json_values import parse
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoItem
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Inverse, Reversibility
from tests.sdk.turns.front import Front, Session, only
from tests.sdk.turns.world import AT_ONCE, undone_by


class Box:
    """A value that a tool sets, and an inverse that may lie about having set it back."""

    def __init__(self, *works: bool) -> None:
        self.value: object = "before"
        self.works = list(works)
        self.undone = 0

    def put(self, value: str) -> None:
        self.value = value

    def put_back(self) -> None:
        self.undone += 1
        if not self.works or self.works.pop(0):
            self.value = "before"

    def read(self, arguments: Mapping[str, object]) -> object:
        return self.value

    def is_gone(self, arguments: Mapping[str, object], captured: object) -> bool:
        assert arguments == {"value": "after"}
        return self.value == captured

    def declare(
        self,
        front: Front,
        options: ToolOptions | None = None,
        *,
        repeatable: bool = True,
    ) -> None:
        front.tools.handler("box.undo", idempotent=repeatable)(self.put_back)
        known: ToolOptions = {
            "reversibility": Reversibility.REVERSIBLE,
            "inverse": lambda a, c, r: Inverse.tool("box.undo"),
            "capture": self.read,
            "retry": AT_ONCE,
        }
        front.tools.tool("box.put", **(known | (options or {})))(self.put)


async def undone(front: Front) -> tuple[Session, UndoItem]:
    """Run one call and take it back."""
    session = await front.after("box.put", value="after")
    return session, only(await session.undo("t-1"))


async def test_an_inverse_that_lies_has_failed(front: Front) -> None:
    """AN-31: it returned, and `verify` still sees the effect."""
    box = Box(False, False, False)
    box.declare(front, {"verify": box.is_gone})
    session, item = await undone(front)
    assert (item.state, item.reason, item.attempts) == ("not_reversed", "failed", 3)
    assert item.error == "the inverse returned, but the effect is still there"
    assert [call.undo for call in session.au.attention()] == ["failed"]


async def test_a_world_that_lags_is_looked_at_again(front: Front) -> None:
    """AN-31: what can be repeated is."""
    box = Box(False, True)
    box.declare(front, {"verify": box.is_gone})
    _, item = await undone(front)
    assert (item.state, item.attempts) == ("reversed", 2)


async def test_a_lie_is_not_repeated_blindly(front: Front) -> None:
    """AN-31, ENG-09: failed and not in doubt, since the world was seen; a person may try again."""
    box = Box(False, True)
    box.declare(front, {"verify": box.is_gone}, repeatable=False)
    session, item = await undone(front)
    assert (item.state, item.reason, box.undone) == ("not_reversed", "failed", 1)
    assert only(await session.undo("t-1")).state == "reversed"


async def test_a_verify_that_cannot_tell_leaves_a_doubt(front: Front) -> None:
    """AN-31: what was to be looked at and could not be does not count as done."""

    def broken(arguments: object, captured: object) -> bool:
        raise OSError("down")

    box = Box()
    box.declare(front, {"verify": broken}, repeatable=False)
    _, item = await undone(front)
    assert (item.state, item.reason) == ("not_reversed", "in_doubt")
    assert item.error == "could not check whether the inverse worked: OSError: down"


async def test_what_observes_notices_an_inverse_that_does_nothing(front: Front) -> None:
    """AN-31: without `verify`, where the tool can read the world anyway."""
    box = Box(False, False, False)
    box.declare(front, {"fingerprint": box.read})
    _, item = await undone(front)
    assert (item.state, item.reason) == ("not_reversed", "failed")
    assert item.error == 'the inverse returned, but there is still "after"'


async def test_the_world_must_be_as_before_where_that_is_asked_for(
    front: Front,
) -> None:
    """AN-31: `verify=True` compares with what was observed before the call."""
    box = Box()
    box.declare(front, {"fingerprint": box.read, "verify": True})
    front.tools.remove("box.undo")
    front.tools.handler("box.undo", idempotent=True)(lambda: box.put("else"))
    _, item = await undone(front)
    assert (item.state, item.reason) == ("not_reversed", "failed")
    assert item.error == 'there was "before", now there is "else"'


async def test_without_verify_nothing_is_read_again(front: Front) -> None:
    """AN-31: `verify=False` takes the inverse's word also from a tool that observes."""
    box = Box(False)
    box.declare(front, {"fingerprint": box.read, "verify": False})
    _, item = await undone(front)
    assert (item.state, box.value) == ("reversed", "after")


def test_nothing_to_compare_is_a_registration_error() -> None:
    """AN-31."""
    with pytest.raises(RegistrationError, match="verify=True without fingerprint"):
        ToolRegistry().tool("a.b", verify=True)(lambda: None)


@pytest.mark.parametrize(
    ("now", "accepts", "state", "reason"),
    [
        ("1", (), "reversed", None),
        ("2", (), "not_reversed", "handler_missing"),
        ("2", ("1",), "reversed", None),
    ],
    ids=["same", "other", "accepted"],
)
async def test_an_inverse_is_run_by_its_own_version(
    front: Front, now: str, accepts: tuple[str, ...], state: str, reason: str | None
) -> None:
    """AN-33: name and version are written down; another version does not guess."""
    ran: list[int] = []

    def declare(version: str, accepts: tuple[str, ...] = ()) -> None:
        front.tools.handler(
            "toy.undo", idempotent=True, version=version, accepts=accepts
        )(lambda: ran.append(1))

    declare("1")
    front.tools.tool("toy.do", **undone_by("toy.undo"))(lambda: None)
    session = await front.after("toy.do")
    (call,) = session.au.calls("t-1")
    stored = parse(call.inverse)
    assert (stored["handler"], stored["version"]) == ("toy.undo", "1")
    front.tools.remove("toy.undo")
    declare(now, accepts)
    item = only(await session.undo("t-1"))
    assert (item.state, item.reason, len(ran)) == (state, reason, reason is None)
    if reason is not None:
        assert item.detail == (
            "it was recorded for version 1 of toy.undo, which is now 2"
        )


class Rows:
    """A table whose keys and rows are tuples, as a database driver gives them."""

    def __init__(self) -> None:
        self.rows: dict[object, object] = {}

    def put(self, key: object, row: object) -> None:
        self.rows[key] = row

    def read(self, arguments: Mapping[str, object]) -> object:
        return self.rows[arguments["key"]]

    def is_back(self, arguments: Mapping[str, object], captured: object) -> bool:
        return self.rows[arguments["key"]] == captured


@pytest.mark.parametrize("key", [("a", (1, "b")), 1.5])
async def test_tuples_come_back_from_the_journal_as_tuples(
    front: Front, key: object
) -> None:
    """`fingerprint` and `verify` compare with what they saw: a list would equal no tuple."""
    table = Rows()
    table.rows[key] = ("before", (1, 2))
    front.tools.handler("row.undo", idempotent=True)(
        lambda: table.put(key, ("before", (1, 2)))
    )
    front.tools.tool(
        "row.put",
        **undone_by("row.undo"),
        capture=table.read,
        fingerprint=table.read,
        verify=table.is_back,
        retry=AT_ONCE,
    )(table.put)
    session = await front.after("row.put", key=key, row=("after", (3,)))
    assert only(await session.undo("t-1")).state == "reversed"
    assert table.rows[key] == ("before", (1, 2))


@pytest.mark.parametrize("key", [b"a", {1: 2}])
async def test_what_the_journal_cannot_keep_is_compared_with_nothing(
    front: Front, key: object
) -> None:
    """`fingerprint` would be asked about another key, and find that nothing had moved."""
    asked: list[object] = []

    def read(arguments: Mapping[str, object]) -> object:
        asked.append(arguments["key"])
        return None

    front.tools.handler("row.undo", idempotent=True)(lambda: None)
    front.tools.tool(
        "row.put", **undone_by("row.undo"), fingerprint=read, retry=AT_ONCE
    )(lambda key: None)
    session = await front.after("row.put", key=key)
    item = only(await session.undo("t-1"))
    assert (item.reason, item.detail) == (
        "drifted",
        "it could not be observed: its arguments are not JSON",
    )
    assert asked == [key, key]


async def test_a_capture_that_the_journal_cannot_keep_is_not_verified(
    front: Front,
) -> None:
    """Compared with another value, every world would count as changed, or as back."""
    box = Box()
    box.declare(
        front, {"capture": lambda a: {1: box.value}, "verify": lambda a, c: c == {}}
    )
    _, item = await undone(front)
    assert item.state == "not_reversed"
    assert "could not check whether the inverse worked" in str(item.error)
    assert "a key of type int at capture" in str(item.error)


async def test_a_probe_is_not_asked_about_another_call(front: Front) -> None:
    """Its arguments are not in the journal as they were."""
    asked: list[object] = []

    def probe(arguments: object) -> bool:
        asked.append(arguments)
        return False

    def put(key: bytes) -> None:
        raise TimeoutError

    front.tools.tool("row.put", probe=probe)(put)
    with pytest.raises(TimeoutError) as caught:
        await front.session().called("row.put", key=b"a")
    report = caught.value.undo_report  # type: ignore[attr-defined]
    assert (asked, only(report).reason) == ([], "in_doubt")


@pytest.mark.parametrize("value", [b"x", {"a": b"x"}])
async def test_what_is_no_json_is_never_verified(front: Front, value: object) -> None:
    """The inverse does nothing, and nothing can be compared."""
    box = Box(False, False, False)
    box.declare(front, {"fingerprint": lambda arguments: value, "verify": True})
    session = await front.after("box.put", value="after")
    item = only(await session.undo("t-1", on_drift="overwrite"))
    assert (item.state, item.reason) == ("not_reversed", "failed")
    assert str(item.error).startswith(
        "could not check whether the inverse worked: what fingerprint returned is not JSON"
    )


@pytest.mark.parametrize("verify", [True, lambda a, c: True])
async def test_a_tool_with_another_name_is_never_verified(
    front: Front, verify: bool
) -> None:
    """The check was promised at the call, and nobody can make it."""
    box = Box()
    box.declare(front, {"fingerprint": box.read, "verify": verify})
    session = await front.after("box.put", value="after")
    front.tools.remove("box.put")
    item = only(await session.undo("t-1", on_drift="overwrite"))
    assert (item.state, item.error) == (
        "not_reversed",
        "could not check whether the inverse worked: box.put is not registered",
    )


async def test_a_check_that_was_promised_is_made_without_its_option(
    front: Front,
) -> None:
    box = Box(False, False, False)
    box.declare(front, {"fingerprint": box.read, "verify": True})
    session = await front.after("box.put", value="after")
    front.tools.remove("box.put")
    front.tools.remove("box.undo")
    box.declare(front, {"fingerprint": box.read})
    item = only(await session.undo("t-1"))
    assert item.error == 'there was "before", now there is "after"'


async def test_what_was_seen_before_is_verified_although_the_result_was_not(
    front: Front,
) -> None:
    box, reads = Box(), [0]

    def read(arguments: Mapping[str, object]) -> object:
        reads[0] += 1
        if reads[0] == 2:
            raise OSError("down")
        return box.value

    box.declare(front, {"fingerprint": read, "verify": True})
    session = await front.after("box.put", value="after")
    item = only(await session.undo("t-1", on_drift="overwrite"))
    assert (item.state, box.value) == ("reversed", "before")
