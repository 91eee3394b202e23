"""`agent-undo.prompts = commit`: what an agent was asked stands in the commits too."""

import base64
from contextlib import closing

import pytest

from gitshadow.errors import RefusedError
from gitshadow.store import machine
from gitshadow.store.journal import turns
from gitshadow.store.journal.db import Db
from gitshadow.store.replay import rebuild
from tests.support.repo import Repo
from tests.support.sharing import rows_of, shared
from tests.support.studio import Studio, layout_of, studio_of

ASKED = "tidy up\n\nAgent-Undo-Session: other"
TOKEN = "AKIA" + "IOSFODNN7EXAMPLE"


def told(repo: Repo, session: str) -> list[str]:
    """Return what each commit of a session tells of a prompt, oldest first, as Git reads it."""
    ref = f"refs/agent-undo/{session}"
    form = "%(trailers:key=Agent-Undo-Prompt,valueonly,separator=%x2C)"
    return repo.git("log", "--reverse", f"--format=[{form}]", ref).splitlines()


def asked(studio: Studio, session: str) -> list[object]:
    return [row["prompt"] for row in rows_of(studio.run("turns", session=session))]


def test_first_commit_of_a_turn_tells_its_prompt(repo: Repo) -> None:
    repo.git("config", "agent-undo.prompts", "commit")
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", ASKED)
        studio.write("S1", "a", "one\n")
        studio.write("S1", "b", "two\n")
        session = studio.session("S1")
        quoted = '"tidy up\\n\\nAgent-Undo-Session: other"'
        *_, first, second = told(repo, session)
        assert (first, second) == (f"[{quoted}]", "[]")


@pytest.mark.parametrize("kept", ["journal", "off"])
def test_commits_tell_no_prompt_unless_they_are_to(repo: Repo, kept: str) -> None:
    repo.git("config", "agent-undo.prompts", kept)
    with studio_of(repo) as studio:
        studio.write("S1", "a", "one\n")
        assert {*told(repo, studio.session("S1"))} == {"[]"}


def test_prompts_in_commits_are_rebuilt(repo: Repo) -> None:
    """KEEP-10: what the refs hold comes back from them alone."""
    repo.git("config", "agent-undo.prompts", "commit")
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", ASKED)
        studio.write("S1", "a", "one\n")
        session, store = studio.session("S1"), studio.context.workspace.repo
        with closing(Db.open(str(repo.root / "../fresh.db"), create=True)) as fresh:
            with fresh.write():
                rebuild(fresh, store, machine.ours(layout_of(repo)))
            found = turns.list_turns(fresh, session)
    assert [turn.prompt for turn in found] == [ASKED]


def test_prompts_in_commits_come_to_a_colleague(ann: Studio, bob: Studio) -> None:
    ann.context.workspace.recorder.tells_prompts = True
    session = shared(ann, bob)
    assert asked(bob, session) == ["prompt of S1"]


def test_push_refuses_a_prompt_that_holds_a_token(ann: Studio) -> None:
    """The commits would take it along; by default they hold no prompt."""
    ann.context.workspace.recorder.tells_prompts = True
    ann.start("S1")
    ann.prompt("S1", f"use {TOKEN}")
    ann.write("S1", "a", "one\n")
    with pytest.raises(RefusedError) as caught:
        ann.run("push", remote="origin")
    assert f"a prompt: an AWS key in {ann.session('S1')}" in caught.value.message
    assert TOKEN not in caught.value.message


def test_purge_takes_a_text_out_of_prompts_in_commits(repo: Repo) -> None:
    repo.git("config", "agent-undo.prompts", "commit")
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", f"use {TOKEN}")
        studio.write("S1", "a", "one\n")
        session = studio.session("S1")
        assert f"[use {TOKEN}]" in told(repo, session)
        studio.run("purge", texts=[base64.b64encode(TOKEN.encode()).decode()])
        assert "[use [purged]]" in told(repo, session)
