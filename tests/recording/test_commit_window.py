"""What the hooks of a commit rewrite is nobody's writing."""

import os
from collections.abc import Mapping

import pytest

from gitshadow.hookfiles import githooks
from gitshadow.store.git import Git
from gitshadow.store.layout import discover
from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import COMMAND, Shadow
from tests.support.waiting import until

# What pre-commit 4.7 does around its hooks, and a formatter among them.
_STASHING = f"""\
#!/bin/sh
git diff --binary >../patch
PRE_COMMIT=1 _PRE_COMMIT_SKIP_POST_CHECKOUT=1 git -c submodule.recurse=0 checkout -- .
{COMMAND} flush >/dev/null
echo tidy >>c
git apply ../patch
exit %d
"""


def install(repo: Repo, hook: str, status: int) -> None:
    """Have git run a hook that stashes, and ours around it."""
    repo.write(f".git/hooks/{hook}", _STASHING % status, 0o755)
    layout = discover(str(repo.root))
    assert layout is not None
    git = Git(layout, dict(os.environ))
    githooks.apply(githooks.plan(layout, git, COMMAND), git)


def by_hooks(row: Mapping[str, object]) -> bool:
    return str(row["reason"]).startswith("commit hooks ")


@pytest.fixture
def dirty(agent: Claude) -> Claude:
    """Return an agent in the turn that changed `a` and `b` and staged `b`."""
    agent.prompt("change both")
    agent.write("a", "agent\n")
    agent.write("b", "agent\n")
    agent.shadow.repo.git("add", "b")
    return agent


@pytest.mark.parametrize("hook", ["pre-commit", "post-commit"])
def test_files_that_a_hook_takes_away_and_brings_back_are_nobodys(
    dirty: Claude, hook: str
) -> None:
    shadow, repo = dirty.shadow, dirty.shadow.repo
    install(repo, hook, 0)
    call = dirty.pre("Bash", {"command": "git commit -m x; echo x >d"})
    repo.git("commit", "-qm", "by the agent")
    repo.write("d", "x\n")
    dirty.post(call)
    rows = [row for row in shadow.log() if row["path"] is not None]
    assert sorted(str(row["path"]) for row in rows if by_hooks(row)) == ["a", "a", "c"]
    assert {row["actor"] for row in rows if by_hooks(row)} == {"unknown"}
    assert [row["agent"] for row in rows if row["path"] == "d"] == ["claude-code"]
    assert repo.read("a") == b"agent\n"


def test_files_that_a_manager_takes_away_are_nobodys_though_it_never_calls_us(
    dirty: Claude,
) -> None:
    """Seen by git's own processes, and what comes back later by its content."""
    shadow, repo = dirty.shadow, dirty.shadow.repo
    repo.write(".git/hooks/pre-commit", _STASHING % 0, 0o755)
    call = dirty.pre("Bash", {"command": "git commit -m x"})
    repo.git("commit", "-qm", "by the agent")
    dirty.post(call)
    rows = [row for row in shadow.log() if row["path"] == "a"]
    assert [by_hooks(row) for row in rows] == [True, True, False]
    assert {row["actor"] for row in rows[:2]} == {"unknown"}
    owners = shadow.ok("blame", "--json", "a").rows()
    assert [row["agent"] for row in owners] == ["claude-code"]


def test_turn_is_undone_whole_after_a_commit_with_hooks(dirty: Claude) -> None:
    """The files came back as the agent left them: its lines are its own still."""
    repo = dirty.shadow.repo
    install(repo, "pre-commit", 0)
    repo.git("commit", "-qm", "by a person")
    dirty.shadow.oops()
    assert repo.read("a") == ten_lines("a").encode()


def test_write_after_a_commit_that_its_hooks_stopped_is_the_agents(
    dirty: Claude,
) -> None:
    repo = dirty.shadow.repo
    install(repo, "pre-commit", 1)
    repo.git("commit", "-qm", "stopped", check=False)
    dirty.write("later", "x\n")
    rows = {row["path"]: row for row in reversed(dirty.shadow.log())}
    later = rows["later"]
    assert (later["agent"], later["confidence"]) == ("claude-code", "certain")
    assert by_hooks(rows["c"])


def test_window_ends_with_its_process_when_nobody_says_so(shadow_d: Shadow) -> None:
    """Configured hooks stand beside others, not around them: their end is the commit's."""
    repo = shadow_d.repo
    hook = f"#!/bin/sh\n{COMMAND} git-hook --beside pre-commit\necho tidy >>c\nexit 1\n"
    repo.write(".git/hooks/pre-commit", hook, 0o755)
    repo.write("a", "x\n")
    repo.git("commit", "-qam", "stopped", check=False)
    path = repo.state_dir / "wt" / "main" / "commit"
    until(lambda: not path.exists())
    Claude(shadow_d).write("later", "x\n")
    rows = {row["path"]: row for row in shadow_d.log()}
    assert by_hooks(rows["c"])
    assert rows["later"]["agent"] == "claude-code"


def test_call_that_names_the_path_meanwhile_is_one_of_two(agent: Claude) -> None:
    repo = agent.shadow.repo
    install(repo, "pre-commit", 0)
    path = str(repo.root / "c")
    call = agent.pre("Write", {"file_path": path, "content": "x"})
    repo.git("commit", "--allow-empty", "-qm", "by a person")
    agent.post(call)
    rows = [row for row in agent.shadow.log() if row["path"] == "c"]
    assert [row["confidence"] for row in rows] == ["ambiguous"]
