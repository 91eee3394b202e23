"""A turn's files: the recorder is told of turns and calls, so that what they write is theirs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.service import in_process
from gitshadow.store.layout import Layout
from tests.sdk.turns.recorded import Recorded
from tests.support.repo import Repo
from tests.support.shadow import Shadow


async def test_what_a_call_writes_is_its_own(recorded: Recorded) -> None:
    """Turn, call and tool stand on the write; a named path is certain."""
    session = recorded.front.session("s-42")
    async with session.turn("rename clips") as turn:
        path = str(recorded.repo.root / "named")
        await turn.call("file.write", "c1", path=path, text="x\n")
        await turn.call("shell.run", "c2", path="timed", text="y\n")
    assert recorded.writes() == [
        ("named", "generic", "t-1", "c1", "file.write", "certain"),
        ("timed", "generic", "t-1", "c2", "shell.run", "medium"),
    ]


async def test_writes_between_calls_belong_to_the_turn(recorded: Recorded) -> None:
    """Program code writes too; what came before and after is somebody else's."""
    recorded.repo.write("before", "person\n")
    session = recorded.front.session()
    async with session.turn() as turn:
        await turn.call("notes.read", note="n")
        recorded.repo.write("between", "program\n")
    recorded.repo.write("after", "person\n")
    assert [row[:3] for row in recorded.writes()] == [
        ("before", None, None),
        ("between", "generic", "t-1"),
        ("after", None, None),
    ]


async def test_trailers_say_whose_commit_it_is(recorded: Recorded) -> None:
    """`Agent-Undo-Turn`, `-Call` and `-Tool`, readable with plain Git."""
    session = recorded.front.session("s-42")
    await session.called("shell.run", "c1", path="f", text="x\n")
    (row,) = recorded.rows("log")
    said = recorded.repo.git("log", "-1", "--format=%(trailers)", str(row["commit"]))
    for trailer in ("Turn: t-1", "Call: c1", "Tool: shell.run"):
        assert f"Agent-Undo-{trailer}" in said


async def test_the_prompt_of_a_turn_is_its_label(recorded: Recorded) -> None:
    """`turns` shows what the program called it."""
    session = recorded.front.session()
    async with session.turn("rename clips"):
        recorded.repo.write("f", "x\n")
    (turn,) = recorded.rows("turns")
    assert (turn["id"], turn["prompt"]) == ("t-1", "rename clips")
    assert (turn["files"], turn["status"]) == (1, "committed")
    assert turn["ended"] is not None


async def test_a_call_of_a_person_after_a_failed_call_is_not_the_agents(
    recorded: Recorded,
) -> None:
    """A window closes however its tool ends."""
    session = recorded.front.session()
    with pytest.raises(ValueError, match="no"):
        async with session.turn():
            recorded.repo.write("f", "x\n")
            raise ValueError("no")
    recorded.repo.write("g", "person\n")
    assert [row[:3] for row in recorded.writes()][-1] == ("g", None, None)


async def test_a_recorder_that_fails_ends_no_turn(recorded: Recorded) -> None:
    """What could not be told is written down, and the turn commits."""
    spool = Path(recorded.layout.spool_dir)
    session = recorded.front.session()
    async with session.turn() as turn:
        for waiting in spool.iterdir():
            waiting.unlink()
        spool.rmdir()
        assert (await turn.call("shell.run", "c1", path="f", text="x\n")).ok
        spool.mkdir()
    assert session.au.turns()[0].status == "committed"
    notes = [one.kind for one in session.au.log("t-1")]
    assert notes.count("files_untold") == 2


async def test_a_program_may_leave_files_alone(recorded: Recorded) -> None:
    """`Host(files=False)`: nobody is told."""
    session = recorded.front.session(host=Host(files=False))
    await session.called("shell.run", "c1", path="f", text="x\n")
    assert [row[:3] for row in recorded.writes()] == [("f", None, None)]
    assert [row["files"] for row in recorded.rows("turns")] == [0]


@pytest.mark.parametrize(
    ("tool", "same", "count"),
    [
        ("file.write", False, 2),
        ("file.write", True, 6),
        ("shell.run", False, 6),
    ],
)
async def test_without_a_daemon_the_engine_starts_where_a_call_may_overwrite(
    recorded: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    same: bool,
    count: int,
) -> None:
    """Otherwise calls leave their time in the spool: an engine costs 20 ms or more."""
    taken: list[bytes] = []
    deliver = in_process.deliver

    def counted(layout: Layout, body: bytes) -> bytes:
        taken.append(body)
        return deliver(layout, body)

    monkeypatch.setattr(in_process, "deliver", counted)
    session = recorded.front.session()
    async with session.turn() as turn:
        for number in range(5):
            path = str(recorded.repo.root / f"f{0 if same else number}")
            await turn.call(tool, f"c{number}", path=path, text=f"{number}\n")
    assert len(taken) == count
    calls = [row[3] for row in recorded.writes()]
    assert calls == ["c0", "c1", "c2", "c3", "c4"]


def test_with_a_daemon_each_call_is_a_round_trip(
    repo: Repo, make_shadow: Callable[..., Shadow], tmp_path: Path
) -> None:
    """Nothing is spooled, and every write is attributed before the turn ends."""
    make_shadow(repo, daemon=True).init()
    recorded = Recorded.make(repo, tmp_path / "world")
    session = recorded.front.session("s-42")
    assert isinstance(session.au, AgentUndo)
    with session.au.turn("go") as turn:
        turn.call("shell.run", {"path": "f", "text": "x\n"}, call_id="c1")
        turn.call("notes.read", {"note": "n"})
        assert os.listdir(recorded.layout.spool_dir) == []
        assert recorded.writes() == [
            ("f", "generic", "t-1", "c1", "shell.run", "medium")
        ]
    recorded.front.close()


def test_a_place_without_recorder_has_turns_all_the_same(place: Path) -> None:
    """Files are recorded where `init` was run in this working tree."""
    from tests.sdk.turns.front import Front

    front = Front.make("sync", place)
    session = front.session()
    assert isinstance(session.au, AgentUndo)
    with session.au.turn("go") as turn:
        assert turn.call("notes.read", {"note": "n"}).ok
    front.close()


def test_a_linked_worktree_is_recorded_from_its_first_use(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As hooks and commands do; nothing was recorded there, and no report said so."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    Recorded.make(repo, tmp_path / "world")
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", str(linked))
    with AgentUndo.open(linked, session="s", tools=ToolRegistry()) as au:
        with au.turn("write"):
            (linked / "new").write_text("x\n")
        (item,) = au.undo("t-1").items
    assert (item.path, item.state) == ("new", "reversed")
    assert not (linked / "new").exists()


async def test_a_file_outside_the_working_tree_is_named_by_an_undo(
    recorded: Recorded, tmp_path: Path
) -> None:
    """Also one behind a linked directory; a link to the working tree leads into it."""
    root, elsewhere = recorded.repo.root, tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "out").symlink_to(elsewhere)
    (elsewhere / "in").symlink_to(root)
    session = recorded.front.session()
    async with session.turn() as turn:
        for path in (root / "out" / "lost", elsewhere / "in" / "new"):
            await turn.call("file.write", path=str(path), text="x\n")
    report = await session.undo("t-1")
    assert [(one.what, one.why) for one in report.not_covered] == [
        (
            "../elsewhere/lost",
            "outside the working tree, named by file.write t-1.1",
        )
    ]
    assert [item.path for item in report.items if item.path] == ["new"]
    assert (elsewhere / "lost").exists()
