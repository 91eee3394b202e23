"""The daemon at login: the unit, its link, and that nothing of them stays."""

import os
import subprocess
from pathlib import Path

import pytest

from gitshadow.errors import UnsupportedError
from gitshadow.hookfiles import detect, login
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.install import FileAction
from gitshadow.hookfiles.placement import Root
from gitshadow.platform.linux.login import escaped
from tests.support.tools import need

ROOTS = ("/home/u/tea", "/home/u/a b/ü%x")


@pytest.fixture
def around(tmp_path: Path) -> InstallEnvironment:
    home = tmp_path / "home"
    (home / ".local" / "state").mkdir(parents=True)
    program = tmp_path / "pro gram 100%" / "git-agent-undo"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return detect.surroundings({}, str(home), executable=str(program))


def everything(home: str) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for top, folders, names in os.walk(home):
        for name in (*folders, *names):
            path = Path(top, name)
            if path.is_symlink():
                found[str(path)] = os.readlink(path)
            else:
                found[str(path)] = path.read_bytes() if path.is_file() else b""
    return found


def home_of(around: InstallEnvironment) -> str:
    return around.roots[Root.HOME]


def unit_of(around: InstallEnvironment) -> Path:
    return Path(home_of(around), ".config/systemd/user/agent-undo@.service")


def install(around: InstallEnvironment, root: str) -> login.LoginPlan:
    return login.apply(login.plan(root, around), around)


def test_install_and_removal_leave_every_byte_and_directory(
    around: InstallEnvironment,
) -> None:
    before = everything(home_of(around))
    for root in ROOTS:
        install(around, root)
    wants = unit_of(around).parent / "default.target.wants"
    assert {path.name for path in wants.iterdir()} == {
        "agent-undo@home-u-tea.service",
        r"agent-undo@home-u-a\x20b-\xc3\xbc\x25x.service",
    }
    assert {os.readlink(path) for path in wants.iterdir()} == {"../agent-undo@.service"}
    login.apply(login.plan_removal([ROOTS[0]], around), around)
    assert unit_of(around).exists()
    login.apply(login.plan_removal([ROOTS[1]], around), around)
    assert everything(home_of(around)) == before


def test_second_installation_has_nothing_to_do(around: InstallEnvironment) -> None:
    install(around, ROOTS[0])
    again = login.plan(ROOTS[0], around)
    assert [step.action for step in again.unit] == [FileAction.NONE]
    assert [link.action for link in again.links] == [FileAction.NONE]


def test_unit_of_somebody_else_stays_and_nothing_is_linked(
    around: InstallEnvironment,
) -> None:
    unit_of(around).parent.mkdir(parents=True)
    unit_of(around).write_text("[Service]\nExecStart=/bin/true\n")
    before = everything(home_of(around))
    done = install(around, ROOTS[0])
    assert [step.action for step in done.unit] == [FileAction.FAIL]
    assert everything(home_of(around)) == before


def test_link_of_somebody_else_stays(around: InstallEnvironment) -> None:
    wants = unit_of(around).parent / "default.target.wants"
    wants.mkdir(parents=True)
    (wants / "agent-undo@home-u-tea.service").symlink_to("/dev/null")
    done = install(around, ROOTS[0])
    assert [link.action for link in done.links] == [FileAction.FAIL]
    assert login.plan_removal([ROOTS[0]], around).links == []


def test_path_that_no_unit_can_be_named_after_is_refused(
    around: InstallEnvironment,
) -> None:
    with pytest.raises(UnsupportedError, match="too long"):
        login.plan("/" + "x" * 300, around)


def test_program_that_systemd_cannot_run_is_refused(around: InstallEnvironment) -> None:
    odd = around._replace(executable='/opt/"x"/git-agent-undo')
    with pytest.raises(UnsupportedError, match="systemd cannot run"):
        login.plan(ROOTS[0], odd)


@pytest.mark.parametrize("path", ["/", "/.a/b.c", "/a-b/c_d:e", "/x//y/", "/ü \\"])
def test_instance_is_spelled_as_systemd_spells_it(path: str) -> None:
    escape = [need("systemd-escape"), "--path", path]
    done = subprocess.run(escape, capture_output=True, text=True, check=True)
    assert escaped(path) == done.stdout.rstrip("\n")


def test_systemd_accepts_the_unit(around: InstallEnvironment, tmp_path: Path) -> None:
    install(around, str(tmp_path))
    (link,) = login.plan(str(tmp_path), around).links
    verify = [need("systemd-analyze"), "--user", "--man=no", "verify", link.path]
    runtime = tmp_path / "run"
    runtime.mkdir()
    env = {**os.environ, "HOME": home_of(around), "XDG_RUNTIME_DIR": str(runtime)}
    env.pop("XDG_CONFIG_HOME")
    done = subprocess.run(verify, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert " watch\n" in Path(link.path).read_text()


def test_a_program_whose_path_breaks_the_line_of_a_unit_is_refused(
    around: InstallEnvironment,
) -> None:
    odd = around._replace(executable="/opt/a\nExecStartPre=b/git-agent-undo")
    with pytest.raises(UnsupportedError, match="systemd cannot run"):
        login.plan("/home/u/tea", odd)
