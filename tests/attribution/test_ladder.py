"""The ladder over values: one test for each rung, and for each row that values can express."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.attribution.ladder import (
    HEURISTICS,
    OFFLINE_REASON,
    Claim,
    attribute,
    by_time_only,
)
from gitshadow.attribution.windows import (
    Evidence,
    OpenTurn,
    ProcessHint,
    Scene,
    Witnessed,
)
from gitshadow.model import Actor, Call, Confidence, RepoPath, Session, ToolClass

TICK = 10


def path(name: str) -> RepoPath:
    return RepoPath(name.encode())


def session(name: str, parent: str | None = None, started_ns: int = 0) -> Session:
    return Session(
        id=name,
        native_id=name,
        actor=Actor.AGENT,
        agent=f"agent-of-{name}",
        parent=parent,
        started_ns=started_ns,
    )


SESSIONS = (session("s1"), session("s2"))


def window(
    name: str,
    owner: str,
    opened_ns: int,
    closed_ns: int | None,
    *paths: str,
    kind: ToolClass | None = None,
) -> Call:
    guessed = ToolClass.WRITE if paths else ToolClass.SHELL
    return Call(
        id=name,
        session=owner,
        turn=f"turn-of-{owner}",
        tool="Write" if paths else "Bash",
        tool_class=kind or guessed,
        opened_ns=opened_ns,
        closed_ns=closed_ns,
        paths=tuple(path(one) for one in paths),
    )


def wrote(name: str, at_ns: int, begin_ns: int | None = None) -> Evidence:
    begin = at_ns - 1 if begin_ns is None else begin_ns
    return Evidence(path=path(name), begin_ns=begin, end_ns=at_ns)


def turn(owner: str, covers_all: bool, started_ns: int = 0) -> OpenTurn:
    return OpenTurn(owner, f"turn-of-{owner}", "any", covers_all, started_ns)


def scene(*windows: Call, tolerance_ns: int = 0) -> Scene:
    return Scene(windows=windows, sessions=SESSIONS, tolerance_ns=tolerance_ns)


def who(claim: Claim) -> tuple[str | None, str | None, Confidence]:
    return claim.session, claim.call, claim.confidence


# Rung 0


def test_the_kernels_report_is_stronger_than_every_window() -> None:
    by_name = window("c", "s1", 100, 200, "a")
    shell = window("d", "s2", 100, 200)
    known = scene(by_name, shell)
    seen = Witnessed("reported", "s2", "turn-of-s2", shell)
    claim = attribute(replace(wrote("a", 150), witnessed=seen), known)
    assert who(claim) == ("s2", "d", Confidence.CERTAIN)
    assert (claim.turn, claim.tool, claim.reason) == ("turn-of-s2", "Bash", "reported")
    assert claim.agent == "agent-of-s2"


def test_a_process_of_no_agent_is_no_agents_whatever_call_is_open() -> None:
    known = scene(window("c", "s1", 100, 200, "a"))
    seen = replace(wrote("a", 150), witnessed=Witnessed("reported"))
    claim = attribute(seen, known)
    assert who(claim) == (None, None, Confidence.UNKNOWN)
    claim = attribute(replace(seen, editor=True), known)
    assert (claim.actor, claim.confidence) == (Actor.HUMAN, Confidence.MEDIUM)
    claim = attribute(seen, replace(known, human="me"))
    assert (claim.actor, claim.session) == (Actor.HUMAN, "me")


def test_several_processes_that_the_kernel_reported_are_ambiguous() -> None:
    seen = Witnessed("reported", candidates=("s2",))
    known = scene(window("c", "s1", 100, 200))
    claim = attribute(replace(wrote("a", 150), witnessed=seen), known)
    assert claim.confidence is Confidence.AMBIGUOUS
    assert claim.candidates == ("s2",)


# Rung 1


def test_claim_is_certain_when_the_hook_names_the_path() -> None:
    """ATT-01: the window of the call decides, whatever the delay of the post-hook."""
    for delay in (0, 10, 50, 100, 200):
        claim = attribute(
            wrote("a", 150), scene(window("c", "s1", 100, 151 + delay, "a"))
        )
        assert who(claim) == ("s1", "c", Confidence.CERTAIN)
        assert (claim.actor, claim.turn, claim.tool) == (
            Actor.AGENT,
            "turn-of-s1",
            "Write",
        )
        assert claim.agent == "agent-of-s1"


def test_claim_is_each_sessions_own_when_calls_interleave() -> None:
    """ATT-03: 20 of 20 right."""
    calls = [
        window(f"c{n}", f"s{1 + n % 2}", 100 * n, 100 * n + 150, f"f{n}")
        for n in range(20)
    ]
    for number in range(20):
        claim = attribute(wrote(f"f{number}", 100 * number + 120), scene(*calls))
        assert who(claim) == (
            f"s{1 + number % 2}",
            f"c{number}",
            Confidence.CERTAIN,
        )


def test_claim_is_the_named_calls_when_a_shell_of_another_session_is_open() -> None:
    calls = (window("w", "s1", 100, 200, "a"), window("b", "s2", 50, 300))
    claim = attribute(wrote("a", 150, 60), scene(*calls))
    assert who(claim) == ("s1", "w", Confidence.CERTAIN)


def test_call_covers_what_is_below_a_named_directory() -> None:
    claim = attribute(wrote("d/x/y", 150), scene(window("c", "s1", 100, 200, "d")))
    assert claim.confidence is Confidence.CERTAIN


def test_call_covers_a_rename_when_it_names_the_old_path() -> None:
    moved = replace(wrote("new", 150), old_path=path("old"))
    claim = attribute(moved, scene(window("c", "s1", 100, 200, "old")))
    assert who(claim) == ("s1", "c", Confidence.CERTAIN)


def test_formatter_of_the_same_call_is_the_calls_when_the_path_is_named() -> None:
    """ATT-18: both writes of `a` lie in the window."""
    open_now = scene(window("c", "s1", 100, 200, "a"))
    first, second = (
        attribute(wrote("a", 110), open_now),
        attribute(wrote("a", 190), open_now),
    )
    assert first == second
    assert first.confidence is Confidence.CERTAIN


def test_claim_is_ambiguous_when_two_sessions_name_the_path() -> None:
    calls = (window("c1", "s1", 100, 200, "a"), window("c2", "s2", 100, 200, "a"))
    claim = attribute(wrote("a", 150), scene(*calls))
    assert who(claim) == (None, None, Confidence.AMBIGUOUS)
    assert claim.candidates == ("s1", "s2")


def test_claim_is_the_newest_calls_when_two_of_one_session_name_the_path() -> None:
    calls = (window("c1", "s1", 100, 200, "a"), window("c2", "s1", 120, 200, "a"))
    claim = attribute(wrote("a", 150), scene(*calls))
    assert who(claim) == ("s1", "c2", Confidence.HIGH)
    assert "2 open tool calls" in claim.reason


# Rung 2


def test_claim_is_medium_by_time_when_one_shell_window_is_open() -> None:
    """ATT-02: every kind of change inside the only window."""
    claim = attribute(wrote("n", 150), scene(window("c", "s1", 100, 200)))
    assert who(claim) == ("s1", "c", Confidence.MEDIUM)
    assert claim.by_time_only
    assert by_time_only(claim.reason)


def test_deletion_is_claimed_when_it_was_noticed_inside_the_window() -> None:
    """ATT-02: deletions are attributed like writes."""
    gone = replace(wrote("b", 180, 90), exact=False)
    claim = attribute(gone, scene(window("c", "s1", 100, 200)))
    assert who(claim) == ("s1", "c", Confidence.MEDIUM)


def test_deletion_is_low_when_it_was_noticed_after_the_only_window() -> None:
    gone = replace(wrote("b", 500, 90), exact=False)
    claim = attribute(gone, scene(window("c", "s1", 100, 200)))
    assert who(claim) == ("s1", "c", Confidence.LOW)


def test_deletion_is_a_persons_when_one_declared_a_session_after_the_window() -> None:
    gone = replace(wrote("b", 500, 90), exact=False)
    around = replace(scene(window("c", "s1", 100, 200)), human="me")
    assert attribute(gone, around).session == "me"


def test_deletion_is_nobodys_when_it_came_after_the_window_for_sure() -> None:
    gone = replace(wrote("b", 500, 300), exact=False)
    claim = attribute(gone, scene(window("c", "s1", 100, 200)))
    assert claim.session is None


def test_deletion_is_ambiguous_when_its_interval_meets_two_sessions() -> None:
    gone = replace(wrote("b", 250, 90), exact=False)
    calls = (window("c1", "s1", 100, 200), window("c2", "s2", 210, 300))
    assert attribute(gone, scene(*calls)).candidates == ("s1", "s2")


def test_write_after_the_window_is_not_the_calls_when_its_time_is_exact() -> None:
    """ATT-14: `c` has no call, the time of the write decides."""
    calls = (window("c1", "s1", 100, 200), window("c2", "s1", 150, 250, "b"))
    claim = attribute(wrote("c", 260, 90), scene(*calls))
    assert who(claim) == (None, None, Confidence.UNKNOWN)


def test_each_write_has_its_own_call_when_windows_of_a_session_overlap() -> None:
    """ATT-14: the post-hook of call 1 came after the pre-hook of call 2."""
    calls = (window("c1", "s1", 100, 400, "a"), window("c2", "s1", 300, 500, "b"))
    assert attribute(wrote("a", 350), scene(*calls)).call == "c1"
    assert attribute(wrote("b", 350), scene(*calls)).call == "c2"


def test_claim_is_the_newest_calls_when_two_shells_of_one_session_are_open() -> None:
    calls = (window("c1", "s1", 100, 200), window("c2", "s1", 120, 220))
    claim = attribute(wrote("x", 150), scene(*calls))
    assert who(claim) == ("s1", "c2", Confidence.MEDIUM)
    assert "2 tool calls of only this session were open" in claim.reason


def test_mcp_window_claims_like_a_shell() -> None:
    call = window("c", "s1", 100, 200, kind=ToolClass.OTHER)
    assert attribute(wrote("x", 150), scene(call)).confidence is Confidence.MEDIUM


@pytest.mark.parametrize("kind", [ToolClass.AGENT, ToolClass.READ, ToolClass.WRITE])
def test_window_claims_nothing_when_its_tool_writes_nothing_unnamed(
    kind: ToolClass,
) -> None:
    call = window("c", "s1", 100, 200, kind=kind)
    assert attribute(wrote("x", 150), scene(call)).session is None


def test_window_claims_nothing_when_the_call_was_denied() -> None:
    call = replace(window("c", "s1", 100, 200), outcome="denied")
    assert attribute(wrote("x", 150), scene(call)).session is None


def test_window_claims_nothing_outside_its_named_paths() -> None:
    call = window("c", "s1", 100, 200, "a")
    assert attribute(wrote("x", 150), scene(call)).session is None


# Rung 3


def test_claim_is_ambiguous_when_shells_of_two_sessions_are_open() -> None:
    """ATT-04: both candidates are listed."""
    calls = (window("c1", "s1", 100, 300), window("c2", "s2", 120, 320))
    claim = attribute(wrote("x", 200), scene(*calls))
    assert who(claim) == (None, None, Confidence.AMBIGUOUS)
    assert (claim.actor, claim.candidates) == (Actor.UNKNOWN, ("s1", "s2"))


def test_claim_is_the_holders_when_a_living_process_tells() -> None:
    """ATT-05: to its own session where the process tree tells."""
    calls = (window("c1", "s1", 100, 300), window("c2", "s2", 120, 320))
    held = replace(wrote("x", 200), holder=ProcessHint(7, "s1"))
    claim = attribute(held, scene(*calls))
    assert who(claim) == ("s1", "c1", Confidence.HIGH)
    assert "process 7" in claim.reason


def test_claim_is_ambiguous_when_the_interval_meets_another_sessions_window() -> None:
    calls = (window("c1", "s1", 100, 200), window("c2", "s2", 210, 300))
    claim = attribute(wrote("x", 250, 150), scene(*calls))
    assert claim.candidates == ("s1", "s2")


def test_claim_is_by_time_when_the_other_window_lies_before_the_interval() -> None:
    calls = (window("c1", "s1", 100, 200), window("c2", "s2", 210, 300))
    claim = attribute(wrote("x", 250, 220), scene(*calls))
    assert who(claim) == ("s2", "c2", Confidence.MEDIUM)


def test_claim_is_ambiguous_when_an_editor_was_at_the_path() -> None:
    saved = replace(wrote("x", 150), editor=True)
    claim = attribute(saved, scene(window("c", "s1", 100, 200)))
    assert who(claim) == (None, None, Confidence.AMBIGUOUS)
    assert claim.candidates == ("s1",)


@pytest.mark.parametrize(
    ("holder", "candidates"),
    [(ProcessHint(7, None), ("s1",)), (ProcessHint(7, "s2"), ("s1", "s2"))],
)
def test_claim_is_ambiguous_when_a_process_outside_holds_the_path(
    holder: ProcessHint, candidates: tuple[str, ...]
) -> None:
    held = replace(wrote("x", 150), holder=holder)
    claim = attribute(held, scene(window("c", "s1", 100, 200)))
    assert claim.candidates == candidates


def test_editor_changes_nothing_when_the_hook_names_the_path() -> None:
    saved = replace(wrote("a", 150), editor=True)
    claim = attribute(saved, scene(window("c", "s1", 100, 200, "a")))
    assert claim.confidence is Confidence.CERTAIN


# Sessions inside sessions


def test_subagents_call_claims_when_the_parents_agent_window_is_open_around_it() -> (
    None
):
    """ATT-15: the child session, not the parent's Agent call."""
    family = (session("s1"), session("kid", "s1", 110))
    around = window("agent", "s1", 100, 900, kind=ToolClass.AGENT)
    inner = window("edit", "kid", 120, 200, "a")
    shell = window("bash", "kid", 300, 400)
    both = Scene(windows=(around, inner, shell), sessions=family)
    assert who(attribute(wrote("a", 150), both)) == ("kid", "edit", Confidence.CERTAIN)
    assert who(attribute(wrote("x", 350), both)) == ("kid", "bash", Confidence.MEDIUM)


def test_inner_session_claims_when_a_shell_started_it() -> None:
    """ATT-09: `exec` inside an agent's shell: the inner one while it lasts, then the outer."""
    family = (session("s1"), session("inner", "s1", 110))
    outer, inner = window("b", "s1", 100, 900), window("x", "inner", 110, 200)
    both = Scene(windows=(outer, inner), sessions=family)
    assert who(attribute(wrote("a", 150), both)) == ("inner", "x", Confidence.MEDIUM)
    assert who(attribute(wrote("a", 500), both)) == ("s1", "b", Confidence.MEDIUM)


def test_outer_session_claims_again_when_the_inner_ones_call_is_over() -> None:
    """ATT-09: nobody looked between the inner call's end and the write."""
    outer, inner = session("outer"), session("inner", "outer", started_ns=110)
    calls = (window("exec", "outer", 100, None), window("in", "inner", 120, 140))
    around = Scene(windows=calls, sessions=(outer, inner))
    claim = attribute(wrote("a", 150, begin_ns=115), around)
    assert who(claim) == ("outer", "exec", Confidence.MEDIUM)
    gone = replace(wrote("a", 150, begin_ns=115), exact=False)
    assert attribute(gone, around).confidence is Confidence.AMBIGUOUS


def test_claim_is_ambiguous_when_a_parents_later_shell_runs_beside_a_childs() -> None:
    family = (session("s1"), session("kid", "s1", 10))
    calls = (window("b", "s1", 100, 900), window("x", "kid", 110, 200))
    claim = attribute(wrote("a", 150), Scene(windows=calls, sessions=family))
    assert claim.candidates == ("kid", "s1")


# Rungs 4 to 6


def test_nobody_is_named_when_a_session_lives_without_a_turn() -> None:
    """ATT-16: live session, no turn."""
    claim = attribute(wrote("a", 150), scene())
    assert (claim.actor, claim.confidence) == (Actor.UNKNOWN, Confidence.UNKNOWN)
    assert claim.session is None


def test_open_turn_is_low_when_hooks_cover_all_tools() -> None:
    """ATT-16: an open turn of such an agent."""
    claim = attribute(wrote("a", 150), Scene(turns=(turn("s1", True),)))
    assert (claim.session, claim.turn, claim.call) == ("s1", "turn-of-s1", None)
    assert claim.confidence is Confidence.LOW


def test_open_turn_is_medium_when_hooks_do_not_cover_all_tools() -> None:
    """ATT-16: an open turn of an agent with tools that send no hooks."""
    claim = attribute(wrote("a", 150), Scene(turns=(turn("s1", False),)))
    assert (claim.session, claim.confidence) == ("s1", Confidence.MEDIUM)
    assert "a turn was open" in claim.reason


def test_write_is_human_when_a_person_declared_a_session() -> None:
    """ATT-16: `session start --human`, also beside an agent that covers all its tools."""
    for turns in ((), (turn("s1", True),)):
        claim = attribute(wrote("a", 150), Scene(turns=turns, human="me"))
        assert (claim.actor, claim.session) == (Actor.HUMAN, "me")


def test_claim_is_ambiguous_when_a_person_and_an_open_ended_turn_meet() -> None:
    claim = attribute(wrote("a", 150), Scene(turns=(turn("s1", False),), human="me"))
    assert claim.candidates == ("me", "s1")


def test_write_is_human_when_an_editor_left_its_sign() -> None:
    saved = replace(wrote("a", 150), editor=True)
    claim = attribute(saved, Scene(turns=(turn("s1", True),)))
    assert (claim.actor, claim.session) == (Actor.HUMAN, None)


def test_turn_rung_takes_the_agent_whose_hooks_leave_room() -> None:
    turns = (turn("s1", True), turn("s2", False))
    claim = attribute(wrote("a", 150), Scene(turns=turns))
    assert (claim.session, claim.confidence) == ("s2", Confidence.MEDIUM)


@pytest.mark.parametrize("covers", [True, False])
def test_turn_rung_is_ambiguous_when_two_agents_fit_alike(covers: bool) -> None:
    turns = (turn("s1", covers), turn("s2", covers))
    claim = attribute(wrote("a", 150), Scene(turns=turns))
    assert claim.candidates == ("s1", "s2")


@pytest.mark.parametrize(("covers", "expected"), [(True, "s1"), (False, "kid")])
def test_turns_of_one_family_are_one_party(covers: bool, expected: str) -> None:
    family = (session("s1"), session("kid", "s1"))
    turns = (turn("s1", covers), turn("kid", covers, 5))
    claim = attribute(wrote("a", 150), Scene(turns=turns, sessions=family))
    assert claim.session == expected


def test_late_write_is_the_sessions_when_its_background_process_lives() -> None:
    """ATT-17: named by its living process tree with that reason."""
    hint = ProcessHint(99, "s1", turn="t9")
    claim = attribute(wrote("z", 150), Scene(background=(hint,), sessions=SESSIONS))
    assert (claim.session, claim.turn, claim.confidence) == ("s1", "t9", Confidence.LOW)
    assert "background process 99" in claim.reason


def test_late_write_is_unknown_when_no_process_lives() -> None:
    """ATT-17: never `human`."""
    assert attribute(wrote("z", 150), scene()).actor is Actor.UNKNOWN


def test_late_write_is_ambiguous_when_two_sessions_have_living_processes() -> None:
    hints = (ProcessHint(1, "s1"), ProcessHint(2, "s2"))
    claim = attribute(wrote("z", 150), Scene(background=hints, sessions=SESSIONS))
    assert claim.candidates == ("s1", "s2")


def test_claim_is_low_when_one_agent_without_hooks_is_all_there_is() -> None:
    alone = Scene(sessions=SESSIONS, alone=ProcessHint(7, "s1", "aider"))
    claim = attribute(wrote("a", 5), alone)
    assert who(claim) == ("s1", None, Confidence.LOW)
    assert claim.reason.startswith(HEURISTICS)


@pytest.mark.parametrize(
    "more",
    [
        {"human": "me"},
        {"turns": (turn("s2", False),)},
        {"turns": (turn("s2", True),)},
        {"windows": (window("c", "s2", 0, 9),)},
        {"windows": (window("c", "s2", 0, 9, "other"),)},
        {"background": (ProcessHint(8, "s2"),)},
    ],
    ids=["person", "turn", "covered-turn", "shell", "another-path", "left-over"],
)
def test_agent_without_hooks_is_not_named_when_anything_else_speaks(
    more: dict[str, object],
) -> None:
    alone = Scene(sessions=SESSIONS, alone=ProcessHint(7, "s1", "aider"))
    found = attribute(wrote("a", 5), replace(alone, **more))  # type: ignore[arg-type]
    assert found.session != "s1"


def test_write_is_the_holders_when_no_window_is_open() -> None:
    held = replace(wrote("z", 150), holder=ProcessHint(7, "s1"))
    claim = attribute(held, scene())
    assert (claim.session, claim.confidence) == ("s1", Confidence.LOW)


def test_write_is_unknown_when_a_foreign_process_holds_the_path() -> None:
    held = replace(wrote("z", 150), holder=ProcessHint(7, None))
    claim = attribute(held, Scene(turns=(turn("s1", False),)))
    assert (claim.session, claim.confidence) == (None, Confidence.UNKNOWN)


def test_offline_write_is_unknown_when_only_a_turn_was_open() -> None:
    """CAP-14: found at a start."""
    found = replace(wrote("a", 150), offline=True)
    claim = attribute(found, Scene(turns=(turn("s1", False),), human="me"))
    assert (claim.actor, claim.reason) == (Actor.UNKNOWN, OFFLINE_REASON)


def test_offline_write_is_the_calls_when_a_spooled_window_holds_it() -> None:
    found = replace(wrote("a", 150), offline=True)
    claim = attribute(found, scene(window("c", "s1", 100, 200, "a")))
    assert who(claim) == ("s1", "c", Confidence.CERTAIN)


def test_dead_agents_window_claims_nothing_later() -> None:
    """ATT-08: the window ended with the process; the person's write comes after."""
    expired = replace(window("c", "s1", 100, 120), outcome="process gone")
    assert attribute(wrote("a", 300, 90), scene(expired)).session is None


# The clock


def test_window_is_half_open_when_stamps_are_ordered() -> None:
    call = window("c", "s1", 100, 200)
    assert attribute(wrote("x", 100), scene(call)).session == "s1"
    assert attribute(wrote("x", 199), scene(call)).session == "s1"
    assert attribute(wrote("x", 200, 200), scene(call)).session is None


def test_window_holds_its_closing_stamp_when_stamps_lag() -> None:
    call = window("c", "s1", 100, 200)
    claim = attribute(wrote("x", 200, 200), scene(call, tolerance_ns=TICK))
    assert who(claim) == ("s1", "c", Confidence.MEDIUM)


def test_claim_by_name_is_a_step_weaker_when_only_the_tolerance_reaches_the_write() -> (
    None
):
    shell, edit = window("b", "s1", 100, 200), window("w", "s1", 100, 200, "a")
    late = attribute(wrote("x", 205, 205), scene(shell, tolerance_ns=TICK))
    named = attribute(wrote("a", 205, 205), scene(edit, tolerance_ns=TICK))
    early = attribute(wrote("x", 92, 92), scene(shell, tolerance_ns=TICK))
    assert named.confidence is Confidence.HIGH
    assert late.confidence is early.confidence is Confidence.MEDIUM
    assert "at about that time" in late.reason
    assert "at about that time" in early.reason


def test_window_that_holds_the_write_wins_over_one_that_only_nearly_does() -> None:
    calls = (window("c1", "s1", 100, 200), window("c2", "s1", 205, 300))
    claim = attribute(wrote("x", 207, 206), scene(*calls, tolerance_ns=TICK))
    assert who(claim) == ("s1", "c2", Confidence.MEDIUM)


def test_claim_is_ambiguous_when_the_tolerance_reaches_two_sessions() -> None:
    calls = (window("c1", "s1", 100, 200), window("c2", "s2", 206, 300))
    claim = attribute(wrote("x", 203, 203), scene(*calls, tolerance_ns=TICK))
    assert claim.candidates == ("s1", "s2")


# The law

NAMES = ("s1", "s2", "s3")
TIMES = st.integers(min_value=0, max_value=40)
PATHS = st.sampled_from(("a", "d/x", "z"))
CALLS = st.builds(
    lambda owner, number, opened, length, paths, kind, outcome: replace(
        window(f"c{number}", owner, opened, opened + length, *paths, kind=kind),
        outcome=outcome,
    ),
    st.sampled_from(NAMES),
    st.integers(0, 9),
    TIMES,
    TIMES,
    st.lists(PATHS, max_size=2, unique=True),
    st.sampled_from(ToolClass),
    st.sampled_from((None, "ok", "denied")),
)
HINTS = st.builds(ProcessHint, st.integers(1, 9), st.none() | st.sampled_from(NAMES))
EVIDENCE = st.builds(
    lambda name, begin, length, **signs: Evidence(
        path=path(name), begin_ns=begin, end_ns=begin + length, **signs
    ),
    PATHS,
    TIMES,
    TIMES,
    exact=st.booleans(),
    offline=st.booleans(),
    editor=st.booleans(),
    holder=st.none() | HINTS,
)
SCENES = st.builds(
    Scene,
    windows=st.lists(CALLS, max_size=4).map(tuple),
    turns=st.lists(
        st.builds(turn, st.sampled_from(NAMES), st.booleans(), TIMES), max_size=3
    ).map(tuple),
    sessions=st.just((session("s1"), session("s2"), session("s3", "s1", 5))),
    human=st.none() | st.just("me"),
    background=st.lists(
        st.builds(ProcessHint, st.integers(1, 9), st.sampled_from(NAMES)), max_size=2
    ).map(tuple),
    alone=st.none() | st.builds(ProcessHint, st.just(7), st.sampled_from(NAMES)),
    tolerance_ns=st.sampled_from((0, TICK)),
)


@given(EVIDENCE, SCENES)
def test_claim_names_only_whom_something_speaks_for(
    evidence: Evidence, around: Scene
) -> None:
    """ATT-19: a reason on each; and never a session without a window, turn or process."""
    claim = attribute(evidence, around)
    spoken_for = {call.session for call in around.windows}
    spoken_for |= {one.session for one in around.turns}
    spoken_for |= {hint.session or "" for hint in around.background}
    spoken_for |= {evidence.holder.session or ""} if evidence.holder else set()
    spoken_for |= {around.human or ""}
    spoken_for |= {around.alone.session or ""} if around.alone else set()
    assert claim.reason.strip()
    assert claim.session is None or claim.session in spoken_for
    assert set(claim.candidates) <= spoken_for
    assert list(claim.candidates) == sorted(set(claim.candidates))
    assert (claim.confidence is Confidence.AMBIGUOUS) == bool(claim.candidates)
    assert claim.call is None or any(
        (call.session, call.id) == (claim.session, claim.call)
        for call in around.windows
    )
    assert claim.by_time_only == by_time_only(claim.reason)


@given(EVIDENCE, SCENES)
def test_claim_is_certain_only_inside_a_window_that_names_the_path(
    evidence: Evidence, around: Scene
) -> None:
    claim = attribute(evidence, around)
    if claim.confidence is Confidence.CERTAIN:
        (call,) = {
            call
            for call in around.windows
            if (call.session, call.id) == (claim.session, claim.call)
            and evidence.path in call.paths
            and call.outcome != "denied"
            and call.opened_ns <= evidence.end_ns
        }
        assert call.closed_ns is None or evidence.end_ns <= call.closed_ns


@given(EVIDENCE, SCENES)
def test_claim_by_time_is_at_most_medium(evidence: Evidence, around: Scene) -> None:
    claim = attribute(evidence, around)
    if claim.by_time_only:
        assert claim.confidence in (Confidence.MEDIUM, Confidence.LOW)


@given(EVIDENCE, SCENES, st.data())
def test_claim_names_no_call_whose_agent_left_out_the_path(
    evidence: Evidence, around: Scene, data: st.DataObject
) -> None:
    calls = sorted({(call.session, call.id) for call in around.windows})
    left_out = data.draw(st.sets(st.sampled_from(calls)) if calls else st.just(set()))
    listed = replace(evidence, unlisted=frozenset(left_out))
    claim = attribute(listed, around)
    assert (claim.session, claim.call) not in left_out
    rivals = {around.root(session) for session, _ in left_out}
    if claim.by_time_only and rivals:
        assert rivals == {around.root(claim.session or "")}
