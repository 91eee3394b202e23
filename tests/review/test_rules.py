"""The rules over plain facts, and the law that a further source only tightens."""

from hypothesis import given
from hypothesis import strategies as st

from gitshadow.model import Actor, Demands, Level, RepoPath
from gitshadow.review.rules import (
    CheckRule,
    FileFacts,
    LineRun,
    LineWriter,
    OpenTurnFact,
    PolicyFinding,
    PolicySource,
    RecordingGap,
    judge,
    strictest,
)

A = RepoPath(b"a")
AGENT = LineWriter(Actor.AGENT, "certain", "claude-code", "s1", "t1", "do it")
OTHER = LineWriter(Actor.AGENT, "certain", "codex", "s2", "t2")
NOBODY = LineWriter(Actor.UNKNOWN, "no evidence")
ALL = Demands(
    open_turn=Level.REFUSE,
    protected=Level.REFUSE,
    protected_paths=("a",),
    review=Level.REFUSE,
    review_lines=2,
    unknown=Level.REFUSE,
    undone=Level.REFUSE,
    gaps=Level.REFUSE,
)
_Row = tuple[str, object, object]


def found(*files: FileFacts, demands: Demands = ALL) -> list[_Row]:
    """Return rule, lines and what it is about of each finding."""
    rows = judge(files, [PolicySource("x", demands)])
    return [(one.rule.value, one.spans, one.about) for one in rows]


def numbered(
    count: int, runs: tuple[LineRun, ...] = (), gaps: tuple[RecordingGap, ...] = ()
) -> list[FileFacts]:
    """Return files that are alike but for their names."""
    return [FileFacts(RepoPath(b"%d" % n), runs=runs, gaps=gaps) for n in range(count)]


def test_nothing_is_found_where_nothing_is_known() -> None:
    assert found(FileFacts(A)) == []


def test_open_turn_of_another_names_its_lines() -> None:
    runs = LineRun((3, 4), OTHER), LineRun((5, 6), NOBODY, True)
    file = FileFacts(A, runs, turns=(OpenTurnFact(OTHER, 1),))
    demands = Demands(open_turn=Level.REFUSE)
    assert found(file, demands=demands) == [("openTurn", ((3, 4),), None)]


def test_protected_path_is_found_for_each_agent_that_touched_it() -> None:
    rows = judge([FileFacts(A, touched=(AGENT, OTHER))], [PolicySource("x", ALL)])
    assert [(one.rule, one.writer) for one in rows] == [
        (CheckRule.PROTECTED, AGENT),
        (CheckRule.PROTECTED, OTHER),
    ]


def test_protected_directory_covers_what_lies_below_and_what_was_moved_out() -> None:
    demands = Demands(
        protected=Level.REFUSE, protected_paths=("/deploy/", "!/deploy/x")
    )
    below = FileFacts(RepoPath(b"deploy/x/y"), touched=(AGENT,))
    moved = FileFacts(A, touched=(AGENT,), old_path=RepoPath(b"deploy/k"))
    other = FileFacts(RepoPath(b"sub/deploy"), touched=(AGENT,))
    rows = judge([below, moved, other], [PolicySource("x", demands)])
    assert [one.path for one in rows] == [b"a", b"deploy/x/y"]


def test_people_may_touch_protected_paths() -> None:
    assert found(FileFacts(A, (LineRun((1, 1), NOBODY, True),))) == []


def test_lines_are_counted_over_the_whole_change() -> None:
    """Two lines may go without a review here; three in three files are too many."""
    runs = (LineRun((5, 5), AGENT),)
    assert found(*numbered(2, runs)) == []
    assert found(*numbered(3, runs)) == [("review", ((5, 5),), None)] * 3


def test_reviewed_lines_and_reviewed_files_do_not_count() -> None:
    lines = FileFacts(A, (LineRun((1, 9), AGENT, True), LineRun((10, 11), AGENT)))
    whole = FileFacts(RepoPath(b"b"), (LineRun((1, 9), AGENT),), reviewed=True)
    assert found(lines, whole) == []


def test_unknown_lines_are_joined_by_reason() -> None:
    late = LineWriter(Actor.UNKNOWN, "offline")
    file = FileFacts(
        A, (LineRun((1, 1), NOBODY), LineRun((2, 3), NOBODY), LineRun((9, 9), late))
    )
    assert found(file) == [
        ("unknown", ((1, 3),), None),
        ("unknown", ((9, 9),), None),
    ]


def test_undone_lines_name_the_op() -> None:
    file = FileFacts(A, (LineRun((2, 2), NOBODY, True, "op-1"),))
    assert found(file) == [("undone", ((2, 2),), "op-1")]


def test_gap_of_a_session_is_told_once() -> None:
    assert found(*numbered(2, gaps=(RecordingGap(7, "lost", AGENT),))) == [
        ("gaps", (), "7")
    ]


def test_gap_of_a_file_is_told_for_each() -> None:
    gaps = (RecordingGap(7, "lost"),)
    assert found(*numbered(2, gaps=gaps)) == [("gaps", (), "7"), ("gaps", (), "7")]


def test_strictest_source_decides_and_is_named() -> None:
    file = FileFacts(A, gaps=(RecordingGap(7, "lost"),))
    mine, repo = Demands(gaps=Level.WARN), Demands(gaps=Level.REFUSE)
    for sources in ([("a", mine), ("b", repo)], [("b", repo), ("a", mine)]):
        rows = judge([file], [PolicySource(*one) for one in sources])
        assert [(one.level, one.source) for one in rows] == [(Level.REFUSE, "b")]


def test_strictest_of_nothing_is_off() -> None:
    assert strictest([]) is Level.OFF


_WRITERS = st.sampled_from([AGENT, OTHER, NOBODY, LineWriter(Actor.HUMAN)])
_SPANS = st.tuples(st.integers(1, 50), st.integers(0, 9)).map(
    lambda one: (one[0], one[0] + one[1])
)
_RUNS = st.builds(LineRun, _SPANS, _WRITERS, st.booleans(), st.none() | st.just("op-1"))
_GAPS = st.builds(RecordingGap, st.integers(1, 3), st.just("x"), st.none() | _WRITERS)


def _few(what: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(what, max_size=3).map(tuple)


_FILES = st.builds(
    FileFacts,
    st.sampled_from([A, RepoPath(b"d/b"), RepoPath(b"d/e/c")]),
    _few(_RUNS),
    _few(st.sampled_from([AGENT, OTHER])),
    _few(st.builds(OpenTurnFact, _WRITERS, st.just(1))),
    _few(_GAPS),
    st.booleans(),
)
_LEVELS = st.sampled_from(Level)
_DEMANDS = st.builds(
    Demands,
    _LEVELS,
    _LEVELS,
    _few(st.sampled_from(["a", "d/", "!d/b", "*", "!a"])),
    _LEVELS,
    st.integers(0, 20),
    _LEVELS,
    _LEVELS,
    _LEVELS,
)


def _levels(rows: list[PolicyFinding]) -> dict[object, int]:
    return {
        (one.rule, one.path, one.spans, one.writer, one.about): one.level.rank
        for one in rows
    }


@given(st.lists(_FILES, max_size=3), _DEMANDS, st.lists(_DEMANDS, max_size=2))
def test_further_sources_only_tighten(
    files: list[FileFacts], own: Demands, others: list[Demands]
) -> None:
    alone = judge(files, [PolicySource("own", own)])
    sources = [
        PolicySource("own", own),
        *(PolicySource("other", one) for one in others),
    ]
    together = judge(files, sources)
    levels = _levels(together)
    assert all(levels[key] >= level for key, level in _levels(alone).items())
    assert strictest(together).rank >= strictest(alone).rank
