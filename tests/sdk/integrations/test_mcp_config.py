"""The user's file of MCP servers: what it may say, and what an undo may start."""

import sys
from pathlib import Path

import pytest

from gitshadow.errors import UsageError
from gitshadow.model import JsonObject
from gitshadow.sdk.integrations import mcp_config
from gitshadow.sdk.integrations.mcp_results import ServerError, outcome_of, refused
from gitshadow.sdk.integrations.mcp_servers import Servers
from gitshadow.sdk.turns.errors import RegistrationError, ToolFailure
from gitshadow.sdk.turns.values import Outcome


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servers", "could not read the servers"),
        ("[server.a]", r"only \[servers.NAME\] is known"),
        ('[servers."a.b"]', "a name may contain letters, digits"),
        ("[servers]\na = 1", "it is not a table"),
        ("[servers.a]\ncomand = []", "comand is unknown"),
        ('[servers.a]\ncommand = "x"', "command must be a list of strings"),
        ("[servers.a]\nenv = { A = 1 }", "env must be a table of strings"),
        ('[servers.a]\ntrusted = "yes"', "trusted must be true or false"),
        ("[servers.a]\ntimeout_s = true", "timeout_s must be a number"),
        ("[servers.a.tools]\nx = 1", "tools.x is not a table"),
        ('[servers.a.tools.x]\nerrors = "no"', "must be unknown or nothing_done"),
        ("[servers.a.tools.x]\nkey_argument = 1", "key_argument of x is not a string"),
    ],
)
def test_what_nobody_understands_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mcp_config.parse(text)


def test_secrets_come_from_the_environment_by_name() -> None:
    """AN-15."""
    spec = mcp_config.parse('[servers.a]\nenv = { T = "env:TOKEN", U = "u" }')["a"]
    assert spec.environment({"TOKEN": "x"}) == {"TOKEN": "x", "T": "x", "U": "u"}
    with pytest.raises(UsageError, match="TOKEN is not in the environment"):
        spec.environment({})


def test_a_link_into_the_repository_does_not_hide_a_file(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    (root / "mcp.toml").write_text("[servers.a]\n")
    (tmp_path / "link.toml").symlink_to(root / "mcp.toml")
    with pytest.raises(UsageError, match="it is in the repository"):
        mcp_config.read(str(tmp_path / "link.toml"), str(root))


def test_a_wrong_declaration_of_the_user_is_an_error_for_an_undo() -> None:
    specs = mcp_config.parse('[servers.a.tools.x]\nclass = "reversible"')
    with pytest.raises(RegistrationError, match=r"a\.x: reversible without an inverse"):
        Servers(specs, {}).registry()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[servers.b]", "no server a is declared"),
        ("[servers.a]", "no command is declared for the server a"),
        ('[servers.a]\ncommand = ["/no/such/program"]', "could not start a"),
        (
            f'[servers.a]\ncommand = ["{sys.executable}", "-c", "pass"]',
            "could not start a: MCPError: Connection closed",
        ),
        (
            '[servers.a]\ntimeout_s = 0.5\ncommand = ["/bin/sleep", "1000"]',
            "could not start a: no answer in 0.5 seconds",
        ),
        (
            '[servers.a]\ncommand = ["x"]\nenv = { T = "env:T" }',
            "T is not in the environment",
        ),
    ],
)
async def test_what_cannot_be_started_has_surely_done_nothing(
    text: str, said: str
) -> None:
    """The undo says `failed`, which may be tried again, and not `in_doubt`."""
    servers = Servers(mcp_config.parse(text), {"PATH": ""})
    with pytest.raises(ToolFailure, match=said):
        await servers.call("a", "x", {}, "k")


def test_an_undo_may_call_the_declared_servers_and_no_others() -> None:
    """AN-15."""
    allowed = Servers(mcp_config.parse("[servers.a]"), {}).allowed
    wanted = {"server": "a", "tool": "x", "arguments": {}}
    assert allowed.covers("mcp", wanted)
    assert not allowed.covers("mcp", {**wanted, "server": "b"})


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"structuredContent": {"id": 1}}, Outcome.success({"id": 1})),
        ({"structuredContent": {"result": [1]}}, Outcome.success([1])),
        (
            {"content": [{"type": "text", "text": '{"a": 1}'}]},
            Outcome.success({"a": 1}),
        ),
        ({"content": [{"type": "text", "text": "hi"}]}, Outcome.success("hi")),
        ({"content": [{"type": "image", "data": ""}]}, Outcome.success("")),
        (
            {"resultType": "input_required"},
            Outcome.failed("the server asks for more input first"),
        ),
    ],
)
def test_an_answer_means_what_it_says(result: JsonObject, outcome: Outcome) -> None:
    assert outcome_of(result, is_harmless=False) == outcome


@pytest.mark.parametrize(
    "result",
    [
        {"isError": True, "content": [{"type": "text", "text": "no"}]},
        {"task": {"taskId": "1", "status": "working"}},
    ],
)
def test_an_answer_that_leaves_a_doubt_is_none(result: JsonObject) -> None:
    with pytest.raises(ServerError):
        outcome_of(result, is_harmless=False)


def test_a_protocol_error_is_a_no_only_where_nothing_can_have_run() -> None:
    assert refused(-32602, "bad arguments") == Outcome.failed("bad arguments")
    with pytest.raises(ServerError, match="internal"):
        refused(-32603, "internal")
