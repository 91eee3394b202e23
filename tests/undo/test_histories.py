"""The laws of undo over random histories: thousands in memory, a hundred on the disk."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings

from gitshadow.attribution import intake
from gitshadow.config import WatchBackend
from gitshadow.undo.report import State
from tests.conftest import FULL
from tests.support.engine import memory_directory
from tests.support.examples import SHARED_FIXTURE
from tests.undo.engine_ground import ground_of, make_template
from tests.undo.histories import (
    GIT,
    MOMENTS,
    UNDOS,
    Step,
    histories,
    hooked_histories,
    is_private,
)
from tests.undo.hooked_ground import EARLY_S
from tests.undo.hooked_histories import company_in
from tests.undo.planner_ground import PlannerGround
from tests.undo.trial import Trial, Wanted, all_committed

pytestmark = pytest.mark.uncounted

_WATCHERS = (WatchBackend.INOTIFY, WatchBackend.WATCHFILES)

_TIMES = 10 if FULL else 1


def _share_of(most: int) -> dict[WatchBackend | None, int]:
    """Return how many histories to play: some, a few with a watcher; a full run plays all."""
    if FULL:
        return dict.fromkeys((None, *_WATCHERS), most * _TIMES)
    return {None: most // 5, **dict.fromkeys(_WATCHERS, most // 50)}


_IN_MEMORY = (
    {6: 30_000, 10: 40_000, 14: 30_000} if FULL else {6: 500, 10: 1_000, 14: 500}
)
"""How many histories of each length. Of 24 defects made on purpose in planning and merging, 4,000
histories of length 10 show 15, and each of these shows within the first 506."""
_ON_DISK = _share_of(500)
_HOOKED = _share_of(100)
_TWINS = 10_000 if FULL else 500
_OF_OTHERS = frozenset({*GIT, *UNDOS, "trip", "unseen", "pin", "bring"})
"""Steps that are not an agent's own writes, or bring what it did not make."""
_WITH_GIT = 25
_RESET_UNDER_IT = [
    (0, "insert", 0, 0, 0),
    (0, "rename", 0, 3, 0),
    (0, "discard", 0, 0, 0),
    (0, "oops", 0, 0, 0),
]
"""What an agent had renamed is as it was, so nothing of it is left to write (FID-11)."""
_PLAIN_AGAIN = [
    (0, "reset", 0, 0, 0),
    (0, "insert", 0, 0, 0),
    (0, "commit", 0, 0, 0),
    (0, "chmod", 0, 0, 1),
    (0, "trip", 0, 0, 0),
    (0, "oops", 0, 0, 0),
]
"""Git writes a file again on the way back, without the mode that an agent had given it."""
_BROUGHT_ANOTHER = [
    (3, "clear", 3, 0, 0),
    (3, "bring", 7, 0, 0),
    (3, "session", 0, 0, 0),
    (0, "oops", 0, 0, 0),
]
"""A file goes, and another one is moved in to its name: the second one stays."""
_TOLD = [
    [(False, (0, "wait", 0, 0, 0)), (False, (0, "oops", 0, 0, 0))],
    [(False, (0, "deny", 0, 0, 0)), (False, (0, "session", 0, 0, 0))],
    [(False, (1, "insert", 0, 0, 0)), (False, (0, "unheard", 0, 0, 0))],
    [(False, (0, "die", 0, 0, 0)), (False, (0, "oops", 0, 0, 0))],
    [(True, (0, "insert", 0, 0, 0)), (False, (0, "away", 0, 0, 6))],
    [(False, (0, "bring", 4, 0, 0)), (False, (0, "oops", 0, 0, 0))],
    # A write that is noticed with a switch, and is not older than it.
    [
        (False, (0, "die", 1, 5, 7)),
        (False, (0, "insert", 1, 0, 0)),
        (False, (0, "unseen", 0, 0, 0)),
        (False, (0, "insert", 0, 0, 0)),
        (False, (0, "restored", 0, 0, 0)),
    ],
    [
        (False, (0, "insert", 0, 0, 0)),
        (False, (1, "amend", 0, 0, 0)),
        (False, (1, "delete", 0, 0, 0)),
        (False, (0, "turn", 0, 0, 0)),
        (False, (0, "switch", 0, 0, 0)),
        (False, (0, "oops", 0, 0, 0)),
    ],
]
"""One history for each thing that only hooks can tell, and two of an agent whose turn brings
what it did not make: a file from outside, and one that a switch of branches writes again."""

_MODE_BY_GIT: list[Step] = [
    (0, "chmod", 3, 0, 1),
    (3, "insert", 3, 0, 0),
    (0, "unseen", 0, 0, 0),
    (3, "session", 0, 0, 0),
]
"""Git writes again what a unit left, and with it the permissions that the unit never set."""


@pytest.mark.timeout(600 * _TIMES)
@pytest.mark.parametrize("longest", _IN_MEMORY)
def test_laws_hold_in_every_history(longest: int) -> None:
    """LAW-01, LAW-03 to LAW-05: nobody else's bytes go, the report is true, redo is exact."""

    @given(histories(longest))
    @example(_BROUGHT_ANOTHER)
    @example(_MODE_BY_GIT)
    @settings(max_examples=_IN_MEMORY[longest])
    def play(history: list[Step]) -> None:
        Trial(PlannerGround()).play(history)

    play()


@pytest.mark.timeout(600 * _TIMES)
@given(histories(10))
@settings(max_examples=_TWINS)
def test_undo_is_the_same_when_branches_were_switched_there_and_back(
    history: list[Step],
) -> None:
    """A branch trip changes nothing of what an undo does; moments are not the same then.

    It drops modes that Git does not keep, so a person's later `chmod` is gone after it.
    """
    plain = [
        step for step in history if step[1] not in MOMENTS and not is_private(step)
    ]
    one, two = PlannerGround(), PlannerGround()
    Trial(one).play(plain)
    Trial(two).play(step for step in plain if step[1] != "trip")
    assert all_committed(one.tree()) == all_committed(two.tree())


def _own(history: list[Step]) -> list[Step]:
    """Return the steps that are writes, all made by one agent."""
    return [(0, *step[1:]) for step in history if step[1] not in _OF_OTHERS]


_WHOLE = Wanted(verb="session", who="s1", turn="t1", pick=0)


@pytest.mark.timeout(600 * _TIMES)
@given(histories(14))
@settings(max_examples=_TWINS)
def test_undo_is_complete_when_nobody_else_wrote(history: list[Step]) -> None:
    """LAW-01: the tree is exactly what it was."""
    ground = PlannerGround()
    before = ground.tree()
    Trial(ground).play(_own(history))
    outcome = ground.undo(_WHOLE)
    assert all(item.state is not State.NOT_REVERSED for item in outcome.items)
    assert ground.tree() == before


@pytest.mark.timeout(600 * _TIMES)
@given(histories(14))
@settings(max_examples=_TWINS)
def test_undo_twice_changes_nothing_more(history: list[Step]) -> None:
    ground = PlannerGround()
    Trial(ground).play(_own(history))
    ground.undo(_WHOLE)
    assert ground.undo(_WHOLE).op is None


def test_private_mode_that_a_trip_dropped_does_not_keep_a_file_from_its_undo() -> None:
    ground = PlannerGround()
    Trial(ground).play(_PLAIN_AGAIN)
    assert ground.tree() == {}


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Path]:
    with TemporaryDirectory(dir=memory_directory(tmp_path)) as top:
        yield make_template(Path(top) / "template")


@pytest.mark.timeout(600 * _TIMES)
@pytest.mark.parametrize("backend", _ON_DISK)
def test_laws_hold_on_the_disk(template: Path, backend: WatchBackend | None) -> None:
    """LAW-01 to LAW-05 and LAW-07, V1, V2, V4, V5: real files, refs and journal."""
    count = 0

    @given(histories(10))
    @example(_RESET_UNDER_IT)
    @settings(max_examples=_ON_DISK[backend], suppress_health_check=SHARED_FIXTURE)
    def play(history: list[Step]) -> None:
        nonlocal count
        count += 1
        with ground_of(template, template.with_name(f"at-{count}"), backend) as ground:
            Trial(ground).play(history)
            ground.check()
            if count % _WITH_GIT == 0:
                ground.check_with_git()

    play()


@pytest.mark.timeout(600 * _TIMES)
@pytest.mark.parametrize("backend", _HOOKED)
def test_laws_hold_where_agents_speak_through_hooks(
    template: Path, monkeypatch: pytest.MonkeyPatch, backend: WatchBackend | None
) -> None:
    """The same laws where the engine says whose a write is, and nobody gets another's."""
    # A person who answers a question needs no half second here.
    monkeypatch.setattr(intake, "EARLY_NS", int(EARLY_S * 1_000_000_000))
    count = 0
    said: Counter[str] = Counter()

    def play(history: list[tuple[bool, Step]]) -> None:
        nonlocal count
        count += 1
        at = template.with_name(f"at-{count}")
        with company_in(template, at, backend) as company:
            company.play(history)
            company.check()
            said.update(company.crew.said)

    for history in _TOLD:
        play(history)
    examples = _HOOKED[backend]
    many = settings(max_examples=examples, suppress_health_check=SHARED_FIXTURE)
    many(given(hooked_histories(8))(play))()
    assert said["right"] > said["gap"], said
