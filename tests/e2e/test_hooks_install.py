"""`hooks`: what is written, shown and run, by the installed command."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.terminal import on_a_terminal
from tests.support.waiting import HANGS_S

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
ENTIRE = "entire hooks stop"
SETTINGS = """{
  // mine
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "entire hooks stop"}]}]},
}
"""
# agent, a file that its installation writes, a payload of its own
FAMILIES = [
    ("claude-code", ".claude/settings.json", "claude_code__PreToolUse__Edit"),
    ("codex", ".codex/hooks.json", "codex__PreToolUse__apply_patch"),
    ("cursor", ".cursor/hooks.json", "cursor__preToolUse"),
    ("gemini", ".gemini/settings.json", "gemini_cli__BeforeTool"),
    ("copilot", ".github/hooks/gitshadow.json", "copilot_cli__preToolUse"),
    ("windsurf", ".windsurf/hooks.json", "windsurf__pre_write_code"),
    ("devin", ".devin/hooks.v1.json", "devin_cli__PreToolUse"),
    ("droid", ".factory/hooks.json", "factory_droid__PreToolUse"),
    ("goose", ".agents/plugins/gitshadow/hooks/hooks.json", "goose__PreToolUse__"),
    ("crush", "crush.json", "crush__PreToolUse"),
    ("qwen", ".qwen/settings.json", "qwen_code__PreToolUse"),
    ("kiro", ".kiro/hooks/gitshadow.json", "kiro_v1__PreToolUse"),
    ("cline", ".clinerules/hooks/PreToolUse", "cline__PreToolUse"),
    ("grok", ".grok/hooks/gitshadow.json", "grok__user_prompt_submit"),
    ("antigravity", ".agents/hooks.json", "antigravity__PreToolUse__write_to_file"),
    ("openhands", ".openhands/hooks.json", "openhands__PreToolUse"),
    ("vibe", ".vibe/hooks.toml", "vibe__pre_tool"),
]
USERS = ("claude-code", "copilot", "cline", "goose")
"""Of each way to name the program, one."""


def home() -> Path:
    return Path(os.environ["HOME"])


def claude_settings() -> Path:
    path = home() / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    return path


@pytest.fixture
def hooks(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command in a repository that is not recorded."""
    return make_shadow(repo, daemon=False)


def commands(path: Path) -> set[str]:
    """Return every shell text that an agent would run from a file."""
    if path.suffix == ".toml":
        return set(texts_in(tomllib.loads(path.read_text())))
    if path.suffix != ".json":
        return {f"'{path}'"}
    return set(texts_in(json.loads(path.read_text())))


def texts_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("command", "bash") and isinstance(inner, str):
                yield inner
            else:
                yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def run(
    text: str, payload: bytes, repo: Repo, env: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/sh", "-c", text],
        cwd=repo.root,
        env=env,
        input=payload,
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )


def payload_of(family: str, repo: Repo) -> bytes:
    """Return a stored payload as if it came from this repository."""
    found = sorted(FIXTURES.glob(f"{family}*.json"))
    assert found, family
    text = found[0].read_text(encoding="utf-8")
    return text.replace("/home/dev/app", str(repo.root)).encode()


@pytest.mark.parametrize(
    ("agent", "path", "family", "scope"),
    [
        *((*family, "--project") for family in FAMILIES),
        *((*family, "--user") for family in FAMILIES if family[0] in USERS),
    ],
)
def test_written_command_brings_the_hook_in(
    agent: str, path: str, family: str, scope: str, shadow_n: Shadow
) -> None:
    repo = shadow_n.repo
    done = shadow_n.ok("hooks", "install", agent, scope, "--yes", "--json").json()
    items = done["items"]
    assert isinstance(items, list)
    paths = [Path(str(item["path"])) for item in items]
    written = [file for file in paths if file.name == Path(path).name]
    (text,) = commands(written[0])
    env = {**shadow_n.environment(), "DEVIN_PROJECT_DIR": str(repo.root)}
    if scope == "--user":
        env["PATH"] = "/usr/bin:/bin"
    result = run(text, payload_of(family, repo), repo, env)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == (b'{"cancel":false}\n' if agent == "cline" else b"")
    shadow_n.ok("flush")
    agents = {row["agent"] for row in shadow_n.ok("sessions", "--json").rows()}
    assert agent in agents


@pytest.mark.parametrize(("agent", "path", "_family"), FAMILIES)
def test_written_command_is_harmless_without_us(
    agent: str, path: str, _family: str, hooks: Shadow
) -> None:
    hooks.ok("hooks", "install", agent, "--project", "--yes")
    for text in commands(hooks.repo.root / path):
        done = run(text, b"{}", hooks.repo, {"PATH": "/usr/bin:/bin"})
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == (b'{"cancel":false}\n' if agent == "cline" else b"")
    hooks.ok("hooks", "uninstall", agent, "--project", "--yes")
    assert not hooks.repo.state_dir.exists()


def test_nothing_is_written_without_a_yes(hooks: Shadow) -> None:
    claude_settings().write_text(SETTINGS)
    refused = hooks("hooks", "install", "claude-code")
    assert refused.code == 5
    assert "+" in refused.out
    assert "--yes" in refused.err
    assert hooks("hooks", "install", "claude-code", "--json").json()["status"] == (
        "refused"
    )
    planned = hooks.ok("hooks", "install", "claude-code", "--dry-run", "--json").json()
    assert planned["status"] == "planned"
    assert claude_settings().read_text() == SETTINGS
    assert not (home() / "state").exists()


def test_no_on_a_terminal_writes_nothing(hooks: Shadow) -> None:
    claude_settings().write_text(SETTINGS.replace("mine", "mine \x1b[31m"))
    shown = on_a_terminal(hooks, "hooks", "install", "claude-code", typed=b"n\n")
    assert shown.code == 5
    assert "nothing was changed" in shown.text
    assert "write this? [Y/n]" in shown.text
    assert "mine \x1b[31m" not in shown.text
    assert "git-agent-undo" not in claude_settings().read_text()


def test_long_difference_is_shown_when_asked_for(hooks: Shadow) -> None:
    claude_settings().write_text('{\n  "model": "opus",\n  "hooks": {}\n}\n')
    shown = on_a_terminal(hooks, "hooks", "install", "claude-code", typed=b"d\nn\n")
    asked, difference = shown.text.split("write this? [Y/n/d]")[:2]
    assert "PreToolUse" not in asked
    assert re.search(r"settings\.json\S*  \(\+[0-9]+ -[0-9]+ lines\)", asked)
    assert "PreToolUse" in difference
    assert "PreToolUse" in hooks.ok("hooks", "install", "claude-code", "--dry-run").out


def test_enter_on_a_terminal_writes_what_was_shown(hooks: Shadow) -> None:
    claude_settings().write_text(SETTINGS)
    shown = on_a_terminal(hooks, "hooks", "install", "claude-code", typed=b"\n")
    assert shown.code == 0
    assert "hook claude-code" in claude_settings().read_text()


def test_user_scope_is_the_default_and_names_the_program(
    hooks: Shadow, untouched: Callable[[], None]
) -> None:
    claude_settings().write_text(SETTINGS)
    hooks.ok("hooks", "install", "claude-code", "--yes")
    assert f"test -x {COMMAND}" in claude_settings().read_text()
    assert ENTIRE in claude_settings().read_text()
    again = hooks.ok("hooks", "install", "claude-code", "--yes", "--json").json()
    assert again["status"] == "nothing_to_do"
    hooks.ok("hooks", "uninstall", "--yes")
    assert claude_settings().read_text() == SETTINGS


def test_agents_found_here_are_installed_outside_of_a_repository(
    hooks: Shadow, tmp_path: Path
) -> None:
    claude_settings()
    (home() / ".qwen").mkdir()
    done = hooks.ok("hooks", "install", "--yes", "--json", cwd=tmp_path).json()
    items = done["items"]
    assert isinstance(items, list)
    assert {item["agent"] for item in items} >= {"claude-code", "qwen"}
    assert {item["scope"] for item in items} == {"user"}
    wrong = hooks("hooks", "install", "codex", "--project", "--yes", cwd=tmp_path)
    assert wrong.code == 2


def test_uninstall_leaves_no_directory_that_install_made(hooks: Shadow) -> None:
    claude_settings().write_text(SETTINGS)
    (home() / ".qwen").mkdir()
    env = {"XDG_STATE_HOME": str(home() / ".local" / "state")}
    for agent in ("claude-code", "qwen"):
        hooks.ok("hooks", "install", agent, "--yes", env=env)
    hooks.ok("hooks", "uninstall", "qwen", "--yes", env=env)
    assert (home() / ".local" / "state").is_dir()
    hooks.ok("hooks", "uninstall", "claude-code", "--yes", env=env)
    assert not (home() / ".local").exists()


def test_one_broken_file_does_not_stop_the_others(hooks: Shadow) -> None:
    claude_settings().write_text("{ not json")
    done = hooks("hooks", "install", "claude-code", "cursor", "--yes", "--json")
    assert (done.code, done.json()["status"]) == (4, "partial")
    assert str(claude_settings()) in done.err
    assert claude_settings().read_text() == "{ not json"
    assert (home() / ".cursor" / "hooks.json").exists()
    assert hooks("hooks", "install", "claude-code", "--yes").code == 1
    assert hooks("hooks", "status", "claude-code").code == 1


def test_user_scope_is_wrong_usage_where_the_agent_has_none(hooks: Shadow) -> None:
    assert hooks("hooks", "install", "devin", "--user", "--yes").code == 2
    done = hooks("hooks", "install", "kimi", "--project", "--yes")
    assert done.code == 2
    assert "kimi reads only hooks of the user" in done.err
    assert "use --user" in done.err


def test_unknown_agent_is_wrong_usage(hooks: Shadow) -> None:
    done = hooks("hooks", "install", "claude")
    assert done.code == 2
    assert "claude-code" in done.err


def test_vscode_shares_the_file_of_copilot(hooks: Shadow) -> None:
    done = hooks.ok("hooks", "install", "vscode-copilot", "copilot", "--yes", "--json")
    items = done.json()["items"]
    assert isinstance(items, list)
    assert len(items) == 1


def test_status_and_list_say_what_is_installed(hooks: Shadow) -> None:
    hooks.ok("hooks", "install", "cursor", "--yes")
    (row,) = hooks.ok("hooks", "status", "--json").rows()
    assert (row["agent"], row["scope"], row["state"]) == ("cursor", "user", "installed")
    agents = {row["agent"]: row for row in hooks.ok("hooks", "list", "--json").rows()}
    assert agents["cursor"]["detected"] is True
    assert agents["cursor"]["project"]["state"] == "absent"  # type: ignore[index]
    path = home() / ".cursor" / "hooks.json"
    path.write_text(path.read_text().replace(COMMAND, "/gone/git-agent-undo"))
    broken = hooks("hooks", "status")
    assert broken.code == 1
    assert "/gone/git-agent-undo is missing" in broken.out


def test_status_says_what_a_person_changed(hooks: Shadow) -> None:
    hooks.ok("hooks", "install", "cursor", "--yes")
    path = home() / ".cursor" / "hooks.json"
    path.write_text(path.read_text().replace(" || true", " >>/tmp/log", 1))
    done = hooks.ok("hooks", "status")
    assert "installed (changed by you)" in done.out
    (row,) = hooks.ok("hooks", "status", "--json").rows()
    assert (row["state"], len(row["changed"])) == ("installed", 1)  # type: ignore[arg-type]
    assert "nothing to do" in hooks.ok("hooks", "install", "cursor", "--yes").out


def gemini_program(tmp_path: Path, hooks: Shadow, version: str) -> None:
    """Put a program on `PATH` that prints a version and contains Gemini's events."""
    program = tmp_path / "programs" / "gemini"
    program.parent.mkdir()
    events = "SessionStart BeforeAgent SessionEnd BeforeTool AfterTool"
    program.write_text(f"#!/bin/sh\n# {events} AfterAgent\necho {version}\n")
    program.chmod(0o755)
    hooks.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"


def test_status_shows_the_version_of_the_agent(hooks: Shadow, tmp_path: Path) -> None:
    gemini_program(tmp_path, hooks, "0.61.0")
    hooks.ok("hooks", "install", "gemini", "--yes")
    (row,) = hooks.ok("hooks", "status", "--json").rows()
    assert (row["state"], row["version"], row["findings"]) == (
        "installed",
        "0.61.0",
        [],
    )
    assert "unknown_events" not in row
    assert "  version 0.61.0" in hooks.ok("hooks", "status").out


def test_status_warns_of_a_version_that_cannot_run_the_hooks(
    hooks: Shadow, tmp_path: Path
) -> None:
    gemini_program(tmp_path, hooks, "0.25.0")
    hooks.ok("hooks", "install", "gemini", "--yes")
    done = hooks("hooks", "status")
    assert done.code == 1
    assert "gemini 0.25.0 is too old: its hooks need 0.26.0 or later" in done.out
    assert "update gemini" in done.out
    (row,) = hooks("hooks", "status", "--json").rows()
    assert (row["state"], row["version"]) == ("outdated", "0.25.0")


def test_status_names_events_that_the_installed_version_does_not_have(
    hooks: Shadow, tmp_path: Path
) -> None:
    gemini_program(tmp_path, hooks, "0.70.0")
    program = tmp_path / "programs" / "gemini"
    program.write_text(program.read_text().replace("AfterAgent", "AgentEnd"))
    hooks.ok("hooks", "install", "gemini", "--yes")
    (row,) = hooks("hooks", "status", "--json").rows()
    assert (row["state"], row["unknown_events"]) == ("outdated", ["AfterAgent"])
    assert "gemini 0.70.0 has no event AfterAgent" in hooks("hooks", "status").out


def test_both_scopes_are_said_to_come_twice(hooks: Shadow) -> None:
    hooks.ok("hooks", "install", "claude-code", "--yes")
    done = hooks.ok("hooks", "install", "claude-code", "--project", "--yes", "--json")
    notes = done.json()["notes"]
    assert isinstance(notes, list)
    assert any("duplicate events are ignored" in note for note in notes)
    hooks.ok("hooks", "uninstall", "claude-code", "--project", "--yes")


def test_what_was_not_written_has_no_notes(hooks: Shadow) -> None:
    words = (COMMAND, "hooks", "install", "claude-code", "--yes")
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words],
        env=hooks.environment(),
        cwd=hooks.repo.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
    assert "error: could not write" in done.stderr
    assert "note:" not in done.stdout


def test_uninstall_without_a_scope_says_what_it_leaves(hooks: Shadow) -> None:
    hooks.ok("hooks", "install", "claude-code", "--project", "--yes")
    said = hooks.ok("hooks", "uninstall", "--yes").out
    assert said == (
        "nothing to do\n"
        "note: this project's files still have the hooks of claude-code; to remove"
        " them too: hooks uninstall --project\n"
    )
    hooks.ok("hooks", "uninstall", "--project", "--yes")
    assert "note" not in hooks.ok("hooks", "uninstall", "--yes").out


def test_difference_of_a_new_file_has_no_line_of_nothing(hooks: Shadow) -> None:
    shown = hooks.ok("hooks", "install", "crush", "--project", "--dry-run").out
    lines = shown.splitlines()
    assert "  +" not in lines
    assert f"  @@ -0,0 +1,{sum(line.startswith('  +') for line in lines)} @@" in lines


def test_call_that_comes_by_both_scopes_is_recorded_once(shadow_n: Shadow) -> None:
    repo = shadow_n.repo
    shadow_n.ok("hooks", "install", "claude-code", "--yes")
    shadow_n.ok("hooks", "install", "claude-code", "--project", "--yes")
    texts = commands(repo.root / ".claude" / "settings.json") | commands(
        claude_settings()
    )
    assert len(texts) == 2
    about: dict[str, object] = {
        "session_id": "s1",
        "prompt_id": "p1",
        "transcript_path": f"{home()}/.claude/projects/x/s1.jsonl",
        "cwd": str(repo.root),
        "tool_name": "Write",
        "tool_input": {"file_path": str(repo.root / "new"), "content": "x"},
        "tool_use_id": "toolu_1",
    }
    env = shadow_n.environment()
    for event in ("PreToolUse", "PostToolUse"):
        for text in sorted(texts):
            payload = json.dumps({**about, "hook_event_name": event}).encode()
            assert run(text, payload, repo, env).returncode == 0
        if event == "PreToolUse":
            repo.write("new", "x")
    (row,) = [row for row in shadow_n.log() if row["path"] == "new"]
    assert (row["agent"], row["confidence"]) == ("claude-code", "certain")


def test_hooks_of_git_itself_are_installed_by_name(hooks: Shadow) -> None:
    done = hooks.ok("hooks", "install", "git", "--yes", "--json").json()
    assert done["status"] == "done"
    hooks.ok("hooks", "status", "git")
    hooks.ok("hooks", "uninstall", "git", "--yes")
    assert hooks.ok("hooks", "uninstall", "git", "--yes", "--json").json()[
        "status"
    ] in ("nothing_to_do", "done")


def test_settings_for_git_are_shown_written_and_taken_out_by_name(
    hooks: Shadow,
) -> None:
    repo = hooks.repo
    before = repo.snapshot()
    refused = hooks("hooks", "install", "git-config")
    assert refused.code == 5
    assert "+\thideRefs = refs/agent-undo/" in refused.out
    assert repo.snapshot() == before
    done = hooks.ok("hooks", "install", "git-config", "--yes", "--json").json()
    items = done["items"]
    assert isinstance(items, list)
    assert [(item["agent"], item["action"]) for item in items] == [
        ("git-config", "create"),
        ("git-config", "change"),
    ]
    (state,) = hooks.ok("hooks", "status", "git-config", "--json").rows()
    assert (state["agent"], state["state"]) == ("git-config", "installed")
    hooks.ok("hooks", "uninstall", "git-config", "--yes")
    assert repo.snapshot() == before
