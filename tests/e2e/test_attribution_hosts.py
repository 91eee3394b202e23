"""ATT-13 and its kin: agents with settings files, as their hooks reach the installed command."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.repo import Repo
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hook_payloads"
ROOT = "/home/dev/app"


def hook(
    shadow: Shadow,
    agent: str,
    payload: Mapping[str, object],
    *,
    cwd: str | Path = "/",
    env: Mapping[str, str] | None = None,
) -> None:
    """Deliver one payload; the fixtures' directory becomes the repository."""
    raw = adapted(shadow, payload)
    result = shadow("hook", agent, stdin=raw, cwd=cwd, env=env)
    assert (result.code, result.raw, result.err) == (0, b"", "")


def adapted(shadow: Shadow, payload: Mapping[str, object]) -> bytes:
    """Return a payload of the fixtures' directory as one of this repository."""
    return json.dumps(payload).replace(ROOT, str(shadow.repo.root)).encode()


def load(name: str, **changes: object) -> dict[str, object]:
    value = json.loads((FIXTURES / f"{name}.json").read_bytes())
    assert isinstance(value, dict)
    return {**value, **changes}


def rows_of(shadow: Shadow) -> list[Document]:
    """Return the rows of `log`, oldest first."""
    return shadow.log()[::-1]


def turns_of(shadow: Shadow) -> list[object]:
    return [turn["prompt"] for turn in shadow.ok("turns", "--json").rows()]


def agents_of(shadow: Shadow) -> list[object]:
    rows = shadow.ok("sessions", "--json").rows()
    return [row["agent"] for row in rows if row["agent"] is not None]


def edited(path: str, name: str = "afterFileEdit") -> dict[str, object]:
    edits = [{"old_string": "a", "new_string": "b"}]
    return load(
        "cursor__stop",
        hook_event_name=name,
        file_path=f"{ROOT}/{path}",
        edits=edits,
    )


def test_cursor_call_is_one_when_its_own_and_claude_codes_settings_have_the_hook(
    shadow: Shadow,
) -> None:
    """ATT-13: one call, one event, one turn; the sender is Cursor."""
    given = {"file_path": f"{ROOT}/a", "content": "agent\n"}

    def both(payload: Mapping[str, object]) -> None:
        for host in ("cursor", "claude-code"):
            hook(shadow, host, payload)

    both(load("cursor__beforeSubmitPrompt"))
    both(load("cursor__preToolUse__Write", tool_input=given))
    shadow.repo.write("a", "agent\n")
    both(edited("a"))
    both(load("cursor__postToolUse__Write", tool_input=given))
    both(load("cursor__stop"))
    (row,) = rows_of(shadow)
    assert (row["agent"], row["confidence"]) == ("cursor", "certain")
    assert (row["call"], row["turn"]) == (
        "call_9fWrite01",
        "490b90b7-a2ce-4c2c-bb76-cb77b125df2f",
    )
    assert (agents_of(shadow), len(turns_of(shadow))) == (["cursor"], 1)


def test_cursor_completion_is_nobodys_when_a_person_takes_it(shadow: Shadow) -> None:
    """A Tab completion opens no window and no session."""
    shadow.repo.write("a", "typed\n")
    hook(shadow, "cursor", edited("a", "afterTabFileEdit"))
    (row,) = rows_of(shadow)
    assert (row["path"], row["confidence"], row["agent"]) == ("a", "unknown", None)
    assert agents_of(shadow) == []


def test_copilot_call_is_one_when_it_comes_in_both_forms(shadow: Shadow) -> None:
    """ATT-13: `.github/hooks` and Claude Code's settings; no form has ids."""
    given = {"path": f"{ROOT}/a", "file_text": "agent\n"}
    prompt = load("copilot_cli__userPromptSubmitted")
    own = load("copilot_cli__preToolUse__create", toolArgs=json.dumps(given))
    other = load("copilot_cli__PreToolUse__claude_compat", tool_input=given)
    done = {**other, "hook_event_name": "PostToolUse", "tool_result": {}}
    hook(shadow, "copilot", prompt)
    hook(shadow, "copilot", load("copilot_cli__sessionStart"))
    hook(shadow, "copilot", own)
    hook(shadow, "claude-code", other)
    shadow.repo.write("a", "agent\n")
    hook(shadow, "copilot", load("copilot_cli__postToolUse__create", toolArgs=given))
    hook(shadow, "claude-code", done)
    (row,) = rows_of(shadow)
    assert (row["agent"], row["confidence"], row["tool"]) == (
        "copilot",
        "certain",
        "create",
    )
    assert (agents_of(shadow), turns_of(shadow)) == (["copilot"], [prompt["prompt"]])


def test_codex_patch_is_certain_for_every_file_that_it_names(shadow: Shadow) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a\n*** Move to: moved\n@@\n-1\n+2\n"
        "*** Delete File: b\n*** Add File: new\n+x\n*** End Patch\n"
    )
    given = {"command": patch}
    hook(shadow, "codex", load("codex__PreToolUse__apply_patch", tool_input=given))
    (shadow.repo.root / "a").rename(shadow.repo.root / "moved")
    (shadow.repo.root / "b").unlink()
    shadow.repo.write("new", "x\n")
    hook(shadow, "codex", load("codex__PostToolUse__apply_patch", tool_input=given))
    rows = rows_of(shadow)
    assert {"b", "new", "moved"} <= {row["path"] for row in rows}
    assert {row["confidence"] for row in rows} == {"certain"}
    assert {row["call"] for row in rows} == {"call_Zk3ApplyPatch01"}
    assert {row["turn"] for row in rows} == {"019efea2-c0de-7a11-9c2d-0f1e2d3c4b5a"}


def test_writing_tool_is_taken_for_a_shell_when_it_names_no_path(
    shadow: Shadow,
) -> None:
    given = {"command": "a patch in words of tomorrow"}
    hook(shadow, "codex", load("codex__PreToolUse__apply_patch", tool_input=given))
    shadow.repo.write("a", "agent\n")
    hook(shadow, "codex", load("codex__PostToolUse__apply_patch", tool_input=given))
    (row,) = rows_of(shadow)
    assert (row["call"], row["confidence"]) == ("call_Zk3ApplyPatch01", "medium")


def test_devin_is_found_by_its_environment_when_payloads_have_no_directory(
    shadow: Shadow,
) -> None:
    """ATT-11: from `/`; a call id that comes again in a later turn is another call."""
    env = {"DEVIN_PROJECT_DIR": str(shadow.repo.root)}
    for number, path in enumerate("ab"):
        turn = {"prompt_id": f"turn-{number}"}
        given = {"tool_input": {"file_path": path, "content": "agent\n"}}
        pre = load("devin_cli__PreToolUse", **given, **turn)
        post = load("devin_cli__PostToolUse", **given, **turn)
        hook(shadow, "devin", pre, env=env)
        shadow.repo.write(path, "agent\n")
        hook(shadow, "devin", post, env=env)
        hook(shadow, "devin", load("devin_cli__Stop", **turn), env=env)
    first, second = rows_of(shadow)
    assert [row["confidence"] for row in (first, second)] == ["certain", "certain"]
    assert (first["path"], first["call"], first["turn"]) == ("a", "write_0", "turn-0")
    assert (second["path"], second["turn"]) == ("b", "turn-1")
    assert second["call"] == "write_0~2"
    assert agents_of(shadow) == ["devin"]


def test_windsurf_is_found_by_where_it_runs_and_by_the_path_it_names(
    shadow: Shadow,
) -> None:
    """ATT-11: its prompt names no place at all, its writes only their file."""
    info = {"file_path": f"{ROOT}/a", "edits": []}
    hook(shadow, "windsurf", load("windsurf__pre_user_prompt"), cwd=shadow.repo.root)
    pre = load("windsurf__pre_write_code", tool_info=info)
    hook(shadow, "windsurf", pre)
    shadow.repo.write("a", "agent\n")
    hook(shadow, "windsurf", {**pre, "agent_action_name": "post_write_code"})
    (row,) = rows_of(shadow)
    assert (row["agent"], row["confidence"], row["turn"]) == (
        "windsurf",
        "certain",
        "exec-91b2",
    )
    assert len(turns_of(shadow)) == 1


def test_windsurf_session_is_seen_in_the_worktree_that_it_sets_up(
    repo: Repo,
    shadow_n: Shadow,
    tmp_path: Path,
    untouched: Callable[[], None],
) -> None:
    place = tmp_path / "feature"
    repo.git("worktree", "add", "-q", "--detach", str(place))
    info = {"worktree_path": str(place), "root_workspace_path": str(repo.root)}
    payload = load("windsurf__post_setup_worktree", tool_info=info)
    hook(shadow_n, "windsurf", payload)
    there = shadow_n.ok("sessions", "--json", cwd=place).rows()
    assert "traj-3f0a1c" in [row["native_id"] for row in there]
    untouched()


@pytest.mark.parametrize("has_prompt", [True, False])
def test_qwen_turn_goes_on_when_a_tools_result_is_sent(
    shadow: Shadow, has_prompt: bool
) -> None:
    """The prompt's id comes from the environment; a run without a terminal sends no prompt."""
    env = {"QWEN_CODE_PROMPT_ID": "p########1"}
    given = {"tool_input": {"file_path": f"{ROOT}/a", "content": "agent\n"}}
    prompt = load("qwen_code__UserPromptSubmit")
    result = load("qwen_code__UserPromptSubmit__continuation")
    hook(shadow, "qwen", prompt if has_prompt else result, env=env)
    hook(shadow, "qwen", load("qwen_code__PreToolUse__write_file", **given), env=env)
    shadow.repo.write("a", "agent\n")
    hook(shadow, "qwen", load("qwen_code__PostToolUse__write_file", **given), env=env)
    hook(shadow, "qwen", result, env=env)
    (row,) = rows_of(shadow)
    assert (row["turn"], row["confidence"]) == ("p########1", "certain")
    assert turns_of(shadow) == [prompt["prompt"] if has_prompt else None]


def test_droid_run_is_undone_whole_when_it_had_no_prompt(shadow: Shadow) -> None:
    """`droid exec` sends no prompt: its first call begins a turn."""
    before = shadow.repo.read("a")
    given = {"tool_input": {"file_path": f"{ROOT}/a", "content": "agent\n"}}
    hook(shadow, "droid", load("factory_droid__SessionStart"))
    hook(shadow, "droid", load("factory_droid__PreToolUse__Create", **given))
    shadow.repo.write("a", "agent\n")
    hook(shadow, "droid", load("factory_droid__PostToolUse__Create", **given))
    hook(shadow, "droid", load("factory_droid__Stop"))
    (row,) = rows_of(shadow)
    assert (row["agent"], row["confidence"]) == ("droid", "certain")
    (turn,) = shadow.ok("turns", "--json").rows()
    assert (row["turn"], turn["prompt"]) == (turn["id"], None)
    assert shadow.oops()["status"] == "reversed"
    assert shadow.repo.read("a") == before
