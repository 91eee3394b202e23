"""Plan, question, apply: the four undo verbs on a terminal and in a pipe."""

import pytest

from tests.support.shadow import Shadow
from tests.support.terminal import on_a_terminal


@pytest.fixture
def wronged(shadow_n: Shadow) -> Shadow:
    """Return the command in R after an agent's one burst: `a` is changed, `new` made."""
    shadow_n.ok("exec", "--agent", "x", "--", "sh", "-c", "echo wrong > a; echo > new")
    return shadow_n


def present(shadow: Shadow) -> tuple[bool, bool]:
    """Say whether the agent's text is in `a`, and whether `new` is there."""
    root = shadow.repo.root
    return (root / "a").read_text() == "wrong\n", (root / "new").exists()


BACK = (False, False)
UNTOUCHED = (True, True)


def test_enter_means_yes_where_nothing_is_lost(wronged: Shadow) -> None:
    """UX-04: the user asked for it, and `redo` takes it back."""
    shown = on_a_terminal(wronged, "oops", typed=b"\n")
    assert (shown.code, present(wronged)) == (0, BACK)
    assert "apply this? [Y/n]" in shown.text
    assert "+10 -1" in shown.text.replace("\x1b[32m", "").replace(
        "\x1b[31m", ""
    ).replace("\x1b[m", "")


def test_no_at_the_question_changes_nothing(wronged: Shadow) -> None:
    """UX-04: a no is refused, exit 5."""
    shown = on_a_terminal(wronged, "oops", typed=b"n\n")
    assert (shown.code, present(wronged)) == (5, UNTOUCHED)
    assert "nothing was changed" in shown.text


def test_enter_means_no_where_a_conflict_is_left(wronged: Shadow) -> None:
    """UX-04: a destructive choice is never preselected."""
    wronged.repo.write("a", "mine\n")
    for extra in ([], ["--on-conflict=overwrite"]):
        shown = on_a_terminal(wronged, "oops", *extra, typed=b"\n")
        assert (shown.code, (wronged.repo.root / "a").read_text()) == (5, "mine\n")
        assert "apply this? [y/N]" in shown.text


def test_interrupt_at_the_question_changes_nothing(wronged: Shadow) -> None:
    """UX-09: Ctrl-C with the prompt open is 130."""
    shown = on_a_terminal(wronged, "oops", typed=b"\x03")
    assert (shown.code, present(wronged)) == (130, UNTOUCHED)
    assert "Traceback" not in shown.text
    assert wronged.ok("ops", "--json").rows() == []


def test_pipe_gets_the_plan_and_a_hint(wronged: Shadow) -> None:
    """UX-04: nobody can be asked, so nothing is changed, exit 5."""
    result = wronged("oops")
    assert (result.code, present(wronged)) == (5, UNTOUCHED)
    assert "\nhint: " in f"\n{result.err}"
    assert "--yes" in result.err
    assert result.out.splitlines()[1] == "will restore 2 files"


def test_json_in_a_pipe_is_the_plan_as_refused(wronged: Shadow) -> None:
    """UX-05: 5 in JSON too, with the plan as the one document."""
    result = wronged("oops", "--json")
    plan = result.json()
    assert (result.code, plan["status"], plan["hint"]) == (5, "refused", "--yes")
    assert present(wronged) == UNTOUCHED


def test_confirm_false_applies_without_a_question(wronged: Shadow) -> None:
    """UX-04: `agent-undo.confirm=false`."""
    wronged.repo.git("config", "agent-undo.confirm", "false")
    assert (wronged("oops").code, present(wronged)) == (0, BACK)


def test_dry_run_changes_nothing_and_is_0(wronged: Shadow) -> None:
    result = wronged("oops", "--dry-run", "--json")
    assert (result.code, result.json()["status"]) == (0, "planned")
    assert present(wronged) == UNTOUCHED


def test_token_of_the_plan_applies_it(wronged: Shadow) -> None:
    """Who has a token has seen the plan: it counts as a yes."""
    token = str(wronged("oops", "--dry-run", "--json").json()["token"])
    assert (wronged("oops", "--token", token).code, present(wronged)) == (0, BACK)


def test_token_of_another_world_is_refused(wronged: Shadow) -> None:
    """UNDO-28: exit 5, nothing changed."""
    token = str(wronged("oops", "--dry-run", "--json").json()["token"])
    wronged.repo.write("a", "mine\n")
    assert wronged("oops", "--token", token).code == 5
    assert (wronged.repo.root / "a").read_text() == "mine\n"


def test_current_directory_that_the_undo_removes(shadow_n: Shadow) -> None:
    """UX-02: completes, the report is readable, exit 0."""
    shadow_n.ok("exec", "--agent", "x", "--", "sh", "-c", "mkdir sub; echo > sub/new")
    result = shadow_n("oops", "--yes", cwd=shadow_n.repo.root / "sub")
    assert (result.code, (shadow_n.repo.root / "sub").exists()) == (0, False)
    assert (result.err, "  deleted   new" in result.out) == ("", True)
