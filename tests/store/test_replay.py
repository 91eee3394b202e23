"""Commits back into rows: LAW-07, and what start-up makes of a crash."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.model import (
    LINK_MODE,
    Actor,
    CommitEvent,
    Confidence,
    Event,
    EventKind,
    FileVersion,
    Oid,
    OpStatus,
    PathChange,
    RepoPath,
)
from gitshadow.store import machine, refs
from gitshadow.store.journal import bursts, events, ops, sessions, turns
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.events import EventFilter
from gitshadow.store.objects import NewCommit
from gitshadow.store.replay import CatchUp, catch_up, rebuild
from tests.store.world import Change, World, Write, open_repo
from tests.support.claude import Claude
from tests.support.examples import shares_fixture
from tests.support.journal_dump import dump, dump_all
from tests.support.repo import Repo as Folder
from tests.support.shadow import Shadow
from tests.support.studio import layout_of

AGENT, HUMAN = "codex-1", "human-1"
A, B, C = RepoPath(b"a"), RepoPath(b"dir/b"), RepoPath(b"\xff\n")


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[[], World]]:
    open_worlds: list[World] = []

    def make() -> World:
        at = tmp_path / f"w{len(open_worlds)}"
        repo = open_repo(Folder.create(at, ()))
        db = Db.open(str(at / ".git" / "agent-undo" / "journal.db"), create=True)
        world = World(repo, db)
        world.begin(AGENT, Actor.AGENT, "codex")
        world.begin(HUMAN, Actor.HUMAN)
        world.begin("unknown-1", Actor.UNKNOWN)
        open_worlds.append(world)
        return world

    yield make
    for world in open_worlds:
        world.db.close()
        world.repo.close()


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    return make_world()


def rebuilt(world: World) -> Db:
    """Return a fresh journal, filled from the same refs alone."""
    path = world.db.path + f".{len(list(Path(world.db.path).parent.iterdir()))}"
    db = Db.open(path, create=True)
    with db.write():
        assert rebuild(db, world.repo).broken == ()
    return db


def check(world: World) -> None:
    """Check LAW-07."""
    fresh = rebuilt(world)
    try:
        assert dump_all(fresh) == dump_all(world.db)
    finally:
        fresh.close()


def edit(
    world: World, session: str, path: RepoPath, data: bytes, mode: int = 0o644
) -> list[CommitEvent]:
    """Publish one write."""
    change = Change(path=path, after=world.version(data, mode))
    return world.write(Write(session=session, changes=(change,)))


def kinds(rows: Sequence[Event]) -> list[EventKind]:
    return [row.kind for row in rows]


def test_every_kind_of_row_is_rebuilt(world: World) -> None:
    """KEEP-10: what LAW-07 names is equal to before."""
    turn = Write(session=AGENT, turn="t1", call="c1", changes=())
    edit(world, AGENT, A, b"1")
    link = Change(path=A, after=world.version(b"target", LINK_MODE))
    made = Change(path=B, after=world.version(b"2", 0o755))
    odd = Change(path=C, after=world.version(b"3", 0o600))
    world.write(replace(turn, changes=(made, odd)))
    world.write(replace(turn, changes=(link,)))
    moved = Change(path=RepoPath(b"moved"), old_path=C, after=world.table[C])
    world.write(replace(turn, changes=(moved,)))
    gone = Change(path=B, after=None)
    world.write(
        Write(
            session=HUMAN,
            changes=(gone,),
            flags=("offline",),
            confidence=Confidence.AMBIGUOUS,
            candidates=(AGENT, HUMAN),
        )
    )
    back = Change(path=B, after=world.version(b"2", 0o755))
    world.write(
        Write(
            session="unknown-1",
            kind="head",
            changes=(back,),
            flags=("switched",),
            note="checkout main → other",
        )
    )
    world.write(Write(session="unknown-1", kind="coverage", changes=(gone,), note="x"))
    world.plan_op("op-1", HUMAN)
    world.write(Write(session=HUMAN, kind="restore", op="op-1", changes=(back,)))
    world.pin("good")
    check(world)
    fresh = rebuilt(world)
    assert [EventKind(row[3]) for row in dump(fresh, "events")] == [
        EventKind.CREATE,
        EventKind.BASELINE,
        EventKind.CREATE,
        EventKind.CREATE,
        EventKind.TYPE,
        EventKind.RENAME,
        EventKind.DELETE,
        EventKind.BASELINE,
        EventKind.HEAD,
        EventKind.CREATE,
        EventKind.BASELINE,
        EventKind.COVERAGE,
        EventKind.RESTORE,
    ]
    fresh.close()


def test_exact_modes_are_rebuilt_when_another_session_changed_them(
    world: World,
) -> None:
    """FID-13: neither the tree nor the own chain shows what stood there before."""
    edit(world, AGENT, A, b"1", 0o644)
    edit(world, HUMAN, B, b"x")
    edit(world, HUMAN, A, b"1", 0o600)
    (row,) = edit(world, AGENT, A, b"2", 0o600)
    assert isinstance(row, PathChange)
    assert row.before is not None
    assert row.before.mode == 0o100600
    edit(world, HUMAN, A, b"2", 0o644)
    edit(world, AGENT, A, b"3", 0o640)
    check(world)


def test_exact_modes_from_before_the_first_session_are_rebuilt(world: World) -> None:
    """FID-13: a baseline names what is not plain."""
    world.plant(A, b"1", 0o600)
    world.plant(B, b"1", 0o700)
    edit(world, AGENT, A, b"2", 0o644)
    edit(world, HUMAN, B, b"2", 0o755)
    check(world)


def test_modes_of_a_worktree_with_another_umask_are_rebuilt(world: World) -> None:
    world.plain = (0o664, 0o775)
    edit(world, AGENT, A, b"1", 0o664)
    edit(world, AGENT, B, b"1", 0o775)
    edit(world, HUMAN, A, b"2", 0o644)
    check(world)


def test_a_storm_is_rebuilt_row_by_row(world: World) -> None:
    changes = tuple(
        Change(path=RepoPath(b"d/%d" % number), after=world.version(b"x", 0o644))
        for number in range(70)
    )
    rows = world.write(Write(session=AGENT, changes=changes))
    assert len(rows) == 71
    check(world)


def test_a_swap_of_two_names_is_rebuilt(world: World) -> None:
    edit(world, AGENT, A, b"1")
    edit(world, AGENT, B, b"2", 0o600)
    one, two = world.table[A], world.table[B]
    world.write(
        Write(
            session=AGENT,
            changes=(
                Change(path=B, old_path=A, after=one),
                Change(path=A, after=FileVersion(two.oid, 0o100600)),
            ),
        )
    )
    check(world)


contents = st.sampled_from([b"", b"1", b"2\n", b"\xff\0"])
modes = st.sampled_from([0o644, 0o755, 0o600, 0o700, LINK_MODE])
names = st.sampled_from([A, B, C, RepoPath(b"dir/c"), RepoPath(b"z z")])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, str, str, RepoPath, bytes, int]]:
    step = st.tuples(
        st.sampled_from([AGENT, HUMAN, "unknown-1"]),
        st.sampled_from(["write", "turn", "rename", "delete", "head", "coverage"]),
        st.sampled_from(["t1", "t2"]),
        names,
        contents,
        modes,
    )
    return draw(st.lists(step, min_size=1, max_size=14))


def play(world: World, step: tuple[str, str, str, RepoPath, bytes, int]) -> None:
    """Do one step of a random history, if it changes anything."""
    session, verb, turn, path, data, mode = step
    after: FileVersion | None = world.version(data, mode)
    if verb == "delete":
        after = None
    if world.table.get(path) == after:
        return
    change = Change(path=path, after=after)
    if verb == "rename":
        source = next((old for old in world.table if old != path), None)
        if source is None or path in world.table:
            return
        change = replace(change, old_path=source, after=world.table[source])
    in_turn = verb in ("turn", "rename")
    kind = verb if verb in ("head", "coverage") else "write"
    world.write(
        Write(
            session=session,
            kind=kind,
            changes=(change,),
            turn=turn if in_turn else None,
            call=f"call-{turn}" if in_turn else None,
            flags=("switched",) if kind == "head" else (),
        )
    )


@pytest.mark.uncounted
@shares_fixture
@given(history=histories())
def test_rebuild_gives_back_every_history(
    make_world: Callable[[], World],
    history: list[tuple[str, str, str, RepoPath, bytes, int]],
) -> None:
    """LAW-07: rebuild∘record = identity."""
    world = make_world()
    for step in history:
        play(world, step)
    world.pin("end")
    check(world)


@pytest.mark.uncounted
@shares_fixture
@given(history=histories(), crash=st.integers(0, 13))
def test_catch_up_equals_a_run_without_the_crash(
    make_world: Callable[[], World],
    history: list[tuple[str, str, str, RepoPath, bytes, int]],
    crash: int,
) -> None:
    """ROB-02: the process dies between ref and row, at any commit."""
    world = make_world()
    for step in history[:crash]:
        play(world, step)
    world.journalling = False
    for step in history[crash : crash + 1]:
        play(world, step)
    done = catch_up(world.db, world.repo, "main")
    assert (done.lost, done.broken) == ((), ())
    check(world)
    assert catch_up(world.db, world.repo, "main") == CatchUp((), (), (), {})


@pytest.mark.uncounted
def test_what_the_recorder_writes_is_rebuilt(shadow_n: Shadow) -> None:
    """KEEP-10: the same law, with everything that records in between."""
    repo, agent = shadow_n.repo, Claude(shadow_n)
    repo.write("key", "1", 0o600)
    agent.prompt("first\n\nAgent-Undo-Session: other")
    agent.write("a", "x\n")
    agent.shell("mv b d; rm c; echo n > n; chmod 755 n; chmod 600 a; ln -s a l")
    agent.prompt("second")
    agent.shell("for i in $(seq 70); do echo $i > f$i; done")
    agent.write("key", "2", 0o644)
    agent.stop()
    repo.write("a", "y\n")
    shadow_n.oops()
    shadow_n("redo", "--yes")
    repo.git("checkout", "-q", "-b", "other")
    repo.commit("all")
    repo.git("checkout", "-q", "main")
    shadow_n.ok("flush")
    shadow_n.ok("pin", "good")
    db = Db.open(str(repo.state_dir / "journal.db"), create=False)
    fresh = Db.open(str(repo.state_dir / "fresh.db"), create=True)
    store = open_repo(repo)
    with closing(db), closing(fresh), closing(store):
        with fresh.write():
            ours = machine.ours(layout_of(repo))
            assert rebuild(fresh, store, ours).broken == ()
        expected = dump_all(db)
        assert {table for table, rows in expected.items() if not rows} == set()
        assert dump_all(fresh) == expected


def test_rebuild_ends_what_may_run_no_more(world: World) -> None:
    edit(world, AGENT, A, b"1")
    world.write(
        Write(
            session=AGENT,
            turn="t1",
            changes=(Change(path=B, after=world.version(b"", 0o644)),),
        )
    )
    fresh = rebuilt(world)
    assert sessions.live(fresh) == []
    assert turns.open_turn_of(fresh, AGENT) is None
    assert [one.open for one in bursts.list_bursts(fresh, "main")] == [False, False]
    assert events.reserve(fresh, 1) == events.last_seq(world.db) + 1
    fresh.close()


def test_rebuild_gives_the_last_tree_and_its_modes(world: World) -> None:
    edit(world, AGENT, A, b"1", 0o600)
    edit(world, HUMAN, B, b"2")
    fresh = Db.open(world.db.path + ".x", create=True)
    with fresh.write():
        done = rebuild(fresh, world.repo)
    tree, known = done.worktrees["main"]
    chain = sessions.get_chain(world.db, HUMAN, "main")
    assert chain is not None
    assert tree == chain.tree
    assert known.odd == {A: 0o100600}
    fresh.close()


def commit_of(world: World, tree: Oid, parents: tuple[Oid, ...], message: bytes) -> Oid:
    """Store a commit with any message, as a hostile repository may."""
    new = NewCommit(
        tree=tree,
        parents=parents,
        author_name=b"a",
        author_email=b"b",
        author_time=1,
        committer_time=1,
        message=message,
    )
    return world.repo.write_commit(new)


@pytest.mark.parametrize(
    "message",
    [
        b"not ours\n",
        b"x\n\nAgent-Undo-Format: 1\n",
        b"x\n\nAgent-Undo-Format: 2\n",
        b"x\n\nAgent-Undo-Format: 1\nAgent-Undo-Kind: baseline\n",
    ],
)
def test_rebuild_names_a_ref_it_cannot_read_and_goes_on(
    world: World, message: bytes
) -> None:
    """ROB-11: one forged ref does not cost the others."""
    edit(world, AGENT, A, b"1")
    forged = commit_of(world, world.repo.write_tree(b""), (), message)
    world.repo.create_ref("refs/agent-undo/forged", forged)
    fresh = Db.open(world.db.path + ".x", create=True)
    with fresh.write():
        done = rebuild(fresh, world.repo)
    assert [ref for ref, _ in done.broken] == ["refs/agent-undo/forged"]
    assert dump_all(fresh) == dump_all(world.db)
    fresh.close()


def test_rebuild_refuses_the_chain_of_another_ref(world: World) -> None:
    edit(world, AGENT, A, b"1")
    tip = world.repo.refs()[refs.chain_ref(AGENT, "main")]
    world.repo.create_ref("refs/agent-undo/copy", tip)
    fresh = Db.open(world.db.path + ".x", create=True)
    with fresh.write():
        done = rebuild(fresh, world.repo)
    assert [ref for ref, _ in done.broken] == ["refs/agent-undo/copy"]
    assert dump_all(fresh) == dump_all(world.db)
    fresh.close()


def test_rebuild_goes_on_after_a_commit_whose_rows_do_not_fit(world: World) -> None:
    edit(world, AGENT, A, b"1")
    edit(world, AGENT, A, b"2")
    edit(world, AGENT, A, b"3")
    ref = refs.chain_ref(AGENT, "main")
    root, one, two, three = world.repo.chain(world.repo.refs()[ref])
    forged = two.message.replace(b"Seq: 3\n", b"Seq: 3-9\n")
    at = commit_of(world, two.tree, (one.oid,), forged)
    tip = commit_of(world, three.tree, (at,), three.message)
    world.repo.move_ref(ref, three.oid, tip)
    fresh = Db.open(world.db.path + ".x", create=True)
    with fresh.write():
        done = rebuild(fresh, world.repo)
    assert [name for name, _ in done.broken] == [f"{ref} {at}"]
    assert [row.seq for row in events.rows(fresh, EventFilter())] == [4, 2, 1]
    assert root.parents == ()
    fresh.close()


def test_a_users_commit_that_claims_to_be_ours_is_no_part_of_a_chain(
    world: World,
) -> None:
    """ROB-11: the parent of a baseline is the user's, whatever its message says."""
    evil = (
        b"x\n\nAgent-Undo-Format: 1\nAgent-Undo-Kind: write\nAgent-Undo-Session: evil\n"
        b"Agent-Undo-Time: 2026-11-21T08:00:00.000000Z\nAgent-Undo-Seq: 1\n"
    )
    edit(world, AGENT, A, b"1")
    ref = refs.chain_ref(AGENT, "main")
    root, one = world.repo.chain(world.repo.refs()[ref])
    head = commit_of(world, root.tree, (), evil)
    root_oid = commit_of(world, root.tree, (head,), root.message)
    tip = commit_of(world, one.tree, (root_oid,), one.message)
    world.repo.move_ref(ref, one.oid, tip)
    fresh = rebuilt(world)
    assert [row.id for row in sessions.all_sessions(fresh)] == [AGENT]
    assert kinds(events.rows(fresh, EventFilter())) == [
        EventKind.BASELINE,
        EventKind.CREATE,
    ]
    fresh.close()


def test_catch_up_brings_missing_rows_of_several_chains_in_order(world: World) -> None:
    """ROB-02: rows come back in order of seq, with the tree to go on from."""
    edit(world, AGENT, A, b"1")
    world.journalling = False
    missing = edit(world, HUMAN, A, b"1", 0o600) + edit(world, AGENT, A, b"2", 0o600)
    done = catch_up(world.db, world.repo, "main")
    assert list(done.rows) == sorted(missing, key=lambda row: row.seq)
    assert done.trees == {"main": world.tree}
    check(world)


@pytest.mark.uncounted
def test_start_up_after_rows_were_lost_with_the_power(
    shadow_n: Shadow, tmp_path: Path
) -> None:
    """ROB-02: the refs stood, the journal's last transactions did not; nothing counts twice."""
    repo, agent = shadow_n.repo, Claude(shadow_n)
    shadow_n.ok("flush")
    journal, copy = repo.state_dir / "journal.db", tmp_path / "copy.db"
    shutil.copy(journal, copy)
    agent.prompt("do it")
    agent.write("a", "x\n")
    agent.shell("echo n > n; chmod 600 b")
    before = shadow_n.log()
    assert len(before) == 3
    shutil.copy(copy, journal)
    assert shadow_n.log() == before
    shadow_n.verify()


def test_catch_up_leaves_other_worktrees_to_themselves(world: World) -> None:
    world.worktree = "linked"
    world.journalling = False
    edit(world, AGENT, A, b"1")
    assert catch_up(world.db, world.repo, "main").rows == ()
    assert len(catch_up(world.db, world.repo, "linked").rows) == 2


def test_catch_up_reports_a_ref_that_is_gone(world: World) -> None:
    edit(world, AGENT, A, b"1")
    edit(world, HUMAN, A, b"2")
    gone = sessions.get_chain(world.db, AGENT, "main")
    world.repo.delete_ref(refs.chain_ref(AGENT, "main"))
    done = catch_up(world.db, world.repo, "main")
    assert [(lost.chain, lost.tip) for lost in done.lost] == [(gone, None)]
    assert [chain.session for chain in sessions.chains(world.db)] == [HUMAN]


def test_catch_up_reports_a_ref_that_went_back(world: World) -> None:
    """ROB-17: the row follows the ref."""
    first = edit(world, AGENT, A, b"1")[-1].commit
    last = edit(world, AGENT, A, b"2")[-1].commit
    assert first is not None
    assert last is not None
    ref = refs.chain_ref(AGENT, "main")
    world.repo.move_ref(ref, last, first)
    done = catch_up(world.db, world.repo, "main")
    assert [(lost.chain.tip, lost.tip) for lost in done.lost] == [(last, first)]
    chain = sessions.get_chain(world.db, AGENT, "main")
    assert chain is not None
    assert chain.tip == first
    assert done.rows == ()


def test_catch_up_brings_pins_into_agreement(world: World) -> None:
    edit(world, AGENT, A, b"1")
    world.pin("gone")
    world.repo.delete_ref(refs.pin_ref("gone"))
    world.journalling = False
    commit = world.pin("good")
    catch_up(world.db, world.repo, "main")
    assert [(row[0], row[2]) for row in dump(world.db, "pins")] == [("good", commit)]


def test_catch_up_leaves_an_interrupted_op_to_be_finished(world: World) -> None:
    """ROB-01: the op is finished by who knows its temporary files."""
    edit(world, AGENT, A, b"1")
    world.plan_op("op-1", HUMAN)
    world.journalling = False
    gone = Change(path=A, after=None)
    world.write(Write(session=HUMAN, kind="restore", op="op-1", changes=(gone,)))
    done = catch_up(world.db, world.repo, "main")
    assert isinstance(done.rows[0], PathChange)
    assert done.rows[0].op == "op-1"
    op = ops.get(world.db, "op-1")
    assert op is not None
    assert op.status is OpStatus.APPLYING


def test_catch_up_goes_on_with_the_burst_of_the_crash(world: World) -> None:
    world.journalling = False
    change = Change(path=A, after=world.version(b"1", 0o644))
    first = world.write(Write(session=AGENT, turn="t1", changes=(change,)))[-1]
    catch_up(world.db, world.repo, "main")
    world.journalling = True
    change = Change(path=A, after=world.version(b"2", 0o644))
    again = world.write(Write(session=AGENT, turn="t1", changes=(change,)))[-1]
    assert isinstance(first, PathChange)
    assert isinstance(again, PathChange)
    assert again.burst == first.burst
