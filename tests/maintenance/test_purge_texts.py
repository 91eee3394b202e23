"""A text that leaked goes wherever it stands: contents, commits, prompts, copies, pages."""

import base64
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gitshadow.errors import JournalBusyError, RefusedError, UsageError
from gitshadow.maintenance import purge
from gitshadow.sdk.testing import sample_rows
from gitshadow.service import in_process
from gitshadow.store.journal import purge as journal
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga import SagaTables
from gitshadow.store.purge import forms_of, without
from tests.support.audit import audit
from tests.support.purging import (
    SECRET,
    Killed,
    die_at,
    holders,
    leaks,
    play,
    remains,
)
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of


def asked(text: bytes = SECRET) -> list[str]:
    return [base64.b64encode(text).decode()]


def tell(studio: Studio) -> None:
    """Have the secret in a prompt, in files, in a report page, a log and a waiting payload."""
    studio.start("S1")
    studio.prompt("S1", f"use the key {SECRET.decode()} to log in")
    studio.write("S1", "k", b"one " + SECRET)
    studio.write("S1", "d/other", SECRET + b" again")
    studio.write("S1", "clean", "nothing\n")
    studio.end("S1")
    layout = studio.context.workspace.layout
    Path(layout.pages_dir).mkdir()
    Path(layout.pages_dir, "x.html").write_bytes(SECRET)
    Path(layout.log).write_bytes(b"failed: " + SECRET + b"\n")


def prompts(repo: Repo) -> list[str]:
    with closing(Db.open(layout_of(repo).journal, create=False)) as db:
        return [row[0] for row in db.rows("SELECT prompt FROM turns")]


def test_a_text_goes_from_every_content_prompt_and_file(repo: Repo) -> None:
    """KEEP-09: no object has it after the user's gc, and no byte of ours at once."""
    with studio_of(repo) as studio:
        tell(studio)
        assert (
            SECRET
            in Path(layout_of(repo).journal).read_bytes()
            + Path(layout_of(repo).journal + "-wal").read_bytes()
        )
        done = studio.run("purge", texts=asked())
        assert (done["contents"], done["rows"]) == (2, {"turns.prompt": 1})
        assert done["files"] == ["log", "pages/x.html"]
        assert (done["journal_holds"], done["on_disk"]) == ([], ["d/other", "k"])
        assert leaks(repo) == []
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        assert remains(studio.run("purge", texts=asked()))["objects"] == 0
        assert prompts(repo) == ["use the key [purged] to log in"]
        paths = [row["path"] for row in studio.rows("log", limit=3)]
        assert paths == ["clean", "d/other", "k"]
    repo.fsck()


def test_bytes_that_stay_in_the_journal_are_said(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-09: another process reads it, or the disk is full; the purge ends all the same."""

    def refuse(_: Db) -> None:
        raise JournalBusyError("cannot use the journal: it is locked")

    monkeypatch.setattr(journal, "squeeze", refuse)
    with studio_of(repo) as studio:
        tell(studio)
        assert studio.run("purge", texts=asked())["journal_holds"] != []
        assert journal.under_way(studio.context.workspace.db) is None
        monkeypatch.undo()
        done = studio.run("purge", texts=asked())
        assert (done["journal_holds"], leaks(repo)) == ([], [])


def test_a_dry_run_says_what_would_go_and_changes_nothing(repo: Repo) -> None:
    with studio_of(repo) as studio:
        tell(studio)
        refs, held = repo.shadow_refs(), holders(repo)
        done = studio.run("purge", texts=asked(), dry_run=True)
        assert (done["contents"], done["rows"]) == (2, {"turns.prompt": 1})
        assert done["rewritten"] == [ref for ref in refs if "claude" in ref]
        assert (repo.shadow_refs(), holders(repo)) == (refs, held)
        assert prompts(repo) == [f"use the key {SECRET.decode()} to log in"]
        assert Path(layout_of(repo).log).exists()


def test_commits_that_say_it_say_it_no_more(repo: Repo) -> None:
    """KEEP-09: a pin's name, a target, a note: words of commits are objects too."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
        studio.run("expose", session=studio.session("S1"))
        name = f"before-{SECRET.decode()}"
        studio.run("undo", targets=[{"text": "S1"}], verb="undo", yes=True)
        studio.hand(f"{name}.txt", "a name\n")
        done = studio.run("purge", texts=asked())
        assert done["contents"] == 1
        assert done["named_files"] == 1
        repo.delete(f"{name}.txt")
        studio.context.observer.settle()


def test_what_a_set_aside_journal_has_goes_with_it(repo: Repo) -> None:
    """KEEP-09: also where a value lies in pieces over several pages."""
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", "x" * 4000 + SECRET.decode() * 3 + "y" * 9000)
        studio.write("S1", "a", "agent\n")
        studio.end("S1")
    in_process.run(layout_of(repo), "reindex", {})
    assert any("before-reindex" in name for name in os.listdir(repo.state_dir))
    with studio_of(repo) as studio:
        done = studio.run("purge", texts=asked())
        assert done["files"] == ["journal.db.before-reindex-1"]
        assert not any("before-reindex" in name for name in os.listdir(repo.state_dir))
        assert leaks(repo) == []


def test_arguments_that_hold_a_purged_file_are_marked(repo: Repo) -> None:
    """KEEP-09: `purge PATH` takes what the file held out of an agent program's calls too."""
    with studio_of(repo) as studio:
        play(studio)
        _call(studio, content=f"one {SECRET.decode()}")
        done = studio.run("purge", paths=["k"])
        assert done["rows"] == {"saga_calls.intent": 1}
        (intent,) = _calls(studio)
        assert json.loads(intent)["args"] == {"path": "k", "content": "[purged]"}
        assert leaks(repo) == []


def test_what_waits_to_be_sent_is_not_sent_with_a_mark(repo: Repo) -> None:
    """The person drops it first; nothing is purged till then."""
    with studio_of(repo) as studio:
        tell(studio)
        _call(studio, content=SECRET.decode(), outcome="held")
        refs = repo.shadow_refs()
        with pytest.raises(RefusedError, match="is waiting to be sent"):
            studio.run("purge", texts=asked())
        assert repo.shadow_refs() == refs


def _call(studio: Studio, *, content: str, outcome: str = "success") -> None:
    intent = json.dumps({"args": {"path": "k", "content": content}})
    turn = replace(sample_rows.TURN, status="committed", ended_ns=9)
    call = replace(sample_rows.CALL, intent=intent, ended_ns=5, outcome=outcome)
    SagaTables(studio.context.workspace.db).save([turn, call, sample_rows.NOTE])


def _calls(studio: Studio) -> list[str]:
    rows = studio.context.workspace.db.rows("SELECT intent FROM saga_calls")
    return [row[0] for row in rows]


_STEPS = (
    (purge, "_rename"),
    (purge, "_release"),
    (journal, "rename"),
    (journal, "rename_trees"),
    (journal, "squeeze"),
    (shutil, "rmtree"),
)


@pytest.mark.parametrize("at", range(1, 8))
def test_a_crash_at_any_step_is_done_again(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """KEEP-09: whoever comes next needs no secret to go on: no note holds it."""
    with studio_of(repo) as studio:
        tell(studio)
        repo.delete("k")
        repo.delete("d")
        studio.context.observer.settle()
        die_at(monkeypatch, at, *_STEPS)
        try:
            studio.run("purge", texts=asked())
        except Killed:
            assert journal.under_way(studio.context.workspace.db) is not None
        monkeypatch.undo()
    with studio_of(repo) as studio:
        assert journal.under_way(studio.context.workspace.db) is None
        assert leaks(repo) == []
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        audit(repo)
    repo.fsck()


def test_what_only_the_users_commits_hold_is_not_said_to_be_ours(repo: Repo) -> None:
    """KEEP-09: a chain stands on their commit; that makes its content none of ours."""
    repo.write("old", SECRET)
    with_it = repo.commit("the user's own")
    repo.delete("old")
    repo.commit("and without it")
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        studio.end("S1")
        left = remains(studio.run("purge", paths=["k"]))
        assert left["history"] == []
        commits = left["commits"]
        assert isinstance(commits, list)
        assert {row["path"] for row in commits} == {"old"}
        assert with_it in {row["commit"] for row in commits}
        assert commits[0]["refs"] == ["refs/heads/main"]


def test_a_commit_that_only_we_keep_alive_is_let_go(repo: Repo) -> None:
    """KEEP-09: after they rewrote theirs, no chain of ours stands on the old one."""
    repo.write("k", SECRET)
    repo.commit("the user's own")
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
        studio.end("S1")
        assert remains(studio.run("purge", texts=asked()))["objects"] == 1
        repo.git("rm", "-q", "--cached", "k")
        repo.git("commit", "-q", "--amend", "--allow-empty", "-m", "the user's own")
        repo.delete("k")
        repo.git("reflog", "expire", "--expire=now", "--all")
        studio.context.observer.settle()
        old = repo.git("rev-parse", f"refs/agent-undo/{studio.session('S1')}~2")
        assert remains(studio.run("purge"))["standing"] == [old.strip()]
        assert remains(studio.run("purge", texts=asked()))["standing"] == []
        repo.git("gc", "-q", "--prune=now")
        assert holders(repo) == []
        audit(repo)
    repo.fsck()


def test_fetched_history_is_dropped_where_that_is_asked_for(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Callable[[Repo], Studio]
) -> None:
    """KEEP-09: of the colleague's sessions those that hold it go, and their journal agrees."""
    theirs = open_studio(repo)
    theirs.write("S2", "a", "clean\n")
    theirs.write("S1", "k", SECRET)
    other = make_repo("other", files=("z",))
    studio = open_studio(other)
    studio.run("fetch", remote=str(repo.root))
    held, clean = theirs.session("S1"), theirs.session("S2")
    left = remains(studio.run("purge", texts=asked()))
    assert left["fetched"] == [f"refs/agent-undo/fetched/{held}"]
    plan = studio.run("purge", texts=asked(), fetched=True, dry_run=True)
    assert plan["fetched_dropped"] == [f"refs/agent-undo/fetched/{held}"]
    assert f"refs/agent-undo/fetched/{held}" in other.shadow_refs()
    done = studio.run("purge", texts=asked(), fetched=True)
    assert done["fetched_dropped"] == [f"refs/agent-undo/fetched/{held}"]
    known = studio.rows("sessions")
    assert {row["id"] for row in known} & {held, clean} == {clean}
    assert f"refs/agent-undo/fetched/{clean}" in other.shadow_refs()
    other.git("gc", "-q", "--prune=now")
    assert holders(other) == []


def test_a_text_is_found_however_it_is_spelled() -> None:
    forms = forms_of([b'two\nlines "quoted"'])
    for spelled in (
        b'x two\nlines "quoted" y',
        json.dumps({"a": 'two\nlines "quoted"'}).encode(),
    ):
        assert b"two" not in without(spelled, forms)
    assert json.loads(without(b'{"pin": 12345678}', forms_of([b"12345678"]))) == {
        "pin": "[purged]"
    }
    with pytest.raises(UsageError, match="fewer than"):
        forms_of([b" a "])
