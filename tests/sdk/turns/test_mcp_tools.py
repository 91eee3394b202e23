"""AN-20: what a server says of its tools is a hint; classes are declared."""

from collections.abc import Mapping

import mcp_types
import pytest

from gitshadow.sdk.turns import declarations
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Inverse, Outcome, Reversibility
from tests.sdk.turns.front import Front

READ = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}


def listed(
    annotations: Mapping[str, object] | None = None,
    meta: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return a `tools/list` result with one tool, `get`."""
    tool: dict[str, object] = {"name": "get", "inputSchema": {"type": "object"}}
    if annotations is not None:
        tool["annotations"] = annotations
    if meta is not None:
        tool["_meta"] = meta
    return {"tools": [tool]}


def only(tools: list[Tool]) -> Tool:
    """Return the one tool that was imported."""
    (found,) = tools
    return found


def imported(result: object, *, trusted: bool = False) -> Tool:
    """Import a result into a domain and return its one tool."""
    return only(ToolRegistry("crm").import_mcp(result, trusted=trusted))


def test_an_untrusted_server_that_claims_read_only_is_not_believed() -> None:
    """AN-20: the acceptance criterion."""
    tool = imported(listed(READ))
    assert (tool.reversibility, tool.effective) == (
        None,
        Reversibility.NON_REVERSIBLE,
    )
    assert not tool.repeatable


def test_a_trusted_read_only_hint_is_believed() -> None:
    assert imported(listed(READ), trusted=True).reversibility is Reversibility.READ_ONLY


def test_an_idempotent_hint_permits_calling_again_and_nothing_else() -> None:
    tool = imported(listed({"idempotentHint": True}), trusted=True)
    assert (tool.repeatable, tool.effective) == (True, Reversibility.NON_REVERSIBLE)


def test_a_tool_that_is_not_destructive_is_not_reversible_for_that() -> None:
    tool = imported(listed({"destructiveHint": False}), trusted=True)
    assert tool.reversibility is None


def test_hints_are_false_where_a_server_gives_none() -> None:
    tool = imported(listed(), trusted=True)
    assert (tool.reversibility, tool.repeatable) == (None, False)


def test_only_the_value_true_is_a_hint() -> None:
    tool = imported(listed({"readOnlyHint": "yes"}), trusted=True)
    assert tool.reversibility is None


def test_an_override_declares_the_class() -> None:
    tools = ToolRegistry("crm")
    found = tools.import_mcp(
        listed(READ),
        trusted=True,
        overrides={
            "get": {
                "reversibility": Reversibility.COMPENSABLE,
                "inverse": lambda arguments, captured, result: Inverse.tool("crm.no"),
            }
        },
    )
    assert only(found).effective is Reversibility.COMPENSABLE


def test_a_class_without_an_inverse_is_refused_as_everywhere() -> None:
    """CLS-04."""
    with pytest.raises(RegistrationError, match=r"cannot register crm\.get"):
        ToolRegistry("crm").import_mcp(
            listed(),
            overrides={"get": {"reversibility": Reversibility.REVERSIBLE}},
        )


def test_an_override_for_no_listed_tool_is_an_error() -> None:
    with pytest.raises(RegistrationError, match="cannot import gte: the server"):
        ToolRegistry("crm").import_mcp(listed(), overrides={"gte": {}})


def test_a_trusted_server_may_declare_in_meta() -> None:
    declared = {
        "class": "reversible",
        "inverse": {"tool": "del", "arguments": {"id": "$result.id"}},
        "residue": "a line in the audit log",
    }
    tool = imported(listed(meta={"gitshadow/undo": declared}), trusted=True)
    assert tool.effective is Reversibility.REVERSIBLE
    assert tool.options["residue"] == "a line in the audit log"
    made = tool.options["inverse"]({}, None, {"id": 9})  # type: ignore[call-arg]
    assert made == Inverse.mcp("crm", "del", id=9)


def test_the_meta_of_an_untrusted_server_is_not_read() -> None:
    declared = {"class": "read_only"}
    assert imported(listed(meta={"gitshadow/undo": declared})).reversibility is None


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"clas": "reversible"}, "clas is not a key"),
        ({"class": "undoable"}, "there is no class 'undoable'"),
        ({"class": 3}, "there is no class 3"),
        ({"inverse": {"tool": 3}}, "inverse names no tool"),
        ({"inverse": {"tool": "x", "code": "y"}}, "inverse must be a table of"),
        ({"inverse": {"tool": "x", "arguments": {"a": "$env.HOME"}}}, "names \\$env"),
        ({"capture": {"tool": "x", "arguments": {"a": "$result"}}}, "names \\$result"),
        ({"idempotent": "yes"}, "idempotent must be True or False"),
        ({"delay_s": True}, "delay_s must be a number"),
        ({"hold": 1}, "hold must be True or False"),
        ({"paths": [1]}, "paths must be a tuple of names"),
        ({"secrets": "token"}, "secrets must be a tuple of names"),
        ({"on_capture_failure": "ignore"}, "must be refuse or record"),
    ],
)
def test_a_wrong_declaration_is_named(declared: dict[str, object], why: str) -> None:
    with pytest.raises(
        RegistrationError, match=f"cannot (declare|register) .*get: .*{why}"
    ):
        imported(listed(meta={"gitshadow/undo": declared}), trusted=True)


def test_a_declaration_may_say_all_that_a_program_may_as_data() -> None:
    declared = {
        "class": "reversible",
        "fingerprint": {"tool": "look"},
        "verify": True,
        "inverse": {"tool": "del"},
        "undo_for": "30d",
        "secrets": ["token"],
        "paths": ["path"],
        "after_files": True,
    }
    options = imported(listed(meta={"gitshadow/undo": declared}), trusted=True).options
    assert (options["verify"], options["undo_for"]) == (True, "30d")
    assert (options["secrets"], options["paths"]) == (("token",), ("path",))
    assert options["after_files"] is True


def test_a_declaration_may_have_a_tool_held() -> None:
    declared = {"class": "non_reversible", "hold": True, "delay_s": 5}
    options = imported(listed(meta={"gitshadow/undo": declared}), trusted=True).options
    assert (options["hold"], options["delay_s"]) == (True, 5.0)


def test_names_need_a_domain_and_dots_in_them_are_one() -> None:
    """EN-03."""
    with pytest.raises(RegistrationError, match="no domain"):
        ToolRegistry().import_mcp(listed())
    dotted = {"tools": [{"name": "crm.get", "inputSchema": {}}]}
    assert [tool.name for tool in ToolRegistry().import_mcp(dotted)] == ["crm.get"]


def test_values_of_the_official_package_are_taken_as_they_are() -> None:
    tool = mcp_types.Tool(
        name="get",
        description="Get it",
        input_schema={"type": "object", "properties": {"id": {"type": "string"}}},
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),
    )
    found = imported(mcp_types.ListToolsResult(tools=[tool]), trusted=True)
    assert found.effective is Reversibility.READ_ONLY
    assert found.options["description"] == "Get it"
    assert found.options["schema"]["properties"] == {"id": {"type": "string"}}


@pytest.mark.parametrize("result", [None, [], {"tools": 1}, {"tools": [{}]}])
def test_what_is_no_list_of_tools_is_refused(result: object) -> None:
    with pytest.raises(RegistrationError, match="cannot import tools"):
        imported(result)


async def test_imported_tools_are_called_through_the_function_given(
    front: Front,
) -> None:
    seen = []

    def call(name: str, arguments: Mapping[str, object]) -> object:
        seen.append((name, dict(arguments)))
        return {"id": 1}

    front.tools.domain("crm").import_mcp(listed(), call=call)
    session = front.session()
    async with session.turn() as turn:
        found = await turn.call("crm.get", self=1, name=2)
    assert found == Outcome.success({"id": 1})
    assert seen == [("get", {"self": 1, "name": 2})]
    assert [call.klass for call in session.au.calls("t-1")] == ["undeclared"]


async def test_a_tool_that_runs_elsewhere_cannot_be_called_here(front: Front) -> None:
    front.tools.domain("crm").import_mcp(listed())
    with pytest.raises(RegistrationError, match="cannot call get"):
        await front.session().called("crm.get")


def test_templates_take_values_as_they_are() -> None:
    scene = {"arguments": {"a": [1, {"b": None}]}, "result": "text"}
    template = {
        "whole": "$arguments.a",
        "inner": ["$arguments.a.1.b", "$result", 3, True],
        "dollar": "$$5",
    }
    assert declarations.fill(template, scene) == {
        "whole": [1, {"b": None}],
        "inner": [None, "text", 3, True],
        "dollar": "$5",
    }


@pytest.mark.parametrize(
    "name", ["$arguments.b", "$arguments.a.2", "$arguments.a.x", "$result.0", "$"]
)
def test_a_template_that_names_nothing_is_refused(name: str) -> None:
    scene = {"arguments": {"a": [1, 2]}, "result": "text"}
    with pytest.raises(declarations.TemplateError, match="there is no"):
        declarations.fill({"x": name}, scene)
