"""A toy world: a JSON file, a list of calls, and tools that change it.

It is no engine. It stands for what lies outside of an agent program, such as its customers' data or
its mail, and it shares no code with the package. Everything is on the disk, so that another process
can look at it. Tools are plain functions or, for the async front, coroutine functions.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TypedDict

from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import ToolOptions
from gitshadow.sdk.turns.values import Conflict, Inverse, Outcome, Retry, Reversibility

AT_ONCE = Retry(attempts=3, backoff_s=0, timeout_s=None)


class State(TypedDict):
    """Return the contents of the world."""

    crm: dict[str, dict[str, str]]
    drafts: dict[str, str]
    invites: dict[str, str]
    notices: list[str]
    charges: list[str]
    refunds: list[str]
    sent: list[str]
    posts: list[str]


EMPTY: State = {
    "crm": {"7": {"name": "Y", "city": "Rome"}, "8": {"name": "Q"}},
    "drafts": {},
    "invites": {},
    "notices": [],
    "charges": [],
    "refunds": [],
    "sent": [],
    "posts": [],
}


@dataclass(slots=True)
class World:
    """The world, and how its tools fail.

    `trouble` maps a handler to the errors that its next calls raise.
    """

    root: Path
    coroutines: bool = False
    trouble: dict[str, list[Exception]] = field(default_factory=dict)
    captures: list[str] = field(default_factory=list)
    before_call: Callable[[str], None] = lambda name: None

    @classmethod
    def make(cls, root: Path, *, coroutines: bool = False) -> "World":
        """Make a new world below a directory."""
        root.mkdir(exist_ok=True)
        (root / "world.json").write_text(json.dumps(EMPTY, indent=1))
        (root / "calls.jsonl").touch()
        return cls(root, coroutines)

    @property
    def text(self) -> bytes:
        """Return the world, byte for byte."""
        return (self.root / "world.json").read_bytes()

    @property
    def state(self) -> State:
        """Return what the world holds."""
        found: State = json.loads(self.text)
        return found

    def put(self, state: State) -> None:
        """Change the world."""
        (self.root / "world.json").write_text(json.dumps(state, indent=1))

    @property
    def calls(self) -> list[tuple[str, str | None]]:
        """Return every forward and inverse call with its idempotency key, oldest first."""
        lines = (self.root / "calls.jsonl").read_text().splitlines()
        return [(row["name"], row["key"]) for row in map(json.loads, lines)]

    @property
    def names(self) -> list[str]:
        """Return the names of all calls, oldest first."""
        return [name for name, _ in self.calls]

    @property
    def inverses(self) -> list[str]:
        """Return the names of the inverse calls, oldest first."""
        return [name for name in self.names if name.startswith("undo:")]

    def args(self, name: str) -> list[dict[str, object]]:
        """Return the arguments of the calls of one name."""
        lines = (self.root / "calls.jsonl").read_text().splitlines()
        return [row["args"] for row in map(json.loads, lines) if row["name"] == name]

    def called(self, name: str, key: str | None, **args: object) -> None:
        """Write a call down, then have it fail if it is to."""
        self.before_call(name)
        row = {"name": name, "key": key, "args": args}
        with (self.root / "calls.jsonl").open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        if self.trouble.get(name):
            raise self.trouble[name].pop(0)

    def once(self, key: str) -> bool:
        """Return whether a key is new; it is stored, as a payment provider does."""
        path = self.root / "keys"
        known = path.read_text().split() if path.exists() else []
        path.write_text(" ".join({*known, key}))
        return key not in known

    def crm_get(self, arguments: Mapping[str, object]) -> str | None:
        """Return a field of the CRM."""
        record = self.state["crm"].get(str(arguments["id"]), {})
        return record.get(str(arguments["field"]))

    def crm_set(self, record: object, name: object, value: str | None) -> None:
        """Change a field, as a person would."""
        state = self.state
        fields = state["crm"].setdefault(str(record), {})
        if value is None:
            fields.pop(str(name), None)
        else:
            fields[str(name)] = value
        self.put(state)


class Toys:
    """The functions behind the tools, all on one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def crm_update(
        self, id: object, field: str, value: str | None, *, idempotency_key: str
    ) -> str:
        self.world.called("crm.update", idempotency_key, field=field, value=value)
        self.world.crm_set(id, field, value)
        return "ok"

    def crm_restore(
        self, id: object, field: str, value: str | None, *, idempotency_key: str
    ) -> None:
        self.world.called("undo:crm", idempotency_key, field=field, value=value)
        self.world.crm_set(id, field, value)

    def crm_capture(self, arguments: Mapping[str, object]) -> object:
        self.world.captures.append("crm.update")
        return {"prior": self.world.crm_get(arguments)}

    def crm_inverse(
        self, arguments: Mapping[str, object], captured: object, result: object
    ) -> Inverse:
        record, name = arguments["id"], arguments["field"]
        value = _of(captured, "prior")
        return Inverse.tool("crm.restore", id=record, field=name, value=value)

    def draft_create(self, title: str, *, idempotency_key: str) -> dict[str, int]:
        self.world.called("draft.create", idempotency_key, title=title)
        state = self.world.state
        number = 1 + max(map(int, state["drafts"]), default=8)
        state["drafts"][str(number)] = title
        self.world.put(state)
        return {"id": number}

    def draft_delete(self, id: int, *, idempotency_key: str) -> None:
        self.world.called("undo:draft", idempotency_key, id=id)
        state = self.world.state
        state["drafts"].pop(str(id), None)
        self.world.put(state)

    def cal_invite(self, who: str, *, idempotency_key: str) -> dict[str, str]:
        self.world.called("cal.invite", idempotency_key, who=who)
        state = self.world.state
        state["invites"][who] = "invited"
        self.world.put(state)
        return {"id": who}

    def cal_cancel(self, id: str, *, idempotency_key: str) -> None:
        self.world.called("undo:cal", idempotency_key, id=id)
        if not self.world.once(idempotency_key):
            return
        state = self.world.state
        state["invites"][id] = "cancelled"
        state["notices"].append(f"cancelled: {id}")
        self.world.put(state)

    def card_charge(self, amount: int, *, idempotency_key: str) -> dict[str, str]:
        self.world.called("card.charge", idempotency_key, amount=amount)
        state = self.world.state
        state["charges"].append(f"ch_{len(state['charges']) + 1}")
        self.world.put(state)
        return {"charge_id": state["charges"][-1]}

    def card_refund(self, charge_id: str, *, idempotency_key: str) -> None:
        self.world.called("undo:card", idempotency_key, charge_id=charge_id)
        if not self.world.once(idempotency_key):
            return
        state = self.world.state
        state["refunds"].append(charge_id)
        self.world.put(state)

    def mail_send(self, to: str) -> str:
        self.world.called("mail.send", None, to=to)
        state = self.world.state
        state["sent"].append(to)
        self.world.put(state)
        return "sent. reversible: true"

    def slack_post(self, text: str) -> None:
        self.world.called("slack.post", None, text=text)
        state = self.world.state
        state["posts"].append(text)
        self.world.put(state)

    def notes_read(self, note: str) -> str:
        self.world.called("notes.read", None, note=note)
        return f"text of {note}"

    def boom(self) -> None:
        self.world.called("toy.boom", None)
        raise BoomError("boom")

    def soft_fail(self) -> Outcome:
        self.world.called("toy.soft_fail", None)
        return Outcome.failed("no such customer")

    def stale(self, revision: object = None) -> Outcome:
        self.world.called("toy.stale", None, revision=revision)
        return Outcome.conflict(Conflict("M", 3, 5, "D"))


def registry(world: World, *, fingerprint: bool = False) -> ToolRegistry:
    """Register the tools of the world; `fingerprint` lets `crm.update` notice drift."""
    tools, toys = ToolRegistry(), Toys(world)
    for name, (function, options) in _declared(toys, fingerprint).items():
        tools.add(name, _as_asked(function, world.coroutines), **options)
    handlers: dict[str, Callable[..., object]] = {
        "crm.restore": toys.crm_restore,
        "draft.delete": toys.draft_delete,
        "cal.cancel": toys.cal_cancel,
        "card.refund": toys.card_refund,
    }
    for name, handler in handlers.items():
        tools.handler(name)(_as_asked(handler, world.coroutines))
    return tools


class Undone(TypedDict):
    """The options of a tool with an inverse."""

    reversibility: Reversibility
    inverse: Callable[[Mapping[str, object], object, object], Inverse]


def undone_by(handler: str, *names: str) -> Undone:
    """Return the options of a tool that a handler undoes with these arguments of the call."""
    return {
        "reversibility": Reversibility.REVERSIBLE,
        "inverse": lambda a, c, r: Inverse(handler, {name: a[name] for name in names}),
    }


def _declared(
    toys: Toys, fingerprint: bool
) -> Mapping[str, tuple[Callable[..., object], ToolOptions]]:
    read_only: ToolOptions = {"reversibility": Reversibility.READ_ONLY}
    crm: ToolOptions = {
        "reversibility": Reversibility.REVERSIBLE,
        "capture": toys.crm_capture,
        "inverse": toys.crm_inverse,
        "retry": AT_ONCE,
    }
    if fingerprint:
        crm["fingerprint"] = toys.world.crm_get
    draft: ToolOptions = {
        "reversibility": Reversibility.REVERSIBLE,
        "inverse": lambda a, c, r: Inverse.tool("draft.delete", id=_of(r, "id")),
        "retry": AT_ONCE,
    }
    invite: ToolOptions = {
        "reversibility": Reversibility.COMPENSABLE,
        "inverse": lambda a, c, r: Inverse.tool("cal.cancel", id=_of(r, "id")),
        "residue": "the guest was sent a cancellation notice",
        "retry": AT_ONCE,
    }
    charge: ToolOptions = {
        "reversibility": Reversibility.COMPENSABLE,
        "inverse": lambda a, c, r: Inverse("card.refund", r),
        "retry": AT_ONCE,
    }
    mail: ToolOptions = {
        "reversibility": Reversibility.NON_REVERSIBLE,
        "follow_up": "write to the reader and say what was wrong",
    }
    return {
        "crm.update": (toys.crm_update, crm),
        "draft.create": (toys.draft_create, draft),
        "cal.invite": (toys.cal_invite, invite),
        "card.charge": (toys.card_charge, charge),
        "mail.send": (toys.mail_send, mail),
        "slack.post": (toys.slack_post, {}),
        "notes.read": (toys.notes_read, read_only),
        "toy.boom": (toys.boom, read_only),
        "toy.soft_fail": (toys.soft_fail, read_only),
        "toy.stale": (toys.stale, read_only),
    }


class BoomError(Exception):
    """What `toy.boom` raises."""


def _of(result: object, key: str) -> object:
    assert isinstance(result, dict)
    return result[key]


def decorated(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function behind a decorator that passes everything on, unchecked."""

    @wraps(function)
    def around(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return around


def _as_asked(
    function: Callable[..., object], coroutine: bool
) -> Callable[..., object]:
    """Return a function as it is, or as a coroutine function."""
    if not coroutine:
        return function

    @wraps(function)
    async def later(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return later
