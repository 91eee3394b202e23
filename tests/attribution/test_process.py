"""Processes of sessions, with real processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitshadow.attribution.process import (
    Living,
    ProcessId,
    ProcessScan,
    agent_process,
    ancestors,
    is_alive,
    process_start,
    tools_of,
)
from gitshadow.attribution.process_evidence import OpenFiles
from gitshadow.model import Actor, Session
from gitshadow.store.backends.git_pipes import Answers, GitPipe

Start = Callable[..., subprocess.Popen[bytes]]
WAIT = "import sys; print(1, flush=True); sys.stdin.read()"
SPAWN = (
    "import subprocess, sys;"
    f"child = subprocess.Popen([sys.executable, '-c', {WAIT!r}], stdin=subprocess.PIPE);"
    "sys.stdin.read(); child.kill()"
)
SPAWN_TELLING = SPAWN.replace(
    "sys.stdin.read(); child",
    "print(1, flush=True); print(child.pid, flush=True); sys.stdin.read(); child",
).replace("stdin=", "stdout=subprocess.DEVNULL, stdin=")
EXEC = (
    f"os.execve(sys.executable, [sys.executable, '-c', {WAIT!r}],"
    " {**os.environ, 'GITSHADOW_SESSION': 's1'})"
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a process which lives until the test ends."""
    with ExitStack() as stack:

        def begin(
            *command: str,
            env: Mapping[str, str] | None = None,
            cwd: Path | None = None,
        ) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                command or (sys.executable, "-c", WAIT),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **(env or {})},
                cwd=cwd,
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


def ours(living: Iterable[Living]) -> list[Living]:
    """Return those that this test started: another test may run beside it."""
    mine = os.getpid()
    return [one for one in living if mine in {a.pid for a in ancestors(one.id.pid)}]


def test_process_is_dead_when_killed_and_not_waited_for(start: Start) -> None:
    """ATT-08: a killed agent is gone although nobody has reaped it."""
    process = start()
    found = identity(process.pid)
    assert is_alive(found)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) is None
    assert not is_alive(found)


def test_process_that_died_since_the_last_look_is_no_living_one(start: Start) -> None:
    """ATT-17: what explains a write as left over must live, not have been seen lately."""
    process = start(env={"GITSHADOW_SESSION": "s1"})
    scan, s1 = ProcessScan(clock=lambda: 0.0), session("s1")
    assert [one.id.pid for one in ours(scan.living([s1]))] == [process.pid]
    process.kill()
    process.wait()
    assert ours(scan.living([s1])) == []


def test_our_own_programs_and_what_waits_for_them_are_no_left_over_processes(
    start: Start, tmp_path: Path
) -> None:
    """ATT-17: a hook outlives the window that it closes, and is nobody's work."""
    hook = tmp_path / "git-agent-undo"
    hook.symlink_to("/bin/sh")
    text = "echo 1; read x"
    shim = f"{hook} -c '{text}'; true"
    start("/bin/sh", "-c", shim, env={"GITSHADOW_SESSION": "s1"})
    other = start("/bin/sh", "-c", text, env={"GITSHADOW_SESSION": "s1"})
    found = ours(ProcessScan().living([session("s1")]))
    assert [one.id.pid for one in found] == [other.pid]


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
    booted_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert all(one.started_ns > booted_ns for one in living)


def test_process_belongs_to_the_session_that_its_environment_names(
    start: Start,
) -> None:
    """ATT-17: a background child is named by its marker although its shell is gone."""
    process = start(env={"GITSHADOW_SESSION": "s1"})
    found = ours(ProcessScan().living([session("s1"), session("s2")]))
    assert [(one.id.pid, one.sessions) for one in found] == [(process.pid, ("s1",))]


def test_process_belongs_to_the_agents_session_when_it_has_the_agents_marker(
    start: Start,
) -> None:
    process = start(env={"CLAUDE_CODE_SESSION_ID": "native-s2"})
    assert ProcessScan().session_of(process.pid, [session("s1"), session("s2")]) == "s2"


def test_process_belongs_to_the_session_that_opencodes_plug_in_names(
    start: Start,
) -> None:
    process = start(env={"GITSHADOW_OPENCODE_SESSION": "native-o"})
    known = [session("o", agent="opencode"), session("p", agent="opencode")]
    assert ProcessScan().session_of(process.pid, known) == "o"


def test_process_belongs_to_nobody_when_its_marker_names_another_session(
    start: Start,
) -> None:
    process = start(env={"GITSHADOW_SESSION": "elsewhere"})
    mine = session("s1", identity(os.getpid()))
    assert ProcessScan().session_of(process.pid, [mine]) is None


def test_process_is_the_named_sessions_when_its_agent_gave_it_the_name(
    start: Start,
) -> None:
    process = start(env={"GITSHADOW_SESSION": "named"})
    mine = session("mine", identity(os.getpid()))
    assert ProcessScan().session_of(process.pid, [mine, session("named")]) == "named"


def test_process_is_its_agents_when_the_agent_let_an_outer_name_through(
    start: Start,
) -> None:
    """Gemini and opencode publish nothing: the outer agent's variable is no claim."""
    agent = start(
        sys.executable, "-c", SPAWN_TELLING, env={"CLAUDE_CODE_SESSION_ID": "native-o"}
    )
    assert agent.stdout is not None
    child = int(agent.stdout.readline())
    known = [session("o"), session("inner", identity(agent.pid), "gemini")]
    assert ProcessScan().session_of(child, known) == "inner"


def test_process_is_unclear_when_it_could_be_of_two_families(start: Start) -> None:
    """Two names of one maker: neither is nearer."""
    marks = {"CODEX_THREAD_ID": "native-x", "CLAUDE_CODE_SESSION_ID": "native-o"}
    process = start(env=marks)
    known = [session("o"), session("x", agent="codex")]
    scan = ProcessScan()
    assert scan.session_of(process.pid, known) is None
    (found,) = ours(scan.living(known))
    assert found.sessions == ("o", "x")
    assert [found.rivals(one) for one in found.sessions] == [("x",), ("o",)]


def test_variables_are_read_anew_when_a_process_runs_another_program(
    start: Start,
) -> None:
    """A forked child has its parent's environment until it executes its own program."""
    code = f"import os, sys; sys.stdin.readline(); {EXEC}"
    process = start(sys.executable, "-c", f"print(1, flush=True); {code}")
    now_s = 100.0
    scan = ProcessScan(clock=lambda: now_s)
    assert scan.session_of(process.pid, [session("s1")]) is None
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.stdout.readline()
    now_s = 101.0
    assert scan.session_of(process.pid, [session("s1")]) == "s1"


# Agents' processes


@pytest.fixture
def programs(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that gives the interpreter another name."""

    def named(name: str) -> str:
        (tmp_path / name).symlink_to(sys.executable)
        return str(tmp_path / name)

    return named


def agents_in(scan: ProcessScan, place: Path) -> list[tuple[int, str | None]]:
    return [(one.id.pid, one.agent) for one in scan.agents() if one.cwd == str(place)]


def test_agent_is_seen_by_its_programs_name_and_its_directory(
    start: Start, programs: Callable[[str], str], tmp_path: Path
) -> None:
    process = start(programs("crush"), "-c", WAIT, cwd=tmp_path)
    start(programs("crushed"), "-c", WAIT, cwd=tmp_path)
    editor = start(programs("nano"), "-c", WAIT, cwd=tmp_path)
    found = agents_in(ProcessScan(), tmp_path)
    assert sorted(found, key=str) == sorted(
        [(process.pid, "crush"), (editor.pid, None)], key=str
    )


def test_agent_is_one_when_its_workers_run_the_same_program(
    start: Start, programs: Callable[[str], str], tmp_path: Path
) -> None:
    process = start(programs("crush"), "-c", SPAWN_TELLING, cwd=tmp_path)
    assert agents_in(ProcessScan(), tmp_path) == [(process.pid, "crush")]


def test_agent_that_ended_since_the_last_scan_is_still_among_them(
    start: Start, programs: Callable[[str], str], tmp_path: Path
) -> None:
    now_s = 100.0
    scan = ProcessScan(clock=lambda: now_s)
    process = start(programs("crush"), "-c", WAIT, cwd=tmp_path)
    seen = [(process.pid, "crush")]
    assert agents_in(scan, tmp_path) == seen
    process.kill()
    process.wait()
    now_s = 101.0
    assert agents_in(scan, tmp_path) == seen
    now_s = 102.0
    assert agents_in(scan, tmp_path) == []


def test_process_belongs_to_its_nearest_agent(start: Start) -> None:
    agent = start(sys.executable, "-c", SPAWN)
    outer = session("outer", identity(os.getpid()))
    inner = session("inner", identity(agent.pid))
    found = ProcessScan().living([outer, inner])
    assert agent.pid not in [one.id.pid for one in found]
    assert ("inner",) in [one.sessions for one in found]


def test_scan_is_asked_once_a_second_at_most(start: Start) -> None:
    now_s = 100.0
    scan = ProcessScan(clock=lambda: now_s)
    mine = [session("s1")]
    assert ours(scan.living(mine)) == []
    process = start(env={"GITSHADOW_SESSION": "s1"})
    assert ours(scan.living(mine)) == []
    now_s = 101.0
    assert [one.id.pid for one in ours(scan.living(mine))] == [process.pid]


LATER_NS = 2**62


def test_holder_is_the_process_of_the_session_that_writes(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """ATT-05: the process tree tells; who only reads is no writer."""
    top = tmp_path_factory.mktemp("held")
    code = f"handle = open({str(top / 'x')!r}, 'w'); {WAIT}"
    holder = start(sys.executable, "-c", code, env={"GITSHADOW_SESSION": "s1"})
    reads = f"handle = open({str(top / 'x')!r}); {WAIT}"
    start(sys.executable, "-c", reads, env={"GITSHADOW_SESSION": "s2"})
    scan, both = ProcessScan(), [session("s1"), session("s2")]
    files = OpenFiles(str(top))
    pids = files.writers(bytes(top / "x"), scan.pids)
    assert pids == (holder.pid,)
    found = scan.holder(pids, both, LATER_NS)
    assert found is not None
    assert (found.pid, found.session) == (holder.pid, "s1")
    assert files.writers(bytes(top / "y"), scan.pids) == ()


def test_holder_outside_all_sessions_tells_if_it_was_there_before(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("held")
    code = f"handle = open({str(top / 'x')!r}, 'a'); {WAIT}"
    holder = start(sys.executable, "-c", code)
    scan = ProcessScan()
    mine = [session("s1")]
    pids = OpenFiles(str(top)).writers(bytes(top / "x"), scan.pids)
    found = scan.holder(pids, mine, LATER_NS)
    assert found is not None
    assert (found.pid, found.session) == (holder.pid, None)
    assert scan.holder(pids, mine, 0) is None


def test_who_has_closed_a_file_is_no_holder_any_more(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A person may write it in place within the second after an agent's process did."""
    top = tmp_path_factory.mktemp("held")
    code = (
        f"handle = open({str(top / 'x')!r}, 'a'); print(flush=True); input();"
        f" handle.close(); {WAIT}"
    )
    holder = start(sys.executable, "-c", code)
    assert holder.stdin is not None
    assert holder.stdout is not None
    files, scan = OpenFiles(str(top), clock=lambda: 100.0), ProcessScan()
    for _ in range(2):
        assert files.writers(bytes(top / "x"), scan.pids) == (holder.pid,)
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    assert holder.stdout.readline()
    assert files.writers(bytes(top / "x"), scan.pids) == ()


def test_open_files_are_looked_for_a_hundredth_of_the_time_at_most() -> None:
    moment_s = [100.0]
    asked: list[float] = []

    def pids() -> tuple[int, ...]:
        asked.append(moment_s[0])
        moment_s[0] += 0.1
        return ()

    files = OpenFiles("/nowhere", clock=lambda: moment_s[0])
    files.writers(b"x", pids)
    for later_s in (100.5, 109.9, 110.1):
        moment_s[0] = later_s
        files.writers(b"x", pids)
    assert asked == [100.0, 110.1]


# Which ancestor is the agent

REPORT = (
    "import json;"
    "from gitshadow.attribution.process import ancestors;"
    "import os;"
    "from gitshadow.attribution.process import agent_process;"
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


SCRIPTS = {
    "marked as ours": "# gitshadow-managed: cline\n$HOOK\nlogger done\nexit 0\n",
    "a person's own, with an answer": "true | $HOOK >&1\necho '{\"cancel\":false}'\n",
    "a person's own, the hook last": "if true; then\n  $HOOK\nfi\nexit 0\n",
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("shell", [("sh",), ("sh", "-u"), ()], ids=" ".join)
def test_script_is_not_the_agent_when_it_runs_the_hook_alone(
    text: str, shell: tuple[str, ...], tmp_path: Path
) -> None:
    """Cline runs a script per event by its path, here a relative one."""
    assert asked_by_script(text, shell, tmp_path) == os.getpid()


def test_script_is_the_agent_when_it_goes_on_after_the_hook(tmp_path: Path) -> None:
    text = "tell() { $HOOK; }\ntell\nsleep 0\n"
    assert asked_by_script(text, ("sh",), tmp_path) != os.getpid()


def asked_by_script(text: str, shell: tuple[str, ...], directory: Path) -> int:
    """Run a shell script, in which $HOOK is as in `asked`; return what the hook prints."""
    hook = f'{sys.executable} -c "{REPORT}" hook claude-code'
    script = directory / "PreToolUse"
    script.write_text("#!/bin/sh\n" + text.replace("$HOOK", hook))
    script.chmod(0o755)
    words = [*shell, "./PreToolUse"]
    done = subprocess.run(words, capture_output=True, check=True, cwd=directory)
    return int(done.stdout.split()[0])


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


def test_agent_is_the_nearer_process_when_the_variable_is_an_outer_ones(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "claude").symlink_to(sys.executable)
    inner = start(str(tmp_path / "claude"), "-c", WAIT)
    chain = ancestors(inner.pid)
    env = {"CLAUDE_PID": str(chain[2].pid)}
    assert agent_process("claude-code", chain, env) == chain[0]
    assert agent_process("claude-code", chain[1:], env) == chain[2]


def test_agent_is_none_when_nobody_of_the_chain_lives() -> None:
    gone = ProcessId(os.getpid(), 1)
    assert agent_process("claude-code", (gone,), {}) is None


def test_git_that_is_kept_open_here_is_left_out(tmp_path: Path) -> None:
    """An `exec` without a daemon would wait for it as for what its command has left."""
    process = ProcessId(os.getpid(), process_start(os.getpid()) or 0)
    pipe = GitPipe(["cat"], str(tmp_path), os.environ)
    assert pipe.ask(b"asked\n", Answers.line) == b"asked"
    assert pipe.pid is not None
    assert process_start(pipe.pid) is not None
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        pids = {one.pid for one in tools_of(process)}
        assert pipe.pid not in pids
        assert other.pid in pids
    pipe.close()
    assert pipe.pid is None
