"""Settings that change under a running daemon, and the mark that hooks read instead of them."""

from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo
from tests.support.shadow import Shadow


def changed(shadow: Shadow) -> dict[object, object]:
    """Return kind and agent of the newest row of each path."""
    rows = shadow.log()[::-1]
    return {row["path"]: row["agent"] for row in rows if row["kind"] != "gap"}


def test_recording_stops_and_begins_again_with_the_setting(
    repo: Repo, shadow: Shadow
) -> None:
    """`enabled` is heard by a daemon that runs; nothing is recorded in between."""
    agent = Claude(shadow)
    agent.prompt("go")
    agent.pre("Bash", {"command": "sleep 9"})
    repo.git("config", "agent-undo.enabled", "false")
    agent.write("a", "agent\n")
    assert shadow.ok("log", "--json").rows() == []
    assert shadow.status()["open_sessions"] == 0
    repo.git("config", "--unset", "agent-undo.enabled")
    assert changed(shadow) == {"a": None}
    agent.write("b", "agent\n")
    assert changed(shadow) == {"a": None, "b": "claude-code"}


def test_file_limit_is_used_at_the_next_barrier(repo: Repo, shadow: Shadow) -> None:
    repo.write("big", "x" * 5_000)
    assert list(changed(shadow)) == ["big"]
    repo.git("config", "agent-undo.maxFileSize", "4k")
    repo.write("bigger", "x" * 6_000)
    rows = shadow.log("bigger")
    assert [row for row in rows if row["kind"] != "gap"] == []
    excluded = shadow.status()["coverage"]
    assert isinstance(excluded, dict)
    reasons = {item["path"]: item["reason"] for item in excluded["excluded"]}
    assert reasons == {"big": "too large", "bigger": "too large"}


@pytest.mark.parametrize(
    "scope",
    [["--local"], ["--global"], ["--file", ".git/included"]],
    ids=["local", "global", "included"],
)
def test_excludes_file_is_the_one_that_is_configured_now(
    repo: Repo, shadow: Shadow, sealed: Path, scope: list[str]
) -> None:
    """The file that applies changes with `core.excludesFile`, no rule file does."""
    repo.git("config", "includeIf.onbranch:main.path", "included")
    (sealed / "mine").write_text("*.mine\n")
    repo.write("a.mine", "x")
    assert list(changed(shadow)) == ["a.mine"]
    repo.git("config", *scope, "core.excludesFile", "~/mine")
    repo.write("b.mine", "x")
    assert list(changed(shadow)) == ["a.mine"]
    repo.git("config", *scope, "--unset", "core.excludesFile")
    assert set(changed(shadow)) == {"a.mine", "b.mine"}


def test_setting_that_cannot_be_used_changes_nothing(
    repo: Repo, shadow_d: Shadow
) -> None:
    shadow_d.log()
    repo.git("config", "agent-undo.maxFileSize", "lots")
    repo.write("a", "person\n")
    rows = shadow_d.ok("log", "--json").rows()
    assert {row["kind"] for row in rows} == {"modify", "gap"}
    repo.git("config", "--unset", "agent-undo.maxFileSize")


def test_hook_program_hears_of_the_daemon_setting(repo: Repo, shadow: Shadow) -> None:
    """The mark follows the setting, whoever looks at the repository first."""
    mark = repo.state_dir / "daemon-off"
    on = {"GITSHADOW_DAEMON": ""}
    assert not mark.exists()
    repo.git("config", "agent-undo.daemon", "off")
    shadow.ok("log", env=on)
    assert mark.exists()
    repo.git("config", "--unset", "agent-undo.daemon")
    shadow.ok("log", env=on)
    assert not mark.exists()
