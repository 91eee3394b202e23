"""AN-15: inverses that are commands, requests and tools of servers are not a way in."""

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.inverse_kinds import Allowed, check
from gitshadow.sdk.turns.policy import Policy, Proposal
from gitshadow.sdk.turns.report import UndoItem
from gitshadow.sdk.turns.values import Inverse, Outcome, Retry, Reversibility, Secret
from tests.sdk.turns.front import FREE, Front, Session, in_journal, only
from tests.sdk.turns.server import Web, serving
from tests.sdk.turns.world import AT_ONCE
from tests.support.waiting import until

_QUICK = Retry(attempts=3, backoff_s=0, timeout_s=20)
_TOKEN = "tok-4711-planted"


@pytest.fixture
def web() -> Iterator[Web]:
    """Return a server."""
    with serving() as found:
        yield found


def allowing(**what: tuple[str, ...]) -> Policy:
    """Return a policy that allows some external inverses."""
    return replace(FREE, inverses=Allowed(**what))


async def done(
    front: Front,
    inverse: Callable[[], Inverse],
    policy: Policy,
    host: Host | None = None,
    retry: Retry = _QUICK,
) -> Session:
    """Run one turn with one call that has this inverse."""
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: inverse(),
        retry=retry,
    )(lambda: None)
    session = front.session(policy=policy, host=host)
    await session.called("toy.do")
    return session


def how(item: UndoItem) -> tuple[str, str | None]:
    """Return state and reason."""
    return item.state, item.reason


async def test_a_command_runs_without_a_shell(front: Front) -> None:
    """AN-15: its arguments are handed over as they are, where it is told to run."""
    (front.root / "a b").mkdir()
    name = "$(touch bad); *"
    session = await done(
        front,
        lambda: Inverse.command(["touch", name], cwd=str(front.root / "a b")),
        allowing(commands=("touch",)),
    )
    plan = only(await session.plan("t-1"))
    assert plan.detail == f"runs touch '{name}' (in {front.root / 'a b'})"
    assert how(only(await session.undo("t-1"))) == ("reversed", None)
    assert os.listdir(front.root / "a b") == [name]


async def test_a_command_sees_few_variables(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AN-15: the key, what it was given by name, and what every program needs."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for you")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("PATH", f".:bin:{os.environ['PATH']}")
    told = front.root / "told"
    session = await done(
        front,
        lambda: Inverse.command(
            ["sh", "-c", f"env -u PWD -u SHLVL -u _ > {told}"], secrets=["API_TOKEN"]
        ),
        allowing(commands=("sh -c",)),
        Host(secrets={"API_TOKEN": _TOKEN}),
    )
    assert how(only(await session.undo("t-1"))) == ("reversed", None)
    seen = dict(line.split("=", 1) for line in told.read_text().splitlines())
    passed = {"HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
    (call,) = session.au.calls("t-1")
    assert seen.keys() - passed == {"PATH", "API_TOKEN", "AGENT_UNDO_IDEMPOTENCY_KEY"}
    assert (seen["API_TOKEN"], seen["AGENT_UNDO_IDEMPOTENCY_KEY"]) == (_TOKEN, call.key)
    assert all(place.startswith("/") for place in seen["PATH"].split(":"))


async def test_a_command_that_fails_is_in_doubt(front: Front) -> None:
    """AN-15, ENG-09: nobody knows what it did before; it is not run again."""
    runs = front.root / "runs"
    session = await done(
        front,
        lambda: Inverse.command(["sh", "-c", f"echo x >> {runs}; echo no >&2; exit 3"]),
        allowing(commands=("sh",)),
    )
    item = only(await session.undo("t-1"))
    assert how(item) == ("not_reversed", "in_doubt")
    assert item.error == "CommandError: sh ended with 3: no"
    assert how(only(await session.undo("t-1"))) == ("not_reversed", "in_doubt")
    assert runs.read_text() == "x\n"


async def test_a_repeatable_command_is_tried_again(front: Front) -> None:
    """AN-06: with the same key each time."""
    runs = front.root / "runs"
    script = f"echo $AGENT_UNDO_IDEMPOTENCY_KEY >> {runs}; test $(wc -l < {runs}) = 3"
    session = await done(
        front,
        lambda: Inverse.command(["sh", "-c", script]).repeatable(),
        allowing(commands=("sh",)),
    )
    item = only(await session.undo("t-1"))
    assert (item.state, item.attempts) == ("reversed", 3)
    assert len(set(runs.read_text().split())) == 1


async def test_a_command_that_hangs_is_killed_with_its_children(front: Front) -> None:
    """AN-15: bounded time."""
    pids = front.root / "pids"
    pids.touch()
    script = f"sleep 600 & echo $! $$ > {pids}; wait"
    session = await done(
        front,
        lambda: Inverse.command(["sh", "-c", script]),
        allowing(commands=("sh",)),
        retry=Retry(attempts=3, backoff_s=0, timeout_s=1),
    )
    item = only(await session.undo("t-1"))
    assert how(item) == ("not_reversed", "in_doubt")
    assert item.error == "TimeoutError: no end after 1 s"
    until(lambda: not any(map(is_alive, pids.read_text().split())))


def is_alive(pid: str) -> bool:
    """Tell whether a process is at work; one that nobody waited for yet is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def test_what_a_command_says_is_bounded(front: Front) -> None:
    """AN-15: bounded output, also of one that never stops."""
    session = await done(
        front,
        lambda: Inverse.command(
            ["sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x; exit 1"]
        ),
        allowing(commands=("sh",)),
    )
    error = only(await session.undo("t-1")).error
    assert error is not None
    assert error.count("x") == 2000


async def test_a_program_that_is_missing_did_nothing(front: Front) -> None:
    """AN-06: tried once, and failed rather than in doubt."""
    session = await done(
        front,
        lambda: Inverse.command(["no-such-program-4711"]),
        allowing(commands=("no-such-program-4711",)),
    )
    item = only(await session.undo("t-1"))
    assert (*how(item), item.attempts) == ("not_reversed", "failed", 1)
    assert item.error == "FinalFailure: no such program: no-such-program-4711"


@pytest.mark.parametrize(
    "argv",
    [
        ["git", "push"],
        ["git"],
        ["/usr/bin/git", "tag", "-d", "v1"],
        ["sh", "git tag -d"],
    ],
    ids=["other words", "fewer words", "another program", "inside"],
)
async def test_what_the_policy_does_not_list_is_declined(
    front: Front, argv: list[str]
) -> None:
    """AN-15: nobody can be asked, so nothing runs; the plan says so too."""
    session = await done(
        front, lambda: Inverse.command(argv), allowing(commands=("git tag -d",))
    )
    plan, item = only(await session.plan("t-1")), only(await session.undo("t-1"))
    assert how(plan) == how(item) == ("not_reversed", "declined")
    assert (item.detail or "").endswith(
        "which the policy does not allow, and there is no one to ask"
    )


@pytest.mark.parametrize(
    ("answer", "state"), [(True, "reversed"), (False, "not_reversed")]
)
async def test_a_person_can_be_asked(front: Front, answer: bool, state: str) -> None:
    """AN-15: a confirmation stands for the list; the question shows the command."""
    asked: list[str] = []

    def confirm(proposal: Proposal) -> bool:
        asked.append(proposal.question)
        return answer

    mark = front.root / "mark"
    session = await done(
        front,
        lambda: Inverse.command(["touch", str(mark)]),
        replace(FREE, confirm=confirm),
    )
    item = only(await session.undo("t-1"))
    assert (item.state, mark.exists()) == (state, answer)
    assert asked == [f"to undo toy.do t-1.1, it runs touch {mark}"]
    assert item.detail == (None if answer else f"it runs touch {mark}: declined")


def edit(front: Front, sql: str, *values: str) -> None:
    """Change the journal by hand."""
    journal = front.root / ".git" / "agent-undo" / "journal.db"
    with closing(sqlite3.connect(journal)) as db, db:
        db.execute(sql, values)


_ONE = "UPDATE saga_calls SET inverse = replace(inverse, ?, ?)"
_LOG = "UPDATE saga_log SET body = replace(body, ?, ?)"


@in_journal
@pytest.mark.parametrize("also_log", [False, True], ids=["row", "row and log"])
async def test_a_journal_edited_by_hand_runs_nothing(
    front: Front, also_log: bool
) -> None:
    """AN-15, bad input: another command of an allowed program is refused all the same."""
    good, bad = front.root / "good", front.root / "evil"
    session = await done(
        front,
        lambda: Inverse.command(["touch", str(good)]),
        allowing(commands=("touch",)),
    )
    edit(front, _ONE, str(good), str(bad))
    if also_log:
        edit(front, "DROP TRIGGER saga_log_no_update")
        edit(front, _LOG, str(good), str(bad))
    item = only(await session.undo("t-1"))
    assert how(item) == ("not_reversed", "declined")
    assert item.detail == (
        "the log does not match the inverse that the journal has for it"
    )
    assert (good.exists(), bad.exists()) == (False, False)
    assert (session.au.verify() is not None) == also_log


@in_journal
@pytest.mark.parametrize(
    "text", ["not JSON", "{}", '{"handler":"draft.delete","args":[]}']
)
async def test_an_inverse_edited_to_nonsense_is_that_item_only(
    front: Front, text: str
) -> None:
    """Bad input: a function of the program is not run with what was put there either."""
    session = front.session()
    async with session.turn() as turn:
        await turn.call("draft.create", title="a")
        await turn.call("draft.create", title="b")
    edit(front, "UPDATE saga_calls SET inverse = ? WHERE id = 't-1.2'", text)
    report = await session.undo("t-1")
    assert [how(item) for item in report.items] == [
        ("not_reversed", "declined"),
        ("reversed", None),
    ]
    assert front.world.state["drafts"] == {"10": "b"}


async def test_a_request_carries_key_and_token(front: Front, web: Web) -> None:
    """AN-15: looked up when it is sent."""
    session = await done(
        front,
        lambda: Inverse.http(
            "post",
            f"{web.url}/v1/refunds?dry=no",
            json={"charge": 7, "pin": Secret("PIN")},
            auth="env:TOKEN",
            headers={"X-Shop": "a"},
        ),
        allowing(urls=(f"{web.url}/v1",)),
        Host(secrets={"TOKEN": _TOKEN, "PIN": "0815"}),
    )
    assert (
        only(await session.plan("t-1")).detail
        == f"sends POST {web.url}/v1/refunds?dry=no"
    )
    assert web.got == []
    assert how(only(await session.undo("t-1"))) == ("reversed", None)
    (got,) = web.got
    (call,) = session.au.calls("t-1")
    assert (got.method, got.path) == ("POST", "/v1/refunds?dry=no")
    assert got.body == '{"charge": 7, "pin": "0815"}'
    assert got.headers["Idempotency-Key"] == call.key
    assert got.headers["Authorization"] == f"Bearer {_TOKEN}"
    assert (got.headers["X-Shop"], got.headers["Content-Type"]) == (
        "a",
        "application/json",
    )


@in_journal
async def test_a_token_is_nowhere(front: Front, web: Web) -> None:
    """AN-15: not in the journal, the refs, the report or an error, even when it is said back."""
    web.answers = [(500, {}, f"bad token {_TOKEN}")]
    front.tools.handler("toy.say", idempotent=True)(refuse)
    front.tools.tool(
        "toy.told",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("toy.say", token=Secret("TOKEN")),
        retry=Retry(attempts=1),
    )(lambda: None)
    session = await done(
        front,
        lambda: Inverse.http("POST", web.url, auth="env:TOKEN"),
        allowing(urls=(web.url,), commands=("sh",)),
        Host(secrets={"TOKEN": _TOKEN}),
    )
    front.tools.remove("toy.do")
    await done(
        front,
        lambda: Inverse.command(["sh", "-c", "echo $TOKEN; exit 1"], secrets=["TOKEN"]),
        session.au.runtime.setting.policy,
    )
    async with session.turn() as turn:
        await turn.call("toy.told")
        await turn.save("notes", b"x")
    reports = [await session.undo(f"t-{n}") for n in (1, 2, 3)]
    found = (item for report in reports for item in report.items)
    errors = [item.error for item in found if item.domain == "effects"]
    assert errors == [
        "HttpError: the server answered 500 Internal Server Error bad token [redacted]",
        "CommandError: sh ended with 1: [redacted]",
        "ValueError: no such token [redacted]",
    ]
    session.au.close()
    front.opened.clear()
    leaks = [
        path
        for path in (front.root / ".git").rglob("*")
        if path.is_file() and _TOKEN.encode() in path.read_bytes()
    ]
    assert leaks == []
    assert _TOKEN not in "".join(report.render() for report in reports)
    packed = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"],
        cwd=front.root,
        capture_output=True,
        check=True,
    )
    assert _TOKEN.encode() not in packed.stdout


def refuse(token: str) -> None:
    """Fail, and say the secret."""
    raise ValueError(f"no such token {token}")


@pytest.mark.parametrize(
    ("inverse", "why"),
    [
        (
            lambda: Inverse.http("POST", "https://u:p@x.org/"),
            "an address must not contain credentials",
        ),
        (
            lambda: Inverse.http(
                "POST", "https://x.org", headers={"X-Api-Key": _TOKEN}
            ),
            "the header X-Api-Key contains a credential",
        ),
        (
            lambda: Inverse.http("POST", "file:///etc/passwd"),
            "an address must start with",
        ),
        (
            lambda: Inverse.http("POST", "https://x.org/v1/../admin"),
            "an address must not contain /../",
        ),
        (
            lambda: Inverse.http("POST", "https://x.org/v1/%2E%2e/a"),
            "an address must not contain /../",
        ),
        (
            lambda: Inverse.http("POST", "https://x.org/a b"),
            "an address must not contain spaces",
        ),
        (
            lambda: Inverse.http("P\r\nX", "https://x.org/"),
            "a method must be a word in capitals",
        ),
        (
            lambda: Inverse.http("PUT", "https://x.org", headers={"Host": "y.org"}),
            "the header Host cannot be set by inverses",
        ),
        (lambda: Inverse.command([]), "a command must be a list of strings"),
        (
            lambda: Inverse.command(["./undo.sh"]),
            "a program must be a plain name or an absolute",
        ),
        (
            lambda: Inverse("command", {"argv": ["x"], "env": {"A": "b"}}),
            "variables of a",
        ),
    ],
)
async def test_what_must_not_be_stored_is_not(
    front: Front, inverse: Callable[[], Inverse], why: str
) -> None:
    """AN-15: the effect stands, the report says why, and repeats no value."""
    session = await done(front, inverse, allowing(urls=("https://x.org",)))
    item = only(await session.undo("t-1"))
    assert how(item) == ("not_reversed", "no_inverse")
    assert (item.error or "").startswith(f"the inverse was not stored: {why}")
    assert _TOKEN not in (item.error or "")


def test_a_token_by_value_is_no_reference() -> None:
    """AN-15: and the error does not repeat it."""
    with pytest.raises(ValueError, match=r"^a secret must be given by name: env:NAME$"):
        Inverse.http("POST", "https://x.org", auth=_TOKEN)


@pytest.mark.parametrize(
    "url",
    [
        "https://x.org.evil.com/v1",
        "https://x.org:8443/v1",
        "http://x.org/v1",
        "https://x.org/v10",
    ],
)
def test_an_address_is_compared_by_its_parts(url: str) -> None:
    """AN-15."""
    allowed = Allowed(urls=("https://x.org/v1",))
    assert not allowed.covers("http", {"url": url})
    assert allowed.covers("http", {"url": "https://X.org:443/v1/a?b"})
    assert allowed.covers("http", {"url": "https://x.org/v1?b"})


CLIMBS = [
    *("/v1/../a", "/v1/..", "/v1/./../a", "/v1/a/../../a", "/v1//../a", "/v1/%2e%2e/a"),
    *("/v1/%2E./a", "/v1/.%2e/a", "/v1/..%2fa", "/v1/%2e%2e%2fa", "/v1/..%5ca"),
    *("/v1/..;/a", "/v1/..;x=1/a", "/v1/..%3b/a", "/v1/;/..;/a", "/v1/.;/a"),
    *("/v1/%252e%252e/a", "/v1/%25252e%25252e/a", "/v1/..%252fa", "/v1/..%255ca"),
    *("/v1/..%00/a", "/v1/..%20/a", "/v1/%20../a", "/v1/..%3fa", "/v1/..%23a"),
    *("/v1/%u002e%u002e/a", "/v1/%25u002e%25u002e/a", "/v1/%c0%ae%c0%ae/a"),
    *("/v1/%ef%bc%8e%ef%bc%8e/a", "/v1/..%ef%bc%8fa", "/v1/%e2%80%a5/a", "/v1/.../a"),
    *("/v1/%2/a", "/v1/a%2fb", "/v1/a%5cb", "/v1/a%0d%0ab", "/v1/%zz/a"),
    *("/v1%2f../a", "/v1;/../a", "/v1/..?x", "/v1/a/..;?x"),
]


@pytest.mark.parametrize("path", CLIMBS)
def test_an_address_that_a_server_may_read_as_another_is_refused(path: str) -> None:
    """AN-15: no rule allows it, and it is not stored."""
    url = f"https://x.org{path}"
    for entry in ("https://x.org/v1", "https://x.org"):
        assert not Allowed(urls=(entry,)).covers("http", {"url": url})
    request = {"method": "PUT", "url": url, "headers": {}, "accept": []}
    with pytest.raises(ValueError, match=r"^an address must "):
        check("http", request)


@pytest.mark.parametrize(
    "url",
    [
        *("https://u@x.org/v1/a", "https://u:p@x.org/v1/a", "https://x.org@e.org/v1"),
        *("https://x.org:0/v1/a", "https://x.org:80/v1/a", "https://x.org:x/v1/a"),
        *("ftp://x.org/v1/a", "//x.org/v1/a", "https:x.org/v1/a", "https:///v1/a"),
        *("https://x.org./v1/a", "https://%78.org/v1/a", "https://x.org%2ev/v1"),
        *("https://x.org\\@e.org/v1", "https://e.org/https://x.org/v1"),
        *("https://x.org/V1/a", "https://x.org/v1x", "https://x.org/%761/a", ""),
    ],
)
def test_an_address_elsewhere_is_not_allowed(url: str) -> None:
    """AN-15."""
    assert not Allowed(urls=("https://x.org/v1",)).covers("http", {"url": url})


@pytest.mark.parametrize(
    "path",
    ["", "/", "/a", "/a.b/..c", "/a%20b", "/100%25", "/%C3%A9", "/a;b=..", "?../x"],
)
def test_an_address_below_is_allowed(path: str) -> None:
    """AN-15: what is no way up is left alone."""
    url = f"https://x.org/v1{path}"
    assert Allowed(urls=("https://x.org/v1",)).covers("http", {"url": url})


@pytest.mark.parametrize(
    ("server", "tool", "allowed"),
    [
        *(
            ("crm", "delete", True),
            ("crm", "delete2", False),
            ("crm2", "delete", False),
        ),
        *(
            ("crm/delete", "all", False),
            ("crm/delete", "", False),
            ("CRM", "delete", False),
        ),
        *(
            ("all", "any/thing", True),
            ("all/any", "thing", False),
            ("", "crm/delete", False),
        ),
    ],
)
def test_an_entry_names_one_tool_or_all_of_one_server(
    server: str, tool: str, *, allowed: bool
) -> None:
    """AN-15: a server whose name has a slash is not one tool of another."""
    entries = Allowed(mcp=("crm/delete", "all"))
    assert entries.covers("mcp", {"server": server, "tool": tool}) is allowed


async def test_a_redirect_is_not_followed(front: Front, web: Web) -> None:
    """AN-15: a token goes to the host that was allowed, and to no other."""
    with serving() as other:
        web.answers = [(307, {"Location": f"{other.url}/v1"}, "")]
        session = await done(
            front,
            lambda: Inverse.http("POST", f"{web.url}/v1", auth="env:TOKEN"),
            allowing(urls=(web.url,)),
            Host(secrets={"TOKEN": _TOKEN}),
        )
        item = only(await session.undo("t-1"))
        assert how(item) == ("not_reversed", "in_doubt")
        assert (
            item.error
            == "HttpError: the server answered 307: redirects are not followed"
        )
        assert other.got == []


async def test_a_proxy_in_the_environment_is_not_used(
    front: Front, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AN-15."""
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        session = await done(
            front,
            lambda: Inverse.http("PUT", f"{web.url}/x"),
            allowing(urls=(web.url,)),
        )
        assert how(only(await session.undo("t-1"))) == ("reversed", None)
        assert (len(web.got), proxy.got) == (1, [])


@pytest.mark.parametrize(
    ("method", "answers", "state", "reason", "sent"),
    [
        ("POST", [503], "not_reversed", "in_doubt", 1),
        ("PUT", [503, 500, 200], "reversed", None, 3),
        ("POST", [429, 200], "reversed", None, 2),
        ("POST", [403], "not_reversed", "failed", 1),
        ("DELETE", [404], "reversed", None, 1),
    ],
    ids=["in doubt", "repeatable", "later", "refused", "accepted"],
)
async def test_an_answer_decides(
    front: Front,
    web: Web,
    method: str,
    answers: list[int],
    state: str,
    reason: str | None,
    sent: int,
) -> None:
    """AN-06, ENG-09: sent again is what surely did nothing, or says it is repeatable."""
    web.answers = [(status, {}, "") for status in answers]
    session = await done(
        front,
        lambda: Inverse.http(method, f"{web.url}/x", accept=[404]),
        allowing(urls=(web.url,)),
    )
    assert how(only(await session.undo("t-1"))) == (state, reason)
    assert len(web.got) == sent


async def test_a_server_that_is_not_there_was_not_reached(front: Front) -> None:
    """AN-06: nothing was sent, so trying again does no harm."""
    with serving() as gone:
        url = gone.url
    session = await done(
        front, lambda: Inverse.http("POST", url), allowing(urls=(url,))
    )
    item = only(await session.undo("t-1"))
    assert (*how(item), item.attempts) == ("not_reversed", "failed", 3)
    assert (item.error or "").startswith("ToolFailure: could not reach 127.0.0.1")


class Servers:
    """Stands in for MCP servers."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, str, Mapping[str, object], str]] = []

    def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, object],
        idempotency_key: str,
    ) -> object:
        self.calls.append((server, tool, arguments, idempotency_key))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_tool_of_a_server_is_an_inverse(front: Front) -> None:
    """AN-15."""
    servers = Servers({"ok": True})
    session = await done(
        front,
        lambda: Inverse.mcp("crm", "delete", id=7, token=Secret("TOKEN")),
        allowing(mcp=("crm/delete",)),
        Host(mcp=servers, secrets={"TOKEN": _TOKEN}),
    )
    assert only(await session.plan("t-1")).detail == "calls crm/delete"
    assert how(only(await session.undo("t-1"))) == ("reversed", None)
    (call,) = session.au.calls("t-1")
    assert servers.calls == [("crm", "delete", {"id": 7, "token": _TOKEN}, call.key)]


async def test_a_server_that_refuses_can_be_asked_again(front: Front) -> None:
    """ENG-09: a refusal is no doubt, an error is."""
    servers = Servers(Outcome.failed("busy"), Outcome.failed("busy"), OSError("gone"))
    session = await done(
        front,
        lambda: Inverse.mcp("crm", "delete"),
        allowing(mcp=("crm",)),
        Host(mcp=servers),
        AT_ONCE,
    )
    assert how(only(await session.undo("t-1"))) == ("not_reversed", "in_doubt")
    assert len(servers.calls) == 3


async def test_without_a_caller_a_server_is_out_of_reach(front: Front) -> None:
    """AN-15, AN-33."""
    session = await done(
        front, lambda: Inverse.mcp("crm", "delete"), allowing(mcp=("crm",))
    )
    item = only(await session.undo("t-1"))
    assert how(item) == ("not_reversed", "handler_missing")
    assert item.detail == "crm cannot be reached: Host(mcp=...) is missing"


async def test_a_rollback_runs_what_is_allowed(front: Front) -> None:
    """TX-07 with a command: the same rules inside a turn."""
    mark = front.root / "mark"
    front.tools.tool(
        "toy.do",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.command(["touch", str(mark)]),
    )(lambda: None)
    session = front.session(policy=allowing(commands=("touch",)))
    with pytest.raises(KeyError):
        async with session.turn() as turn:
            await turn.call("toy.do")
            raise KeyError
    assert mark.exists()
    report = turn.report
    assert report.status == "reversed"


async def test_what_only_looks_like_a_secret_is_a_value(front: Front) -> None:
    """AN-15: a value that a tool once read cannot name a secret of ours."""
    seen: list[object] = []
    front.tools.handler("toy.put", idempotent=True)(lambda value: seen.append(value))
    planted = {"$secret": "TOKEN"}
    session = await done(
        front,
        lambda: Inverse.tool("toy.put", value=[planted, {"$literal": planted}]),
        FREE,
        Host(secrets={"TOKEN": _TOKEN}),
    )
    assert how(only(await session.undo("t-1"))) == ("reversed", None)
    assert seen == [[planted, {"$literal": planted}]]
