"""The hook program, whole: a process of its own against a real server."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from gitshadow.attribution.delivery import HookDelivery, parse_body, parse_spool
from gitshadow.attribution.process import process_start
from gitshadow.ipc import client
from gitshadow.store.layout import Layout
from tests.support.counting import CountingEngine, initialised, serving
from tests.support.repo import Repo
from tests.support.shadow import COMMAND
from tests.support.waiting import HANGS_S, until


@pytest.fixture
def layout(repo: Repo) -> Layout:
    return initialised(repo)


@pytest.fixture
def engine(layout: Layout) -> Iterator[CountingEngine]:
    engine = CountingEngine()
    with serving(layout, engine):
        until(lambda: client.ready(layout) is not None)
        yield engine


def call(
    payload: bytes | Mapping[str, object],
    *,
    cwd: str = "/",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run `git-agent-undo hook claude-code`; return what it prints, check the rest."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    began = time.perf_counter()
    done = subprocess.run(
        [COMMAND, "hook", "claude-code"],
        input=data,
        cwd=cwd,
        env={**os.environ, "GITSHADOW_DAEMON": "off", **(env or {})},
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )
    print(f"hook: {(time.perf_counter() - began) * 1000:.1f} ms")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def taken(engine: CountingEngine) -> HookDelivery:
    """Return the one delivery that the engine got."""
    (body,) = engine.bodies
    delivery = parse_body(body)
    assert delivery is not None
    return delivery


def spooled(layout: Layout) -> HookDelivery:
    """Return the one delivery that waits in the spool."""
    (name,) = os.listdir(layout.spool_dir)
    path = Path(layout.spool_dir, name)
    assert path.suffix == ".json"
    assert path.stat().st_mode & 0o777 == 0o600
    delivery = parse_spool(str(path))
    assert delivery is not None
    assert delivery.at_ns == path.stat().st_ctime_ns
    return delivery


def read(delivery: HookDelivery) -> HookEvent:
    event = registry.parse(delivery.agent, delivery.payload, delivery.env)
    assert isinstance(event, HookEvent)
    return event


def test_payload_reaches_the_daemon_as_it_is(
    layout: Layout, engine: CountingEngine
) -> None:
    """ATT-11: from `/`, by the directory that the payload names."""
    payload = json.dumps({"cwd": layout.root, "text": "é\n\n", "n": 1}).encode()
    assert call(payload) == b""
    delivery = taken(engine)
    assert (delivery.agent, delivery.payload) == ("claude-code", payload)
    assert delivery.cwd == "/"
    assert delivery.at_ns is None


def test_ancestors_and_markers_go_along(layout: Layout, engine: CountingEngine) -> None:
    env = {"GITSHADOW_SESSION": "s-1", "CLAUDE_PID": "7", "SECRET_TOKEN": "no"}
    call({"cwd": layout.root}, env=env)
    delivery = taken(engine)
    nearest = delivery.pids[0]
    assert (nearest.pid, nearest.started) == (os.getpid(), process_start(os.getpid()))
    assert len(delivery.pids) > 1
    assert delivery.env == {"GITSHADOW_SESSION": "s-1", "CLAUDE_PID": "7"}


def test_repository_is_found_by_a_variable_when_the_payload_names_none(
    layout: Layout, engine: CountingEngine
) -> None:
    """ATT-11: Devin's payloads have no directory, and its variable comes first."""
    env = {"DEVIN_PROJECT_DIR": layout.root, "CLAUDE_PROJECT_DIR": "/"}
    call({"session_id": "snowy-efraasia"}, env=env)
    assert taken(engine).env == env


def test_relative_place_is_none_wherever_the_hook_runs(
    layout: Layout, engine: CountingEngine
) -> None:
    call({"tool_input": {"directory": "."}, "path": "a"}, cwd="/")
    assert engine.bodies == []


def test_nothing_but_the_daemons_words_is_printed(
    layout: Layout, engine: CountingEngine
) -> None:
    engine.answer = b'{"additionalContext": "undone"}'
    assert call({"cwd": layout.root}) == engine.answer


@pytest.mark.parametrize(
    "payload",
    [
        b'{"tool_input": {"x": "\\"cwd\\": \\"/nowhere\\""}, "cwd" : "%s"}',
        b'{"cwd": null, "workspace_roots": ["%s"]}',
        b'{"cwd": "/", "tool_input": {"file_path": "%s/a"}}',
        b'{"workspaceRoots":\n["%s", "/"]}',
        b'{"working_dir":"%s/sub/deep"}',
        b'{"tool_info": {"worktree_path": "%s"}}',
        b'{"hook": "event", "input": {}, "directory": "%s"}',
        b'{"hook": "tool.call", "cwd": "file://%s"}',
        b'{"cwd": "elsewhere", "matcher_context": "%s/a"}',
    ],
)
def test_repository_is_found_in_every_shape(
    layout: Layout, engine: CountingEngine, payload: bytes
) -> None:
    call(payload % os.fsencode(layout.root))
    assert len(engine.bodies) == 1


def test_directory_with_escapes_is_found(repo: Repo, engine: CountingEngine) -> None:
    repo.mkdir('odd "é"\n')
    call({"cwd": f'{repo.root}/odd "é"\n'})
    assert len(engine.bodies) == 1


@pytest.mark.parametrize("payload", [b"", b'{"cwd": "', b"\xff\xfe", b"[]", b"null"])
def test_broken_payload_is_delivered_by_the_current_directory(
    layout: Layout, engine: CountingEngine, payload: bytes
) -> None:
    """ATT-10: exit 0, empty stdout; the engine leaves the gap."""
    assert call(payload, cwd=layout.root) == b""
    assert taken(engine).payload == payload


def test_huge_payload_is_bounded(layout: Layout, engine: CountingEngine) -> None:
    """ROB-15: 100 MB are read to the end, found by their beginning and dropped."""
    head = b'{"cwd": "%s", "content": "' % os.fsencode(layout.root)
    assert call(head + b"x" * 100_000_000 + b'"}') == b""
    assert taken(engine).payload == b'{"too_large": true}'


def test_forged_header_is_left_out(layout: Layout, engine: CountingEngine) -> None:
    """ROB-11: a value of two lines is no field."""
    call({"cwd": layout.root}, env={"GITSHADOW_SESSION": "s\nagent: other"})
    assert taken(engine).agent == "claude-code"
    assert taken(engine).env == {}


def test_busy_daemon_is_not_waited_for(layout: Layout, engine: CountingEngine) -> None:
    """ROB-05: it ends while the daemon has no answer; the payload waits in the spool."""
    engine.answer = b"late"
    payload = (
        b'{"cwd": "%s", "session_id": "s1", "hook_event_name": "PreToolUse",'
        b' "tool_name": "Write", "tool_input": {"file_path": "/odd\xff"}}'
    ) % os.fsencode(layout.root)
    assert call(payload) == b""
    assert not engine.gate.is_set()
    delivery = spooled(layout)
    event = read(delivery)
    assert event == registry.parse("claude-code", payload, {})
    assert (event.agent, event.paths) == ("claude-code", (b"/odd\xff",))
    assert delivery.pids[0].pid == os.getpid()


def test_failed_capture_spools_and_says_so_in_the_log(layout: Layout) -> None:
    """ROB-09: an empty file is no journal; the agent does not notice."""
    payload = {"session_id": "s1", "hook_event_name": "Stop"}
    assert call({"cwd": layout.root, **payload}) == b""
    assert read(spooled(layout)).agent == "claude-code"
    assert " hook: " in Path(layout.log).read_text()


def test_payload_that_cannot_be_read_is_said_in_the_log(layout: Layout) -> None:
    script = f'"{COMMAND}" hook claude-code 0> /dev/null'
    done = subprocess.run(["sh", "-c", script], cwd=layout.root, check=False)
    assert done.returncode == 0
    assert " hook: " in Path(layout.log).read_text()
    assert os.stat(layout.missed).st_mtime_ns != 0


def test_two_failures_leave_two_spool_files(layout: Layout) -> None:
    call({"cwd": layout.root, "n": 1})
    call({"cwd": layout.root, "n": 2})
    assert len(os.listdir(layout.spool_dir)) == 2


@pytest.mark.parametrize("cwd", ["/", "here"])
def test_repository_without_init_is_left_alone(repo: Repo, cwd: str) -> None:
    """GIT-11: nothing is created."""
    before = repo.snapshot()
    place = str(repo.root) if cwd == "here" else cwd
    assert call({"cwd": str(repo.root)}, cwd=place) == b""
    assert not repo.state_dir.exists()
    assert repo.snapshot() == before


def test_our_own_children_are_ignored(layout: Layout, engine: CountingEngine) -> None:
    assert call({"cwd": layout.root}, env={"GITSHADOW_INTERNAL": "1"}) == b""
    assert engine.bodies == []


def test_closed_streams_are_survived(layout: Layout, engine: CountingEngine) -> None:
    engine.answer = b"words"
    script = f'"{COMMAND}" hook claude-code <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", script], cwd=layout.root, check=False)
    assert done.returncode == 0


@pytest.mark.linux
def test_hook_loads_nothing_else_when_the_daemon_answers(
    layout: Layout, engine: CountingEngine
) -> None:
    """LAW-10: json, click, pygit2 and all the rest cost more than the hook."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from gitshadow.ipc import hook\n"
        "hook.main(['claude-code'], lambda layout, body: b'')\n"
        "new = {name for name in set(sys.modules) - before}\n"
        "print(*sorted(n for n in new if not n.startswith('gitshadow')))"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({"cwd": layout.root}).encode(),
        env=env,
        capture_output=True,
        timeout=HANGS_S,
        check=True,
    )
    assert len(engine.bodies) == 1
    assert done.stdout.split() == [b"_socket"]
