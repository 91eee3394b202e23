"""Whose rows are when a host reports what a call did to files."""

import errno
import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitshadow.attribution import intake
from gitshadow.model import RepoPath, ToolClass
from gitshadow.recording.context import RecorderContext
from gitshadow.service import hook_intake
from gitshadow.service import settings as service_settings
from gitshadow.store.journal import turns
from tests.service.test_windows import rows, same_from_refs, seen, tell, told
from tests.support.context import desk_of
from tests.support.repo import Repo

Saves: TypeAlias = Sequence[tuple[str, str | None]]
UNLISTED = (
    "a tool call was open, but its agent lists the changed files without this one"
)
OTHERS_UNLISTED = (
    "written during this tool call; other agents list changed files without this one"
)


@pytest.fixture
def context(repo: Repo) -> Iterator[RecorderContext]:
    with desk_of(repo) as context:
        yield context


class Shell:
    """One call of Claude Code's shell."""

    def __init__(self, context: RecorderContext, call: str, session: str = "s1"):
        self.id = call
        self._context = context
        self._common = {
            "session_id": session,
            "prompt_id": f"turn-of-{session}",
            "tool_name": "Bash",
            "tool_use_id": call,
            "tool_input": {"command": "make"},
        }

    def begin(self) -> None:
        tell(
            self._context,
            "claude-code",
            {**self._common, "hook_event_name": "PreToolUse"},
        )

    def end(self, *changed: str, **fields: object) -> None:
        """Report the end, with a list of what changed between two looks at the tree."""
        root = self._context.workspace.layout.root
        diff: dict[str, object] = {
            "files": [{"filePath": f"{root}/{name}"} for name in changed[:5]],
            "moreFiles": len(changed[5:]),
            "changedFiles": [f"{root}/{name}" for name in changed],
        }
        response = {"stdout": "", "bashEditDiff": {**diff, **fields}}
        payload = {**self._common, "hook_event_name": "PostToolUse"}
        tell(self._context, "claude-code", {**payload, "tool_response": response})


def judged(context: RecorderContext, path: str) -> tuple[str, str | None, str]:
    (row,) = rows(context, path)
    return (*told(row), row.attribution.reason)


def test_a_file_that_the_list_leaves_out_is_not_the_calls(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "mine.txt", "by a person, before the command began\n")
    seen(context, repo, "theirs.txt", "by the command\n")
    assert judged(context, "mine.txt")[:2] == ("medium", "c1")
    call.end("theirs.txt")
    assert judged(context, "mine.txt") == ("low", None, UNLISTED)
    assert judged(context, "theirs.txt")[:2] == ("medium", "c1")
    same_from_refs(context, tmp_path)


def test_what_one_agent_left_out_is_the_other_ones_but_not_for_certain(
    context: RecorderContext, repo: Repo
) -> None:
    first, second = Shell(context, "c1"), Shell(context, "c2", "s2")
    first.begin()
    second.begin()
    seen(context, repo, "a", "by the second\n")
    seen(context, repo, "b", "by the first\n")
    assert judged(context, "a")[0] == "ambiguous"
    first.end("b")
    assert judged(context, "a") == ("medium", "c2", OTHERS_UNLISTED)
    assert judged(context, "b")[0] == "ambiguous"
    second.end("a")
    assert judged(context, "a") == ("medium", "c2", OTHERS_UNLISTED)
    assert judged(context, "b") == ("medium", "c1", OTHERS_UNLISTED)


def test_what_all_agents_left_out_is_nobodys(
    context: RecorderContext, repo: Repo
) -> None:
    first, second = Shell(context, "c1"), Shell(context, "c2", "s2")
    first.begin()
    second.begin()
    for name in ("a", "b", "c"):
        seen(context, repo, name, "new\n")
    first.end("b")
    second.end("c")
    confidence, call, reason = judged(context, "a")
    assert (confidence, call) == ("ambiguous", None)
    assert "several" in reason
    assert judged(context, "b")[:2] == ("medium", "c1")
    assert judged(context, "c")[:2] == ("medium", "c2")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"unavailable": True}, id="unavailable"),
        pytest.param({"skipped": True}, id="skipped"),
        pytest.param({"moreFiles": 1}, id="cut"),
        pytest.param({"changedFiles": None}, id="without paths"),
        pytest.param({"moreFiles": "0"}, id="no number"),
    ],
)
def test_a_list_that_is_not_whole_shows_nothing(
    context: RecorderContext, repo: Repo, fields: dict[str, object]
) -> None:
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "a", "new\n")
    seen(context, repo, "b", "new\n")
    call.end("b", **fields)
    assert judged(context, "a")[:2] == ("medium", "c1")


def test_a_list_of_another_repository_shows_nothing(
    context: RecorderContext, repo: Repo
) -> None:
    inner = Repo.create(repo.root / "inner", ())
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "a", "new\n")
    inner.write("x", "new\n")
    call.end("inner/x")
    assert judged(context, "a")[:2] == ("medium", "c1")


def test_a_write_that_was_undone_in_time_stays_the_calls(
    context: RecorderContext, repo: Repo
) -> None:
    repo.write("a", "old\n")
    context.observer.settle()
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "a", "for a moment\n")
    seen(context, repo, "a", "old\n")
    seen(context, repo, "b", "new\n")
    call.end("b")
    assert [told(row) for row in rows(context, "a")][-2:] == [("medium", "c1")] * 2


def test_a_file_that_came_and_went_stays_the_calls(
    context: RecorderContext, repo: Repo
) -> None:
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "temporary", "for a moment\n")
    (repo.root / "temporary").unlink()
    seen(context, repo, "b", "new\n")
    call.end("b")
    assert [told(row) for row in rows(context, "temporary")] == [("medium", "c1")] * 2


@pytest.mark.parametrize("name", ["kept.env", "tab\tname", "not\udcffutf", "in.d/x"])
def test_a_file_that_hosts_do_not_compare_stays_the_calls(
    repo: Repo, name: str
) -> None:
    repo.write(".gitignore", "in.d/\n")
    repo.write(".git/info/exclude", "*.env\n")
    repo.git("config", "agent-undo.include", "*.env")
    repo.git("config", "--add", "agent-undo.include", "in.d/*")
    with desk_of(repo) as context:
        call = Shell(context, "c1")
        call.begin()
        seen(context, repo, name, "new\n")
        seen(context, repo, "b", "new\n")
        call.end("b")
        assert judged(context, name)[:2] == ("medium", "c1")


def test_a_file_that_hosts_do_not_compare_any_more_stays_the_calls(
    repo: Repo, sealed: Path
) -> None:
    repo.git("config", "agent-undo.include", "*.env")
    with desk_of(repo) as context:
        first = Shell(context, "c1")
        first.begin()
        seen(context, repo, "one.env", "new\n")
        seen(context, repo, "b", "new\n")
        first.end("b")
        assert judged(context, "one.env")[:2] != ("medium", "c1")
        (sealed / "mine").write_text("*.env\n")
        repo.git("config", "core.excludesFile", "~/mine")
        service_settings.read_again(context)
        call = Shell(context, "c2")
        call.begin()
        seen(context, repo, "two.env", "new\n")
        seen(context, repo, "b", "newer\n")
        call.end("b")
        assert judged(context, "two.env")[:2] == ("medium", "c2")


def test_line_ends_and_modes_alone_stay_the_calls(
    context: RecorderContext, repo: Repo
) -> None:
    repo.write("a", "one\ntwo\n")
    repo.write("run", "x\n")
    context.observer.settle()
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "a", "one\r\ntwo\r\n")
    (repo.root / "run").chmod(0o755)
    seen(context, repo, "b", "new\n")
    call.end("b")
    for name in ("a", "run"):
        assert told(rows(context, name)[-1]) == ("medium", "c1")


def test_rules_that_changed_in_time_make_a_list_show_nothing(
    context: RecorderContext, repo: Repo
) -> None:
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "a", "new\n")
    seen(context, repo, ".gitignore", "*.o\n")
    call.end(".gitignore")
    assert judged(context, "a")[:2] == ("medium", "c1")


def edit(
    context: RecorderContext, event: str, at_ns: int | None = None, **fields: object
) -> None:
    path = os.path.join(context.workspace.layout.root, "a")
    tool_input = {"file_path": path, "old_string": "two", "new_string": "TWO"}
    payload = {
        "session_id": "s1",
        "prompt_id": "t1",
        "hook_event_name": event,
        "tool_name": "Edit",
        "tool_use_id": "c1",
        "tool_input": tool_input,
    }
    tell(context, "claude-code", {**payload, **fields}, at_ns=at_ns)


def test_what_an_edit_found_and_did_not_write_is_not_the_edits(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    edit(context, "PreToolUse")
    mine = "one\ntwo\nMINE\n"
    seen(context, repo, "a", mine)
    seen(context, repo, "a", mine.replace("two", "TWO"))
    assert [told(row) for row in rows(context, "a")[-2:]] == [("certain", "c1")] * 2
    edit(context, "PostToolUse", tool_response={"originalFile": mine}, duration_ms=1)
    first, last = rows(context, "a")[-2:]
    assert told(first) == ("low", None)
    assert told(last) == ("certain", "c1")
    same_from_refs(context, tmp_path)


def test_an_edit_is_its_tools_however_late_the_hook_after_it_starts(
    context: RecorderContext,
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "EARLY_NS", 0)
    text = "one\ntwo\n"
    repo.write("a", text)
    context.observer.settle()
    edit(context, "PreToolUse")
    seen(context, repo, "a", text.replace("two", "TWO"))
    edit(context, "PostToolUse", tool_response={"originalFile": text}, duration_ms=0)
    assert told(rows(context, "a")[-1]) == ("certain", "c1")
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("theirs", ["MINE\n", "one\nTWO\nMINE\n"])
def test_other_content_before_a_late_hook_is_not_the_tools(
    context: RecorderContext, repo: Repo, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    monkeypatch.setattr(intake, "EARLY_NS", 0)
    text = "one\ntwo\n"
    repo.write("a", text)
    context.observer.settle()
    edit(context, "PreToolUse")
    seen(context, repo, "a", theirs)
    edit(context, "PostToolUse", tool_response={"originalFile": text}, duration_ms=0)
    assert told(rows(context, "a")[-1]) == ("low", None)


def test_a_late_hook_takes_only_the_write_of_its_edit(
    context: RecorderContext, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "EARLY_NS", 0)
    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    edit(context, "PreToolUse")
    mine = "MINE two\n"
    seen(context, repo, "a", mine)
    seen(context, repo, "a", mine.replace("two", "TWO"))
    edit(context, "PostToolUse", tool_response={"originalFile": mine}, duration_ms=0)
    first, last = rows(context, "a")[-2:]
    assert told(first) == ("low", None)
    assert told(last) == ("certain", "c1")


def test_what_comes_after_an_edits_write_is_less_certain(
    context: RecorderContext, repo: Repo, tmp_path: Path
) -> None:
    text = "one\ntwo\n"
    repo.write("a", text)
    context.observer.settle()
    edit(context, "PreToolUse")
    seen(context, repo, "a", text.replace("two", "TWO"))
    seen(context, repo, "a", "One\nTWO\n")
    edit(context, "PostToolUse", tool_response={"originalFile": text})
    own, later = rows(context, "a")[-2:]
    assert told(own) == ("certain", "c1")
    assert told(later) == ("medium", "c1")
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("seen_in_time", [True, False])
def test_an_end_that_comes_through_the_spool_is_compared_too(
    context: RecorderContext, repo: Repo, tmp_path: Path, *, seen_in_time: bool
) -> None:
    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    edit(context, "PreToolUse")
    mine = "one\ntwo\nMINE\n"
    seen(context, repo, "a", mine)
    repo.write("a", mine.replace("two", "TWO"))
    at_ns = context.workspace.clock.now_ns()
    response = {"originalFile": mine}
    edit(context, "PostToolUse", at_ns, tool_response=response, duration_ms=1)
    if seen_in_time:
        context.observer.store([os.fsencode("a")])  # type: ignore[list-item]
        seen(context, repo, "a", "by a person again\n")
    hook_intake.drain_spool(context)
    first, own, *rest = rows(context, "a")[1:]
    assert told(first) == ("low", None)
    assert told(own) == ("certain", "c1")
    assert [told(row)[1] for row in rest] == [None] * seen_in_time
    same_from_refs(context, tmp_path)


@pytest.mark.parametrize("spooled", [True, False])
def test_what_is_written_while_a_failing_edit_runs_is_less_certain(
    context: RecorderContext, repo: Repo, tmp_path: Path, *, spooled: bool
) -> None:
    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    edit(context, "PreToolUse")
    seen(context, repo, "a", "one\ntwo\nMINE\n")
    assert told(rows(context, "a")[-1]) == ("certain", "c1")
    at_ns = context.workspace.clock.now_ns() if spooled else None
    edit(context, "PostToolUseFailure", at_ns, error="it does not match")
    row = rows(context, "a")[-1]
    assert told(row) == ("medium", "c1")
    assert row.attribution.reason.endswith("but its tool failed")
    same_from_refs(context, tmp_path)


def test_an_end_that_could_not_be_compared_is_compared_later(
    context: RecorderContext, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file descriptor was left when it was read from the spool."""

    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    edit(context, "PreToolUse")
    repo.write("a", "one\nTWO\nMINE\n")
    at_ns = context.workspace.clock.now_ns()
    response = {"originalFile": "one\ntwo\nMINE\n"}
    edit(context, "PostToolUse", at_ns, tool_response=response, duration_ms=1)
    with monkeypatch.context() as patch:
        patch.setattr(context.observer, "store", none_left)
        with pytest.raises(OSError, match="Too many open files"):
            hook_intake.drain_spool(context)
    hook_intake.drain_spool(context)
    assert [told(row) for row in rows(context, "a")[1:]] == [
        ("low", None),
        ("certain", "c1"),
    ]


def test_an_edit_whose_write_is_not_recorded_by_itself_shows_nothing(
    context: RecorderContext, repo: Repo
) -> None:
    text = "one\ntwo\n"
    repo.write("a", text)
    context.observer.settle()
    edit(context, "PreToolUse")
    seen(context, repo, "a", "")
    seen(context, repo, "a", text.replace("two", "TWO"))
    edit(context, "PostToolUse", tool_response={"originalFile": text})
    assert [told(row) for row in rows(context, "a")[-2:]] == [("certain", "c1")] * 2


def kimi(context: RecorderContext, event: str, **tool_input: str) -> None:
    path = os.path.join(context.workspace.layout.root, "a")
    tool = "Write" if "content" in tool_input else "Edit"
    payload: dict[str, object] = {
        "session_id": "session_1",
        "hook_event_name": event,
        "tool_name": tool,
        "tool_call_id": "c1",
        "tool_input": {"path": path, **tool_input},
    }
    tell(context, "kimi", payload)


@pytest.mark.parametrize(
    ("given", "mine", "left"),
    [
        pytest.param(
            {"old_string": "two", "new_string": "TWO"},
            "two\nMINE two\n",
            "TWO\nMINE two\n",
            id="once",
        ),
        pytest.param(
            {"old_string": "two", "new_string": "TWO"},
            "two\nMINE two\n",
            "TWO\nMINE TWO\n",
            id="everywhere",
        ),
        pytest.param({"content": "new\n"}, "MINE\n", "new\n", id="whole"),
    ],
)
def test_what_was_there_before_an_edits_own_write_is_not_the_edits(
    context: RecorderContext,
    repo: Repo,
    given: dict[str, str],
    mine: str,
    left: str,
) -> None:
    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    kimi(context, "PreToolUse", **given)
    seen(context, repo, "a", mine)
    seen(context, repo, "a", left)
    kimi(context, "PostToolUse", **given)
    first, last = rows(context, "a")[-2:]
    assert told(first)[1] is None
    assert told(last) == ("certain", "c1")


@pytest.mark.parametrize("part", ["", "ne"])
def test_a_file_that_its_tool_empties_first_stays_the_tools(
    context: RecorderContext, repo: Repo, part: str
) -> None:
    repo.write("a", "one\ntwo\n")
    context.observer.settle()
    kimi(context, "PreToolUse", content="new\n")
    seen(context, repo, "a", part)
    seen(context, repo, "a", "new\n")
    kimi(context, "PostToolUse", content="new\n")
    assert [told(row) for row in rows(context, "a")[-2:]] == [("certain", "c1")] * 2


def test_a_list_is_stored_only_if_it_leaves_out_a_recorded_file(
    context: RecorderContext, repo: Repo
) -> None:
    call = Shell(context, "c1")
    call.begin()
    seen(context, repo, "b", "new\n")
    call.end("b")
    db = context.workspace.db
    (known,) = (
        one for one in turns.list_calls(db, rows(context, "b")[0].attribution.session)
    )
    assert known.tool_class is ToolClass.SHELL
    assert turns.changed_paths(db, known) == frozenset()


FILES = ("x", "y")
SAVES = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from([None, "1\n", "2\n", "3\n"])),
    max_size=4,
)
_NUMBERS = count()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=SAVES, before=SAVES, own=SAVES, after=SAVES)
def test_no_write_of_a_command_is_taken_from_it(
    context: RecorderContext,
    repo: Repo,
    first: Saves,
    before: Saves,
    own: Saves,
    after: Saves,
) -> None:
    """A person saves before and after the command runs, within its call; all are recorded."""
    call = Shell(context, f"c{next(_NUMBERS)}")
    save(context, repo, first)
    call.begin()
    save(context, repo, before)
    old, known = look(repo), numbers(context)
    save(context, repo, own)
    new, owned = look(repo), numbers(context) - known
    save(context, repo, after)
    call.end("z", *(name for name in FILES if old[name] != new[name]))
    for row in (row for name in FILES for row in rows(context, name)):
        if row.seq in owned:
            assert told(row)[1] == call.id, row


def save(context: RecorderContext, repo: Repo, saves: Saves) -> None:
    for name, text in saves:
        if text is None:
            (repo.root / name).unlink(missing_ok=True)
            context.observer.store([RepoPath(name.encode())])
        else:
            seen(context, repo, name, text)


def look(repo: Repo) -> dict[str, bytes | None]:
    """Return what a host sees in the tree."""
    return {name: repo.read(name) if repo.exists(name) else None for name in FILES}


def numbers(context: RecorderContext) -> set[int]:
    return {row.seq for name in FILES for row in rows(context, name)}
