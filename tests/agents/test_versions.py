"""The installed programs say which version they are, and contain the events of their hooks."""

from pathlib import Path

import pytest

from gitshadow.hookfiles import detect, versions
from gitshadow.hookfiles.catalog import AGENTS
from tests.agents.drivers import DRIVERS
from tests.agents.install import packages

# Its code is compressed, so that no event can be found in it.
UNSEARCHABLE = ("copilot",)


@pytest.mark.parametrize("name", [name for name in DRIVERS if name in AGENTS])
def test_an_installed_program_has_a_version_and_the_events(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = packages()[name]
    if not package.installed():
        pytest.skip(f"{name} is not installed: `make agents` installs it")
    around = detect.surroundings(
        {"PATH": str(package.executable.parent)},
        str(tmp_path),
        executable="/x/git-agent-undo",
    )

    def asked(program: str) -> str:
        raise AssertionError(f"{program} was run: its files no longer say its version")

    monkeypatch.setattr(versions, "_asked", asked)
    monkeypatch.setattr(versions, "_SEARCH_LIMIT_S", 60.0)
    host = versions.find(AGENTS[name], around)
    assert host is not None
    if package.installed() != "latest":
        assert host.version == package.version
    assert host.unknown_events == ()
    renamed = [*versions.events(AGENTS[name]), "AnEventThatNoAgentHas"]
    monkeypatch.setattr(versions, "events", lambda _: renamed)
    host = versions.find(AGENTS[name], around)
    assert host is not None
    can_be_searched = len(renamed) > 1 and name not in UNSEARCHABLE
    assert list(host.unknown_events) == (renamed[-1:] if can_be_searched else [])
