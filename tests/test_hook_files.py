"""The hook files for agents are ready to be copied and harmless where nothing is installed."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow import __version__
from gitshadow.adapters import registry
from tests.support.claude import Claude
from tests.support.shadow import Shadow
from tests.support.waiting import HANGS_S

HOOKS = Path(__file__).parent.parent / "hooks"
PAYLOADS = Path(__file__).parent / "fixtures" / "hook_payloads"
GUARDED = re.compile(
    r"sh -c 'if ! command -v git-agent-undo >/dev/null 2>&1; then exit 0; fi; "
    r"exec git-agent-undo hook ([a-z-]+)' \|\| true"
)
CLAUDE_EVENTS = {
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
}
NESTED = {
    "claude-code/settings.json": CLAUDE_EVENTS | {"Notification"},
    "claude-code/plugin/hooks/hooks.json": CLAUDE_EVENTS | {"Notification"},
    "gemini/hooks/hooks.json": {
        "SessionStart",
        "BeforeAgent",
        "BeforeTool",
        "AfterTool",
        "AfterAgent",
        "SessionEnd",
    },
    "goose/hooks/hooks.json": CLAUDE_EVENTS - {"SubagentStart", "SubagentStop"}
    | {"AfterFileEdit"},
    "grok/gitshadow.json": CLAUDE_EVENTS | {"StopCancelled", "StopFailure"},
}
"""Files in Claude Code's nested shape, with the events that each registers."""

# The call of each agent in the fixtures: it writes src/money.py.
CALLS = {
    "gemini": (
        "gemini_cli__BeforeTool__write_file",
        "gemini_cli__AfterTool__write_file",
    ),
    "copilot": ("copilot_cli__preToolUse__create", "copilot_cli__postToolUse__create"),
    "goose": ("goose__PreToolUse__write_bare", None),
    "grok": (None, "grok__post_tool_use"),
    "kiro": ("kiro_v1__PreToolUse", "kiro_v1__PostToolUse"),
    "cline": ("cline__PreToolUse", None),
}


def load(name: str) -> dict[str, object]:
    document = json.loads((HOOKS / name).read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def commands(value: object) -> Iterator[str]:
    """Yield every shell command in a file, in order."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("command", "bash") and isinstance(item, str):
                yield item
            else:
                yield from commands(item)
    elif isinstance(value, list):
        for item in value:
            yield from commands(item)


def shells() -> Iterator[tuple[str, str, str]]:
    """Yield file, agent and shell text of everything that an agent runs."""
    for path in sorted(HOOKS.rglob("*.json")):
        name = path.relative_to(HOOKS).as_posix()
        for text in dict.fromkeys(commands(load(name))):
            yield name, name.split("/")[0], text
    for path in sorted((HOOKS / "cline").iterdir()):
        yield f"cline/{path.name}", "cline", f"'{path}'"


def run(text: str, payload: object, path: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        ["/bin/sh", "-c", text],
        input=json.dumps(payload).encode(),
        env={**os.environ, "PATH": path, "GITSHADOW_DAEMON": "off"},
        cwd="/",
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


SHELLS = tuple(shells())


@pytest.mark.parametrize("name", NESTED)
def test_nested_file_registers_its_events_synchronously(name: str) -> None:
    hooks = load(name)["hooks"]
    assert isinstance(hooks, dict)
    assert set(hooks) == NESTED[name]
    unit = 1000 if name.startswith("gemini") else 1
    for event, entries in hooks.items():
        (entry,) = entries
        (handler,) = entry["hooks"]
        assert handler["type"] == "command"
        assert "async" not in handler
        assert handler["timeout"] in range(3 * unit, 10 * unit + 1), event
        # An expression `*` is invalid in goose and Grok: no matcher is their catch-all.
        wants = "Tool" in event and name.split("/")[0] in ("claude-code", "gemini")
        assert entry.get("matcher") == ("*" if wants else None)


def test_gemini_hooks_have_names_of_their_own() -> None:
    hooks = load("gemini/hooks/hooks.json")["hooks"]
    assert isinstance(hooks, dict)
    names = [entries[0]["hooks"][0]["name"] for entries in hooks.values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("gitshadow-") for name in names)


def test_copilot_never_denies_a_call() -> None:
    """Any exit code but 0 of its preToolUse denies the tool."""
    document = load("copilot/gitshadow.json")
    hooks = document["hooks"]
    assert document["version"] == 1
    assert isinstance(hooks, dict)
    assert {"preToolUse", "postToolUse", "userPromptSubmitted", "agentStop"} <= set(
        hooks
    )
    for (handler,) in hooks.values():
        assert handler["bash"].endswith(" || true")
        assert handler["powershell"].endswith("; exit 0")
        assert handler["timeoutSec"] == 5


def test_kiro_file_is_of_version_1() -> None:
    document = load("kiro/gitshadow.json")
    hooks = document["hooks"]
    assert document["version"] == "v1"
    assert isinstance(hooks, list)
    triggers = [hook["trigger"] for hook in hooks]
    assert {"PreToolUse", "PostToolUse", "PostFileSave", "Stop"} <= set(triggers)
    assert len({hook["name"] for hook in hooks}) == len(hooks)
    assert {hook["action"]["type"] for hook in hooks} == {"command"}


@pytest.mark.parametrize(
    "name",
    [
        "claude-code/plugin/.claude-plugin/plugin.json",
        "gemini/gemini-extension.json",
        "goose/plugin.json",
        "vscode/package.json",
    ],
)
def test_manifest_has_our_name_and_version(name: str) -> None:
    manifest = load(name)
    assert (manifest["name"], manifest["version"]) == ("gitshadow", __version__)
    assert manifest["description"]


def test_claude_codes_plugin_registers_what_its_settings_do() -> None:
    plugin = load("claude-code/plugin/hooks/hooks.json")
    assert plugin["hooks"] == load("claude-code/settings.json")["hooks"]


@pytest.mark.parametrize(("name", "agent", "text"), SHELLS)
def test_command_is_guarded_and_names_nothing_of_the_working_tree(
    name: str, agent: str, text: str
) -> None:
    assert agent in registry.KNOWN_AGENTS
    if agent == "cline":
        lines = (HOOKS / name).read_text(encoding="utf-8").splitlines()
        assert lines[:3] == [
            "#!/bin/sh",
            "# gitshadow-managed: cline",
            "command=git-agent-undo",
        ]
        return
    found = GUARDED.fullmatch(text)
    assert found is not None
    assert found[1] == agent


@pytest.mark.parametrize(("name", "agent", "text"), SHELLS)
def test_command_succeeds_silently_where_it_is_not_installed(
    name: str, agent: str, text: str
) -> None:
    said = b'{"cancel":false}\n' if agent == "cline" else b""
    assert run(text, {"x": "y" * 100_000}, "/usr/bin:/bin") == (0, said, b"")


@pytest.mark.parametrize(("name", "agent", "text"), SHELLS)
def test_command_succeeds_even_where_ours_is_broken(
    name: str, agent: str, text: str, tmp_path: Path
) -> None:
    broken = tmp_path / "git-agent-undo"
    broken.write_text("#!/nowhere/python\n")
    broken.chmod(0o755)
    assert run(text, {}, f"{tmp_path}:/usr/bin:/bin")[0] == 0


@pytest.mark.parametrize("agent", CALLS)
def test_call_arrives_through_the_agents_file(agent: str, shadow_n: Shadow) -> None:
    text = next(text for _, name, text in SHELLS if name == agent)
    said = b'{"cancel":false}\n' if agent == "cline" else b""
    before, after = call(agent, shadow_n.repo.root)
    assert run(text, before, os.environ["PATH"]) == (0, said, b"")
    shadow_n.repo.write("src/money.py", "x\n")
    assert run(text, after, os.environ["PATH"]) == (0, said, b"")
    (row,) = shadow_n.log()
    known = (row["path"], row["agent"], row["confidence"])
    assert known == ("src/money.py", agent, "certain")


def call(agent: str, root: Path) -> tuple[dict[str, object], dict[str, object]]:
    """Return both payloads of one call; where a fixture lacks one, the other's twin."""
    before, after = (
        None if name is None else _payload(name, root) for name in CALLS[agent]
    )
    if agent == "goose" and before is not None:
        after = {**before, "event": "PostToolUse", "tool_output": "ok"}
    elif agent == "grok" and after is not None:
        before = {**after, "hookEventName": "pre_tool_use"}
        del before["toolResult"]
    elif agent == "cline" and before is not None:
        tool = before["preToolUse"]
        assert isinstance(tool, dict)
        after = {**before, "hookName": "PostToolUse", "postToolUse": dict(tool)}
        del after["preToolUse"]
    assert before is not None
    assert after is not None
    return before, after


def _payload(name: str, root: Path) -> dict[str, object]:
    text = (PAYLOADS / f"{name}.json").read_text(encoding="utf-8")
    payload = json.loads(text.replace("/home/dev/app", str(root)))
    assert isinstance(payload, dict)
    return payload


def test_claude_codes_commands_record_a_call(shadow_n: Shadow) -> None:
    claude = Claude(shadow_n)
    text = next(text for name, _, text in SHELLS if name == "claude-code/settings.json")
    about = {
        "tool_name": "Write",
        "tool_input": {"file_path": str(shadow_n.repo.root / "a"), "content": "x"},
        "tool_use_id": "toolu_1",
    }

    def send(event: str, **fields: object) -> None:
        payload = claude.payload(event, **fields)
        assert run(text, payload, os.environ["PATH"]) == (0, b"", b"")

    send("UserPromptSubmit", prompt="write it")
    send("PreToolUse", **about)
    shadow_n.repo.write("a", "x")
    send("PostToolUse", **about)
    send("Stop")
    (row,) = shadow_n.log()
    known = (row["path"], row["agent"], row["confidence"])
    assert known == ("a", "claude-code", "certain")


def test_readme_says_where_every_file_goes() -> None:
    readme = (HOOKS / "README.md").read_text(encoding="utf-8")
    agents = {path.name for path in HOOKS.iterdir() if path.is_dir()}
    assert all(f"| `{agent}/" in readme for agent in agents)
