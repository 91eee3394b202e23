"""Processes of sessions, with real processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.attribution.origin import agent_process
from gitshadow.attribution.process import (
    ProcessId,
    ProcessScan,
    ancestors,
    boot_ns,
    is_alive,
    process_start,
)
from gitshadow.model import Actor, Session

Start = Callable[..., subprocess.Popen[bytes]]
WAIT = "import sys; print(1, flush=True); sys.stdin.read()"
SPAWN = (
    "import subprocess, sys;"
    f"child = subprocess.Popen([sys.executable, '-c', {WAIT!r}], stdin=subprocess.PIPE);"
    "sys.stdin.read(); child.kill()"
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a process which lives until the test ends."""
    with ExitStack() as stack:

        def begin(
            *command: str, env: Mapping[str, str] | None = None
        ) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                command or (sys.executable, "-c", WAIT),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **(env or {})},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            return process

        yield begin


def identity(pid: int) -> ProcessId:
    started = process_start(pid)
    assert started is not None
    return ProcessId(pid, started)


def session(
    name: str, process: ProcessId | None = None, agent: str = "claude-code"
) -> Session:
    return Session(
        id=name,
        native_id=f"native-{name}",
        actor=Actor.AGENT,
        agent=agent,
        started_ns=0,
        pid=None if process is None else process.pid,
        pid_started=None if process is None else process.started,
    )


def test_process_is_dead_when_killed_and_not_waited_for(start: Start) -> None:
    """ATT-08: a killed agent is gone although nobody has reaped it."""
    process = start()
    found = identity(process.pid)
    assert is_alive(found)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) is None
    assert not is_alive(found)


def test_process_is_another_when_its_start_differs() -> None:
    mine = identity(os.getpid())
    assert not is_alive(ProcessId(mine.pid, mine.started + 1))


def test_start_is_none_when_no_such_process_lives() -> None:
    assert process_start(2**22 + 1) is None


def test_ancestors_begin_with_the_process_and_its_parent(start: Start) -> None:
    process = start()
    found = ancestors(process.pid)
    assert [one.pid for one in found[:2]] == [process.pid, os.getpid()]


def test_start_ticks_fit_the_clock(start: Start) -> None:
    living = ProcessScan().living([session("s", identity(os.getpid()))])
    assert all(one.started_ns > boot_ns() for one in living)


def test_process_belongs_to_the_session_that_its_environment_names(
    start: Start,
) -> None:
    """ATT-17: a background child is named by its marker although its shell is gone."""
    process = start(env={"GITSHADOW_SESSION": "s1"})
    found = ProcessScan().living([session("s1"), session("s2")])
    assert [(one.id.pid, one.session) for one in found] == [(process.pid, "s1")]


def test_process_belongs_to_the_agents_session_when_it_has_the_agents_marker(
    start: Start,
) -> None:
    process = start(env={"CLAUDE_CODE_SESSION_ID": "native-s2"})
    assert ProcessScan().session_of(process.pid, [session("s1"), session("s2")]) == "s2"


def test_process_belongs_to_nobody_when_its_marker_names_another_session(
    start: Start,
) -> None:
    process = start(env={"GITSHADOW_SESSION": "elsewhere"})
    mine = session("s1", identity(os.getpid()))
    assert ProcessScan().session_of(process.pid, [mine]) is None


@pytest.mark.parametrize(
    ("mine_ns", "named_ns", "expected"), [(5, 9, "named"), (9, 5, "mine")]
)
def test_process_belongs_to_the_inner_session_when_two_claim_it(
    start: Start, mine_ns: int, named_ns: int, expected: str
) -> None:
    process = start(env={"GITSHADOW_SESSION": "named"})
    mine = replace(session("mine", identity(os.getpid())), started_ns=mine_ns)
    named = replace(session("named"), started_ns=named_ns)
    assert ProcessScan().session_of(process.pid, [mine, named]) == expected


def test_process_belongs_to_its_nearest_agent(start: Start) -> None:
    agent = start(sys.executable, "-c", SPAWN)
    outer = session("outer", identity(os.getpid()))
    inner = session("inner", identity(agent.pid))
    found = ProcessScan().living([outer, inner])
    assert agent.pid not in [one.id.pid for one in found]
    assert "inner" in [one.session for one in found]


def test_scan_is_asked_once_a_second_at_most(start: Start) -> None:
    now_s = 100.0
    scan = ProcessScan(clock=lambda: now_s)
    mine = [session("s1")]
    assert scan.living(mine) == ()
    process = start(env={"GITSHADOW_SESSION": "s1"})
    assert scan.living(mine) == ()
    now_s = 101.0
    assert [one.id.pid for one in scan.living(mine)] == [process.pid]


def test_holder_is_the_process_that_has_the_file_open(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """ATT-05: the process tree tells."""
    target = tmp_path_factory.mktemp("held") / "x"
    code = f"handle = open({str(target)!r}, 'w'); {WAIT}"
    holder = start(sys.executable, "-c", code, env={"GITSHADOW_SESSION": "s1"})
    start(env={"GITSHADOW_SESSION": "s2"})
    scan = ProcessScan()
    living = scan.living([session("s1"), session("s2")])
    found = scan.holder(str(target), living)
    assert found is not None
    assert (found.id.pid, found.session) == (holder.pid, "s1")
    assert scan.holder(str(target) + "x", living) is None


# Which ancestor is the agent

REPORT = (
    "import json;"
    "from gitshadow.attribution.process import ancestors;"
    "import os;"
    "from gitshadow.attribution.origin import agent_process;"
    "found = agent_process('claude-code', ancestors(os.getppid()), dict(os.environ));"
    "print(found.pid if found else None, flush=True)"
)


def asked(start_shell: str, **env: str) -> int:
    """Run a shell text in which $HOOK stands for a hook that prints what it takes as agent."""
    hook = f'{sys.executable} -c "{REPORT}" hook claude-code'
    done = subprocess.run(
        ["/bin/sh", "-c", start_shell.replace("$HOOK", hook)],
        capture_output=True,
        check=True,
        env={**os.environ, **env},
    )
    return int(done.stdout.split()[0])


@pytest.mark.parametrize(
    "text",
    [
        "$HOOK",
        "$HOOK < /dev/null 2>&1",
        "$HOOK || true",
        "if true; then $HOOK; fi",
        "echo x | $HOOK",
        "timeout 60 $HOOK",
        "exit 0 > /dev/null | $HOOK; exit 0",
    ],
)
def test_wrapper_is_not_the_agent_when_it_runs_the_hook_alone(text: str) -> None:
    assert asked(text) == os.getpid()


@pytest.mark.parametrize("command", ["git-agent-undo", "git agent-undo"])
def test_shim_is_not_the_agent_when_it_runs_the_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    shim = tmp_path / "git-agent-undo"
    shim.write_text(f'#!/bin/sh\n{sys.executable} -c "{REPORT}" "$@"\nexit 0\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    words = [*command.split(), "hook", "claude-code"]
    done = subprocess.run(words, capture_output=True, check=True)
    assert int(done.stdout) == os.getpid()


@pytest.mark.parametrize("text", ["$HOOK; sleep 0", "echo $$; $HOOK; sleep 0"])
def test_shell_is_the_agent_when_it_goes_on_after_the_hook(text: str) -> None:
    """ATT-08: an agent that is a shell script."""
    assert asked(text) != os.getpid()


def test_subshell_is_not_the_agent_when_its_shell_is() -> None:
    text = "echo $$; echo x | ($HOOK; true); sleep 0"
    hook = f'{sys.executable} -c "{REPORT}" hook claude-code'
    done = subprocess.run(
        ["/bin/sh", "-c", text.replace("$HOOK", hook)], capture_output=True, check=True
    )
    shell, agent = done.stdout.split()
    assert shell == agent


def test_agent_is_the_process_that_its_variable_names(start: Start) -> None:
    mine = identity(os.getpid())
    process = identity(start().pid)
    chain = (process, mine)
    env = {"CLAUDE_PID": str(mine.pid)}
    assert agent_process("claude-code", chain, env) == mine
    assert agent_process("codex", chain, env) == process
    assert agent_process("claude-code", chain, {"CLAUDE_PID": "1"}) == process


def test_agent_is_none_when_nobody_of_the_chain_lives() -> None:
    gone = ProcessId(os.getpid(), 1)
    assert agent_process("claude-code", (gone,), {}) is None
