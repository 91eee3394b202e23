"""What an undo must name: writes to places that were not recorded when they were written."""

from collections.abc import Callable

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.reports import hints, items, uncovered
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.both_modes


def states(report: Document) -> dict[str, tuple[object, object]]:
    """Return state and reason of each item, by path."""
    return {
        path: (item["state"], item["reason"]) for path, item in items(report).items()
    }


def test_own_rules_come_back_first_when_an_agent_hid_everything(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    agent.start()
    agent.prompt("hide all")
    agent.write("a", "agent\n")
    agent.write(".agent-undoignore", "*\n")
    agent.write("c", "agent\n")
    agent.shell("rm b")
    agent.stop()
    report = shadow.oops()
    assert states(report) == {
        "a": ("reversed", None),
        ".agent-undoignore": ("reversed", None),
        "b": ("reversed", None),
        "c": ("reversed", None),
    }
    assert report["status"] == "reversed"
    for name in "abc":
        assert repo.read(name) == ten_lines(name).encode()
    assert not repo.exists(".agent-undoignore")
    shadow.ok("redo", "--yes")
    assert repo.read("a") == repo.read("c") == b"agent\n"
    assert not repo.exists("b")
    assert repo.read(".agent-undoignore") == b"*\n"
    assert states(shadow.oops())["a"] == ("reversed", None)
    assert repo.read("a") == ten_lines("a").encode()


@pytest.mark.parametrize("then", ["echo over >old.log", "rm old.log"])
def test_file_that_a_unit_hides_and_changes_comes_back(
    repo: Repo, shadow: Shadow, agent: Claude, then: str
) -> None:
    """CAP-09: what was recorded before is the unit's change if nobody else wrote there."""
    repo.write("old.log", "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("hide and change")
    agent.shell(f"echo '*.log' >.gitignore; {then}")
    agent.stop()
    report = shadow.oops()
    assert states(report)["old.log"] == ("reversed", None)
    assert "old.log" not in uncovered(report)
    assert repo.read("old.log") == b"mine\n"
    assert not repo.exists(".gitignore")


@pytest.mark.parametrize("path", ["old.log", "sub/old.log"])
def test_file_that_an_earlier_call_of_the_turn_hid_comes_back(
    repo: Repo, shadow: Shadow, agent: Claude, path: str
) -> None:
    rules = path.replace("old.log", ".gitignore")
    repo.write(path, "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("hide, then change")
    agent.shell(f"echo '*.log' >{rules}")
    agent.shell(f"echo over >{path}")
    agent.stop()
    report = shadow.oops()
    assert states(report) == {
        rules: ("reversed", None),
        path: ("reversed", None),
    }
    assert uncovered(report) == {}
    assert repo.read(path) == b"mine\n"
    shadow.ok("redo", "--yes")
    assert repo.read(path) == b"over\n"


def test_file_that_an_earlier_turn_hid_comes_back_with_the_session(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    """The later turn alone cannot bring it back: it is still ignored after that."""
    repo.write("old.log", "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("hide")
    agent.shell("echo '*.log' >.gitignore")
    agent.stop()
    agent.prompt("change")
    agent.shell("echo over >old.log; echo more >>a")
    agent.stop()
    report = shadow.oops()
    assert states(report) == {"a": ("reversed", None)}
    assert uncovered(report) == {"old.log": "ignored"}
    report = shadow.ok("undo", agent.session, "--yes", "--json").json()
    assert states(report)["old.log"] == ("reversed", None)
    assert "old.log" not in uncovered(report)
    assert repo.read("old.log") == b"mine\n"


def test_file_that_a_turn_between_those_undone_changed_is_left(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    repo.write("old.log", "mine\n")
    shadow.ok("flush")
    agent.start()
    for prompt, command in (
        ("hide", "echo '*.log' >.gitignore"),
        ("change", "echo over >old.log"),
        ("change more", "echo more >>old.log; echo more >>a"),
    ):
        agent.prompt(prompt)
        agent.shell(command)
        agent.stop()
    chosen = [str(row["turn"]) for row in shadow.log(".gitignore", "a")]
    report = shadow("undo", *chosen, "--yes", "--json").json()
    assert states(report)["old.log"] == ("not_reversed", "excluded")
    assert repo.read("old.log") == b"over\nmore\n"


def test_ignored_file_that_a_unit_uncovers_is_not_one_that_it_created(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    """CAP-09: it was there before, though no walk has seen it there."""
    repo.write(".gitignore", "*.log\n")
    shadow.ok("flush")
    repo.write("gone.log", "mine\n")
    repo.write("kept.log", "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("uncover, then change")
    agent.shell(": >.gitignore")
    agent.shell("rm gone.log; echo agent >>kept.log")
    agent.stop()
    assert states(shadow.oops()) == dict.fromkeys(
        [".gitignore", "gone.log", "kept.log"], ("reversed", None)
    )
    assert repo.read("gone.log") == repo.read("kept.log") == b"mine\n"


def test_file_at_the_place_of_an_ignored_one_that_is_gone_was_created(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    repo.write(".gitignore", "*.log\n")
    shadow.ok("flush")
    repo.write("old.log", "mine\n")
    shadow.ok("flush")
    repo.delete("old.log")
    shadow.ok("flush")
    agent.start()
    agent.prompt("uncover and create")
    agent.shell(": >.gitignore; echo agent >old.log")
    agent.stop()
    assert states(shadow.oops())["old.log"] == ("reversed", None)
    assert not repo.exists("old.log")


def test_what_a_created_file_took_the_place_of_is_named_as_not_undone(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    """What the turn itself created, hid and changed is deleted, and is not named."""
    repo.write(".gitignore", "build/\n")
    repo.write("build/x", "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("replace")
    agent.shell("rm -r build; echo agent >new.log")
    agent.shell("ln -s a build; echo '*.log' >>.gitignore")
    agent.shell("echo more >>new.log")
    agent.stop()
    report = shadow.oops()
    assert states(report)["build"] == states(report)["new.log"] == ("reversed", None)
    assert set(uncovered(report)) - {"build/x"} == {"build"}
    assert not repo.exists("new.log")


@pytest.mark.parametrize(
    "hide",
    [
        "echo '*.log' >>.git/info/exclude",
        'd="${XDG_CONFIG_HOME:-$HOME/.config}/git"; mkdir -p "$d"; echo "*.log" >"$d/ignore"',
    ],
)
def test_file_that_rules_outside_the_tree_hide_is_named(
    repo: Repo, shadow: Shadow, agent: Claude, hide: str
) -> None:
    """Such rules are not recorded: nobody knows who wrote them, and no undo reverts them."""
    repo.write("old.log", "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("hide, then change")
    agent.shell(hide)
    shadow.ok("flush")
    agent.shell("echo over >old.log; echo more >>a")
    agent.stop()
    report = shadow.oops()
    assert states(report) == {"a": ("reversed", None)}
    assert uncovered(report) == {"old.log": "ignored"}
    assert repo.read("old.log") == b"over\n"


def test_file_that_a_unit_hides_and_a_person_changes_is_left(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    repo.write("old.log", "mine\n")
    shadow.ok("flush")
    agent.start()
    agent.prompt("hide and change")
    agent.shell("echo '*.log' >.gitignore; echo over >old.log")
    agent.stop()
    repo.write("old.log", "mine, later\n")
    report = shadow.oops()
    assert states(report)["old.log"] == ("not_reversed", "excluded")
    assert repo.read("old.log") == b"mine, later\n"


def test_skipped_file_has_the_reason_that_rules_outside_the_tree_exclude_it(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    agent.start()
    agent.prompt("change, then hide")
    agent.shell("echo more >old.log")
    agent.shell("echo '*.log' >>.git/info/exclude")
    agent.stop()
    item = items(shadow.oops())["old.log"]
    assert (item["state"], item["reason"]) == ("not_reversed", "excluded")
    assert item["detail"] == "a rule or limit that is not undone excludes it"
    assert repo.read("old.log") == b"more\n"


def test_overwritten_path_is_named_when_the_same_call_uncovered_it(
    repo: Repo, shadow_new: Shadow
) -> None:
    repo.write(".gitignore", ".env\n")
    repo.commit("rules")
    repo.write(".env", "TOKEN=precious\n")
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.start()
    agent.prompt("overwrite")
    agent.shell("echo TOKEN=agent > .env; : > .gitignore")
    agent.stop()
    report = shadow_new.oops()
    assert states(report) == {
        ".gitignore": ("reversed", None),
        ".env": ("not_reversed", "no_baseline"),
    }
    assert repo.read(".gitignore") == b".env\n"
    assert repo.read(".env") == b"TOKEN=agent\n"


def test_changes_in_uncovered_places_are_named_when_they_were_there_before(
    repo: Repo, shadow_new: Shadow, make_repo: Callable[..., Repo]
) -> None:
    """CAP-05, CAP-08: another repository, a file over the limit, an ignored directory."""
    repo.write(".gitignore", "build/\n")
    repo.git("config", "agent-undo.maxFileSize", "1000")
    repo.write("huge", "x" * 2000)
    repo.commit("rules")
    repo.write("build/x", "x")
    make_repo("repo/nested", files=("x",))
    shadow_new.init()
    agent = Claude(shadow_new)
    agent.start()
    agent.prompt("clean")
    agent.shell("echo more >> a; rm huge; rm build/x nested/x")
    agent.stop()
    report = shadow_new.oops()
    assert states(report) == {"a": ("reversed", None)}
    assert uncovered(report) == {
        "build": "ignored",
        "huge": "too large",
        "nested": "another repository",
    }
    assert list(hints(report)) == ["nested"]


def test_mode_of_the_top_directory_is_named(
    repo: Repo, shadow: Shadow, agent: Claude
) -> None:
    former = f"{repo.mode('.'):04o}"
    agent.start()
    agent.prompt("open all")
    agent.shell("chmod 711 .; echo more >>a")
    agent.stop()
    why = f"the mode of a directory is not undone; it was {former}"
    assert uncovered(shadow.oops()) == {".": why}
    told = shadow.ok("report", agent.session, "--json").json()["not_covered"]
    assert isinstance(told, dict)
    assert [(row["path"], row["why"]) for row in told["touched"]] == [(".", why)]
