"""A session that is shown, in other people's programs: tig in a terminal, gitk in a window."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.display import await_colour, await_title, display, shown
from tests.support.panes import pane
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of
from tests.support.tools import need
from tests.support.waiting import until

pytestmark = pytest.mark.release
REMOTE_LABEL = "ffddaa"
"""The ground of remote branches' names in gitk 2.39 (`remotebgcolor`)."""


@pytest.fixture
def studio(repo: Repo) -> Iterator[Studio]:
    with studio_of(repo) as made:
        made.write("S1", "a", "agent\n")
        made.write("S1", "new.py", "agent\n")
        made.run("expose", session=made.session("S1"))
        yield made


def branch(studio: Studio) -> str:
    return f"remotes/agent-undo/{studio.session('S1')}"


def test_tig_lists_the_writes_of_a_shown_session(
    studio: Studio, tmp_path: Path
) -> None:
    command = (need("tig"), branch(studio))
    with pane(tmp_path, command, studio.repo.root) as seen:
        until(lambda: "first" in seen())
        text = seen()
    lines = [line for line in text.splitlines() if "claude-code" in line]
    wanted = (" Create new.py", " Edit a", " Baseline")
    assert len(lines) == 3
    assert all(line.endswith(end) for line, end in zip(lines, wanted, strict=True))
    assert "{agent-undo/claude-code-" in text


def test_tig_lists_it_among_the_remote_branches(studio: Studio, tmp_path: Path) -> None:
    with pane(tmp_path, (need("tig"), "refs"), studio.repo.root) as seen:
        until(lambda: "main" in seen())
        text = seen()
    assert " agent-undo/claude-code-" in text


def test_gitk_draws_the_branch_of_a_shown_session(
    studio: Studio, tmp_path: Path
) -> None:
    command = (need("gitk"), "main", branch(studio))
    with (
        display(tmp_path) as screen,
        shown(screen, command, studio.repo.root),
    ):
        title = await_title(screen, "repo: main ")
        picture = await_colour(screen, REMOTE_LABEL, 500)
    assert title == f"repo: main {branch(studio)} - gitk"
    assert picture.png().startswith(b"\x89PNG")
    assert len(picture.png()) > 5_000
