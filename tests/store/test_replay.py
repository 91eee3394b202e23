"""Commits back into rows: LAW-07, and what start-up makes of a crash."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import JournalError
from gitshadow.model import (
    LINK_MODE,
    Confidence,
    Event,
    EventKind,
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
from gitshadow.store.replay import CatchUp, Rebuilt, catch_up, rebuild
from gitshadow.store.repo import Repo as StoreRepo
from tests.support.claude import Claude
from tests.support.engine import Engine, ToldClaimant, memory_directory, refusing
from tests.support.examples import shares_fixture
from tests.support.journal_dump import dump, dump_all
from tests.support.repo import Repo as Folder
from tests.support.shadow import Shadow
from tests.support.studio import layout_of

AGENT, HUMAN = "codex-1", "human"
A, B, C = RepoPath(b"a"), RepoPath(b"dir/b"), RepoPath(b"\xff\n")


@pytest.fixture
def make_engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Return a function that makes one more repository and opens it: `{path: (mode, data)}`."""
    with (
        TemporaryDirectory(dir=memory_directory(tmp_path)) as top,
        ExitStack() as stack,
    ):
        count = 0

        def make(before: Mapping[bytes, tuple[int, bytes]] | None = None) -> Engine:
            nonlocal count
            count += 1
            repo = Folder.create(Path(top) / f"at-{count}", ())
            for path, (mode, data) in (before or {}).items():
                repo.write(path, data, mode)
            engine = Engine.open(repo.root)
            stack.callback(engine.close)
            return engine

        yield make


@pytest.fixture
def engine(make_engine: Callable[[], Engine]) -> Engine:
    return make_engine()


@contextmanager
def rebuilt(engine: Engine) -> Iterator[Db]:
    """Give a fresh journal, filled from the same refs alone."""
    with filled(engine) as (fresh, done):
        assert done.broken == ()
        yield fresh


@contextmanager
def filled(engine: Engine) -> Iterator[tuple[Db, Rebuilt]]:
    """Give a fresh journal, and what filling it from the refs found."""
    layout = engine.context.workspace.layout
    with (
        TemporaryDirectory(dir=layout.state_dir) as top,
        closing(Db.open(f"{top}/fresh", create=True)) as fresh,
    ):
        with fresh.write():
            done = rebuild(fresh, engine.repo, machine.ours(layout))
        yield fresh, done


def check(engine: Engine) -> None:
    """Check LAW-07."""
    with rebuilt(engine) as fresh:
        assert dump_all(fresh) == dump_all(engine.db)


def edit(
    engine: Engine, session: str, path: bytes, data: bytes, mode: int = 0o644
) -> list[Event]:
    """Have a session write a file."""
    engine.put(path, mode, data)
    return engine.by(session).record()


def caught_up(engine: Engine, worktree: str | None = None) -> CatchUp:
    """Add the rows that the refs of a worktree have and the journal lacks."""
    ours = machine.ours(engine.context.workspace.layout)
    return catch_up(engine.db, engine.repo, worktree or engine.worktree, ours)


def crash(engine: Engine) -> AbstractContextManager[None]:
    """Have the process die between the refs and the rows of whatever is recorded."""
    return refusing(engine.root, "INSERT ON events")


def kinds(rows: Sequence[Event]) -> list[EventKind]:
    return [row.kind for row in rows]


def test_every_kind_of_row_is_rebuilt(engine: Engine) -> None:
    """KEEP-10: what LAW-07 names is equal to before."""
    edit(engine, AGENT, A, b"1")
    engine.put(B, 0o755, b"2")
    engine.put(C, 0o600, b"3")
    engine.by(AGENT, "t1", "c1").record()
    engine.put(A, LINK_MODE, b"target")
    os.chmod(engine.path(C), 0o640)
    engine.record()
    os.rename(engine.path(C), engine.path(b"moved"))
    engine.record()
    os.unlink(engine.path(B))
    engine.by(HUMAN, confidence=Confidence.AMBIGUOUS, candidates=(AGENT, HUMAN))
    engine.record(offline=True)
    engine.run_git("add", "-A")
    engine.by("unknown").git("commit", "-qm", "one")
    engine.git("rm", "-q", "moved")
    engine.git("reset", "-q", "--hard")
    engine.put(b".gitignore", 0o644, b"dir\n")
    edit(engine, AGENT, B, b"2")
    engine.put(b".gitignore", 0o644, b"")
    engine.record()
    assert engine.undo(AGENT).status != "nothing_to_do"
    engine.pin("good")
    check(engine)
    with rebuilt(engine) as fresh:
        found = {EventKind(row[3]) for row in dump(fresh, "events")}
    assert found >= set(EventKind) - {EventKind.GAP}


def test_exact_modes_are_rebuilt_when_another_session_changed_them(
    engine: Engine,
) -> None:
    """FID-13: neither the tree nor the own chain shows what stood there before."""
    edit(engine, AGENT, A, b"1", 0o644)
    edit(engine, HUMAN, B, b"x")
    edit(engine, HUMAN, A, b"1", 0o600)
    (row,) = edit(engine, AGENT, A, b"2", 0o600)
    assert isinstance(row, PathChange)
    assert row.before is not None
    assert row.before.mode == 0o100600
    edit(engine, HUMAN, A, b"2", 0o644)
    edit(engine, AGENT, A, b"3", 0o640)
    check(engine)


def test_exact_modes_from_before_the_first_session_are_rebuilt(
    make_engine: Callable[..., Engine],
) -> None:
    """FID-13: a baseline names what is not plain."""
    plain = {b"one": (0o644, b"1"), b"two": (0o644, b"1"), b"run": (0o755, b"1")}
    engine = make_engine(
        {A: (0o600, b"1"), B: (0o700, b"1"), b"x": (0o755, b""), **plain}
    )
    edit(engine, AGENT, A, b"2", 0o644)
    edit(engine, HUMAN, B, b"2", 0o755)
    check(engine)


def test_modes_of_a_worktree_with_another_umask_are_rebuilt(
    make_engine: Callable[..., Engine],
) -> None:
    engine = make_engine({b"one": (0o664, b"1"), b"run": (0o775, b"1")})
    assert engine.recorder.modes == (0o664, 0o775)
    edit(engine, AGENT, A, b"1", 0o664)
    edit(engine, AGENT, B, b"1", 0o775)
    edit(engine, HUMAN, A, b"2", 0o644)
    check(engine)


def test_a_storm_is_rebuilt_row_by_row(engine: Engine) -> None:
    for number in range(70):
        engine.put(b"d/%d" % number, 0o644, b"x")
    assert len(engine.by(AGENT).record()) == 71
    check(engine)


def test_a_swap_of_two_names_is_rebuilt(engine: Engine) -> None:
    edit(engine, AGENT, A, b"1")
    edit(engine, AGENT, B, b"2", 0o600)
    for old, new in ((A, b"t"), (B, A), (b"t", B)):
        os.rename(engine.path(old), engine.path(new))
    assert len(engine.record()) == 2
    check(engine)


contents = st.sampled_from([b"", b"1", b"2\n", b"\xff\0"])
modes = st.sampled_from([0o644, 0o755, 0o600, 0o700, LINK_MODE])
names = st.sampled_from([A, B, C, RepoPath(b"dir/c"), RepoPath(b"z z")])

Step = tuple[str, str, str, RepoPath, bytes, int]


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    step = st.tuples(
        st.sampled_from([AGENT, HUMAN, "unknown"]),
        st.sampled_from(["write", "turn", "rename", "delete", "head", "coverage"]),
        st.sampled_from(["t1", "t2"]),
        names,
        contents,
        modes,
    )
    return draw(st.lists(step, min_size=1, max_size=14))


def play(engine: Engine, step: Step) -> None:
    """Do one step of a random history, if it changes anything."""
    session, verb, turn, path, data, mode = step
    if verb == "head":
        engine.run_git("add", "-A")
        engine.run_git("commit", "-q", "--allow-empty", "-m", "x")
        if data:
            engine.run_git("reset", "-q", "--hard", "HEAD~1")
    elif verb == "coverage":
        engine.put(b".gitignore", 0o644, b"dir\n" if data else b"z z\n")
    elif verb == "rename":
        source = next((old for old in engine.entries() if old != path), None)
        if source is None or engine.exists(path):
            return
        os.makedirs(os.path.dirname(engine.path(path)), exist_ok=True)
        os.rename(engine.path(source), engine.path(path))
    elif verb == "delete":
        if engine.exists(path):
            os.unlink(engine.path(path))
    else:
        engine.put(path, mode, b"target" if mode == LINK_MODE else data)
    in_turn = verb in ("turn", "rename")
    call = f"call-{turn}" if in_turn else None
    engine.by(session, turn if in_turn else None, call).record()


@pytest.mark.uncounted
@shares_fixture
@given(history=histories())
def test_rebuild_gives_back_every_history(
    make_engine: Callable[[], Engine], history: list[Step]
) -> None:
    """LAW-07: rebuild∘record = identity."""
    engine = make_engine()
    for step in history:
        play(engine, step)
    engine.pin("end")
    check(engine)


@pytest.mark.uncounted
@shares_fixture
@given(history=histories(), crash_at=st.integers(0, 13))
def test_catch_up_equals_a_run_without_the_crash(
    make_engine: Callable[[], Engine], history: list[Step], crash_at: int
) -> None:
    """ROB-02: the process dies between ref and row, at any commit."""
    engine = make_engine()
    for step in history[:crash_at]:
        play(engine, step)
    with crash(engine), suppress(JournalError):
        for step in history[crash_at : crash_at + 1]:
            play(engine, step)
    done = caught_up(engine)
    assert (done.lost, done.broken) == ((), ())
    check(engine)
    assert caught_up(engine) == CatchUp((), (), (), {})


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
    store = StoreRepo.open(layout_of(repo))
    with closing(db), closing(fresh), closing(store):
        with fresh.write():
            ours = machine.ours(layout_of(repo))
            assert rebuild(fresh, store, ours).broken == ()
        expected = dump_all(db)
        assert {table for table, rows in expected.items() if not rows} == set()
        assert dump_all(fresh) == expected


def test_rebuild_ends_what_may_run_no_more(engine: Engine) -> None:
    edit(engine, AGENT, A, b"1")
    engine.by(AGENT, "t1").write(B, b"")
    with rebuilt(engine) as fresh:
        assert sessions.live(fresh) == []
        assert turns.open_turn_of(fresh, AGENT) is None
        assert [one.open for one in bursts.list_bursts(fresh, "main")] == [False, False]
        assert events.reserve(fresh, 1) == events.last_seq(engine.db) + 1


def test_rebuild_gives_the_last_tree_and_its_modes(engine: Engine) -> None:
    edit(engine, AGENT, A, b"1", 0o600)
    edit(engine, HUMAN, B, b"2")
    with filled(engine) as (_, done):
        tree, known = done.worktrees["main"]
    chain = sessions.get_chain(engine.db, HUMAN, "main")
    assert chain is not None
    assert tree == chain.tree == engine.recorder.tree
    assert known.odd == {A: 0o100600}


def commit_of(
    engine: Engine, tree: Oid, parents: tuple[Oid, ...], message: bytes
) -> Oid:
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
    return engine.repo.write_commit(new)


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
    engine: Engine, message: bytes
) -> None:
    """ROB-11: one forged ref does not cost the others."""
    edit(engine, AGENT, A, b"1")
    forged = commit_of(engine, engine.repo.write_tree(b""), (), message)
    engine.repo.create_ref("refs/agent-undo/forged", forged)
    with filled(engine) as (fresh, done):
        assert [ref for ref, _ in done.broken] == ["refs/agent-undo/forged"]
        assert dump_all(fresh) == dump_all(engine.db)


def test_rebuild_refuses_the_chain_of_another_ref(engine: Engine) -> None:
    edit(engine, AGENT, A, b"1")
    tip = engine.repo.refs()[refs.chain_ref(AGENT, "main")]
    engine.repo.create_ref("refs/agent-undo/copy", tip)
    with filled(engine) as (fresh, done):
        assert [ref for ref, _ in done.broken] == ["refs/agent-undo/copy"]
        assert dump_all(fresh) == dump_all(engine.db)


def test_rebuild_goes_on_after_a_commit_whose_rows_do_not_fit(engine: Engine) -> None:
    for data in (b"1", b"2", b"3"):
        edit(engine, AGENT, A, data)
    seqs = [row.seq for row in engine.log()]
    last, wrong, *_ = seqs
    ref = refs.chain_ref(AGENT, "main")
    root, one, two, three = engine.repo.chain(engine.repo.refs()[ref])
    assert b"Seq: %d\n" % wrong in two.message
    forged = two.message.replace(b"Seq: %d\n" % wrong, b"Seq: %d-9\n" % wrong)
    at = commit_of(engine, two.tree, (one.oid,), forged)
    tip = commit_of(engine, three.tree, (at,), three.message)
    engine.repo.move_ref(ref, three.oid, tip)
    with filled(engine) as (fresh, done):
        assert [name for name, _ in done.broken] == [f"{ref} {at}"]
        found = [row.seq for row in events.rows(fresh, EventFilter())]
        assert found == [last, *seqs[2:]]
    assert root.parents == ()


def test_a_users_commit_that_claims_to_be_ours_is_no_part_of_a_chain(
    engine: Engine,
) -> None:
    """ROB-11: the parent of a baseline is the user's, whatever its message says."""
    evil = (
        b"x\n\nAgent-Undo-Format: 1\nAgent-Undo-Kind: write\nAgent-Undo-Session: evil\n"
        b"Agent-Undo-Time: 2026-11-21T08:00:00.000000Z\nAgent-Undo-Seq: 1\n"
    )
    edit(engine, AGENT, A, b"1")
    before = dump_all(engine.db)
    ref = refs.chain_ref(AGENT, "main")
    root, one = engine.repo.chain(engine.repo.refs()[ref])
    head = commit_of(engine, root.tree, (), evil)
    root_oid = commit_of(engine, root.tree, (head,), root.message)
    tip = commit_of(engine, one.tree, (root_oid,), one.message)
    engine.repo.move_ref(ref, one.oid, tip)
    with rebuilt(engine) as fresh:
        assert dump(fresh, "sessions") == before["sessions"]
        rows = events.rows(fresh, EventFilter(sessions=(AGENT,)))
        assert kinds(rows) == [EventKind.CREATE, EventKind.BASELINE]
        assert len(dump(fresh, "events")) == len(before["events"])


def test_catch_up_brings_missing_rows_of_several_chains_in_order(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROB-02: rows come back in order of seq, with the tree to go on from."""
    edit(engine, AGENT, A, b"1")
    agents, persons = (engine.by(who).who for who in (AGENT, HUMAN))
    before = events.last_seq(engine.db)
    engine.put(A, 0o600, b"1")
    engine.put(B, 0o600, b"2")
    monkeypatch.setattr(ToldClaimant, "claim", lambda *_, **__: [persons, agents])
    with crash(engine), pytest.raises(JournalError):
        engine.record()
    done = caught_up(engine)
    seqs = [row.seq for row in done.rows]
    assert seqs == sorted(seqs)
    assert seqs[0] > before
    assert [(row.kind, row.attribution.session) for row in done.rows] == [
        (EventKind.BASELINE, HUMAN),
        (EventKind.MODE, HUMAN),
        (EventKind.CREATE, AGENT),
    ]
    chain = sessions.get_chain(engine.db, AGENT, "main")
    assert chain is not None
    assert done.trees == {"main": chain.tree}
    check(engine)


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


def test_catch_up_leaves_other_worktrees_to_themselves(
    repo: Folder, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    Engine.open(repo.root).close()
    with closing(Engine.open(tmp_path / "linked")) as engine:
        with refusing(repo.root, "INSERT ON events"), pytest.raises(JournalError):
            edit(engine, AGENT, A, b"1")
        assert caught_up(engine, "main").rows == ()
        assert len(caught_up(engine).rows) == 2


def test_catch_up_reports_a_ref_that_is_gone(engine: Engine) -> None:
    before = sessions.chains(engine.db)
    edit(engine, AGENT, A, b"1")
    edit(engine, HUMAN, A, b"2")
    gone = sessions.get_chain(engine.db, AGENT, "main")
    engine.repo.delete_ref(refs.chain_ref(AGENT, "main"))
    done = caught_up(engine)
    assert [(lost.chain, lost.tip) for lost in done.lost] == [(gone, None)]
    left = {chain.session for chain in sessions.chains(engine.db)}
    assert left == {HUMAN, *(chain.session for chain in before)}


def test_catch_up_reports_a_ref_that_went_back(engine: Engine) -> None:
    """ROB-17: the row follows the ref."""
    edit(engine, AGENT, A, b"1")
    edit(engine, AGENT, A, b"2")
    ref = refs.chain_ref(AGENT, "main")
    first, last = (one.oid for one in engine.repo.chain(engine.repo.refs()[ref])[-2:])
    engine.repo.move_ref(ref, last, first)
    done = caught_up(engine)
    assert [(lost.chain.tip, lost.tip) for lost in done.lost] == [(last, first)]
    chain = sessions.get_chain(engine.db, AGENT, "main")
    assert chain is not None
    assert chain.tip == first
    assert done.rows == ()


def test_catch_up_brings_pins_into_agreement(engine: Engine) -> None:
    edit(engine, AGENT, A, b"1")
    engine.pin("gone")
    engine.repo.delete_ref(refs.pin_ref("gone"))
    commit = engine.recorder.publish_pin("good", refs.pin_ref("good"), 10**18)
    caught_up(engine)
    assert [(row[0], row[2]) for row in dump(engine.db, "pins")] == [("good", commit)]


def test_catch_up_leaves_an_interrupted_op_to_be_finished(engine: Engine) -> None:
    """ROB-01: the op is finished by who knows its temporary files."""
    edit(engine, AGENT, A, b"1")
    with crash(engine), pytest.raises(JournalError):
        engine.oops()
    (op,) = ops.list_ops(engine.db)
    done = caught_up(engine)
    assert isinstance(done.rows[-1], PathChange)
    assert done.rows[-1].op == op.id
    assert ops.list_ops(engine.db)[0].status is OpStatus.APPLYING


def test_catch_up_goes_on_with_the_burst_of_the_crash(engine: Engine) -> None:
    engine.by(AGENT, "t1")
    with crash(engine), pytest.raises(JournalError):
        engine.write(A, b"1")
    first = caught_up(engine).rows[-1]
    again = engine.write(A, b"2")[-1]
    assert isinstance(first, PathChange)
    assert isinstance(again, PathChange)
    assert again.burst == first.burst
