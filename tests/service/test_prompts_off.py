"""With `agent-undo.prompts = off`, the text of a prompt is in no byte on the disk, not even before.

Invariant: raw bytes are searched, below the repository, the home directory and that for temporary
files, so free pages of the journal and its log count; Git's objects are unpacked.
"""

import base64
import functools
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from gitshadow.api import run
from gitshadow.attribution import lifecycle
from gitshadow.attribution.delivery import parse_spool
from gitshadow.daemon.server import Troubles
from gitshadow.ipc import hook
from gitshadow.ipc import spool as spool_files
from gitshadow.recording.context import RecorderContext
from gitshadow.sdk.integrations.hooks import take_hook
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.service import hook_intake
from gitshadow.store.journal import events, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.layout import Layout, discover
from gitshadow.store.purge import MARK
from tests.conftest import FULL
from tests.support.context import desk_of
from tests.support.payloads import ENV, Stored, stored
from tests.support.repo import Repo

SECRET = "the merger with Zebulon is on"
_STRIDE = 7
_PURGE_STRIDE = _STRIDE if FULL else 23
_STEPS = frozenset({"open", "os.rename", "os.remove", "os.link"})


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start no daemon, and have a directory for temporary files."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


@pytest.fixture
def off(repo: Repo) -> Repo:
    repo.git("config", "agent-undo.prompts", "off")
    with desk_of(repo):
        pass
    return repo


def places_with(repo: Repo, text: str = SECRET) -> list[str]:
    """Return where a text is: files below the directories that we may write to, and objects."""
    names = ("HOME", "XDG_STATE_HOME", "TMPDIR")
    tops = {repo.root, *(Path(os.environ[name]) for name in names)}
    wanted = text.encode()
    files = [
        path
        for top in tops
        for path in top.rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    found = [str(path) for path in files if wanted in path.read_bytes()]
    stored = frozenset(path for path in files if "objects" in path.parts)
    return [*found, *(["an object"] if text in objects_of(repo.root, stored) else [])]


@functools.lru_cache(maxsize=1)
def objects_of(root: Path, _stored: frozenset[Path]) -> str:
    """Return all objects of a repository; their files are never changed."""
    return Repo(root).git("cat-file", "--batch", "--batch-all-objects", "--buffer")


def body_of(repo: Repo, event: str = "UserPromptSubmit", **fields: object) -> bytes:
    """Return the delivery of a payload of Claude Code's."""
    payload = {
        "session_id": "s1",
        "cwd": str(repo.root),
        "hook_event_name": event,
        **fields,
    }
    return hook.make_body("claude-code", json.dumps(payload).encode(), [])


def layout_of(repo: Repo) -> Layout:
    found = discover(str(repo.root))
    assert found is not None
    return found


def started(action: Callable[[], object], at_step: Callable[[int], None]) -> int:
    """Run an action in a child, in which something is done at each of its steps; return its pid.

    A step is a statement of the journal, and each file that is opened, renamed or removed.
    """
    pid = os.fork()
    if pid == 0:
        steps = itertools.count(1)

        def step(*_: object) -> None:
            at_step(next(steps))

        sys.addaudithook(lambda event, _: step() if event in _STEPS else None)
        real = Db.run

        def stepping(db: Db, sql: str, values: tuple[object, ...] = ()) -> int:
            step()
            done = real(db, sql, values)  # type: ignore[arg-type]
            step()
            return done

        Db.run = stepping  # type: ignore[method-assign, assignment]
        ended = 1
        try:
            action()
            ended = 0
        finally:
            os._exit(ended)
    return pid


def killed_at(number: int, action: Callable[[], object]) -> bool:
    """Run an action in a child that is killed at its step of that number; return whether it was."""

    def kill(at: int) -> None:
        if at == number:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = started(action, kill)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def stops_of(action: Callable[[], object]) -> Iterator[int]:
    """Run an action in a child that stops at each step, as a kill would leave the disk."""
    pid = started(action, lambda _: os.kill(os.getpid(), signal.SIGSTOP))
    try:
        for number in itertools.count(1):
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            yield number
            os.kill(pid, signal.SIGCONT)
        assert os.waitstatus_to_exitcode(status) == 0
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def in_process(repo: Repo) -> None:
    """Deliver a prompt where no daemon may run, and a second one that ends its turn."""
    with desk_of(repo) as context:
        hook_intake.take_body(context, body_of(repo, prompt=SECRET))


def spooled(repo: Repo) -> None:
    """Leave a prompt in the spool."""
    spool_files.write(
        layout_of(repo), body_of(repo, prompt=SECRET), lambda _: "1-1.json"
    )


def command(repo: Repo) -> None:
    """Begin a command of `exec`, whose words are its prompt."""
    with desk_of(repo) as context:
        begin_command(context)


def begin_command(context: RecorderContext) -> None:
    run(context, "exec_begin", {"argv": ["sh", "-c", SECRET], "agent": "helper"})


def program(repo: Repo) -> None:
    """Run a turn of an agent program, which names it by what the user asked."""
    with (
        AgentUndo.open(str(repo.root), session="s-1", tools=ToolRegistry()) as opened,
        opened.turn(SECRET),
    ):
        repo.write("made", "x\n")


def hooked_program(repo: Repo) -> None:
    """Begin a turn of a program that is told of an agent's hooks."""
    payload = body_of(repo, prompt=SECRET).partition(b"\n\n")[2]

    def opened(session: str) -> AgentUndo:
        return AgentUndo.open(str(repo.root), session=session, tools=ToolRegistry())

    take_hook(payload, opened)


@pytest.mark.parametrize("act", [in_process, spooled, command, program, hooked_program])
def test_no_kill_leaves_a_byte_of_a_prompt(
    off: Repo, act: Callable[[Repo], None]
) -> None:
    """KEEP-14: nor what the next process makes of what one that was killed has left."""
    for number in stops_of(lambda: act(off)):
        assert places_with(off) == [], number
    assert number > 3
    for number in itertools.count(1, 1 if FULL else _STRIDE):
        was_killed = killed_at(number, lambda: act(off))
        assert places_with(off) == [], number
        if not was_killed:
            break


def test_a_prompt_is_found_where_they_are_kept(repo: Repo) -> None:
    """The search of these tests finds what is there."""
    in_process(repo)
    assert places_with(repo)


@pytest.fixture
def desk(off: Repo) -> Iterator[RecorderContext]:
    with desk_of(off) as context:
        yield context


def sent(context: RecorderContext, repo: Repo, *prompts: str) -> list[str]:
    """Deliver prompts without ids, and return the turns of the session."""
    for prompt in prompts:
        hook_intake.take_body(context, body_of(repo, prompt=prompt))
    return [turn.id for turn in turns.list_turns(context.workspace.db)]


def test_a_prompt_that_comes_twice_is_one_turn(
    off: Repo, desk: RecorderContext
) -> None:
    assert len(sent(desk, off, SECRET, SECRET)) == 1
    assert len(sent(desk, off, "another")) == 2
    assert places_with(off) == []


def test_a_prompt_that_comes_through_the_spool_too_is_one_turn(
    off: Repo, desk: RecorderContext
) -> None:
    spooled(off)
    hook_intake.drain_spool(desk)
    assert len(sent(desk, off, SECRET)) == 1
    assert places_with(off) == []


def leaves(
    value: object, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield where the texts of a payload are."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in pairs:
            yield from leaves(one, (*at, key))


def marked(one: Stored, places: Iterable[tuple[str | int, ...]]) -> Stored:
    """Return a payload with the marker in the texts of some places, in the same wrapper."""
    asked, copy = prompt_of(one), json.loads(one.raw)
    for *above, last in places:
        inner = functools.reduce(lambda value, key: value[key], above, copy)
        text = inner[last]
        inner[last] = text.replace(asked, SECRET) if asked in text else SECRET
    return Stored(one.agent, copy)


def prompt_of(one: Stored) -> str:
    event = registry.parse(one.agent, one.raw, ENV)
    return (isinstance(event, HookEvent) and event.prompt) or ""


def with_prompts() -> Iterator[Stored]:
    """Yield each stored payload that has a prompt, the marker in all that its adapter reads."""
    for one in stored():
        if prompt_of(one):
            places = [
                at
                for at in leaves(one.payload)
                if SECRET in prompt_of(marked(one, [at]))
            ]
            assert places, one
            yield marked(one, places)


def in_parts(agent: str, *above: str) -> Stored:
    """Return a stored prompt of an agent's that is a list of parts, with one part more."""
    for one in with_prompts():
        copy = json.loads(one.raw)
        parts = functools.reduce(lambda value, key: value.get(key, {}), above, copy)
        if one.agent == agent and parts:
            parts.append({**parts[-1], "text": f"more of {SECRET}"})
            return Stored(agent, copy)
    raise AssertionError(agent)


def named(name: str, _: int) -> str:
    return name


SILENT = {"antigravity", "crush", "devin", "vibe"}


def test_spool_has_no_prompt_of_any_agent(off: Repo, desk: RecorderContext) -> None:
    """KEEP-14: nor does what is processed from it, or at once, have it, and it is one turn."""
    found = [
        *with_prompts(),
        in_parts("kimi", "prompt"),
        in_parts("acp", "params", "prompt"),
    ]
    senders = {
        event.agent
        for one in found
        if isinstance(event := registry.parse(one.agent, one.raw, ENV), HookEvent)
    }
    # The others report no prompt.
    assert set(registry.KNOWN_AGENTS) - senders == SILENT

    def spool_all() -> None:
        for number, one in enumerate(found):
            body, name = hook.make_body(one.agent, one.raw, []), f"{number}-1.json"
            spool_files.write(layout_of(off), body, functools.partial(named, name))
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed_at(0, spool_all)
    names = os.listdir(layout_of(off).spool_dir)
    assert sorted(names) == sorted(f"{n}-1.json" for n in range(len(found)))
    assert places_with(off) == []
    for number, one in enumerate(found):
        path = os.path.join(layout_of(off).spool_dir, f"{number}-1.json")
        spooled = parse_spool(path)
        assert spooled is not None
        event = registry.parse(spooled.agent, spooled.payload, spooled.env)
        live = registry.parse(one.agent, one.raw, ENV)
        assert isinstance(live, HookEvent)
        # `ENV` is not this process's: only Devin reads it, for its directory.
        assert event == spool_files.without_prompt(layout_of(off), live)
    hook_intake.drain_spool(desk)
    assert places_with(off) == []


def test_spool_has_only_what_is_read_of_a_payload(off: Repo) -> None:
    for fields in (
        {"tool_name": "Task", "tool_use_id": "t", "tool_input": {"prompt": SECRET}},
        {"last_assistant_message": f"You asked: {SECRET}"},
        {"whatever": [{"later": SECRET}]},
    ):
        for event in ("PreToolUse", "PostToolUse", "Stop", "UserPromptSubmit"):
            body = body_of(off, event, **fields)
            spool_files.write(layout_of(off), body, lambda _: "1-1.json")
    assert places_with(off) == []


@pytest.mark.parametrize("policy", ["journal", "off"])
@pytest.mark.parametrize("agent", ["generic", "grok", "kimi"])
def test_prompt_that_was_processed_and_is_spooled_too_is_counted_once(
    repo: Repo, agent: str, policy: str
) -> None:
    """ATT-14: the hook gave up waiting. Its session has got on meanwhile."""
    repo.git("config", "agent-undo.prompts", policy)
    asked = next(
        one
        for one in with_prompts()
        if one.agent == agent and "continuation" not in str(one.payload)
    )
    # As a program may write it, not as `json.dumps` does.
    raw = json.dumps(
        json.loads(asked.raw) | {"cwd": str(repo.root), "workspaceRoot": str(repo.root)}
    ).encode()
    body = hook.make_body(agent, raw.replace(b'": ', b'" :  '), [], "7/70")
    with desk_of(repo) as context:
        hook_intake.take_body(context, body)
        (turn,) = turns.list_turns(context.workspace.db)
        with context.workspace.db.write():
            turns.close_turn(
                context.workspace.db, turn.session, turn.id, turn.started_ns + 1
            )
        spool_files.write(layout_of(repo), body, lambda _: "1-7.json")
        assert hook_intake.drain_spool(context) == 1
        assert len(turns.list_turns(context.workspace.db)) == 1


@pytest.mark.parametrize("data", [b'{"prompt": "' + SECRET.encode(), SECRET.encode()])
def test_spool_has_nothing_of_a_payload_that_cannot_be_read(
    off: Repo, data: bytes
) -> None:
    body = hook.make_body("claude-code", data, [])
    spool_files.write(layout_of(off), body, lambda _: "1-1.json")
    assert places_with(off) == []


def test_setting_that_cannot_be_read_stores_no_prompt(repo: Repo) -> None:
    with desk_of(repo):
        pass
    repo.git("config", "agent-undo.prompts", "of")
    spooled(repo)
    assert places_with(repo) == []


@pytest.mark.parametrize("code", [0, 1], ids=["answers", "fails"])
def test_only_a_prompt_asks_git_and_is_not_stored_without_an_answer(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with desk_of(repo):
        pass
    real, asked = shutil.which("git"), tmp_path / "asked"
    script = tmp_path / "bin" / "git"
    script.parent.mkdir()
    ending = f'exec {real} "$@"' if code == 0 else f"exit {code}"
    script.write_text(f"#!/bin/sh\necho x >>{asked}\n{ending}\n")
    script.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
        call = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "a"}}
        body = body_of(repo, "PreToolUse", **call)
        spool_files.write(layout_of(repo), body, lambda _: "1-1.json")
        assert not asked.exists()
        spool_files.write(
            layout_of(repo), body_of(repo, prompt=SECRET), lambda _: "2-1.json"
        )
    assert asked.read_text() == "x\n"
    assert bool(places_with(repo)) == (code == 0)


@pytest.mark.parametrize("way", ["daemon", "hook", "spool"])
def test_fault_of_ours_quotes_no_prompt(
    off: Repo, desk: RecorderContext, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """KEEP-14: neither the log, nor a report, nor a gap; where it failed is said."""

    def fail(*_: object, **__: object) -> bytes:
        raise ValueError(SECRET)

    layout, body = layout_of(off), body_of(off, prompt=SECRET)
    monkeypatch.setattr(lifecycle, "begin_turn", fail)
    if way == "spool":
        spooled(off)
        hook_intake.drain_spool(desk)
    elif way == "daemon":
        with pytest.raises(RuntimeError) as caught:
            hook_intake.take_body(desk, body)
        Troubles(layout).note(caught.value)
        (report,) = Path(layout.reports_dir).iterdir()
        assert ", in _begin_turn" in report.read_text()
    else:
        sent = body.partition(b"\n\n")[2]
        monkeypatch.setattr(hook, "_read_all", lambda: (sent, True))
        assert hook.main(["claude-code"], fail) == 0
        assert len(os.listdir(layout.spool_dir)) == 1
    if way != "spool":
        said = Path(layout.log).read_text()
        assert "ValueError at test_prompts_off.py" in said
    desk.workspace.db.fold()
    assert places_with(off) == []


def with_stored_prompts(repo: Repo, policy: str) -> None:
    """Store prompts in all the ways that there are, one more waits, and one was set aside."""
    repo.git("config", "agent-undo.prompts", policy)
    with desk_of(repo) as context:
        hook_intake.take_body(context, body_of(repo, prompt=SECRET))
        call = {
            "tool_name": "Write",
            "tool_use_id": "t1",
            "tool_input": {"file_path": str(repo.root / "new")},
        }
        hook_intake.take_body(context, body_of(repo, "PreToolUse", **call))
        repo.write("new", "new\n")
        hook_intake.take_body(context, body_of(repo, "PostToolUse", **call))
    program(repo)
    layout = layout_of(repo)
    late = {**call, "tool_use_id": "t2", "tool_input": {"file_path": "/late"}}
    spool_files.write(layout, body_of(repo, "Stop"), lambda _: "0-1.json")
    spooled(repo)
    spool_files.write(layout, body_of(repo, "PreToolUse", **late), lambda _: "2-1.json")
    # As an older version wrote it, and as one that cannot be processed is kept.
    whole = {"agent": "claude-code", "payload": payload_of(repo, prompt=SECRET)}
    for name in ("3-1.json", "4-1.json.refused", "5-1.part"):
        Path(layout.spool_dir, name).write_text(json.dumps(whole))
    repo.git("config", "agent-undo.prompts", "off")


def payload_of(repo: Repo, event: str = "UserPromptSubmit", **fields: object) -> str:
    return body_of(repo, event, **fields).partition(b"\n\n")[2].decode()


def waiting(repo: Repo) -> list[tuple[str, int | None, HookEvent]]:
    """Return what waits in the spool: name, time, and what it reports, without a prompt."""
    layout = layout_of(repo)
    found = []
    for path in sorted(Path(layout.spool_dir).iterdir()):
        one = parse_spool(str(path))
        assert one is not None
        event = registry.parse(one.agent, one.payload, one.env)
        assert isinstance(event, HookEvent)
        bare = spool_files.without_prompt(layout, event)
        assert isinstance(bare, HookEvent)
        found.append((path.name, one.at_ns, bare))
    return found


@pytest.mark.parametrize("policy", ["journal", "commit"])
def test_purge_erases_prompts_that_are_there(repo: Repo, policy: str) -> None:
    """KEEP-14: and nothing of what waits but its prompt."""
    with_stored_prompts(repo, policy)
    before = [one for one in waiting(repo) if not one[0].endswith(".part")]
    # The end of the program's session waits, too.
    assert len(before) == 6
    # A rewritten file has another ctime, but not another time.
    time.sleep(0.02)
    with desk_of(repo) as context:
        assert len(places_with(repo)) >= 4
        planned = run(context, "purge", {"prompts": True, "dry_run": True})
        assert planned["prompts"] == 2
        assert places_with(repo)
        done = run(context, "purge", {"prompts": True})
        assert (done["prompts"], done["contents"]) == (2, 2 * int(policy == "commit"))
        assert waiting(repo) == before
        # Not even in its log or in free pages, while it is open.
        assert set(places_with(repo)) <= {"an object"}
    repo.git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
    assert places_with(repo) == []
    repo.fsck()


def _waiting_in_linked(repo: Repo, path: Path, prompt: str, call_id: str) -> Repo:
    """Make a linked worktree for which a prompt and a call wait; nothing records it yet."""
    with desk_of(repo):
        pass
    repo.git("worktree", "add", "-q", str(path))
    linked, layout = Repo(path), layout_of(repo)
    call = {
        "tool_name": "Bash",
        "tool_use_id": call_id,
        "tool_input": {"command": "ls"},
    }
    told: list[tuple[str, dict[str, object]]]
    told = [("UserPromptSubmit", {"prompt": prompt}), ("PreToolUse", {**call})]
    for number, (event, fields) in enumerate(told):
        body, name = body_of(linked, event, **fields), f"{number}-1.json"
        spool_files.write(layout, body, functools.partial(named, name))
    return linked


def test_purge_leaves_what_waits_for_another_worktree(
    repo: Repo, tmp_path: Path
) -> None:
    linked = _waiting_in_linked(repo, tmp_path / "linked", SECRET, "t1")
    before = waiting(repo)
    repo.git("config", "agent-undo.prompts", "off")
    time.sleep(0.02)
    with desk_of(repo) as context:
        run(context, "purge", {"prompts": True})
    assert places_with(repo) == []
    with desk_of(linked) as context:
        assert hook_intake.drain_spool(context) == 2
        (turn,) = turns.list_turns(context.workspace.db)
        assert turn.started_ns == (before[0][1] or 0) // 1000 * 1000
        assert (turn.prompt, turn.prompt_digest) == (None, before[0][2].prompt_digest)
        assert turns.get_call(context.workspace.db, turn.session, "t1") is not None


def test_purge_of_a_text_leaves_the_rest_of_what_waits(
    repo: Repo, tmp_path: Path
) -> None:
    """One that has it in an id, say, goes as a whole."""
    linked = _waiting_in_linked(repo, tmp_path / "linked", f"use {SECRET}", SECRET)
    at_ns = waiting(repo)[0][1]
    time.sleep(0.02)
    with desk_of(repo) as context:
        run(context, "purge", {"texts": [base64.b64encode(SECRET.encode()).decode()]})
    assert places_with(repo) == []
    with desk_of(linked) as context:
        assert hook_intake.drain_spool(context) == 1
        (turn,) = turns.list_turns(context.workspace.db)
        assert turn.prompt == f"use {MARK}"
        assert turn.started_ns == (at_ns or 0) // 1000 * 1000


def test_purge_names_fetched_history_with_prompts_and_drops_it_if_asked(
    repo: Repo, make_repo: Callable[..., Repo]
) -> None:
    with_stored_prompts(repo, "commit")
    other = make_repo("other", files=("z",))
    with desk_of(repo):
        pass
    with desk_of(other) as context:
        run(context, "fetch", {"remote": str(repo.root)})
        refs = other.shadow_refs()
        fetched = sorted(one for one in refs if "/fetched/" in one)
        assert places_with(other)
        done = run(context, "purge", {"prompts": True})
        left = done["remains"]
        assert isinstance(left, dict)
        named = left["fetched"]
        assert named
        assert set(named) < set(fetched)
        done = run(context, "purge", {"prompts": True, "fetched": True})
        assert done["fetched_dropped"] == named
        assert not set(named) & set(other.shadow_refs())
    other.git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
    assert places_with(other) == []


def test_purge_that_is_killed_at_any_step_leaves_no_prompt_after_the_next(
    repo: Repo, tmp_path: Path
) -> None:
    """KEEP-14: and the history, and what waits, are whole."""
    with_stored_prompts(repo, "commit")
    with desk_of(repo) as context:
        # What waits is processed by each opening.
        hook_intake.drain_spool(context)
    wanted = seen(repo)

    def purging(one: Repo) -> None:
        with desk_of(one) as context:
            run(context, "purge", {"prompts": True})

    for number in itertools.count(1, _PURGE_STRIDE):
        one = Repo(Path(shutil.copytree(repo.root, tmp_path / f"killed{number}")))
        was_killed = killed_at(number, functools.partial(purging, one))
        purging(one)
        one.git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
        assert (places_with(one), seen(one)) == ([], wanted), number
        one.fsck()
        shutil.rmtree(one.root)
        if not was_killed:
            break
    assert number > 100


def seen(repo: Repo) -> list[object]:
    """Return what the history says, without prompts."""
    with desk_of(repo) as context:
        db = context.workspace.db
        rows: list[object] = [
            (one.path, one.kind, one.attribution.turn, one.attribution.call)
            for one in events.changes(db, EventFilter())
        ]
        return [*rows, *((one.id, one.ended_ns) for one in turns.list_turns(db))]


def test_key_stays_and_its_file_is_private(off: Repo, desk: RecorderContext) -> None:
    sent(desk, off, SECRET)
    path = Path(layout_of(off).state_dir) / "digest-key"
    first = path.read_bytes()
    sent(desk, off, "another")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (first, 0o600)
    # A file that a full disk cut short is replaced.
    path.write_bytes(b"")
    sent(desk, off, "a third")
    assert len(path.read_bytes()) == 32
