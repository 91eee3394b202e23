"""`exec` and `session`: what a wrapped command writes is its session's."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.reports import items, reasons
from tests.support.shadow import COMMAND, Document, Shadow
from tests.support.waiting import HANGS_S, until

pytestmark = [pytest.mark.usefixtures("untouched"), pytest.mark.process]


def authors_of(rows: Mapping[str, Document]) -> dict[str, tuple[object, object]]:
    """Return the agent of each path, and how sure that is."""
    return {path: (row["agent"], row["confidence"]) for path, row in rows.items()}


def sessions_of(shadow: Shadow, agent: str) -> list[Document]:
    rows = shadow.sessions()
    return [row for row in rows if row["agent"] == agent]


@pytest.mark.both_modes
def test_att05_two_commands_side_by_side_are_never_mixed_up(shadow: Shadow) -> None:
    """ATT-05: each write in its own session, else `ambiguous` with both."""
    script = "for i in 1 2 3 4 5; do echo $i > {0}$i; done; sleep 0.1; echo 6 > {0}6"
    running = [
        shadow.spawn("exec", "--agent", name, "--", "sh", "-c", script.format(name))
        for name in ("left", "right")
    ]
    assert [one.wait() for one in running] == [0, 0]
    for one in running:
        one.communicate()
    (left,), (right,) = sessions_of(shadow, "left"), sessions_of(shadow, "right")
    own = {"l": left["id"], "r": right["id"]}
    rows = shadow.newest()
    assert len(rows) == 12
    for path, row in rows.items():
        if row["confidence"] == "ambiguous":
            candidates = row["candidates"]
            assert isinstance(candidates, list)
            assert set(candidates) == set(own.values())
        else:
            assert row["session"] == own[path[0]], row


@pytest.mark.both_modes
def test_att06_last_writes_of_a_command_are_its_own(shadow: Shadow) -> None:
    """ATT-06: both, although the child ended at once."""
    shadow.ok("exec", "--agent", "x", "--", "sh", "-c", "echo x > a; echo y > new")
    rows = shadow.newest()
    (session,) = sessions_of(shadow, "x")
    assert {path: row["kind"] for path, row in rows.items()} == {
        "a": "modify",
        "new": "create",
    }
    assert {row["session"] for row in rows.values()} == {session["id"]}
    assert {row["agent"] for row in rows.values()} == {"x"}
    assert {row["confidence"] for row in rows.values()} == {"medium"}
    assert (session["ended"] is not None, session["turns"]) == (True, 1)
    assert shadow.oops()["status"] == "reversed"
    assert shadow.repo.read("a") == ten_lines("a").encode()
    assert not shadow.repo.exists("new")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("sh", "-c", "echo x > a; exit 7"), 7),
        (("sh", "-c", "echo x > a; kill -TERM $$"), 143),
        (("no-such-command-here",), 127),
    ],
    ids=["exit", "signal", "missing"],
)
def test_att07_exit_code_is_the_commands(
    shadow_n: Shadow, words: tuple[str, ...], code: int
) -> None:
    """ATT-07: 7, 143, 127; what was written is recorded (N)."""
    result = shadow_n("exec", "--agent", "x", "--", *words)
    assert (result.code, result.raw) == (code, b"")
    rows = shadow_n.newest()
    assert list(rows) == ([] if code == 127 else ["a"])
    assert all(row["agent"] == "x" for row in rows.values())


def check_gone(shadow: Shadow, agent: str, native: str | None = None) -> None:
    """Do H(a) and check that the dead session neither claims it nor stays open."""
    shadow.repo.write("a", "human\n")
    row = shadow.newest("a")["a"]
    (session,) = [
        one
        for one in sessions_of(shadow, agent)
        if native is None or one["native_id"] == native
    ]
    assert row["session"] != session["id"], (row["reason"], session)
    assert (row["agent"], row["call"]) == (None, None)
    assert session["ended"] is not None
    assert session["end_reason"] == "process gone"
    assert shadow.status()["open_sessions"] == 0


def ended_by(shadow: Shadow, number: signal.Signals) -> int:
    """Send a signal to `exec` and its command once that has written; return the exit code."""
    running = subprocess.Popen(
        [
            COMMAND,
            *["exec", "--agent", "x", "--", "sh", "-c"],
            "echo 1 > n; exec sleep 600",
        ],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        start_new_session=True,
    )
    until(lambda: bool(shadow.running("sleep", "600")))
    os.killpg(running.pid, number)
    return running.wait(timeout=HANGS_S)


@pytest.mark.both_modes
def test_att08_killed_command_claims_nothing_later(shadow: Shadow) -> None:
    """ATT-08: SIGKILL of wrapper and child; session closed, "process gone"."""
    assert ended_by(shadow, signal.SIGKILL) == -signal.SIGKILL
    check_gone(shadow, "x")
    assert shadow.newest("n")["n"]["agent"] in ("x", None)


AGENT = """\
import subprocess, sys
subprocess.run(sys.argv[1:3] + ["claude-code"], input=sys.argv[3].encode(), check=True)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.both_modes
def test_att08_killed_agent_claims_nothing_later(shadow: Shadow) -> None:
    """ATT-08: SIGKILL of the agent between pre- and post-hook; window expired."""
    agent = Claude(shadow)
    payload = agent.payload(
        "PreToolUse",
        tool_name="Bash",
        tool_input={"command": "sleep 600"},
        tool_use_id="call-1",
    )
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, COMMAND, "hook", json.dumps(payload)],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.kill()
    check_gone(shadow, "claude-code", "s1")
    call = shadow.ok("show", "--json", "call-1").json()
    assert (call["closed"] is not None, call["outcome"]) == (True, "process gone")


def test_att09_inner_session_gives_way_to_the_outer(shadow: Shadow) -> None:
    """ATT-09: after the inner one has ended, the outer one writes again."""
    outer = shadow.ok("session", "start", "--agent", "outer", "--json").json()["id"]
    inner = shadow.ok("session", "start", "--agent", "inner", "--json").json()["id"]
    shadow.ok("session", "end", str(inner))
    shadow.repo.write("a", "outer\n")
    assert shadow.newest()["a"]["session"] == outer
    shadow.ok("session", "end", str(outer))
    shadow.repo.write("b", "nobody\n")
    assert shadow.newest("b")["b"]["session"] not in (outer, inner)


def test_record_names_the_session_it_is_told(repo: Repo, shadow: Shadow) -> None:
    session = shadow.ok("session", "start", "--agent", "mine", "--json").json()["id"]
    repo.write("a", "mine\n")
    shadow.ok("record", "--session", str(session), "a")
    assert shadow.newest()["a"]["session"] == session
    shadow.ok("session", "end", str(session))


RUN = f"{COMMAND} exec --agent"


@pytest.mark.kinds
@pytest.mark.both_modes
@pytest.mark.sampled
def test_nested_commands_go_back_to_the_one_around(shadow: Shadow) -> None:
    """Every kind of write is the innermost's; what ends gives way to what is around."""
    third = "echo 3 > n3; rm a"
    second = f"echo 2 > n2; {RUN} third -- sh -c '{third}'; echo 2 > m2; rm b"
    first = f'echo 1 > n1; {RUN} second -- sh -c "{second}"; echo 1 > m1; mv c d'
    shadow.ok("exec", "--agent", "first", "--", "sh", "-c", first)
    rows = shadow.newest()
    assert {path: row["agent"] for path, row in rows.items()} == {
        "n1": "first",
        "n2": "second",
        "n3": "third",
        "a": "third",
        "m2": "second",
        "b": "second",
        "m1": "first",
        "d": "first",
    }
    assert {row["confidence"] for row in rows.values()} == {"medium"}
    chain = [sessions_of(shadow, name)[0] for name in ("first", "second", "third")]
    assert [one["parent"] for one in chain] == [None, chain[0]["id"], chain[1]["id"]]
    assert all(one["end_reason"] == "exit 0" for one in chain)
    report = shadow.oops()
    assert (report["status"], len(items(report))) == ("reversed", 8)
    assert [shadow.repo.read(name) for name in "abc"] == [
        ten_lines(name).encode() for name in "abc"
    ]


def test_one_file_written_by_a_command_in_a_command_and_by_it(shadow: Shadow) -> None:
    # With `>`, the file is empty until the shell gets to write, and that may be recorded too.
    script = (
        f"{RUN} in1 -- sh -c 'echo 1 1<>a'; echo 2 1<>a;"
        f" {RUN} in2 -- sh -c 'echo 3 1<>a'; echo 4 1<>a"
    )
    shadow.ok("exec", "--agent", "out", "--", "sh", "-c", script)
    assert [row["agent"] for row in shadow.log("a")] == ["out", "in2", "out", "in1"]
    inner = sessions_of(shadow, "in2")[0]["id"]
    report = shadow("undo", "--yes", "--json", str(inner)).json()
    assert reasons(report) == {"a": "conflict"}
    assert shadow.repo.read("a") == b"4\n" + ten_lines("a").encode()[2:]


def test_command_in_an_agents_shell_is_a_part_of_its_turn(agent: Claude) -> None:
    """The variables of the agent's shell name its session; undoing the turn takes both."""
    shadow = agent.shadow
    agent.prompt("go")
    call = agent.shell(
        f"echo 1 > a; CLAUDE_CODE_SESSION_ID=s1 {shadow_run(shadow)} exec --agent tool"
        " -- sh -c 'echo 2 > b'; echo 3 > c"
    )
    agent.stop()
    rows = shadow.newest()
    assert {path: row["agent"] for path, row in rows.items()} == {
        "a": "claude-code",
        "b": "tool",
        "c": "claude-code",
    }
    assert (rows["a"]["call"], rows["c"]["call"]) == (call, call)
    (tool,), (claude,) = sessions_of(shadow, "tool"), sessions_of(shadow, "claude-code")
    assert tool["parent"] == claude["id"]
    assert str(rows["b"]["turn"]).startswith(f"{agent.prompt_id}/")
    report = shadow("undo", "--yes", "--json", str(agent.prompt_id)).json()
    assert (report["status"], set(items(report))) == ("reversed", {"a", "b", "c"})


def shadow_run(shadow: Shadow) -> str:
    """Return the command with the settings of a test, for a shell line."""
    return COMMAND if shadow.daemon else f"GITSHADOW_DAEMON=off {COMMAND}"


def test_agent_in_a_command_is_a_child_of_it(shadow: Shadow) -> None:
    """Its own calls are told from the window around them."""
    path = str(shadow.repo.root / "b")

    def hook(event: str, tool: str, call: str, tool_input: object) -> str:
        payload = {
            "session_id": "s1",
            "cwd": str(shadow.repo.root),
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": tool_input,
            "tool_use_id": call,
        }
        return f"echo {shlex.quote(json.dumps(payload))} | {COMMAND} hook claude-code"

    named, shell = {"file_path": path}, {"command": "echo 3 > c"}
    script = "\n".join(
        [
            "echo 1 > a",
            hook("PreToolUse", "Write", "call-1", named),
            "echo 2 > b",
            hook("PostToolUse", "Write", "call-1", named),
            hook("PreToolUse", "Bash", "call-2", shell),
            "echo 3 > c",
            hook("PostToolUse", "Bash", "call-2", shell),
            "echo 4 > d",
        ]
    )
    shadow.ok("exec", "--agent", "wrap", "--", "sh", "-c", script)
    rows = shadow.newest()
    assert {path: (row["agent"], row["confidence"]) for path, row in rows.items()} == {
        "a": ("wrap", "medium"),
        "b": ("claude-code", "certain"),
        "c": ("claude-code", "medium"),
        "d": ("wrap", "medium"),
    }
    assert sessions_of(shadow, "claude-code")[0]["parent"] == rows["a"]["session"]


@pytest.mark.both_modes
def test_what_a_command_leaves_running_is_still_its_sessions(shadow: Shadow) -> None:
    """A process that outlives the command is named by the variable it has from it."""
    late = "(until [ -e ../go ]; do sleep 0.02; done; echo late > z; exec sleep 600)"
    shadow.ok(
        "exec", "--agent", "x", "--", "sh", "-c", f"echo 1 > a; {late} >&- 2>&- &"
    )
    (session,) = sessions_of(shadow, "x")
    assert session["ended"] is None
    (shadow.repo.root.parent / "go").touch()
    until(lambda: bool(shadow.running("sleep", "600")))
    row = shadow.newest("z")["z"]
    assert (row["session"], row["confidence"]) == (session["id"], "low"), row
    assert "process" in str(row["reason"])
    for pid in shadow.running("sleep", "600"):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not shadow.running("sleep", "600"))
    shadow.repo.write("b", "person\n")
    row = shadow.newest("b")["b"]
    assert (row["actor"], row["agent"]) == ("unknown", None)
    assert sessions_of(shadow, "x")[0]["end_reason"] == "process gone"


@pytest.mark.both_modes
def test_what_a_command_moves_and_links_here_is_its(shadow: Shadow) -> None:
    """A rename and a link need no bytes, whatever the file holds."""
    for name in ("moved", "linked"):
        (shadow.repo.root.parent / name).write_text("made elsewhere\n" * 40)
    shadow.ok("flush")
    script = "mv ../moved moved; ln ../linked linked; echo 1 > made"
    shadow.ok("exec", "--agent", "x", "--", "sh", "-c", script)
    rows = shadow.newest()
    assert {path: rows[path]["confidence"] for path in ("moved", "linked", "made")} == {
        "moved": "medium",
        "linked": "medium",
        "made": "medium",
    }


@pytest.mark.linux  # only its counters show that the command did not write
@pytest.mark.both_modes
@pytest.mark.kinds("sha1-files", "sha256-files")
@pytest.mark.sampled
def test_a_persons_saves_during_a_quiet_command_are_not_its(shadow: Shadow) -> None:
    """What the processes of the command wrote is counted, those too that it left."""
    repo, go = shadow.repo, shadow.repo.root.parent / "go"
    made = "printf %0500d 1 >"
    orphan = f"setsid -f sh -c '{made} left; touch ../left' >&- 2>&-"
    wait = "until [ -e ../{0} ]; do sleep 0.02; done"
    script = f"{made} a; {orphan}; {wait.format('left')}; {wait.format('go')}; {made} z"
    running = shadow.spawn("exec", "--agent", "x", "--", "sh", "-c", script)
    until((repo.root.parent / "left").exists)
    shadow.ok("flush")
    repo.write("b", "person\n" * 300)
    repo.write("new", "person\n" * 300)
    shadow.ok("flush")
    go.touch()
    running.communicate()
    rows = shadow.newest()
    for path in ("b", "new"):
        row = rows.pop(path)
        assert (row["actor"], row["confidence"]) == ("unknown", "unknown"), row
        assert "fewer bytes" in str(row["reason"])
    assert authors_of(rows) == dict.fromkeys(("a", "left", "z"), ("x", "medium"))
    assert shadow.oops()["status"] == "reversed"
    assert repo.read("b") == repo.read("new") == b"person\n" * 300
    assert not repo.exists("left")


@pytest.mark.linux  # only its counters show what the command wrote
@pytest.mark.kinds("sha1-files", "sha256-files")
@pytest.mark.parametrize("first", ["true", f"{COMMAND} flush"])
@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.sampled
def test_what_recorders_write_is_not_the_commands(
    shadow_n: Shadow, first: str, outside: bool
) -> None:
    """Those too that the command runs itself: a small save of a person is not the command's."""
    repo, outer = shadow_n.repo, shadow_n.repo.root.parent
    go = "until [ -e ../go ]; do sleep 0.02; done"
    script = f"{first}; echo 1 > made; touch ../begun; {go}"
    running = shadow_n.spawn("exec", "--agent", "x", "--", "sh", "-c", script)
    until((outer / "begun").exists)
    repo.write("b", "person\n" * 10)
    repo.write("new", "person\n" * 10)
    if outside:
        shadow_n.ok("flush")
    (outer / "go").touch()
    running.communicate()
    assert authors_of(shadow_n.newest()) == {
        "made": ("x", "medium"),
        "b": (None, "unknown"),
        "new": (None, "unknown"),
    }


@pytest.mark.linux  # only its counters show what the command wrote
def test_what_a_command_writes_while_it_has_recorded_is_its(shadow_n: Shadow) -> None:
    """Only what its recorders wrote for their records is none of its work."""
    made = "printf %0500d 1 >"
    flush = f"{COMMAND} flush; {COMMAND} status"
    script = f"{made} a; {flush}; {made} b; {flush} > c; {flush}; {made} d"
    shadow_n.ok("exec", "--agent", "x", "--", "sh", "-c", script)
    assert authors_of(shadow_n.newest()) == dict.fromkeys("abcd", ("x", "medium"))


def test_what_a_command_left_is_waited_for(shadow: Shadow) -> None:
    """It would stay a zombie of ours until the command ends."""
    zombies = "ps -o stat= --ppid $PPID | grep -q Z"
    script = f"""
        for one in 1 2 3; do setsid -f true; done
        for try in $(seq 400); do {zombies} || exit 7; sleep 0.02; done
    """
    assert shadow("exec", "--agent", "x", "--", "sh", "-c", script).code == 7


def test_daemon_that_a_command_starts_is_not_taken_for_its_own(shadow: Shadow) -> None:
    """Our own daemon, started from inside, has nothing of the session."""
    shadow.ok("exec", "--agent", "x", "--", "sh", "-c", f"{COMMAND} flush; echo 1 > a")
    (session,) = sessions_of(shadow, "x")
    assert session["end_reason"] == "exit 0"


def test_standard_streams_are_the_commands_own(shadow: Shadow) -> None:
    result = shadow("exec", "--", "sh", "-c", "cat; echo no >&2", stdin=b"in\0put")
    assert (result.code, result.raw, result.err) == (0, b"in\0put", "no\n")


def test_command_runs_where_recording_is_off(repo: Repo, shadow: Shadow) -> None:
    repo.git("config", "agent-undo.enabled", "false")
    result = shadow("exec", "--", "sh", "-c", "echo x > a; exit 3")
    assert (result.code, result.raw, result.err) == (3, b"", "")
    repo.git("config", "--unset", "agent-undo.enabled")


def test_record_says_what_was_recorded_already_and_as_whose(
    repo: Repo, shadow: Shadow
) -> None:
    """A row is never changed: who it names stays, and the person is told."""
    repo.write("a", "mine\n")
    (row,) = shadow.log("a")
    assert row["actor"] == "unknown"
    result = shadow.ok("record", "--agent", "mine", "a", "--json").json()
    assert result["recorded"] == 0
    (already,) = rows_in(result, "already")
    assert {key: already[key] for key in ("path", "seq", "actor", "agent")} == {
        "path": "a",
        "seq": row["seq"],
        "actor": "unknown",
        "agent": None,
    }
    said = shadow.ok("record", "--agent", "mine", "a").out
    assert f"already recorded: a, written by unknown (event {row['seq']})" in said


def rows_in(document: Document, key: str) -> list[Document]:
    found = document[key]
    assert isinstance(found, list)
    return found


@pytest.mark.both_modes
def test_ctrl_c_ends_the_session_with_its_last_writes(shadow: Shadow) -> None:
    """As a terminal sends it: to the wrapper and the command at the same moment."""
    assert ended_by(shadow, signal.SIGINT) == 130
    (session,) = sessions_of(shadow, "x")
    assert session["end_reason"] == "exit 130"
    assert shadow.newest("n")["n"]["agent"] == "x"


def test_signals_that_come_at_the_end_are_dropped() -> None:
    """A Ctrl-C that ended the command does not interrupt what is said of it."""
    code = """if True:
    import os, signal
    from gitshadow.commands import exec as running
    waited = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    handlers = [signal.getsignal(one) for one in waited]
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    for one in waited:
        os.kill(os.getpid(), one)
    running._drop_pending(waited)
    print(signal.sigpending() & waited, handlers == [*map(signal.getsignal, waited)])
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set() True\n"


def test_an_agents_name_that_is_not_utf8_is_recorded(shadow: Shadow) -> None:
    name = os.fsdecode(b"ag\xffent")
    shadow.ok("exec", "--agent", name, "--", "sh", "-c", "echo x > a")
    shadow.ok("session", "start", "--agent", name, "--native", name)
    assert len(sessions_of(shadow, "ag?ent")) == 2
    assert shadow.newest()["a"]["agent"] == "ag?ent"


@pytest.mark.parametrize(
    "verb",
    [
        *("show", "turns", "diff", "session end", "log --turn", "blame a --at", "undo"),
        *("redo", "undo --resume", "restore --pin", "pin --delete"),
        *("program saga show", "program resolve --as reversed"),
    ],
)
def test_an_id_that_is_not_utf8_names_nothing(shadow: Shadow, verb: str) -> None:
    """It is no fault of the journal, as the error once said."""
    more = ("--note", "x") if "resolve" in verb else ()
    result = shadow(*verb.split(), os.fsdecode(b"ag\xffent"), *more)
    assert (result.code, "journal" in result.err) == (2, False), result


@pytest.mark.parametrize(
    "script",
    ["rm -r ../sub; echo x > ../a", "git init -q; echo x > ../a"],
    ids=["deleted", "a repository of its own"],
)
def test_what_becomes_of_the_directory_of_a_command_hides_no_write(
    shadow: Shadow, script: str
) -> None:
    where = shadow.repo.root / "sub"
    where.mkdir()
    done = shadow("exec", "--agent", "x", "--", "sh", "-c", script, cwd=where)
    assert (done.code, done.err) == (0, "")
    assert shadow.newest()["a"]["agent"] == "x"
