"""The verdict of `status`, from literal facts."""

from collections.abc import Mapping, Sequence

import pytest

from gitshadow.cli import main
from gitshadow.commands import status as status_command
from gitshadow.messages.codec import decode, encode
from gitshadow.messages.status import HookRow, StatusAnswer
from tests.support.shadow import Shadow

STATUS: dict[str, object] = {
    "enabled": True,
    "daemon": {
        "running": True,
        "allowed": True,
        "started": "2026-11-21T07:00:00.000000Z",
    },
    "degraded": None,
    "last_gap": None,
    "heard": {"claude-code": "2026-11-21T08:00:00.000000Z"},
}
CLAUDE: dict[str, object] = {
    "agent": "claude-code",
    "scope": "user",
    "state": "installed",
    "path": "/p",
    "problem": None,
    "fix": None,
}
CODEX: dict[str, object] = {
    **CLAUDE,
    "agent": "codex",
    "state": "untrusted",
    "fix": "approve them",
}


def judge(
    status: Mapping[str, object],
    hooks: Sequence[Mapping[str, object]],
    unhooked: Sequence[str],
    environ: Mapping[str, str],
) -> dict[str, object]:
    rows = [decode(HookRow, row) for row in hooks]
    known = decode(StatusAnswer, status)
    return encode(status_command.judge(known, rows, unhooked, environ))


def said(
    status: Mapping[str, object] | None = None,
    hooks: tuple[dict[str, object], ...] = (CLAUDE,),
    unhooked: tuple[str, ...] = (),
    environ: tuple[str, ...] = (),
) -> tuple[object, object, object]:
    verdict = judge(
        {**STATUS, **(status or {})}, hooks, unhooked, dict.fromkeys(environ, "off")
    )
    return verdict["state"], verdict["why"], verdict["fix"]


def test_a_daemon_and_hooks_that_come_protect() -> None:
    verdict = judge(STATUS, [CLAUDE], ["cursor"], {})
    assert verdict == {
        "state": "protected",
        "since": "2026-11-21T07:00:00.000000Z",
        "by": ["daemon", "claude-code"],
        "why": None,
        "fix": None,
        "hooks": [{**CLAUDE, "heard": "2026-11-21T08:00:00.000000Z"}],
        "unhooked": ["cursor"],
    }


def test_a_disk_that_takes_nothing_protects_nobody(
    shadow_n: Shadow,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """LAW-05: a plain answer and what to do, not a report of an unexpected error."""

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.chdir(shadow_n.repo.root)
    where = shadow_n.repo.root / ".git" / "agent-undo"
    with monkeypatch.context() as patch:
        patch.setattr("os.fchmod", refuse)
        assert (main(["status"]), main(["log"])) == (1, 1)
    said = capsys.readouterr()
    assert said.out == (
        f"not protected: cannot write to {where}, so nothing is recorded"
        " (Read-only file system)\n"
        "next: make it writable; the recorded history is still there: git log --all\n"
    )
    assert "caused by: Read-only file system\n" in said.err


def test_a_gap_after_the_start_is_since_when_nothing_was_missed() -> None:
    gap = "2026-11-21T07:30:00.000000Z"
    assert judge({**STATUS, "last_gap": gap}, [], [], {})["since"] == gap


def test_a_gap_before_the_start_is_not() -> None:
    gap = "2026-11-21T06:59:00.000000Z"
    verdict = judge({**STATUS, "last_gap": gap}, [], [], {})
    assert verdict["since"] == "2026-11-21T07:00:00.000000Z"


def test_where_no_agent_is_found_the_daemon_protects_alone() -> None:
    assert said(hooks=()) == ("protected", None, None)


def test_agents_without_any_hooks_make_it_partly() -> None:
    assert said(hooks=(), unhooked=("codex", "gemini")) == (
        "partly",
        "no hooks for codex, gemini, so authorship is a guess",
        "git agent-undo hooks install",
    )


def test_hooks_that_do_not_come_make_it_partly() -> None:
    """Their own remedy is what to do next."""
    assert said(hooks=(CLAUDE, CODEX)) == (
        "partly",
        "codex is not running its hooks",
        "approve them",
    )


@pytest.mark.parametrize("state", ["untrusted", "disabled", "shadowed"])
def test_hooks_that_came_lately_protect_whatever_the_settings_say(state: str) -> None:
    """Codex can be told to run what nobody approved."""
    heard: dict[str, object] = {"heard_lately": ["codex"]}
    found = {**CODEX, "state": state, "problem": "no approval"}
    assert said(heard, (found,)) == ("protected", None, None)
    verdict = judge({**STATUS, **heard}, [found], (), {})
    assert verdict["hooks"] == [{**found, "problem": None, "fix": None, "heard": None}]


def test_hooks_that_came_lately_leave_another_problem_named() -> None:
    found = {**CODEX, "state": "stale", "problem": "another command"}
    verdict = judge({**STATUS, "heard_lately": ["codex"]}, [found], (), {})
    assert verdict["hooks"] == [{**found, "heard": None}]


def test_hooks_that_come_from_one_of_two_files_are_enough() -> None:
    second = {**CODEX, "agent": "claude-code"}
    assert said(hooks=(second, CLAUDE)) == ("protected", None, None)


def test_a_watcher_that_cannot_watch_comes_first() -> None:
    """ROB-16."""
    degraded = {"degraded": "inotify has no watches left: sudo sysctl x"}
    assert said(degraded, (CODEX,)) == (
        "partly",
        "inotify has no watches left, so changes are detected late (by scanning)",
        "sudo sysctl x",
    )


def test_without_a_daemon_it_is_partly_and_one_can_be_started() -> None:
    daemon = {"running": False, "allowed": True}
    assert said({"daemon": daemon}) == (
        "partly",
        "no daemon runs, so changes are recorded only at hooks and commands",
        "git agent-undo daemon start",
    )


@pytest.mark.parametrize(
    ("status", "variable", "fix"),
    [
        ({"enabled": False}, "", "git config agent-undo.enabled true"),
        ({"enabled": False}, "GITSHADOW_ENABLED", "unset GITSHADOW_ENABLED"),
        ({"daemon": {}}, "", "git config agent-undo.daemon auto"),
        ({"daemon": {}}, "GITSHADOW_DAEMON", "unset GITSHADOW_DAEMON"),
    ],
)
def test_what_is_switched_off_says_how_to_switch_it_on(
    status: dict[str, object], variable: str, fix: str
) -> None:
    """GIT-21: recording that is off is never shown as on."""
    state, _, found = said(status, environ=(variable,))
    assert found == fix
    assert state == ("not" if "enabled" in status else "partly")


def test_an_event_that_no_longer_comes_is_why_only_a_part_is_protected() -> None:
    problem = "claude-code reports prompts, but not that turns end"
    missing = {"unreported": [{"agent": "claude-code", "problem": problem}]}
    assert said(missing) == ("partly", problem, "git agent-undo doctor")
