"""Plans and their doing on real files: nothing half, nothing out of place, all back again."""

import contextlib
import json
import os
import resource
import signal
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.errors import RefusedError, UsageError
from gitshadow.hookfiles import advice, detect, health, install, invocation
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.health import Health, HealthState
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.hookfiles.placement import InstallScope, Owned, Root, Shared
from tests.support.repo import Repo

BOTH = [(agent.name, scope) for agent in AGENTS.values() for scope in agent.placements]
CLAUDE = """{
  // the model of the week
  "model": "opus",
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "git-ai checkpoint claude"}]}],
  },
}"""


def put_in(
    name: str, scope: InstallScope, around: InstallEnvironment
) -> list[FileStep]:
    steps = install.plan_install(AGENTS[name], scope, around)
    return install.apply(steps, around, installing=True)


def take_out(
    name: str, scope: InstallScope, around: InstallEnvironment
) -> list[FileStep]:
    steps = install.plan_uninstall(AGENTS[name], scope, around)
    return install.apply(steps, around, installing=False)


def tree(top: Path) -> dict[str, tuple[int, bytes]]:
    """Return everything below a directory but our own state, with modes and contents."""
    return {
        str(path.relative_to(top)): (
            stat.S_IMODE(path.lstat().st_mode),
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(top.rglob("*"))
        if ".local" not in path.parts and ".git" not in path.parts
    }


def main_file(name: str, scope: InstallScope, around: InstallEnvironment) -> Path:
    placement = AGENTS[name].placements[scope]
    place = (
        placement.pieces[0].target
        if isinstance(placement, Owned)
        else placement.files[0]
    )
    path = around.path(place)
    assert path is not None
    return Path(path)


def with_settings(
    around: InstallEnvironment, scope: InstallScope = InstallScope.USER
) -> Path:
    """Make a settings file of Claude Code that has hooks already."""
    path = main_file("claude-code", scope, around)
    path.parent.mkdir()
    path.write_text(CLAUDE)
    return path


def looked(name: str, scope: InstallScope, around: InstallEnvironment) -> Health:
    look = health.look(AGENTS[name], scope, around)
    assert look is not None
    return look


@pytest.mark.parametrize(("name", "scope"), BOTH)
def test_install_and_uninstall_leave_nothing(
    name: str, scope: InstallScope, around: InstallEnvironment, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    steps = put_in(name, scope, around)
    assert {step.action for step in steps} == {FileAction.CREATE}
    look = looked(name, scope, around)
    is_asked_for = name == "codex" or (name, scope) == ("pi", InstallScope.PROJECT)
    expected = HealthState.UNTRUSTED if is_asked_for else HealthState.INSTALLED
    assert look.state is expected, look
    again = put_in(name, scope, around)
    assert {step.action for step in again} == {FileAction.NONE}
    take_out(name, scope, around)
    assert tree(tmp_path) == before
    assert not Path(around.states[scope]).parent.exists()


@pytest.mark.parametrize(
    "text",
    [
        CLAUDE,
        CLAUDE.replace("\n", "\r\n"),
        "\ufeff" + CLAUDE,
        '{"a":1}',
        "",
        "// nothing yet",
        '{\n\t"hooks": {\n\t\t"PreToolUse": []\n\t}\n}\n',
    ],
)
def test_former_bytes_and_mode_come_back(text: str, around: InstallEnvironment) -> None:
    path = main_file("claude-code", InstallScope.USER, around)
    path.parent.mkdir()
    path.write_bytes(text.encode())
    path.chmod(0o640)
    put_in("claude-code", InstallScope.USER, around)
    assert path.read_bytes() != text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    take_out("claude-code", InstallScope.USER, around)
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_was_changed_since_stays(around: InstallEnvironment) -> None:
    path = with_settings(around)
    put_in("claude-code", InstallScope.USER, around)
    path.write_text(path.read_text().replace('"opus"', '"haiku" /* cheaper */'))
    put_in("claude-code", InstallScope.USER, around)
    take_out("claude-code", InstallScope.USER, around)
    assert path.read_text() == CLAUDE.replace('"opus"', '"haiku" /* cheaper */')


def test_new_program_replaces_the_old_one_and_the_first_bytes_come_back(
    around: InstallEnvironment,
) -> None:
    path = with_settings(around)
    put_in("claude-code", InstallScope.USER, around)
    moved = detect.surroundings(
        {}, around.roots[Root.HOME], executable="/opt/git-agent-undo"
    )
    put_in("claude-code", InstallScope.USER, moved)
    assert str(around.executable) not in path.read_text()
    look = looked("claude-code", InstallScope.USER, moved)
    assert look.state is HealthState.BROKEN
    take_out("claude-code", InstallScope.USER, moved)
    assert path.read_text() == CLAUDE


def test_records_are_readable_by_their_owner_alone(around: InstallEnvironment) -> None:
    put_in("claude-code", InstallScope.USER, around)
    state = Path(around.states[InstallScope.USER])
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in state.iterdir()} == {0o600}


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe{\0}\0", b"[1]", b'{"hooks": 1}'])
def test_file_that_is_not_understood_is_named_and_left(
    data: bytes, around: InstallEnvironment
) -> None:
    path = main_file("claude-code", InstallScope.USER, around)
    path.parent.mkdir()
    path.write_bytes(data)
    (step,) = put_in("claude-code", InstallScope.USER, around)
    assert step.error is not None
    assert str(path) in step.error.message
    (step,) = take_out("claude-code", InstallScope.USER, around)
    assert path.read_bytes() == data
    if data != b"[1]":
        look = looked("claude-code", InstallScope.USER, around)
        assert look.state is HealthState.UNREADABLE


def test_directory_in_the_place_of_a_file_is_named(around: InstallEnvironment) -> None:
    path = main_file("claude-code", InstallScope.USER, around)
    path.mkdir(parents=True)
    (step,) = put_in("claude-code", InstallScope.USER, around)
    assert step.error is not None
    assert str(path) in step.error.message


def test_link_out_of_the_worktree_is_refused(
    around: InstallEnvironment, repo: Repo, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo.root / ".factory").symlink_to(outside)
    (step,) = put_in("droid", InstallScope.PROJECT, around)
    assert isinstance(step.error, RefusedError)
    assert list(outside.iterdir()) == []


def test_link_into_the_git_directory_is_refused(
    around: InstallEnvironment, repo: Repo
) -> None:
    (repo.root / ".claude").symlink_to(".git")
    (step,) = put_in("claude-code", InstallScope.PROJECT, around)
    assert isinstance(step.error, RefusedError)


def test_link_of_the_user_stays_and_its_target_is_written(
    around: InstallEnvironment, tmp_path: Path
) -> None:
    dotfiles = tmp_path / "dotfiles.json"
    dotfiles.write_text(CLAUDE)
    path = main_file("claude-code", InstallScope.USER, around)
    path.parent.mkdir()
    path.symlink_to(dotfiles)
    put_in("claude-code", InstallScope.USER, around)
    assert path.is_symlink()
    assert "hook claude-code" in dotfiles.read_text()
    take_out("claude-code", InstallScope.USER, around)
    assert path.is_symlink()
    assert dotfiles.read_text() == CLAUDE


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root writes directories whatever their mode"
)
def test_read_only_directory_is_said_plainly(around: InstallEnvironment) -> None:
    path = with_settings(around)
    path.parent.chmod(0o500)
    try:
        (step,) = put_in("claude-code", InstallScope.USER, around)
    finally:
        path.parent.chmod(0o700)
    assert step.error is not None
    assert "permission denied" in step.error.message
    assert path.read_text() == CLAUDE


def test_full_disk_leaves_the_old_file_whole(around: InstallEnvironment) -> None:
    path = with_settings(around)
    steps = install.plan_install(AGENTS["claude-code"], InstallScope.USER, around)
    with limited_file_size():
        (step,) = install.apply(steps, around, installing=True)
    assert step.error is not None
    assert path.read_text() == CLAUDE
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert not Path(around.states[InstallScope.USER]).exists()


@contextlib.contextmanager
def limited_file_size() -> Iterator[None]:
    """Let this process write no file beyond 1 KiB: the system call itself fails."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def test_file_that_changed_after_it_was_shown_is_left(
    around: InstallEnvironment,
) -> None:
    path = with_settings(around)
    steps = install.plan_install(AGENTS["claude-code"], InstallScope.USER, around)
    path.write_text("{}")
    (step,) = install.apply(steps, around, installing=True)
    assert isinstance(step.error, RefusedError)
    assert path.read_text() == "{}"


@pytest.mark.parametrize("name", ["copilot", "cline", "opencode"])
def test_somebody_elses_file_is_never_overwritten(
    name: str, around: InstallEnvironment
) -> None:
    path = main_file(name, InstallScope.USER, around)
    path.parent.mkdir(parents=True)
    path.write_text('{"hooks": {"preToolUse": [{"bash": "theirs"}]}}')
    steps = put_in(name, InstallScope.USER, around)
    assert isinstance(steps[0].error, RefusedError)
    assert "theirs" in path.read_text()
    take_out(name, InstallScope.USER, around)
    assert "theirs" in path.read_text()


def test_scripts_of_cline_are_executable(around: InstallEnvironment) -> None:
    put_in("cline", InstallScope.PROJECT, around)
    path = main_file("cline", InstallScope.PROJECT, around)
    assert os.access(path, os.X_OK)


@pytest.mark.parametrize(
    "name",
    [
        agent.name
        for agent in AGENTS.values()
        if Owned in map(type, agent.placements.values())
    ],
)
def test_owned_files_name_the_program_by_its_path(
    name: str, around: InstallEnvironment
) -> None:
    put_in(name, InstallScope.USER, around)
    placement = AGENTS[name].placements[InstallScope.USER]
    assert isinstance(placement, Owned)
    for piece in placement.pieces:
        path = around.path(piece.target)
        assert path is not None
        text = Path(path).read_text()
        lines = [line for line in text.splitlines() if "powershell" not in line]
        bare = [line for line in lines if "git-agent-undo" in line]
        assert all(around.executable in line for line in bare), path
        assert bare or piece.source.endswith("plugin.json")


def test_shared_directory_goes_with_the_last_file_in_it(
    around: InstallEnvironment, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    put_in("goose", InstallScope.PROJECT, around)
    put_in("antigravity", InstallScope.PROJECT, around)
    take_out("goose", InstallScope.PROJECT, around)
    take_out("antigravity", InstallScope.PROJECT, around)
    assert tree(tmp_path) == before


def test_directory_that_others_use_stays(
    around: InstallEnvironment, repo: Repo
) -> None:
    put_in("claude-code", InstallScope.PROJECT, around)
    (repo.root / ".claude" / "commands").mkdir()
    take_out("claude-code", InstallScope.PROJECT, around)
    assert os.listdir(repo.root / ".claude") == ["commands"]


def test_user_scope_is_refused_where_the_agent_has_none(
    around: InstallEnvironment,
) -> None:
    with pytest.raises(UsageError, match="only hooks of a project"):
        install.plan_install(AGENTS["devin"], InstallScope.USER, around)


def test_clone_without_records_loses_our_entries_alone(
    around: InstallEnvironment, repo: Repo
) -> None:
    path = with_settings(around, InstallScope.PROJECT)
    put_in("claude-code", InstallScope.PROJECT, around)
    for record in Path(around.states[InstallScope.PROJECT]).iterdir():
        record.unlink()
    take_out("claude-code", InstallScope.PROJECT, around)
    assert path.read_text() == CLAUDE


# Droid and Codex: which of two files


def test_droid_settings_that_hold_hooks_are_not_shadowed(
    around: InstallEnvironment,
) -> None:
    settings = Path(around.roots[Root.HOME]) / ".factory" / "settings.json"
    settings.parent.mkdir()
    text = '{\n  // theirs\n  "hooks": {"Stop": []}\n}\n'
    settings.write_text(text)
    (step,) = put_in("droid", InstallScope.USER, around)
    assert step.path == str(settings)
    (settings.parent / "hooks.json").write_text('{"hooks": {}}')
    look = looked("droid", InstallScope.USER, around)
    assert HealthState.SHADOWED in {finding.state for finding in look.findings}
    take_out("droid", InstallScope.USER, around)
    assert settings.read_text() == text


def test_droid_events_are_at_the_top_level_of_its_hooks_file(
    around: InstallEnvironment,
) -> None:
    """Droid 0.215 ignores every other key of hooks.json; settings.json has them below `hooks`."""
    put_in("droid", InstallScope.USER, around)
    path = main_file("droid", InstallScope.USER, around)
    assert "PreToolUse" in json.loads(path.read_text())
    settings = path.with_name("settings.json")
    path.unlink()
    settings.write_text('{"hooks": {}}')
    put_in("droid", InstallScope.USER, around)
    found = json.loads(settings.read_text())
    assert set(found) == {"hooks"}
    assert "PreToolUse" in found["hooks"]


@pytest.mark.parametrize(
    ("trust", "settings", "state"),
    [
        (None, None, HealthState.UNTRUSTED),
        ("{TREE}: true", None, HealthState.INSTALLED),
        ("{ABOVE}: true", None, HealthState.INSTALLED),
        ("{ABOVE}: true, {TREE}: false", None, HealthState.UNTRUSTED),
        ("{TREE}: false", "always", HealthState.UNTRUSTED),
        (None, "always", HealthState.INSTALLED),
        (None, "ask", HealthState.UNTRUSTED),
    ],
)
def test_pi_extension_of_a_project_needs_pis_trust(
    trust: str | None,
    settings: str | None,
    state: HealthState,
    around: InstallEnvironment,
) -> None:
    tree = os.path.realpath(around.worktree or "")
    home = Path(around.roots[Root.HOME]) / ".pi" / "agent"
    home.mkdir(parents=True)
    if trust is not None:
        named = trust.replace("{TREE}", json.dumps(tree))
        named = named.replace("{ABOVE}", json.dumps(os.path.dirname(tree)))
        (home / "trust.json").write_text(f"{{{named}}}")
    if settings is not None:
        text = json.dumps({"defaultProjectTrust": settings})
        (home / "settings.json").write_text(text)
    steps = put_in("pi", InstallScope.PROJECT, around)
    assert any(
        "trusted projects" in note
        for note in advice.notes(steps, around, recorded=True)
    )
    look = looked("pi", InstallScope.PROJECT, around)
    assert look.state is state
    for_all = install.plan_install(AGENTS["pi"], InstallScope.USER, around)
    said = advice.notes(for_all, around, recorded=True)
    assert not [note for note in said if "trusted projects" in note]


TOMLS = [
    '# mine\nmodel = "x"\n\n[[hooks.PreToolUse]]\nmatcher = "Bash"\n'
    '[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "theirs" # keep\n',
    '[hooks]\nPreToolUse = [\n  { matcher = "*", hooks = [{ type = "command", '
    'command = "git-ai checkpoint codex" }] }, # theirs\n]\n\n[features]\nhooks = true\n',
]


@pytest.mark.parametrize("text", [*TOMLS, TOMLS[0].replace("\n", "\r\n")])
def test_codex_tables_are_merged_into(text: str, around: InstallEnvironment) -> None:
    path = Path(around.roots[Root.HOME]) / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    (step,) = put_in("codex", InstallScope.USER, around)
    assert (step.path, step.error) == (str(path), None)
    new = path.read_bytes().decode()
    assert {"SessionStart", "Stop", "PreToolUse"} <= set(tomllib.loads(new)["hooks"])
    assert all(line in new for line in text.splitlines() if "#" in line)
    (again,) = put_in("codex", InstallScope.USER, around)
    assert again.action is FileAction.NONE
    path.write_bytes((new + "# later\n").encode())
    take_out("codex", InstallScope.USER, around)
    assert tomllib.loads(path.read_bytes().decode()) == tomllib.loads(text)
    assert path.read_bytes().decode().endswith("# later\n")


LISTED = {
    "kimi": (".kimi-code/config.toml", "event"),
    "vibe": (".vibe/hooks.toml", "type"),
}
HANDLER_LISTS = [
    '# mine\ndefault_model = "x"\n\n[[hooks]]\nevent = "Stop"\ntype = "post_agent"\n'
    'command = "theirs" # keep\n\n[providers.x]\nkind = "y"\n',
    'hooks = [\n  { event = "Stop", type = "post_agent", command = "theirs" }, # theirs\n]\n',
    "",
]


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("text", HANDLER_LISTS)
def test_a_toml_list_of_handlers_is_merged_into(
    name: str, text: str, around: InstallEnvironment
) -> None:
    place, key = LISTED[name]
    path = Path(around.roots[Root.HOME]) / place
    path.parent.mkdir()
    path.write_text(text)
    put_in(name, InstallScope.USER, around)
    new = path.read_text()
    hooks = tomllib.loads(new)["hooks"]
    ours = [one for one in hooks if invocation.agent_of(one["command"]) == name]
    shape = AGENTS[name].placements[InstallScope.USER]
    assert isinstance(shape, Shared)
    assert [one[key] for one in ours] == [one.name for one in shape.shape.events]
    assert all(line in new for line in text.splitlines() if "#" in line)
    look = looked(name, InstallScope.USER, around)
    assert (look.state, look.path) == (HealthState.INSTALLED, str(path))
    (again,) = put_in(name, InstallScope.USER, around)
    assert again.action is FileAction.NONE
    path.write_text(new + "# later\n")
    take_out(name, InstallScope.USER, around)
    assert tomllib.loads(path.read_text()) == tomllib.loads(text)
    assert path.read_text().endswith("# later\n")


def test_a_toml_file_of_handlers_that_was_created_is_deleted_again(
    around: InstallEnvironment,
) -> None:
    path = Path(around.roots[Root.HOME]) / ".vibe" / "hooks.toml"
    put_in("vibe", InstallScope.USER, around)
    assert path.exists()
    take_out("vibe", InstallScope.USER, around)
    assert not path.parent.exists()


def test_an_outdated_handler_in_a_toml_list_is_replaced(
    around: InstallEnvironment,
) -> None:
    path = Path(around.roots[Root.HOME]) / ".vibe" / "hooks.toml"
    path.parent.mkdir()
    path.write_text(
        '[[hooks]]\nname = "gitshadow-pre_tool"\ntype = "pre_tool"\n'
        'command = "/old/git-agent-undo hook vibe"\n'
    )
    put_in("vibe", InstallScope.USER, around)
    hooks = tomllib.loads(path.read_text())["hooks"]
    assert [one["type"] for one in hooks] == ["pre_tool", "post_tool", "post_agent"]
    assert {one["command"] for one in hooks} == {
        invocation.for_user("vibe", around.executable)
    }


CHANGES = [
    "timeout 5 {} 2>>/tmp/log",
    "{} >> /tmp/log",
    "make lint; {}",
    "tee /tmp/seen | git-agent-undo hook NAME; say done",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["claude-code", "cursor", "kimi"])
def test_an_entry_that_a_person_changed_is_kept_and_gets_no_second_one(
    name: str, change: str, around: InstallEnvironment
) -> None:
    put_in(name, InstallScope.USER, around)
    path = main_file(name, InstallScope.USER, around)
    ours = invocation.for_user(name, around.executable)
    theirs = change.replace("NAME", name).replace("{}", ours)
    quoted, written = json.dumps(ours), path.read_text()
    assert quoted in written
    text = written.replace(quoted, json.dumps(theirs), 1)
    path.write_text(text)
    event = changed_event(name, around)
    (step,) = put_in(name, InstallScope.USER, around)
    assert (step.action, path.read_text()) == (FileAction.NONE, text)
    look = looked(name, InstallScope.USER, around)
    assert (look.state, look.changed) == (HealthState.INSTALLED, (event,)), look
    take_out(name, InstallScope.USER, around)
    left = path.read_text()
    assert (json.dumps(theirs) in left, quoted in left) == (True, False)
    assert changed_event(name, around) == event


def changed_event(name: str, around: InstallEnvironment) -> str | None:
    look = health.look(AGENTS[name], InstallScope.USER, around)
    return None if look is None or not look.changed else look.changed[0]


def test_a_changed_entry_that_misses_tools_is_not_healthy(
    around: InstallEnvironment,
) -> None:
    put_in("claude-code", InstallScope.USER, around)
    path = main_file("claude-code", InstallScope.USER, around)
    settings = json.loads(path.read_text())
    group = settings["hooks"]["PreToolUse"][0]
    group["matcher"] = "Bash"
    group["hooks"][0]["command"] += " >> /tmp/log"
    path.write_text(json.dumps(settings))
    look = looked("claude-code", InstallScope.USER, around)
    assert (look.state, look.changed) == (HealthState.STALE, ("PreToolUse",))
    assert [one.fix for one in look.findings] == [f"correct your entry in {path}"]


def test_approvals_alone_do_not_make_codex_use_its_tables(
    around: InstallEnvironment,
) -> None:
    home = Path(around.roots[Root.HOME])
    (home / ".codex").mkdir()
    config = home / ".codex" / "config.toml"
    config.write_text('[hooks.state."/x/hooks.json:stop:0:0"]\nenabled = true\n')
    (step,) = put_in("codex", InstallScope.USER, around)
    assert step.path.endswith("hooks.json")
    assert config.read_text().startswith("[hooks.state.")


@pytest.mark.parametrize(
    ("name", "place", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"disableAllHooks": true}'),
        ("gemini", ".gemini/settings.json", '{"hooksConfig": {"enabled": false}}'),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n"),
    ],
)
def test_kill_switches_are_found(
    name: str, place: str, text: str, around: InstallEnvironment
) -> None:
    path = Path(around.roots[Root.HOME]) / place
    path.parent.mkdir()
    path.write_text(text)
    put_in(name, InstallScope.USER, around)
    look = looked(name, InstallScope.USER, around)
    assert look.state is HealthState.DISABLED


def test_agents_are_detected_by_directory_and_program(
    around: InstallEnvironment,
) -> None:
    home = Path(around.roots[Root.HOME])
    (home / ".qwen").mkdir()
    program = home / "bin" / "crush"
    program.write_text("")
    program.chmod(0o755)
    assert detect.detected(around) == ["crush", "qwen"]


@pytest.mark.parametrize(("name", "scope"), BOTH)
def test_what_is_installed_is_present_and_nothing_else(
    name: str, scope: InstallScope, around: InstallEnvironment
) -> None:
    """The quick look of `status` misses no installation."""
    assert list(detect.present(around)) == []
    put_in(name, scope, around)
    assert (AGENTS[name], scope) in list(detect.present(around))
