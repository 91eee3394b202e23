"""Secret arguments: none of their values is in anything that is stored, shown or exported."""

import array
import base64
import datetime
import io
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.cli import main
from gitshadow.sdk.turns.errors import ToolFailure
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.redaction import REDACTED, Secrets
from gitshadow.sdk.turns.tool import BuildInverse, ToolOptions
from gitshadow.sdk.turns.values import Inverse, Outcome, Reversibility, Secret
from tests.sdk.turns.front import Front
from tests.sdk.turns.recorded import Recorded
from tests.sdk.turns.test_pivot import told
from tests.sdk.turns.world import AT_ONCE, undone_by

NUMBER = "4111222233334444"


@dataclass(frozen=True)
class Card:
    number: str
    pins: tuple[int, ...] = ()


# Each value with the texts that must be nowhere: long ones, which no digest or time contains by
# chance, or such as stand alone.
SHAPES: Mapping[str, tuple[object, tuple[str, ...]]] = {
    "text": (NUMBER, (NUMBER,)),
    "nested": ({"number": NUMBER, "of": {"pin": 73910284}}, (NUMBER, "73910284")),
    "list": (["alpha-secret", ["beta-secret", None]], ("alpha-secret", "beta-secret")),
    "short": ({"cvv": "739", "also": [True]}, ("739",)),
    "number": (739, ("739",)),
    "fraction": (47.1189, ("47.1189",)),
    "key": ({"tok-4711": 1}, ("tok-4711",)),
    "quotes": ("pa\"ss\\wo'rd", ("pa\"ss\\wo'rd",)),
    "lines": ("line one\nline\ttwo", ("line one\nline\ttwo",)),
    "unicode": ({"ü": "пароль-ß"}, ("пароль-ß",)),
    "bytes": (b"raw-secret", ("raw-secret",)),
    "tuple": (("alpha-secret", 739), ("alpha-secret", "739")),
    "set": ({"alpha-secret"}, ("alpha-secret",)),
    "dataclass": (Card(NUMBER, (739,)), (NUMBER, "739")),
}


# All that shows calls of a program.
VERBS = (
    ["saga", "log", "--json"],
    ["saga", "turns", "t-1", "--json"],
    ["attention", "--json"],
    ["events", "--json"],
    ["export"],
    ["report", "--json"],
)


def plain(value: object) -> object:
    """Return a value as JSON, as a service would show it."""
    return json.loads(json.dumps(value, default=_named))


def _named(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    return sorted(value) if isinstance(value, set) else vars(value)


def words(value: object) -> str:
    """Return an error's text with a value in all the ways in which programs write one."""
    shown = json.dumps(plain(value))
    leaves = " ".join(quote(one) for one in texts(plain(value)))
    return f"no {value} {value!r} {shown} {json.dumps(shown)} {shown!r} {leaves}"


def texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (
            text for pair in value.items() for one in pair for text in texts(one)
        )
    elif isinstance(value, list):
        yield from (text for one in value for text in texts(one))
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def register(front: Front, secret: object) -> None:
    """Register `safe.*`, whose functions repeat the secret wherever they can."""
    broken: list[bool] = [True]

    def undo(**args: object) -> None:
        if broken and broken.pop():
            raise RuntimeError(words(secret))

    front.tools.handler("safe.undo", idempotent=True)(undo)
    shown = {"values": plain(secret), "text": words(secret), "amount": 98739125}

    def add(name: str, function: Callable[..., object], build: BuildInverse) -> None:
        options: ToolOptions = {
            "secrets": ("secret",),
            "reversibility": Reversibility.REVERSIBLE,
            "capture": lambda a: shown,
            "fingerprint": lambda a: shown,
            "describe": lambda a: words(secret),
            "probe": lambda a: Outcome.success(plain(secret)),
            "inverse": build,
            "retry": AT_ONCE,
        }
        if name == "safe.blind":
            options |= {"capture": broken_look, "fingerprint": broken_look}
        front.tools.add(name, function, **options)

    def put(secret: object, other: object = None) -> str:
        return words(secret)

    def refuse(secret: object) -> None:
        raise ToolFailure(words(secret))

    def fail(secret: object) -> None:
        raise RuntimeError(words(secret))

    def broken_look(arguments: Mapping[str, object]) -> object:
        raise RuntimeError(words(secret))

    harmless = Inverse("safe.undo", {"amount": 98739125})
    with_words = Inverse("safe.undo", {"value": words(secret)})
    add("safe.put", put, lambda a, c, r: harmless)
    add("safe.args", put, lambda a, c, r: Inverse("safe.undo", {"v": plain(secret)}))
    add("safe.words", put, lambda a, c, r: with_words)
    add("safe.residue", put, lambda a, c, r: harmless.leaving(words(secret)))
    add("safe.refuse", refuse, lambda a, c, r: harmless)
    add("safe.fail", fail, lambda a, c, r: Inverse("safe.undo", {"value": r}))
    add("safe.blind", put, lambda a, c, r: harmless)


def everything(root: Path) -> str:
    """Return every byte below a directory: the journal, its WAL, logs."""
    files = [path for path in root.rglob("*") if path.is_file()]
    assert any(path.name == "journal.db-wal" for path in files)
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def found(secrets: tuple[str, ...], text: str) -> list[str]:
    """Return the secrets that are in a text, short ones as words."""
    leaked = []
    for secret in secrets:
        forms = (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret))
        coded = [*forms, *(one.encode().decode("latin-1") for one in forms)]
        for one in coded:
            bare = r"(?<![\w.])" + re.escape(one) + r"(?![\w.])"
            if one in text if len(secret) > 3 else re.search(bare, text):
                leaked.append(one)
    return leaked


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_value_of_a_secret_is_anywhere(
    recorded: Recorded,
    shape: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret, told_texts = SHAPES[shape]
    front = recorded.front
    register(front, secret)
    session = front.session()
    async with session.turn() as turn:
        other = [plain(secret), words(secret)]
        assert (await turn.call("safe.put", secret=secret, other=other)).ok
        for name in ("args", "words", "residue", "refuse", "blind"):
            await turn.call(f"safe.{name}", secret=secret)
    with pytest.raises(RuntimeError):
        await session.called("safe.fail", secret=secret)
    plan = await session.plan("t-1")
    report = await session.undo("t-1")
    again = await session.undo("t-1")
    said = [json.dumps(one.to_json()) for one in (plan, report, again)]
    monkeypatch.chdir(front.root)
    page = tmp_path / "page.html"
    for line in (*VERBS, ["report", "-o", str(page)]):
        main(line)
    said += [capsys.readouterr().out, everything(Path(recorded.layout.state_dir))]
    said += [page.read_text()] if page.exists() else []
    assert found(told_texts, "\n".join(said)) == []
    states = {item.tool: item.state for item in again.items}
    assert states["safe.put"] == "reversed"
    assert {states[f"safe.{name}"] for name in ("args", "words", "residue")} == {
        "not_reversed"
    }


async def test_an_error_is_not_stored_if_the_secrets_cannot_be_looked_up(
    front: Front,
) -> None:
    """The call has happened, so its inverse must be stored all the same."""
    answers = [1]

    def check(arguments: object) -> object:
        if answers:
            return answers.pop()
        raise ConnectionError(NUMBER)

    def locked(name: str) -> str:
        raise OSError("locked")

    front.tools.handler("safe.undo", idempotent=True)(lambda token: None)
    front.tools.tool(
        "safe.put",
        reversibility=Reversibility.REVERSIBLE,
        fingerprint=check,
        inverse=lambda a, c, r: Inverse("safe.undo", {"token": Secret("TOKEN")}),
    )(lambda: None)
    session = front.session(host=Host(secrets=locked))
    async with session.turn() as turn:
        assert (await turn.call("safe.put")).ok
    (item,) = (await session.plan("t-1")).items
    assert item.reason == "drifted"
    assert str(item.detail).endswith(f"could not be observed: {REDACTED}")


async def test_a_number_that_contains_a_secret_is_kept(front: Front) -> None:
    """A row is JSON whatever a secret looks like."""
    put: list[object] = []

    def back(amount: int) -> None:
        put.append(amount)

    front.tools.handler("bank.back", idempotent=True)(back)
    front.tools.tool(
        "bank.pay",
        secrets=("pin",),
        **undone_by("bank.back", "amount"),
        fingerprint=lambda a: {"balance": 12345},
        retry=AT_ONCE,
    )(lambda pin, amount: None)
    session = await front.after("bank.pay", "c", pin="1234", amount=12345)
    assert told(await session.plan("t-1")) == {"c": "reversed"}
    assert (told(await session.undo("t-1")), put) == ({"c": "reversed"}, [12345])


@pytest.mark.parametrize("secret", [739, "739", {"cvv": [739]}, ("739",)])
async def test_an_inverse_with_a_short_secret_is_refused(
    front: Front, secret: object
) -> None:
    front.tools.handler("bank.back")(lambda pin: None)
    front.tools.tool(
        "bank.pay",
        secrets=("pin",),
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse("bank.back", {"pin": 739}),
    )(lambda pin: None)
    session = await front.after("bank.pay", "c", pin=secret)
    (call,) = session.au.calls("t-1")
    assert (call.inverse, "pass Secret(NAME) instead" in str(call.error)) == (
        None,
        True,
    )


async def test_what_was_captured_with_a_secret_makes_no_late_inverse(
    front: Front,
) -> None:
    """The journal has it without the secret, so the inverse would write something else."""
    front.tools.handler("safe.undo", idempotent=True)(lambda value: None)

    def fail(secret: str) -> None:
        raise RuntimeError

    front.tools.tool(
        "safe.put",
        secrets=("secret",),
        reversibility=Reversibility.REVERSIBLE,
        capture=lambda a: {"old": NUMBER},
        inverse=lambda a, c, r: Inverse("safe.undo", {"value": c["old"]}),
        probe=lambda a: True,
    )(fail)
    session = front.session()
    with pytest.raises(RuntimeError):
        await session.called("safe.put", "c", secret=NUMBER)
    (call,) = session.au.calls("t-1")
    assert (call.inverse, REDACTED in str(call.inverse)) == (None, False)
    assert "stored without a secret" in str(call.error)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (739, REDACTED),
        (739.0, REDACTED),
        ("739", REDACTED),
        (7391, 7391),
        (True, True),
        ("cvv=739.", f"cvv={REDACTED}."),
        ("c739 7391 1.739 739.5", "c739 7391 1.739 739.5"),
        ('{"a":[1,739]}', f'{{"a":[1,{REDACTED}]}}'),
        (r"a\n739\n", rf"a\n{REDACTED}\n"),
        ("a%20739%20", f"a%20{REDACTED}%20"),
        ({"739": 739, "a": [739]}, {REDACTED: REDACTED, "a": [REDACTED]}),
    ],
)
def test_a_short_secret_is_hidden_as_a_word(value: object, left: object) -> None:
    assert Secrets([{"cvv": 739, "on": True}]).hide(value) == left  # type: ignore[arg-type]


def test_names_of_fields_are_no_secrets() -> None:
    """Else nearly every inverse that has an `id` would be refused."""
    secrets = Secrets([{"id": "tok-4711", "key-8": 1}])
    assert secrets.hide({"id": 7, "key-8": 7}) == {"id": 7, REDACTED: 7}
    assert Secrets(["hunter"]).are_in({"hunter": 7})


class Slotted:
    __slots__ = ("__code", "number")

    def __init__(self) -> None:
        self.number = NUMBER
        self.__code = "code-4711"


class Derived(Slotted):
    """Has the slots of its base, and a dictionary."""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Slotted(), NUMBER),
        (Slotted(), "code-4711"),
        (Derived(), NUMBER),
        (io.BytesIO(NUMBER.encode()), NUMBER),
        (io.StringIO(NUMBER), NUMBER),
        (array.array("q", [int(NUMBER)]), NUMBER),
        (ValueError("card", NUMBER), NUMBER),
        (uuid.UUID(int=4711), uuid.UUID(int=4711).hex),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
    ],
)
def test_what_an_object_holds_is_secret(value: object, shown: str) -> None:
    assert Secrets([value]).hide_text(f"it is {shown}") == f"it is {REDACTED}"


def test_two_keys_that_are_secret_stay_two() -> None:
    hidden = Secrets([["alpha", "gamma"]]).hide({"alpha": 1, "gamma": 2})
    assert hidden == {REDACTED: 1, f"{REDACTED}'": 2}


@pytest.mark.parametrize("user", ["", "a:", "ab:", "abc:"])
def test_a_secret_in_base64_is_hidden(user: str) -> None:
    token = base64.b64encode(f"{user}pass-4711-word:x".encode()).decode()
    assert REDACTED in Secrets(["pass-4711-word"]).hide_text(f"Basic {token}")


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=4),
    st.text("ab \"'\\\n%é"),
    st.text("ab \"'\\\n%é"),
)
def test_a_text_has_no_secret_in_any_form(secret: str, before: str, after: str) -> None:
    """Law: in JSON of a repr, and in a repr of JSON, the secret is not."""
    secrets = Secrets([secret])
    whole = f"{before}{secret}{after}"
    for shown in (whole, json.dumps(whole), repr(whole), json.dumps(repr(whole))):
        left = secrets.hide_text(shown)
        assert left != shown
        assert secrets.hide_text(left.replace(REDACTED, "")) is not None
        assert not secrets.are_in(left.replace(REDACTED, "\0"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=6), inner),
    ),
    st.lists(st.integers() | st.text(max_size=6)),
)
def test_what_is_left_of_a_value_is_json_without_secrets(
    value: object, secret: list[object]
) -> None:
    """Law: hiding leaves JSON of the same shape, and none of the secrets as a leaf."""
    secrets = Secrets([secret])
    left = json.dumps(secrets.hide(value))  # type: ignore[arg-type]
    leaves = [one for one in texts(json.loads(left)) if REDACTED not in one]
    wanted = {str(one) for one in secret if one != ""}
    assert wanted.isdisjoint(leaves)


@pytest.mark.parametrize("failing", ["handler", "fingerprint", "verify"])
async def test_an_error_at_an_undo_elsewhere_is_not_shown_after_a_secret(
    recorded: Recorded, failing: str
) -> None:
    """Another session does not know the secret, so it cannot search the text for it."""
    front, world = recorded.front, dict[str, bool]()

    def may_fail(name: str) -> int:
        if name == failing and "undo" in world:
            raise ConnectionError(f"no card {NUMBER}")
        return 1

    front.tools.handler("safe.undo", idempotent=True)(lambda: may_fail("handler"))
    front.tools.tool(
        "safe.pay",
        **undone_by("safe.undo"),
        secrets=("card",),
        fingerprint=lambda a: may_fail("fingerprint"),
        verify=lambda a, r: bool(may_fail("verify")),
        retry=AT_ONCE,
    )(lambda card: None)
    first = front.session()
    async with first.turn() as turn:
        assert (await turn.call("safe.pay", card={"number": NUMBER})).ok
    world["undo"] = True
    report = await front.session().undo("t-1")
    said = json.dumps(report.to_json())
    assert "ConnectionError: not shown, because it may have a secret argument" in said
    stored = everything(Path(recorded.layout.state_dir))
    assert found((NUMBER,), f"{said}\n{stored}") == []


@pytest.mark.parametrize(
    ("option", "working"),
    [("fingerprint", 0), ("fingerprint", 1), ("fingerprint", 2), ("verify", 0)],
    ids=["before", "after", "undo", "verify"],
)
async def test_an_error_of_a_check_has_no_secret_that_the_inverse_names(
    recorded: Recorded, option: str, working: int
) -> None:
    """Such a function uses the token of its service, and errors of requests repeat it."""
    front, answers = recorded.front, [1] * working

    def check(*args: object) -> object:
        if option == "fingerprint" and answers:
            return answers.pop()
        raise ConnectionError(f"401 for https://x/?token={NUMBER}")

    front.tools.handler("safe.undo", idempotent=True)(lambda token: None)
    front.tools.tool(
        "safe.put",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse("safe.undo", {"token": Secret("TOKEN")}),
        retry=AT_ONCE,
        **{option: check},  # type: ignore[arg-type]
    )(lambda: None)
    session = front.session(host=Host(secrets={"TOKEN": NUMBER}))
    async with session.turn() as turn:
        assert (await turn.call("safe.put")).ok
    plan = await session.plan("t-1")
    report = await session.undo("t-1")
    said = [json.dumps(one.to_json()) for one in (plan, report)]
    assert [item.state for item in report.items] == ["not_reversed"]
    assert "ConnectionError" in said[1]
    said.append(everything(Path(recorded.layout.state_dir)))
    assert found((NUMBER,), "\n".join(said)) == []
