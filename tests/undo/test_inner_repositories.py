"""Reports name what changed in submodules and nested repositories while a unit was at work."""

from pathlib import Path

import pytest

from gitshadow.maintenance import setup
from gitshadow.model import RepoPath
from gitshadow.store.layout import discover
from gitshadow.undo.report_context import InnerRepository
from tests.support.repo import Repo
from tests.support.reports import hints, items, uncovered
from tests.support.studio import studio_of


@pytest.fixture
def nested(repo: Repo) -> Repo:
    """A repository with another one in it, at `in/ner`, which has a file `k`."""
    (repo.root / "in").mkdir()
    inner = Repo.create(repo.root / "in" / "ner", ("k",))
    inner.git("status")
    return repo


def test_change_in_an_inner_repository_is_named_with_what_to_type(nested: Repo) -> None:
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        nested.write("in/ner/k", "agent, too\n")
        studio.stop("S1")
        report = studio.run("undo", verb="oops", yes=True)
    assert report["status"] == "reversed"
    assert uncovered(report)["in/ner"] == "another repository"
    assert hints(report)["in/ner"] == (
        "k changed then; to record it from now on: git -C in/ner agent-undo init"
    )
    assert nested.read("in/ner/k") == b"agent, too\n"


def test_recorded_one_is_named_with_the_command_that_undoes_it(nested: Repo) -> None:
    layout = discover(str(nested.root / "in" / "ner"))
    assert layout is not None
    setup.initialise(layout, {}, force=True)
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        for number in range(5):
            nested.write(f"in/ner/new{number}", "agent\n")
        studio.stop("S1")
        report = studio.run("undo", verb="oops", yes=True)
    assert uncovered(report)["in/ner"] == "another repository"
    assert hints(report)["in/ner"] == (
        "new0, new1, new2 and 2 more changed then;"
        " to undo it there: git -C in/ner agent-undo oops"
    )


def test_file_that_is_deleted_in_it_is_named_with_what_to_type(nested: Repo) -> None:
    """Nothing is left of it that has a time; that it was noticed is known."""
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        studio.write("S1", "in/ner/k", "agent\n")
        (nested.root / "in/ner/k").unlink()
        studio.stop("S1")
        report = studio.run("undo", verb="oops", yes=True)
    named = {what: why for what, why in uncovered(report).items() if "ner" in what}
    assert named == {"in/ner": "another repository"}
    assert hints(report)["in/ner"].endswith("git -C in/ner agent-undo init")


def test_git_directory_of_one_that_a_unit_made_is_not_listed(nested: Repo) -> None:
    """A directory that was recorded is still watched while it becomes a repository."""
    kind = "another repository"
    inner = InnerRepository(bytes(nested.root), RepoPath(b"in/ner"), kind)
    names = (b".git", b".git/HEAD.lock", b"sub/.git/index", b"k")
    touched = [RepoPath(b"in/ner/" + name) for name in names]
    named = inner.changed((), touched)
    assert named is not None
    assert named.hint == (
        "k changed then; to record it from now on: git -C in/ner agent-undo init"
    )


def test_change_before_or_after_the_unit_is_not_named(nested: Repo) -> None:
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        studio.stop("S1")
        nested.write("in/ner/k", "a person's\n")
        report = studio.run("undo", verb="oops", yes=True)
    assert "in/ner" not in uncovered(report)


def test_links_in_it_are_not_followed(nested: Repo, tmp_path: Path) -> None:
    place = tmp_path / "outside"
    place.mkdir()
    nested.symlink("in/ner/link", str(place))
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        (place / "new").write_text("not in it\n")
        studio.stop("S1")
        report = studio.run("undo", verb="oops", yes=True)
    assert "in/ner" not in uncovered(report)


def test_newest_turn_that_wrote_only_there_is_named(nested: Repo) -> None:
    """Whatever is undone instead, or if nothing is."""
    hint = "k changed then; to record it from now on: git -C in/ner agent-undo init"
    with studio_of(nested) as studio:
        for text in ("agent\n", "agent, again\n"):
            studio.prompt("S1", "go")
            studio.write("S1", "in/ner/k", text)
            studio.stop("S1")
            last = studio.run("undo", verb="undo", targets=[{"text": "last"}])
            assert last["headline"] == "nothing to undo: last changed nothing here"
            assert hints(last)["in/ner"] == hint
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        studio.stop("S1")
        assert not hints(studio.run("undo", verb="oops"))
        studio.prompt("S1", "go")
        studio.write("S1", "in/ner/k", "agent, once more\n")
        studio.stop("S1")
        last = studio.run("undo", verb="undo", targets=[{"text": "last"}])
        assert hints(last)["in/ner"] == hint
        for status in ("reversed", "nothing_to_do"):
            report = studio.run("undo", verb="oops", yes=True)
            assert report["status"] == status
            assert hints(report)["in/ner"] == hint


def test_turn_that_only_had_a_temporary_file_here_is_named(nested: Repo) -> None:
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        studio.write("S1", "a", "agent\n")
        studio.stop("S1")
        studio.prompt("S1", "go")
        call = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {}}
        studio.hook("S1", "PreToolUse", **call)
        nested.write("in/ner/k", "agent, too\n")
        nested.write("tmp", "agent\n")
        studio.context.observer.settle()
        (nested.root / "tmp").unlink()
        studio.hook("S1", "PostToolUse", **call, tool_response={})
        studio.stop("S1")
        report = studio.run("undo", verb="oops")
    assert list(items(report)) == ["a"]
    assert "in/ner" in hints(report)


@pytest.mark.parametrize("moved", [".git", "k"])
def test_what_leaves_a_directory_as_it_comes_under_recording_is_named(
    nested: Repo, moved: str
) -> None:
    """Its own rows begin when it is recorded, and what it held before has none."""
    nested.write(".gitignore", "/out/\n")
    nested.write("out/k", "ignored\n")
    place = "in/ner" if moved == ".git" else "out"
    with studio_of(nested) as studio:
        studio.prompt("S1", "go")
        call = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {}}
        studio.hook("S1", "PreToolUse", **call)
        if moved == "k":
            nested.git("add", "-f", "out/k")
        (nested.root / place / moved).rename(nested.root.parent / "moved")
        studio.hook("S1", "PostToolUse", **call, tool_response={})
        studio.stop("S1")
        report = studio.run("undo", verb="oops")
    why = "another repository" if moved == ".git" else "ignored"
    assert uncovered(report)[place] == why
