"""What a prompt says of a worktree."""

import os

import pytest

from gitshadow.recording.context import RecorderContext
from gitshadow.reporting import prompt_line
from gitshadow.reporting.prompt_line import Prompting
from gitshadow.undo.choose import Chooser, Selection
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


def said(context: RecorderContext) -> list[str]:
    return Prompting(context).segment().decode().split("\n")


def test_nothing_is_to_be_taken_back_at_first(studio: Studio) -> None:
    assert said(studio.context) == ["recording", "", "", ""]


def test_newest_burst_of_an_agent_is_named_with_its_files(studio: Studio) -> None:
    studio.write("S1", "a", "x\n")
    studio.write("S1", "b", "y\n")
    studio.write("S1", "a", "z\n")
    state, agent, files, burst = said(studio.context)
    assert (state, agent, files) == ("recording", "claude-code", "2")
    assert burst.startswith("b-")


def test_burst_is_looked_for_once_until_the_journal_changes(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    oops = Chooser.oops

    def counted(self: Chooser) -> Selection:
        looks.append("once")
        return oops(self)

    monkeypatch.setattr(Chooser, "oops", counted)
    studio.write("S1", "a", "x\n")
    prompt = Prompting(studio.context)
    first = prompt.segment()
    assert (prompt.segment(), len(looks)) == (first, 1)
    studio.write("S1", "b", "y\n")
    assert prompt.segment() == first.replace(b"\n1\n", b"\n2\n")


def test_a_long_burst_is_not_read_to_be_named(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon records nothing meanwhile, and a shell asks at every prompt."""
    monkeypatch.setattr(prompt_line, "_MOST_EVENTS", 2)
    monkeypatch.setattr(prompt_line, "_SAMPLE", 1)
    monkeypatch.setattr(Chooser, "oops", None)
    studio.write("S1", "kept", "x\n")
    studio.prompt("S1", "again")
    for number in range(4):
        studio.write("S1", f"n{number}", "x\n")
    assert said(studio.context)[1:3] == ["claude-code", "4"]
    studio.run(
        "undo", targets=[{"text": said(studio.context)[3]}], verb="undo", yes=True
    )
    assert said(studio.context)[1:3] == ["claude-code", "1"]


def test_what_is_taken_back_is_no_longer_said(studio: Studio) -> None:
    studio.write("S1", "new", "x\n")
    studio.run("undo", verb="oops", dry_run=False, yes=True)
    assert said(studio.context)[1:] == ["", "", ""]


def test_recording_that_is_off_is_said(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIT-21."""
    with studio_of(repo) as s:
        assert said(s.context)[0] == "recording"
    monkeypatch.setenv("GITSHADOW_ENABLED", "false")
    with studio_of(repo) as s:
        assert said(s.context)[0] == "off"
    assert os.environ["GITSHADOW_ENABLED"] == "false"


@pytest.mark.parametrize(
    ("name", "plain"),
    [("claude-code", "claude-code"), ("$(rm)%n`x`\\w", "__rm__n_x__w"), ("é", "_")],
)
def test_no_name_means_anything_to_a_shell(name: str, plain: str) -> None:
    assert prompt_line.plain(name) == plain


def test_a_long_name_is_cut() -> None:
    assert prompt_line.plain("a" * 99) == "a" * 24
