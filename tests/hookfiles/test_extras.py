"""Commands, skills and a status line: installed if asked for, and removed without a trace."""

import json
import os
import shutil
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given

from gitshadow.errors import ShadowError, UsageError
from gitshadow.hookfiles import (
    advice,
    health,
    install,
    invocation,
    jsonc,
    merge,
    packaged,
)
from gitshadow.hookfiles.catalog import AGENTS, CLAUDE
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.entries import Want
from gitshadow.hookfiles.health import HealthState
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.hookfiles.placement import (
    Agent,
    Extra,
    InstallScope,
    Owned,
    PackagedPiece,
    Root,
)
from tests.hookfiles.texts import documents

HOOKS = Path(__file__).parents[2] / "hooks"
PLUGIN = HOOKS / "claude-code" / "plugin"
ALL = frozenset(Extra)
OFFERED = [
    (agent.name, scope)
    for agent in AGENTS.values()
    for scope in agent.placements
    if agent.offers(scope)
]
USER = InstallScope.USER
SETTINGS = """{
  // my own
  "model": "opus", // the best
  "permissions": {"allow": []}
}
"""


def put_in(
    name: str,
    around: InstallEnvironment,
    extras: Collection[Extra] = ALL,
    scope: InstallScope = USER,
) -> list[FileStep]:
    steps = install.plan_install(AGENTS[name], scope, around, extras)
    done = install.apply(steps, around, installing=True)
    assert [step for step in done if step.action is FileAction.FAIL] == []
    return done


def take_out(
    name: str, around: InstallEnvironment, scope: InstallScope = USER
) -> list[FileStep]:
    steps = install.plan_uninstall(AGENTS[name], scope, around)
    return install.apply(steps, around, installing=False)


def tree(top: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None
        for path in sorted(top.rglob("*"))
        if ".git" not in path.parts
    }


def settings(around: InstallEnvironment, text: str) -> Path:
    path = Path(around.roots[Root.CLAUDE], "settings.json")
    path.parent.mkdir()
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "scope"), OFFERED)
def test_everything_that_was_installed_is_removed(
    name: str, scope: InstallScope, around: InstallEnvironment, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    steps = put_in(name, around, scope=scope)
    assert {step.action for step in steps} == {FileAction.CREATE}
    again = put_in(name, around, scope=scope)
    assert {step.action for step in again} == {FileAction.NONE}
    take_out(name, around, scope)
    assert tree(tmp_path) == before


def test_agents_that_have_a_place_for_commands() -> None:
    having = {
        name
        for name, agent in AGENTS.items()
        if Extra.COMMANDS in agent.offers(agent.default_scope)
    }
    assert having == {
        *("claude-code", "codex", "cursor", "droid", "gemini", "opencode", "pi"),
    }


def test_without_being_asked_for_nothing_but_hooks_is_installed(
    around: InstallEnvironment,
) -> None:
    (step,) = put_in("claude-code", around, ())
    assert os.path.basename(step.path) == "settings.json"
    assert b"statusLine" not in (step.after or b"")


def test_extras_are_installed_beside_hooks_in_toml(around: InstallEnvironment) -> None:
    path = Path(around.roots[Root.CODEX], "config.toml")
    path.parent.mkdir()
    path.write_text('[[hooks.Stop]]\nhooks = [{type = "command", command = "x"}]\n')
    before = path.read_text()
    steps = put_in("codex", around)
    assert len(steps) == 6
    take_out("codex", around)
    assert path.read_text() == before


def test_extras_are_offered_until_they_are_installed(
    around: InstallEnvironment,
) -> None:
    agents = [AGENTS["claude-code"], AGENTS["cline"]]
    steps = put_in("claude-code", around, ())
    (note,) = advice.notes_on_extras(agents, None, frozenset(), steps)
    assert note.endswith("git agent-undo hooks install claude-code --with all")
    put_in("claude-code", around)
    steps = put_in("claude-code", around, ())
    assert advice.notes_on_extras(agents, None, frozenset(), steps) == []
    line = frozenset({Extra.STATUSLINE})
    (note,) = advice.notes_on_extras(agents[1:], None, line, steps)
    assert note == "no agent here can have: statusline"


def test_extras_are_not_offered_to_an_agent_whose_file_cannot_be_used(
    around: InstallEnvironment,
) -> None:
    path = Path(around.roots[Root.CLAUDE], "settings.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text("{no JSON")
    agents = [AGENTS["claude-code"]]
    steps = install.plan_install(agents[0], InstallScope.USER, around, frozenset())
    assert [step.action for step in steps] == ["fail"]
    assert advice.notes_on_extras(agents, None, frozenset(), steps) == []


@pytest.mark.parametrize(("name", "scope"), OFFERED)
def test_extras_of_another_version_are_reported_until_they_are_renewed(
    name: str,
    scope: InstallScope,
    around: InstallEnvironment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, content = AGENTS[name], packaged.content
    ours = {
        piece
        for placements in agent.extras.values()
        if isinstance(extra := placements.get(scope), Owned)
        for piece in extra.pieces
    }

    def older(piece: PackagedPiece, agent: str, executable: str | None) -> bytes:
        return content(piece, agent, executable) + b"older\n" * (piece in ours)

    with monkeypatch.context() as patch:
        patch.setattr(packaged, "content", older)
        steps = put_in(name, around, scope=scope)
    paths = [step.path for step in steps if step.is_extra]
    assert len(paths) == len(ours)
    assert stale(agent, scope, around) == {
        f"{path} is from another version": f"git agent-undo hooks install {name} --{scope}"
        for path in paths
    }
    put_in(name, around, (), scope)
    assert stale(agent, scope, around) == {}


def stale(
    agent: Agent, scope: InstallScope, around: InstallEnvironment
) -> dict[str, str]:
    """Return what is not as this version has it, each with the fix."""
    found = health.look(agent, scope, around)
    assert found is not None
    found_stale = {
        one.problem: one.fix for one in found.findings if one.state is HealthState.STALE
    }
    assert found_stale == {} or found.state is not HealthState.INSTALLED
    return found_stale


def test_extras_that_a_person_changed_or_deleted_are_no_problem(
    around: InstallEnvironment,
) -> None:
    put_in("claude-code", around)
    commands = Path(around.roots[Root.CLAUDE], "commands")
    (commands / "oops.md").write_text("my own oops\n")
    with (commands / "who.md").open("a") as file:
        file.write("In one sentence, please.\n")
    shutil.rmtree(Path(around.roots[Root.CLAUDE], "skills"))
    found = health.look(AGENTS["claude-code"], USER, around)
    assert found is not None
    assert (found.state, found.findings) == (HealthState.INSTALLED, ())


def test_a_persons_command_of_the_same_name_is_kept(around: InstallEnvironment) -> None:
    path = Path(around.roots[Root.CLAUDE], "commands", "oops.md")
    path.parent.mkdir(parents=True)
    path.write_text("my own oops\n")
    steps = install.plan_install(AGENTS["claude-code"], USER, around, ALL)
    (failed,) = [step for step in steps if step.action is FileAction.FAIL]
    assert failed.path == str(path)
    install.apply(steps, around, installing=True)
    take_out("claude-code", around)
    assert path.read_text() == "my own oops\n"


def test_a_command_that_a_person_changed_is_kept(around: InstallEnvironment) -> None:
    put_in("claude-code", around)
    path = Path(around.roots[Root.CLAUDE], "commands", "who.md")
    changed = path.read_text() + "In one sentence, please.\n"
    path.write_text(changed)
    take_out("claude-code", around)
    assert path.read_text() == changed


def test_a_status_line_of_the_users_own_is_kept_and_named(
    around: InstallEnvironment,
) -> None:
    own = '{"statusLine": {"type": "command", "command": "~/line.sh"}}\n'
    path = settings(around, own)
    steps = put_in("claude-code", around)
    assert json.loads(path.read_text())["statusLine"]["command"] == "~/line.sh"
    notes = advice.notes(steps, around, recorded=True)
    assert any("your own status line is kept" in note for note in notes)
    take_out("claude-code", around)
    assert path.read_text() == own


@pytest.mark.parametrize(
    "text", [SETTINGS, SETTINGS.replace("\n", "\r\n"), '{"a":1}', "// nothing\n", ""]
)
def test_settings_come_back_byte_for_byte(
    text: str, around: InstallEnvironment
) -> None:
    path = settings(around, "")
    path.write_bytes(text.encode())
    put_in("claude-code", around)
    written = jsonc.parse(path.read_bytes().decode()).root
    assert written is not None
    assert isinstance(written.data, dict)
    line = written.data["statusLine"]
    assert isinstance(line, dict)
    assert invocation.is_status_line(str(line["command"]))
    take_out("claude-code", around)
    assert path.read_bytes() == text.encode()


def test_a_status_line_is_removed_from_settings_that_changed_since(
    around: InstallEnvironment,
) -> None:
    path = settings(around, SETTINGS)
    put_in("claude-code", around)
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    take_out("claude-code", around)
    assert path.read_text() == SETTINGS.replace('"opus"', '"haiku"')


def test_a_status_line_that_a_person_added_to_stays(
    around: InstallEnvironment,
) -> None:
    path = settings(around, "{}")
    put_in("claude-code", around)
    path.write_text(path.read_text().replace("prompt 2>", "prompt --ascii; date 2>"))
    take_out("claude-code", around)
    assert list(json.loads(path.read_text())) == ["statusLine"]


def test_a_moved_program_is_written_into_everything_that_was_installed(
    around: InstallEnvironment,
) -> None:
    put_in("claude-code", around)
    moved = around._replace(executable="/opt/its new place/git-agent-undo")
    put_in("claude-code", moved, ())
    top = Path(around.roots[Root.CLAUDE])
    texts = [path.read_text() for path in top.rglob("*") if path.is_file()]
    assert len(texts) == 4
    assert not [text for text in texts if around.executable in text]
    assert all("/opt/its new place/git-agent-undo" in text for text in texts)
    take_out("claude-code", moved)
    assert not top.exists()


@given(documents())
def test_taking_a_status_line_out_gives_the_text_back(text: str) -> None:
    wanted = Want(
        "claude-code",
        CLAUDE,
        invocation.for_project("claude-code"),
        invocation.for_status_line("/opt/it's here/git-agent-undo"),
        adds_line=True,
    )
    try:
        merged = merge.put_in(text, wanted)
    except ShadowError:
        return
    assert merge.put_in(merged, wanted) == merged
    assert merge.take_out(merged, wanted, text) == text


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("git-agent-undo prompt 2>/dev/null || true", True),
        ("git-agent-undo prompt", False),
        ("'/a b/git-agent-undo' prompt 2>/dev/null || true", True),
        ("git-agent-undo prompt; date", False),
        ("git-agent-undo prompt --ascii", False),
        ("~/line.sh", False),
        ("git-agent-undo 'prompt", False),
    ],
)
def test_only_a_line_that_is_wholly_ours_is_ours(command: str, is_ours: bool) -> None:
    assert invocation.is_status_line(command) is is_ours


def test_extras_are_named_with_commas() -> None:
    assert advice.extras_of("skill, commands") == {Extra.SKILL, Extra.COMMANDS}
    assert advice.extras_of("all") == ALL
    assert advice.extras_of(None) == frozenset()
    with pytest.raises(UsageError, match="cannot install 'skil' with hooks"):
        advice.extras_of("skil")


def test_the_commands_of_gemini_say_the_same_in_its_own_form() -> None:
    for name in ("oops", "who"):
        data = tomllib.loads(
            (HOOKS / "gemini" / "commands" / f"{name}.toml").read_text()
        )
        front, text = (PLUGIN / "commands" / f"{name}.md").read_text().split("-->\n")
        assert data["prompt"].strip().replace("{{args}}", "$ARGUMENTS") == text.strip()
        assert f"description: {data['description']}\n" in front


def test_every_command_of_a_text_for_a_model_exists() -> None:
    for path in (*PLUGIN.glob("commands/*.md"), *PLUGIN.glob("skills/*/SKILL.md")):
        text = path.read_text()
        assert text.startswith("---\nname: ")
        assert "gitshadow-managed:" in text
        assert "oops --dry-run" not in text, "only the agent's own work"
