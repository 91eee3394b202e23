"""`--interactive`: hunk by hunk, on a terminal."""

import pytest

from tests.support.shadow import Document, Shadow
from tests.support.terminal import on_a_terminal

OLD = [f"line {number}\n" for number in range(1, 31)]


def text_with(*changed: int) -> str:
    return "".join(
        f"agent {number}\n" if number in changed else line
        for number, line in enumerate(OLD, 1)
    )


@pytest.fixture
def edited(shadow_n: Shadow) -> Shadow:
    """Return the command after an agent has changed `text` in three places and made `new`."""
    shadow_n.repo.write("text", text_with())
    shadow_n.ok("flush")
    command = "sed -i 's/line \\(3\\|6\\|25\\)$/agent \\1/' text; echo new > new"
    shadow_n.ok("exec", "--agent", "x", "--", "sh", "-c", command)
    assert shadow_n.repo.read("text").decode() == text_with(3, 6, 25)
    return shadow_n


def newest_op(shadow: Shadow) -> Document:
    op = str(shadow.ok("ops", "--json").rows()[0]["id"])
    report = shadow.ok("show", op, "--json").json()["report"]
    assert isinstance(report, dict)
    return report


def test_hunks_are_chosen_one_by_one(edited: Shadow) -> None:
    """The file stays, the first hunk is split, its second part and the last hunk go."""
    keys = [b"n\n", b"s\n", b"n\n", b"y\n", b"y\n"]
    shown = on_a_terminal(edited, "oops", "--interactive", typed=keys)
    assert shown.code == 4, shown.text
    assert edited.repo.read("text").decode() == text_with(3)
    assert (edited.repo.root / "new").exists()
    assert "undo this file [y,n,q,a,d,?]?" in shown.text
    assert "undo this hunk [y,n,q,a,d,s,?]?" in shown.text
    assert "skipped by you (2 of 3 changes chosen)" in shown.text
    items = newest_op(edited)["items"]
    assert isinstance(items, list)
    assert [(one["path"], one["state"], one["reason"]) for one in items] == [
        ("new", "not_reversed", "declined"),
        ("text", "not_reversed", "declined"),
    ]


def test_all_of_each_file_is_the_whole_undo(edited: Shadow) -> None:
    shown = on_a_terminal(edited, "oops", "-i", typed=[b"a\n", b"a\n"])
    assert (shown.code, edited.repo.read("text").decode()) == (0, text_with())
    assert not (edited.repo.root / "new").exists()
    assert "undo this with: git agent-undo redo" in shown.text


def test_one_file_of_a_target_is_chosen_from(edited: Shadow) -> None:
    session = str(edited.ok("sessions", "--json").rows()[0]["id"])
    arguments = ["undo", session, "-i", "--only", "text"]
    shown = on_a_terminal(edited, *arguments, typed=[b"?\n", b"n\n", b"y\n"])
    assert shown.code == 4, shown.text
    assert edited.repo.read("text").decode() == text_with(3, 6)
    assert "s - split it into smaller hunks" in shown.text
    assert "undo this file" not in shown.text


def test_redo_and_restore_are_chosen_from_too(edited: Shadow) -> None:
    edited.ok("oops", "--yes")
    shown = on_a_terminal(edited, "redo", "-i", typed=[b"n\n", b"n\n", b"y\n"])
    assert (shown.code, edited.repo.read("text").decode()) == (4, text_with(25))
    assert "redo this file" in shown.text
    shown = on_a_terminal(edited, "redo", "-i", typed=[b"y\n", b"n\n"])
    assert (shown.code, (edited.repo.root / "new").exists()) == (4, True)
    edited.ok("redo", "--yes")
    assert edited.repo.read("text").decode() == text_with(3, 6, 25)
    shown = on_a_terminal(edited, "restore", "text", "-i", typed=[b"n\n", b"y\n"])
    assert (shown.code, edited.repo.read("text").decode()) == (4, text_with(3, 6))


@pytest.mark.parametrize("typed", [[b"q\n"], [b"n\n", b"d\n"], [b"\x04"]])
def test_nothing_chosen_changes_nothing(edited: Shadow, typed: list[bytes]) -> None:
    """UX-05: a no is refused, exit 5; the end of the input is one."""
    shown = on_a_terminal(edited, "oops", "-i", typed=typed)
    assert (shown.code, edited.ok("ops", "--json").rows()) == (5, [])
    assert edited.repo.read("text").decode() == text_with(3, 6, 25)
    assert "nothing was changed" in shown.text


def test_interrupt_between_questions_changes_nothing(edited: Shadow) -> None:
    """UX-09: Ctrl-C with a question open is 130, whatever was answered before."""
    shown = on_a_terminal(edited, "oops", "-i", typed=[b"y\n", b"\x03"])
    assert (shown.code, edited.ok("ops", "--json").rows()) == (130, [])
    assert (edited.repo.root / "new").exists()


def test_dry_run_shows_the_plan_of_the_choice(edited: Shadow) -> None:
    """UNDO-27: nothing is changed."""
    typed = [b"y\n", b"n\n", b"n\n"]
    shown = on_a_terminal(edited, "oops", "-i", "--dry-run", typed=typed)
    assert (shown.code, edited.ok("ops", "--json").rows()) == (0, [])
    assert "will restore 1 file, skip 1" in shown.text


@pytest.mark.parametrize("option", ["--yes", "--json", "--token=x"])
def test_choosing_needs_a_terminal(edited: Shadow, option: str) -> None:
    """UX-05: a usage error where nobody can be asked."""
    result = edited("oops", "--interactive", option)
    assert (result.code, "--only" in result.out + result.err) == (2, True)
    assert edited.ok("ops", "--json").rows() == []
