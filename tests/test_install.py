"""Every way to install us gives a fresh machine the command, its page and the first minute."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import console, routes
from tests.support.repo import Repo
from tests.support.routes import ROUTES, Machine, Route
from tests.support.shadow import Shadow
from tests.support.tools import need
from tests.support.waiting import until

pytestmark = pytest.mark.uncounted

README = Path(__file__).parent.parent / "README.md"
machine = routes.machine


def first_minute() -> list[console.Step]:
    """Return what the README has people type first, up to `redo`, and `uninstall` at the end."""
    blocks = console.parse(README.read_text(encoding="utf-8"))
    steps = [step for block in blocks for step in block]
    verbs = [step.command.removeprefix("git agent-undo ").split()[0] for step in steps]
    last = verbs.index("redo")
    assert {"init", "exec", "log", "oops"} <= set(verbs[:last])
    return [*steps[: last + 1], steps[verbs.index("uninstall")]]


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(route, marks=[] if route.name == "pip" else pytest.mark.release)
        for route in ROUTES
    ],
    ids=lambda route: route.name,
)
def test_first_minute_works_on_a_fresh_machine(
    route: Route, machine: Machine, repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """Install, look at the manual, record, undo, redo, leave, uninstall."""
    need("man")
    route.install(machine)
    asked = machine.run("git", "agent-undo", "-h")
    assert "\n  oops " in asked
    page = machine.run("git", "agent-undo", "--help", env={"MANPAGER": "cat"})
    assert page.startswith("GIT-AGENT-UNDO(1)")
    shadow = make_shadow(repo)
    env = {**machine.environment(), "SHADOW_TEST_MARK": shadow.mark}
    assert console.run(first_minute(), repo.root, env, inherit=False) == []
    route.remove(machine)
    # A command server sees that its program is gone.
    until(lambda: machine.traces() == [])


@pytest.mark.release
@pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0,
    reason="only root can make a file system of its own, and not in every container",
)
def test_first_minute_works_as_root_on_a_read_only_system(
    machine: Machine,
    repo: Repo,
    make_shadow: Callable[..., Shadow],
    tmp_path: Path,
) -> None:
    """As in a container: a root of its own, in which only home and project can be written."""
    routes.pip(machine)
    shadow = make_shadow(repo)
    env = {**machine.environment(), "SHADOW_TEST_MARK": shadow.mark}
    shell = routes.in_a_container(machine, tmp_path)
    steps = [
        console.Step(0, "! touch /probe 2>/dev/null", (), 0),
        *first_minute(),
    ]
    assert console.run(steps, repo.root, env, inherit=False, shell=shell) == []
