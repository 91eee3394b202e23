"""Hunks of a plan: what is offered, and what becomes of the rest."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import RefusedError
from gitshadow.messages.undo import HunkChoice
from gitshadow.undo import merge
from gitshadow.undo.report import Report, Status
from tests.support.engine import Engine
from tests.undo.words import choice_of

_TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"a"]), max_size=8).map(
    lambda drawn: merge.split_lines(b"".join(drawn))
)
TEXT = [f"line {number}\n" for number in range(1, 31)]


def text_with(*changed: int) -> str:
    """Return thirty lines, some of them the agent's."""
    return "".join(
        f"agent {number}\n" if number in changed else line
        for number, line in enumerate(TEXT, 1)
    )


def shown(report: Report) -> list[tuple[str, str, tuple[int, ...]]]:
    return [
        (item.path, hunk.kind, hunk.parts)
        for item in report.items
        for hunk in item.hunks
    ]


def chosen(plan: Report, taken: dict[int, set[int]]) -> HunkChoice:
    return choice_of(plan.token, taken)


@pytest.fixture
def edited(engine: Engine) -> Engine:
    """Return a engine in which an agent has changed `text` in three places, made `new`."""
    engine.by("unknown").write("text", text_with())
    engine.by("s1", "t1").write("text", text_with(3, 6, 25))
    engine.by("s1", "t1").write("new", "new\n")
    engine.by("s1", "t1")
    os.chmod(engine.path("text"), 0o755)
    engine.record()
    return engine


def test_a_plan_offers_mode_hunks_and_whole_files(edited: Engine) -> None:
    plan = edited.oops(apply=False, offer=True)
    assert shown(plan) == [
        ("new", "file", (0,)),
        ("text", "mode", (0,)),
        ("text", "lines", (1, 2)),
        ("text", "lines", (3,)),
    ]
    (_, mode, near, far) = [hunk for item in plan.items for hunk in item.hunks]
    assert mode.lines == ("old mode 100755", "new mode 100644")
    assert [part.parts for part in near.split] == [(1,), (2,)]
    assert far.lines == (
        "@@ -22,7 +22,7 @@",
        " line 22",
        " line 23",
        " line 24",
        "-agent 25",
        "+line 25",
        " line 26",
        " line 27",
        " line 28",
    )


def test_chosen_hunks_alone_are_taken_back(edited: Engine) -> None:
    plan = edited.oops(apply=False, offer=True)
    report = edited.oops(choice=chosen(plan, {1: {2, 3}}))
    assert edited.read("text").decode() == text_with(3)
    assert (edited.mode("text"), edited.exists("new")) == (0o755, True)
    assert report.status is Status.PARTIAL
    assert [(item.path, item.reason, item.detail) for item in report.items] == [
        ("new", "declined", ""),
        ("text", "declined", "2 of 4 changes chosen"),
    ]


def test_what_was_left_by_choice_can_be_taken_back_later(edited: Engine) -> None:
    plan = edited.oops(apply=False, offer=True)
    edited.oops(choice=chosen(plan, {1: {2}}))
    report = edited.oops()
    assert report.status is Status.REVERSED
    assert edited.read("text").decode() == text_with()
    assert (edited.mode("text"), edited.exists("new")) == (0o644, False)


def test_redo_brings_chosen_hunks_forward(edited: Engine) -> None:
    before = edited.tree_now()
    plan = edited.oops(apply=False, offer=True)
    edited.oops(choice=chosen(plan, {0: {0}, 1: {0, 3}}))
    edited.redo()
    assert edited.tree_now() == before


def test_all_hunks_are_the_plan(edited: Engine) -> None:
    """The token is the plan's own then; the op ends as if nobody had been asked."""
    plan = edited.oops(apply=False, offer=True)
    report = edited.oops(choice=chosen(plan, {0: {0}, 1: {0, 1, 2, 3}}))
    assert (report.status, report.token) == (Status.REVERSED, plan.token)
    assert edited.read("text").decode() == text_with()


def test_the_token_covers_the_choice(edited: Engine) -> None:
    plan = edited.oops(apply=False, offer=True)
    tokens = {
        edited.oops(apply=False, choice=chosen(plan, taken)).token
        for taken in ({1: {1}}, {1: {2}}, {0: {0}}, {1: {1, 2}})
    }
    assert len(tokens | {plan.token}) == 5


def test_a_choice_is_refused_when_the_world_has_moved(edited: Engine) -> None:
    """UNDO-28: what was looked at is what is done, or nothing."""
    plan = edited.oops(apply=False, offer=True)
    edited.by("unknown").write("text", text_with(3, 6, 25) + "mine\n")
    before = edited.tree_now()
    with pytest.raises(RefusedError, match="text"):
        edited.oops(choice=chosen(plan, {1: {1}}))
    assert edited.tree_now() == before


def test_dry_run_gives_the_items_of_the_real_run(edited: Engine) -> None:
    """UNDO-27: with a choice, too."""
    plan = edited.oops(apply=False, offer=True)
    choice = chosen(plan, {0: {0}, 1: {1, 3}})
    dry, real = edited.oops(apply=False, choice=choice), edited.oops(choice=choice)
    assert (dry.items, dry.token) == (real.items, real.token)


def test_binary_links_and_deletions_are_one_part(engine: Engine) -> None:
    engine.by("unknown").write("bin", b"\0old")
    os.symlink("bin", engine.path("link"))
    engine.by("unknown").write("gone", "gone\n")
    engine.by("s1", "t1").write("bin", b"\0new")
    engine.by("s1", "t1")
    os.unlink(engine.path("link"))
    os.symlink("gone", engine.path("link"))
    engine.record()
    engine.by("s1", "t1").remove("gone")
    plan = engine.oops(apply=False, offer=True)
    assert shown(plan) == [
        ("bin", "file", (0,)),
        ("gone", "file", (0,)),
        ("link", "file", (0,)),
    ]
    assert [item.hunks[0].lines[0] for item in plan.items] == [
        "binary",
        "new file mode 100644",
        "@@ -1,1 +1,1 @@",
    ]
    engine.oops(choice=chosen(plan, {1: {0}}))
    assert (engine.read("bin"), engine.read("gone")) == (b"\0new", b"gone\n")
    assert os.readlink(engine.path("link")) == b"gone"


def test_a_file_that_needs_the_place_of_one_that_stays_is_left(engine: Engine) -> None:
    engine.by("unknown").write("x", text_with())
    engine.by("s1", "t1").move("x", "y")
    engine.by("s1", "t1").write("x", "new\n")
    plan = engine.oops(apply=False, offer=True)
    assert [(item.path, item.action) for item in plan.items] == [
        ("x", "delete"),
        ("x", "rename"),
    ]
    report = engine.oops(choice=chosen(plan, {1: {0}}))
    assert {item.reason for item in report.items} == {"declined", "conflict"}
    assert (engine.read("x"), engine.read("y")) == (b"new\n", text_with().encode())


@given(_TEXTS, _TEXTS, st.data())
def test_chosen_edits_are_between_both_sides(
    old: list[bytes], new: list[bytes], data: st.DataObject
) -> None:
    """None of them is the one side, all are the other, and every choice has whole lines."""
    edits = list(merge.edits(old, new))
    assert (merge.edited(old, []), merge.edited(old, edits)) == (old, new)
    some = [edit for edit in edits if data.draw(st.booleans())]
    mixed = merge.edited(old, some)
    assert all(line.endswith(b"\n") for line in mixed[:-1])
