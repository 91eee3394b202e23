"""Blame through the command."""

from collections.abc import Callable

import pytest

from tests.support.blaming import Scene, numbered, text
from tests.support.repo import Repo
from tests.support.shadow import Shadow


@pytest.fixture
def scene(
    make_repo: Callable[..., Repo], make_shadow: Callable[..., Shadow]
) -> Callable[..., Scene]:
    """Return a function: a repository in which H committed one file, recorded from then on."""

    def make(path: str = "f", *lines: str) -> Scene:
        repo = make_repo(files=())
        if lines:
            repo.write(path, text(*lines))
        repo.commit("first")
        shadow = make_shadow(repo, daemon=False)
        shadow.init()
        return Scene(shadow)

    return make


Make = Callable[..., Scene]


def test_commit_makes_nobody_an_author(scene: Make) -> None:
    """BLAME-01."""
    s = scene("f", "h0", "h1", "h2")
    s.write("S1", "f", "h0", "a1", "a2", "h1", "h2")
    assert s.owners("f") == "H S1 S1 H H"
    s.commit("second")
    assert s.owners("f") == "H S1 S1 H H"


def test_hand_takes_the_line_that_it_changed(scene: Make) -> None:
    """BLAME-02."""
    s = scene("f", "h0", "h1", "h2")
    theirs = numbered("a", 0, 11)
    s.write("S1", "f", "h0", "h1", "h2", *theirs)
    theirs[5] = "changed"
    s.hand("f", "h0", "h1", "h2", *theirs)
    assert s.owners("f") == "H H H S1 S1 S1 S1 S1 unk S1 S1 S1 S1 S1 S1"


def test_line_below_an_agents_line_is_not_the_agents(scene: Make) -> None:
    """BLAME-03."""
    s = scene("f", "h0")
    s.write("S1", "f", "h0", "a1", "a2")
    s.hand("f", "h0", "a1", "a2", "mine")
    assert s.owners("f") == "H S1 S1 unk"


def test_blank_lines_are_the_writers(scene: Make) -> None:
    """BLAME-04."""
    s = scene("f", "h")
    s.write("S1", "f", "h", "a1", "", "a2", "", "", "a3")
    assert s.owners("f") == "H S1 S1 S1 S1 S1 S1"


@pytest.mark.parametrize("where", ["appended", "prepended"])
def test_equal_closing_lines_keep_their_owners(scene: Make, where: str) -> None:
    """BLAME-05."""
    old, new = ["f1 {", " x", "}"], ["f0 {", " z", "}"]
    s = scene("f", *old)
    if where == "appended":
        s.write("S1", "f", *old, *new)
        assert s.owners("f") == "H H H S1 S1 S1"
    else:
        s.write("S1", "f", *new, *old)
        assert s.owners("f") == "S1 S1 S1 H H H"
    s.hand("f", *new)
    assert s.owners("f") == "S1 S1 S1"


def test_formatter_owns_what_it_changed_but_not_with_w(scene: Make) -> None:
    """BLAME-06."""
    mine, theirs = numbered("h", 1, 5), numbered("a", 1, 5)
    s = scene("f", *mine)
    s.write("S1", "f", *mine, *theirs)
    s.agent("S2").shell("sed -i '2,9s/^/    /' f")
    assert s.owners("f") == "H S2 S2 S2 S2 S2 S2 S2 S2 S1"
    assert s.owners("f", "-w") == "H H H H H S1 S1 S1 S1 S1"
    row = s.rows("f")[1]
    assert (row["tool"], row["confidence"]) == ("Bash", "medium")


def test_session_that_changed_nothing_owns_nothing(scene: Make) -> None:
    """BLAME-07."""
    s = scene("f", "h0", "h1")
    agent = s.agent("S1")
    agent.shell("ls; touch f")
    agent.stop()
    agent.end()
    assert s.owners("f") == "H H"
    sessions = s.shadow.ok("sessions", "--json").rows()
    assert [(r["native_id"], r["events"]) for r in sessions if r["agent"]] == [
        ("S1", 0)
    ]
    assert all(r["kind"] in ("head", "baseline") for r in s.shadow.log())


def test_line_lost_to_a_stale_write_is_named_and_comes_back(scene: Make) -> None:
    """BLAME-09."""
    s = scene("a", "h0", "h1")
    s.write("S1", "a", "h0", "one", "h1")
    s.write("S2", "b", "two")
    s.write("S2", "a", "h0", "h1", "three")
    assert s.owners("a") == "H H S2"
    said = s.shadow.ok("blame", "--removed", "a").out
    assert "removed by claude-code" in said
    assert "written by claude-code: one" in said
    s.shadow("undo", "S2", "--yes")
    assert s.shadow.repo.read("a") == b"h0\none\nh1\n"
    assert s.owners("a") == "H S1 H"


@pytest.mark.parametrize("how", ["git mv", "mv", "case"])
def test_owners_follow_a_rename(scene: Make, how: str) -> None:
    """BLAME-10."""
    new = "OLD.py" if how == "case" else "new.py"
    mine = numbered("h", 1, 10), numbered("h", 21, 30)
    s = scene("old.py", *mine[0], *mine[1])
    theirs = numbered("a", 11, 20)
    s.write("S1", "old.py", *mine[0], *theirs, *mine[1])
    then = str(s.shadow.log()[0]["seq"])
    if how == "mv":
        s.agent("S2").shell(f"mv old.py {new}")
    else:
        s.commit("second")
        s.git("mv", "old.py", new)
    s.write("S2", new, "other", *mine[0][1:], *theirs, *mine[1])
    expected = " ".join(["H"] * 10 + ["S1"] * 10 + ["H"] * 10)
    assert s.owners(new) == "S2" + expected[1:]
    assert s.owners("old.py", "--at", then) == expected


@pytest.mark.kinds
def test_amend_keeps_owners(scene: Make) -> None:
    """BLAME-12."""
    s = scene("f", "h0", "h1")
    s.write("S1", "f", "h0", "a1", "h1")
    dead = s.commit("second")
    s.git("commit", "--amend", "-m", "better")
    assert s.owners("f") == "H S1 H"
    s.hand("f", "h0", "a1", "h1", "mine")
    s.git("commit", "-a", "--amend", "-m", "better still")
    assert s.owners("f") == "H S1 H unk"
    assert s.owners("f", "--commit", "HEAD") == "H S1 H unk"
    assert dead not in {row["commit"] for row in s.rows("f")}


def _branch(s: Scene) -> list[str]:
    """Make a branch of three commits with lines of S1, S2 and H in `f`; return its lines."""
    base = numbered("h", 1, 12)
    s.git("checkout", "-q", "-b", "side")
    one, two, mine = numbered("a", 1, 3), numbered("b", 1, 3), numbered("m", 1, 2)
    lines = [*base[:4], *one, *base[4:]]
    s.write("S1", "f", *lines)
    s.commit("by S1")
    lines = [*base[:4], *one, *base[4:8], *two, *base[8:]]
    s.write("S2", "f", *lines)
    s.commit("by S2")
    lines += mine
    s.hand("f", *lines)
    s.commit("by hand")
    return lines


SIDE = ["H"] * 4 + ["S1"] * 3 + ["H"] * 4 + ["S2"] * 3 + ["H"] * 4 + ["unk"] * 2


def test_abort_leaves_all_as_before(scene: Make) -> None:
    """BLAME-13."""
    base = numbered("h", 1, 12)
    s = scene("f", *base)
    _branch(s)
    s.git("checkout", "-q", "main")
    s.hand("f", *base[:4], "main has its own", *base[4:])
    s.commit("on main")
    s.git("checkout", "-q", "side")
    s.shadow.repo.git("rebase", "-q", "main", check=False)
    s.shadow.ok("flush")
    s.git("rebase", "--abort")
    assert s.owners("f").split() == SIDE


def test_squash_from_a_server_onto_other_lines_is_known_or_unknown(
    scene: Make, make_repo: Callable[..., Repo]
) -> None:
    """BLAME-14."""
    s = scene("f", *numbered("h", 1, 12))
    lines = _branch(s)
    s.git("checkout", "-q", "main")
    other = make_repo("server", files=())
    other.git("fetch", "-q", str(s.shadow.repo.root), "main")
    other.git("reset", "-q", "--hard", "FETCH_HEAD")
    other.write("f", text(*numbered("top", 1, 2), *lines))
    other.git("commit", "-qam", "squashed", "--author", "Server <s@example.com>")
    s.git("pull", "-q", "--ff-only", str(other.root), "main")
    found = s.owners("f").split()
    assert found[:2] == ["H", "H"]
    wrong = [
        (a, b) for a, b in zip(found[2:], SIDE, strict=True) if a not in (b, "unk")
    ]
    assert wrong == []


def test_shell_window_beside_an_editor_and_git(scene: Make) -> None:
    """BLAME-18."""
    s = scene("f", *numbered("h", 1, 5))
    s.shadow.repo.write("notes.md", "mine\n")
    s.commit("notes")
    vim = (
        "cp notes.md .notes.md.swp; sed -i 2d f; seq 1 3 >gen.txt;"
        " mv notes.md notes.md~; printf 'mine\\nmore\\n' >notes.md; rm notes.md~"
    )
    s.agent("S1").shell(vim)
    assert s.owners("gen.txt") == "S1 S1 S1"
    assert s.owners("f") == "H H H H"
    gone = next(row for row in s.shadow.log("f") if row["kind"] == "modify")
    assert gone["agent"] == "claude-code"
    row = s.rows("notes.md")[1]
    assert (row["agent"], row["confidence"]) == (None, "ambiguous")


def test_checkout_in_an_open_session_is_the_branchs(scene: Make) -> None:
    """BLAME-18."""
    s = scene("f", *numbered("h", 1, 5))
    s.git("checkout", "-q", "-b", "side")
    s.hand("f", *numbered("h", 1, 5), "on the side")
    s.commit("side")
    s.git("checkout", "-q", "main")
    s.agent("S1").shell("git checkout -q side")
    assert s.owners("f") == "H H H H H unk"


def test_only_what_differs_changes_hands(scene: Make) -> None:
    """BLAME-19."""
    base = numbered("h", 1, 10)
    s = scene("f", *base)
    theirs = [*base[:4], "changed by S1, line 5", *base[5:]]
    s.write("S1", "f", *theirs)
    assert s.owners("f") == "H H H H S1 H H H H H"
    s.hand("f", *base[:4], *base[5:])
    s.hand("f", *theirs)
    assert s.owners("f") == "H H H H unk H H H H H"


def test_undo_and_redo_have_no_author(scene: Make) -> None:
    """BLAME-20."""
    s = scene("f", "h0", "h1")
    s.write("S1", "f", "h0", "h1", "a")
    s.shadow.oops()
    assert s.owners("f") == "H H"
    s.shadow.repo.git("gc", "-q", "--prune=now")
    s.shadow.ok("redo", "--yes")
    assert s.owners("f") == "H H S1"
    s.shadow.repo.git("gc", "-q", "--prune=now")
    s.shadow.oops()
    assert s.owners("f") == "H H"
    s.shadow.ok("redo", "--yes")
    assert s.owners("f") == "H H S1"
    assert len(s.shadow.ok("ops", "--json").rows()) == 4


@pytest.mark.parametrize("place", [1, 9])
def test_a_stash_that_holds_a_persons_lines_too_brings_owners_back_further_down(
    scene: Make, place: int
) -> None:
    """The person's lines come before the agent's in the file, or after them."""
    base = numbered("h", 1, 10)
    s = scene("f", *base)
    with_agent = [*base[:5], *numbered("a", 1, 2), *base[5:]]
    s.write("S1", "f", *with_agent)
    at = place if place < 5 else place + 2
    s.hand("f", *with_agent[:at], "mine", *with_agent[at:])
    s.git("stash", "-q")
    s.hand("f", *numbered("top", 1, 5), *base)
    s.commit("on top")
    s.git("stash", "pop", "-q")
    owners = s.owners("f").split()
    assert [n for n, owner in enumerate(owners) if owner == "S1"] == (
        [11, 12] if place < 5 else [10, 11]
    )
    assert len(owners) == 18


def test_branch_switch_and_back_keeps_owners(scene: Make) -> None:
    s = scene("f", *numbered("h", 1, 12))
    _branch(s)
    s.git("checkout", "-q", "main")
    assert s.owners("f").split() == ["H"] * 12
    s.git("checkout", "-q", "side")
    assert s.owners("f").split() == SIDE


def test_commit_of_another_worktree_keeps_its_owners(
    scene: Make, make_shadow: Callable[..., Shadow]
) -> None:
    base = numbered("h", 1, 6)
    s = scene("f", *base)
    there = s.shadow.repo.root.parent / "there"
    s.git("worktree", "add", "-q", "-b", "side", str(there))
    other = Scene(make_shadow(Repo(there), daemon=False))
    other.write("S1", "f", *base[:3], *numbered("a", 1, 2), *base[3:])
    other.commit("there")
    s.git("merge", "-q", "--ff-only", "side")
    assert s.owners("f") == "H H H S1 S1 H H H"


def test_written_and_committed_in_one_window_is_the_agents(scene: Make) -> None:
    """Nobody looked in between, so the row is Git's; Git's author did not write it."""
    s = scene("f", "h0", "h1")
    s.agent("S1").shell("echo a >>f; git commit -qam 'by the agent'")
    assert s.owners("f") == "H H S1"
    s.shadow.repo.append("f", "mine, unseen\n")
    s.commit("by hand")
    assert s.owners("f") == "H H S1 unk"
