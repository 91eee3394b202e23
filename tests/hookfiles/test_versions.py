"""Which version of an agent is installed, and what a version cannot run."""

import json
import os
import time
from pathlib import Path

import pytest

from gitshadow.hookfiles import detect, versions
from gitshadow.hookfiles.catalog import AGENTS
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.health import HealthState
from gitshadow.hookfiles.placement import Agent, Shared
from gitshadow.hookfiles.versions import HostVersion
from tests.agents import verified

GEMINI = AGENTS["gemini"]
EVENTS = "SessionStart BeforeAgent AfterAgent SessionEnd BeforeTool AfterTool"


@pytest.fixture
def around(tmp_path: Path) -> InstallEnvironment:
    (tmp_path / "bin").mkdir()
    return detect.surroundings(
        {"PATH": str(tmp_path / "bin")}, str(tmp_path), executable="/x/git-agent-undo"
    )


def stand_in(around: InstallEnvironment, script: str, name: str = "gemini") -> Path:
    path = Path(around.search[0]) / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def found(around: InstallEnvironment, agent: Agent = GEMINI) -> HostVersion:
    host = versions.find(agent, around)
    assert host is not None
    return host


def test_nothing_is_known_of_a_program_that_is_not_there(
    around: InstallEnvironment,
) -> None:
    assert versions.find(GEMINI, around) is None


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo 0.61.0", "0.61.0"),
        ("echo 'Gemini CLI v0.61.0-nightly.3 (linux x64)'", "0.61.0-nightly.3"),
        ("printf 'noise\\ncodex-cli 1.2'", "1.2"),
        ("echo 0.61.0; exit 3", None),
        ("echo 0.61.0 >&2", None),
        ("echo none of your business", None),
        ("head -c 9000 /dev/urandom", None),
        ("exec yes 'no version'", None),
        ("exit 1", None),
        (":", None),
    ],
)
def test_a_program_is_asked_for_its_version(
    script: str, version: str | None, around: InstallEnvironment
) -> None:
    stand_in(around, f'test "$*" = --version || exit 9\n{script}')
    assert found(around).version == version


def test_a_program_that_hangs_is_ended_with_what_it_started(
    around: InstallEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "ASK_LIMIT_S", 0.3)
    pids = tmp_path / "pids"
    stand_in(around, f"sleep 600 & echo $$ $! > {pids}; echo 0.61.0; wait")
    assert found(around).version is None
    for pid in pids.read_text().split():
        for _ in range(200):
            if not is_running(int(pid)):
                break
            time.sleep(0.02)
        assert not is_running(int(pid))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_program_that_is_asked_reaches_no_network_by_a_proxy(
    around: InstallEnvironment, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    stand_in(around, f"echo $HTTPS_PROXY $http_proxy > {seen}; echo 1.0.0")
    assert found(around).version == "1.0.0"
    assert seen.read_text() == "http://127.0.0.1:9 http://127.0.0.1:9\n"


def npm(around: InstallEnvironment, code: str, **more: object) -> Path:
    """Install a Node program of a package, as npm does; running it fails the test."""
    top = Path(around.search[0]).parent / "lib" / "node_modules"
    package = top / "@google" / "gemini-cli"
    (package / "bundle").mkdir(parents=True)
    document = {"name": "@google/gemini-cli", "version": "0.61.0", **more}
    (package / "package.json").write_text(json.dumps(document))
    # Some packages have a package.json without a version beside their code.
    (package / "bundle" / "package.json").write_text('{"type": "module"}')
    program = package / "bundle" / "gemini.js"
    program.write_text("#!/bin/sh\ntouch was-run\n")
    program.chmod(0o755)
    (package / "bundle" / "chunk.js").write_text(code)
    (Path(around.search[0]) / "gemini").symlink_to(program)
    return top


def test_the_package_of_a_node_program_says_its_version(
    around: InstallEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    npm(around, EVENTS)
    assert (found(around).version, found(around).unknown_events) == ("0.61.0", ())
    assert not os.path.exists("was-run")


def test_an_event_that_the_code_does_not_have_is_found(
    around: InstallEnvironment,
) -> None:
    npm(around, EVENTS.replace("AfterAgent", "AgentEnded"))
    host = found(around)
    assert host.unknown_events == ("AfterAgent",)
    (finding,) = versions.findings(GEMINI, host)
    assert finding.state is HealthState.OUTDATED
    assert finding.problem == "gemini 0.61.0 has no event AfterAgent"


def test_code_in_a_package_of_the_platform_is_searched(
    around: InstallEnvironment,
) -> None:
    top = npm(around, "", optionalDependencies={"@google/gemini-linux": "0.61.0"})
    (top / "@google" / "gemini-linux").mkdir()
    (top / "@google" / "gemini-linux" / "gemini").write_bytes(
        b"\x7fELF\0" + EVENTS.replace("BeforeTool", "").encode()
    )
    assert found(around).unknown_events == ("BeforeTool",)


@pytest.mark.parametrize("code", ["compressed", "SessionStart of a wrapper"])
def test_code_that_has_few_of_the_events_cannot_be_searched(
    code: str, around: InstallEnvironment
) -> None:
    npm(around, code)
    assert found(around).unknown_events == ()


def test_the_code_of_other_packages_does_not_count(around: InstallEnvironment) -> None:
    top = npm(around, EVENTS.replace("AfterTool", ""))
    inner = top / "@google" / "gemini-cli" / "node_modules" / "other"
    inner.mkdir(parents=True)
    (inner / "index.js").write_text(EVENTS)
    assert found(around).unknown_events == ("AfterTool",)


def test_the_distribution_of_a_python_program_says_its_version(
    around: InstallEnvironment, tmp_path: Path
) -> None:
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    for name in ("openhands_cli", "openhands", "openhands-1.16.0.dist-info"):
        (site / name).mkdir(parents=True)
    (site / "openhands-1.16.0.dist-info" / "entry_points.txt").write_text(
        "[console_scripts]\nopenhands = openhands_cli.entrypoint:main\n"
    )
    names = versions.events(AGENTS["openhands"])
    (site / "openhands" / "hooks.py").write_text(" ".join(names[:-1]))
    (tmp_path / "venv" / "bin").mkdir()
    program = tmp_path / "venv" / "bin" / "openhands"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (Path(around.search[0]) / "openhands").symlink_to(program)
    host = found(around, AGENTS["openhands"])
    assert (host.version, host.unknown_events) == ("1.16.0", (names[-1],))


def test_a_directory_that_is_named_after_the_version_says_it(
    around: InstallEnvironment, tmp_path: Path
) -> None:
    program = tmp_path / "share" / "claude" / "versions" / "2.1.330"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (Path(around.search[0]) / "claude").symlink_to(program)
    assert found(around, AGENTS["claude-code"]).version == "2.1.330"


@pytest.mark.parametrize(
    ("version", "problems"),
    [
        ("0.25.9", ["gemini 0.25.9 is too old: its hooks need 0.26.0 or later"]),
        ("0.9", ["gemini 0.9 is too old: its hooks need 0.26.0 or later"]),
        ("0.26.0-preview.1", []),
        ("0.61.0", []),
        ("1.0", []),
        (None, []),
    ],
)
def test_only_a_version_before_the_oldest_with_hooks_is_too_old(
    version: str | None, problems: list[str]
) -> None:
    assert GEMINI.oldest == "0.26.0"
    host = HostVersion("/bin/gemini", version)
    assert [one.problem for one in versions.findings(GEMINI, host)] == problems


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_events_of_every_hook_file_are_known(agent: Agent) -> None:
    names = versions.events(agent)
    placement = next(iter(agent.placements.values()))
    plugin = not isinstance(placement, Shared) and placement.pieces[0].source.endswith(
        ".ts"
    )
    assert bool(names) is not plugin


def test_the_packaged_versions_are_those_of_the_last_runs() -> None:
    assert versions.verified() == verified.versions()
    assert set(versions.verified()) <= set(AGENTS)


def test_a_version_is_verified_if_its_turns_were(tmp_path: Path) -> None:
    turns = "test_turns_are_recorded_undone_and_redone"
    for name, outcome in (("gemini", "passed"), ("codex", "failed"), ("x", "passed")):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"version": "1.2.3", "tests": {turns: {"outcome": outcome}}})
        )
    assert verified.versions(tmp_path) == {"gemini": "1.2.3"}


def test_versions_are_compared_by_number() -> None:
    assert versions.is_newer("0.10.0", "0.9.9")
    assert not versions.is_newer("1.0.0", "1.0.0")
