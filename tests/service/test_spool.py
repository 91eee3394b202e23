"""Payloads that no process could take when they came: taken later, in time, once, or set aside."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from gitshadow.adapters import registry
from gitshadow.adapters.base import HookEvent
from gitshadow.attribution import lifecycle
from gitshadow.attribution.delivery import parse_body
from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.config import WatchBackend
from gitshadow.daemon.server import Service
from gitshadow.ipc import hook
from gitshadow.ipc import spool as spool_files
from gitshadow.model import Call, Event, Gap, PathChange, RepoPath, ToolClass
from gitshadow.platform import current
from gitshadow.platform.watching import Hints, Watcher
from gitshadow.recording.context import RecorderContext
from gitshadow.recording.spool import FOREIGN_NS, forward
from gitshadow.service import hook_intake
from gitshadow.store.journal import events, sessions, state, turns
from gitshadow.store.journal.events import EventFilter
from tests.support.context import desk_of
from tests.support.repo import Repo
from tests.support.waiting import until

_SHELL: Mapping[str, object] = {
    "tool_name": "Bash",
    "tool_input": {"command": "make"},
}


@pytest.fixture
def open_it() -> Iterator[Callable[[Repo], RecorderContext]]:
    """Return a function that opens a worktree as every process does."""
    with ExitStack() as stack:
        yield lambda repo: stack.enter_context(desk_of(repo))


@pytest.fixture
def context(repo: Repo, open_it: Callable[[Repo], RecorderContext]) -> RecorderContext:
    return open_it(repo)


@pytest.fixture
def watcher(context: RecorderContext) -> Iterator[Watcher]:
    layout = context.workspace.layout
    opened = current().open_watcher(WatchBackend.INOTIFY, layout, lambda: None)
    with closing(opened):
        context.observer.start(opened)
        yield opened


def leave(
    context: RecorderContext,
    number: int,
    event: str,
    cwd: str,
    pids: Sequence[str] = (),
    /,
    **fields: object,
) -> Path:
    """Leave one payload in the spool, as a hook program does that finds nobody."""
    payload = {
        "session_id": "s1",
        "cwd": cwd,
        "hook_event_name": event,
        "prompt_id": "p1",
        **fields,
    }
    document = {
        "agent": "claude-code",
        "payload": json.dumps(payload),
        "cwd": cwd,
        "pids": list(pids),
    }
    path = Path(context.workspace.layout.spool_dir, f"{number}-1.json")
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document))
    part.rename(path)
    return path


def changes(context: RecorderContext) -> list[PathChange]:
    return events.path_changes(rows(context))


def rows(context: RecorderContext) -> list[Event]:
    return events.rows(context.workspace.db, EventFilter())[::-1]


def gap_notes(context: RecorderContext) -> list[str]:
    return [row.note or "" for row in rows(context) if isinstance(row, Gap)]


def left(context: RecorderContext) -> list[str]:
    return sorted(os.listdir(context.workspace.layout.spool_dir))


def test_write_is_judged_by_a_window_that_was_spooled_before_it(
    repo: Repo, context: RecorderContext
) -> None:
    """ATT-14: also where the payload came after the barrier had looked into the spool."""
    hook_intake.drain_spool(context)
    path = str(repo.root / "a")
    named = {"tool_name": "Write", "tool_input": {"file_path": path}}
    leave(context, 1, "PreToolUse", str(repo.root), tool_use_id="call-1", **named)
    repo.write("a", "agent\n")
    context.observer.settle()
    (row,) = [row for row in changes(context) if row.path == RepoPath(b"a")]
    assert row.attribution is not None
    assert (row.attribution.call, row.attribution.confidence.value) == (
        "call-1",
        "certain",
    )
    assert hook_intake.drain_spool(context) == 1
    assert left(context) == []


def test_payload_stays_until_it_is_cleared_and_is_taken_once(
    repo: Repo, context: RecorderContext
) -> None:
    """A hook waits for its file to go, which must mean that the first walk is over."""
    leave(context, 1, "UserPromptSubmit", str(repo.root), prompt="go")
    hook_intake.process_spool(context)
    hook_intake.process_spool(context)
    assert left(context) == ["1-1.json"]
    assert sessions.find_native(context.workspace.db, "claude-code", "s1") is not None
    context.spool.clear()
    assert left(context) == []


def test_payload_that_always_fails_is_set_aside_with_a_gap(
    repo: Repo, context: RecorderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ATT-10: it stops neither the payloads behind it nor any verb."""
    parse = registry.parse

    def fail(*args: object) -> HookEvent | None:
        if b"poison" in args[1]:  # type: ignore[operator]
            raise KeyError("poison")
        return parse(*args)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(registry, "parse", fail)
    leave(context, 1, "UserPromptSubmit", str(repo.root), prompt="poison")
    leave(context, 2, "UserPromptSubmit", str(repo.root), prompt="good")
    assert hook_intake.drain_spool(context) == 1
    assert left(context) == ["1-1.json.refused"]
    (note,) = gap_notes(context)
    assert note.startswith(
        "could not process a hook payload: KeyError at test_spool.py"
    )
    assert "poison" not in note
    assert hook_intake.drain_spool(context) == 0
    assert len(gap_notes(context)) == 1


def test_payload_that_failed_once_is_taken_the_second_time(
    repo: Repo, context: RecorderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse, calls = registry.parse, []

    def fail_first(*args: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise KeyError("once")
        return parse(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(registry, "parse", fail_first)
    leave(context, 1, "UserPromptSubmit", str(repo.root), prompt="go")
    assert hook_intake.drain_spool(context) == 1
    assert (left(context), gap_notes(context)) == ([], [])


def test_few_refused_payloads_are_kept(
    repo: Repo, context: RecorderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise KeyError("poison")

    monkeypatch.setattr(registry, "parse", fail)
    for number in range(10, 40):
        leave(context, number, "UserPromptSubmit", str(repo.root))
    hook_intake.drain_spool(context)
    assert len(left(context)) == 16


@pytest.fixture
def linked(repo: Repo, tmp_path: Path) -> Repo:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    return Repo(tmp_path / "linked")


def test_payload_for_a_linked_worktree_is_read_once_and_found_there(
    repo: Repo, linked: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """The time of the payload is kept, although the rename moves that of its file."""
    context = open_it(repo)
    path = leave(context, 1, "UserPromptSubmit", str(linked.root), prompt="go")
    came_ns = path.stat().st_ctime_ns
    hook_intake.drain_spool(context)
    assert left(context) == ["1-1.json"]
    (waiting,) = context.spool.waiting()
    context.spool.pass_on(waiting, "linked", waiting.at_ns + FOREIGN_NS)
    assert left(context) == [f"{came_ns}-1.for-linked.json"]
    assert context.spool.waiting() == []
    other = open_it(linked)
    assert hook_intake.drain_spool(other) == 1
    assert left(context) == []
    session = sessions.find_native(other.workspace.db, "claude-code", "s1")
    assert session is not None
    assert session.started_ns == came_ns // 1000 * 1000


def test_hooks_and_forwarded_deliveries_have_one_form(
    context: RecorderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PID", "7")
    layout = context.workspace.layout
    body = hook.make_body("generic", b'{"a": "\xff"}', ["7/70", "5/50"], "9/90")
    delivery = parse_body(body)
    assert delivery is not None
    hook.leave(layout, body)
    forward(layout, delivery)
    paths = [Path(layout.spool_dir, name) for name in left(context)]
    by_hook, forwarded = (json.loads(path.read_bytes()) for path in paths)
    assert by_hook == forwarded
    assert by_hook["env"] == {"CLAUDE_PID": "7"}


def test_payload_for_a_worktree_that_is_gone_is_dropped(
    repo: Repo, linked: Repo, open_it: Callable[[Repo], RecorderContext]
) -> None:
    context = open_it(repo)
    leave(context, 1, "UserPromptSubmit", str(linked.root), prompt="go")
    (waiting,) = context.spool.waiting()
    context.spool.pass_on(waiting, "linked", waiting.at_ns + FOREIGN_NS)
    repo.git("worktree", "remove", "--force", str(linked.root))
    hook_intake.drain_spool(context)
    assert left(context) == []


def test_dead_agents_window_takes_no_touch_of_what_is_not_covered(
    repo: Repo, context: RecorderContext
) -> None:
    """ATT-08: the session of a process that is gone ends before anybody is named."""
    ws = context.workspace
    repo.write(".gitignore", "ignored\n")
    context.observer.settle()
    who = lifecycle.Who(
        agent="claude-code", native_id="s1", process=ProcessId(2**22 + 1, 1)
    )
    seen_ns = ws.clock.now_ns() - 1_000_000_000
    with ws.db.write():
        session = lifecycle.see_session(ws.db, who, seen_ns, may_open=True)
        call = Call(
            id="call-1",
            session=session.id,
            turn=None,
            tool="Bash",
            tool_class=ToolClass.SHELL,
            opened_ns=seen_ns,
            worktree=ws.layout.worktree,
        )
        turns.open_call(ws.db, call)
    context.pipeline.touched([(RepoPath(b"ignored"), "ignored")])
    (touch,) = state.touches_between(ws.db, ws.layout.worktree, 0, 2**62)
    assert (touch.session, touch.call) == (None, None)


def writing(path: Path) -> dict[str, object]:
    return {"tool_name": "Write", "tool_input": {"file_path": str(path)}}


def deliver(context: RecorderContext, event: str, cwd: Path, **fields: object) -> None:
    """Hand one payload over as a hook program does that finds the daemon."""
    payload = {
        "session_id": "s1",
        "cwd": str(cwd),
        "hook_event_name": event,
        "prompt_id": "p1",
        **fields,
    }
    body = b"agent: claude-code\n\n" + json.dumps(payload).encode()
    hook_intake.take_body(context, body)


def who(context: RecorderContext, path: bytes) -> tuple[str | None, str]:
    (row,) = [row for row in changes(context) if row.path == RepoPath(path)]
    assert row.attribution is not None
    return row.attribution.call, row.attribution.confidence.value


@pytest.mark.parametrize("spooled", [False, True], ids=["live", "spooled"])
@pytest.mark.parametrize("place", ["beside", "below"])
def test_call_that_writes_in_another_worktree_is_taken_there(
    repo: Repo,
    tmp_path: Path,
    open_it: Callable[[Repo], RecorderContext],
    place: str,
    spooled: bool,
) -> None:
    """ATT-11: the agent stands in one worktree and names a file of another."""
    top = tmp_path / "linked" if place == "beside" else repo.root / "trees/linked"
    repo.git("worktree", "add", "-q", str(top))
    linked = Repo(top)
    context, there = open_it(repo), open_it(linked)
    for event in ("PreToolUse", "PostToolUse"):
        fields = {"tool_use_id": "call-1", **writing(top / "a")}
        if spooled:
            leave(context, 1, event, str(repo.root), **fields)
            hook_intake.drain_spool(context)
        else:
            deliver(context, event, repo.root, **fields)
        if event == "PreToolUse":
            linked.write("a", "agent\n")
    there.observer.settle()
    assert who(there, b"a") == ("call-1", "certain")
    hook_intake.drain_spool(there)
    assert left(context) == []


def test_call_that_was_spooled_reaches_another_repository(
    repo: Repo, tmp_path: Path, open_it: Callable[[Repo], RecorderContext]
) -> None:
    """ATT-11, ATT-14: with the time at which it came, however late that is."""
    elsewhere = Repo.create(tmp_path / "elsewhere")
    context, there = open_it(repo), open_it(elsewhere)
    for number, event in enumerate(("PreToolUse", "PostToolUse")):
        fields = {"tool_use_id": "call-1", **writing(elsewhere.root / "a")}
        leave(context, number, event, str(repo.root), **fields)
        if event == "PreToolUse":
            elsewhere.write("a", "agent\n")
    hook_intake.drain_spool(context)
    there.observer.settle()
    assert who(there, b"a") == ("call-1", "certain")


def test_forwarded_payload_that_cannot_be_written_leaves_a_gap_and_no_part(
    repo: Repo,
    tmp_path: Path,
    open_it: Callable[[Repo], RecorderContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = Repo.create(tmp_path / "elsewhere")
    context, there = open_it(repo), open_it(elsewhere)

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        fields = {"tool_use_id": "call-1", **writing(elsewhere.root / "a")}
        deliver(context, "PreToolUse", repo.root, **fields)
    assert left(there) == []
    assert len(gap_notes(context)) == 1


def test_payload_that_comes_twice_is_taken_once(
    repo: Repo, context: RecorderContext
) -> None:
    """The hook program gave up waiting and spooled it, and the daemon came to it all the same."""
    taken = sent(repo, "UserPromptSubmit", own="7/70", prompt="go")
    hook_intake.take_body(context, taken)
    hook_intake.take_body(context, sent(repo, "Stop", own="8/80"))
    spool_files.write(context.workspace.layout, taken, lambda _: "1-7.json")
    hook_intake.drain_spool(context)
    assert left(context) == []
    assert len(turns.list_turns(context.workspace.db)) == 1
    # Also in the other order.
    spooled = sent(repo, "UserPromptSubmit", own="9/90", prompt="next")
    spool_files.write(context.workspace.layout, spooled, lambda _: "2-9.json")
    hook_intake.drain_spool(context)
    hook_intake.take_body(context, sent(repo, "Stop", own="10/100"))
    hook_intake.take_body(context, spooled)
    assert len(turns.list_turns(context.workspace.db)) == 2


def test_call_begins_when_its_hook_gave_up(
    repo: Repo,
    context: RecorderContext,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ATT-14: the daemon was still at its barrier, and opened the window after that."""
    settle = context.observer.settle
    begin, end = (
        sent(repo, event, own=own, tool_use_id="call-1", **_SHELL)
        for event, own in (("PreToolUse", "7/70"), ("PostToolUse", "8/80"))
    )

    def slowly() -> None:
        settle()
        monkeypatch.undo()
        spool_files.write(context.workspace.layout, begin, lambda _: "1-7.json")
        repo.write("new", "made by the agent\n")

    monkeypatch.setattr(context.observer, "settle", slowly)
    hook_intake.take_body(context, begin)
    hook_intake.drain_spool(context)
    hook_intake.take_body(context, end)
    assert who(context, b"new") == ("call-1", "medium")
    assert left(context) == []


def sent(repo: Repo, event: str, *, own: str, **fields: object) -> bytes:
    """Return the body of a delivery by a hook program."""
    payload = {"session_id": "s1", "cwd": str(repo.root), "hook_event_name": event}
    data = json.dumps({**payload, **fields}).encode()
    return hook.make_body("claude-code", data, [], own)


def shell(context: RecorderContext, number: int, event: str) -> None:
    """Leave a payload of a shell call in the spool, whose agent is this process."""
    here = f"{os.getpid()}/{process_start(os.getpid())}"
    top = context.workspace.layout.root
    leave(context, number, event, top, [here], tool_use_id="call-1", **_SHELL)


def taken(watcher: Watcher, wanted: bytes) -> Hints:
    """Return the hints at a file, which the watcher then has no more."""
    found: list[Hints] = []

    def has_come() -> bool:
        found.append(watcher.take())
        return wanted in found[-1].paths

    until(has_come)
    return found[-1]


def test_what_was_hinted_keeps_its_time_when_the_end_of_its_call_is_read_with_it(
    repo: Repo, context: RecorderContext, watcher: Watcher
) -> None:
    """ATT-14: the daemon was busy for so long that the hook spooled the end."""
    shell(context, 1, "PreToolUse")
    hook_intake.drain_spool(context)
    repo.write("new", "made by the agent\n")
    hints = taken(watcher, b"new")
    shell(context, 2, "PostToolUse")
    Service(context).hints(hints)
    assert who(context, b"new") == ("call-1", "medium")
    assert left(context) == []


def test_what_is_recorded_keeps_its_time_when_the_begin_of_its_call_is_read_with_it(
    repo: Repo, context: RecorderContext, watcher: Watcher
) -> None:
    shell(context, 1, "PreToolUse")
    repo.write("new", "made by the agent\n")
    hints = taken(watcher, b"new")
    context.observer.hints(hints)
    shell(context, 2, "PostToolUse")
    hook_intake.drain_spool(context)
    assert who(context, b"new") == ("call-1", "medium")
    (row,) = [row for row in changes(context) if row.path == b"new"]
    assert row.ts_ns // 1000 == os.lstat(repo.root / "new").st_ctime_ns // 1000


def test_what_calls_wrote_whose_ends_wait_is_looked_for_once(
    repo: Repo, context: RecorderContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a watcher each look is a walk of everything."""
    looks: list[int] = []
    settle = context.observer.settle

    def counted() -> None:
        looks.append(1)
        settle()

    monkeypatch.setattr(context.observer, "settle", counted)
    for number in range(6):
        event = ("PreToolUse", "PostToolUse")[number % 2]
        call = f"call-{number // 2}"
        leave(context, number, event, str(repo.root), tool_use_id=call, **_SHELL)
        repo.write(f"file-{number}", "made by somebody\n")
    assert hook_intake.drain_spool(context) == 6
    assert len(looks) == 1
    found = {row.path: row.attribution.call for row in changes(context)}
    assert found[RepoPath(b"file-2")] == "call-1"
    assert found[RepoPath(b"file-3")] is None
