"""Mirrors: what was purged goes from every one of ours; what was lost here stays in them."""

import errno
import os
from pathlib import Path

import pytest

from gitshadow.maintenance.diagnostics import examine
from gitshadow.service import settings
from gitshadow.sharing import mirror as mirroring
from gitshadow.sharing.mirror import Mirroring, mirror_now
from gitshadow.store import machine
from gitshadow.store.git import Git
from gitshadow.store.journal import meta
from gitshadow.store.object_format import SHA1, SHA256, ObjectFormat
from gitshadow.store.remotes import Bare
from tests.support.purging import SECRET, holders, play
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of


def mirrored(studio: Studio, place: Path) -> Repo:
    """Set a mirror, bring it up to date and return it."""
    studio.repo.git("config", "agent-undo.mirror", str(place))
    settings.read_again(studio.context)
    ws = studio.context.workspace
    found = mirror_now(ws, ws.git)
    assert found is not None
    return Repo(Path(found))


class Hours:
    """A clock on which it is always late enough."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 3600.0
        return self.now


def copied_by_the_daemon(studio: Studio) -> str:
    """Let the daemon's part copy once; return what is in its way."""
    part = Mirroring(studio.context.workspace, Hours())
    part.tick()
    part.close()
    return meta.get(studio.context.workspace.db, mirroring.TROUBLE) or ""


def rows(document: dict[str, object]) -> list[dict[str, object]]:
    found = document["mirrors"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("form", [SHA1, SHA256], ids=lambda form: form.name)
def test_a_mirror_is_made_with_the_object_format_of_its_repository(
    repo: Repo, tmp_path: Path, form: ObjectFormat
) -> None:
    Bare(Git(layout_of(repo), dict(os.environ)), str(tmp_path / "made")).make(form)
    made = Repo(tmp_path / "made")
    assert made.git("rev-parse", "--show-object-format") == form.name


def test_a_mirror_takes_no_other_object_format_that_is_git_s_default(
    repo: Repo, tmp_path: Path
) -> None:
    """Git 2.45 and later read the setting; Git cannot push between formats."""
    repo.git("config", "--global", "init.defaultObjectFormat", "sha256")
    with studio_of(repo) as studio:
        play(studio)
        assert holders(mirrored(studio, tmp_path / "m"))


def test_a_mirror_at_an_earlier_place_is_cleared_too(
    repo: Repo, tmp_path: Path
) -> None:
    """KEEP-09: and a session that only it still had goes there."""
    with studio_of(repo) as studio:
        play(studio)
        old = mirrored(studio, tmp_path / "before")
        gone = f"refs/agent-undo/{studio.session('S1')}"
        new = mirrored(studio, tmp_path / "now")
        new.git("update-ref", "-d", gone)
        tip = old.git("rev-parse", gone)
        old.git("update-ref", "refs/agent-undo/claude-code-20200101-0000", tip)
        assert holders(old)
        done = studio.run("purge", paths=["k"])
        assert done["mirror"] is None
        assert [(row["place"], row["dropped"]) for row in rows(done)] == [
            (str(old.root), ["refs/agent-undo/claude-code-20200101-0000"]),
            (str(new.root), []),
        ]
        assert (holders(old), holders(new)) == ([], [])


def test_a_mirror_of_an_earlier_machine_id_is_cleared_too(
    repo: Repo, tmp_path: Path
) -> None:
    """KEEP-09: what this copy was called before, it is."""
    with studio_of(repo) as studio:
        play(studio)
        first = mirrored(studio, tmp_path / "m")
        db, layout = studio.context.workspace.db, studio.context.workspace.layout
        machine.adopt(layout, [machine.current(db) or ""])
        with db.write():
            machine.name(db, "f" * 12)
            meta.put(db, "mirror_places", "[]")
        studio.run("purge", paths=["k"])
        assert holders(first) == []


def test_a_directory_of_mirrors_that_cannot_be_listed_stops_nothing(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEEP-09: what is known there is cleared all the same."""
    listed = os.listdir

    def refuse(top: str) -> list[str]:
        if top == str(tmp_path / "m"):
            raise PermissionError(errno.EACCES, "Permission denied", top)
        return listed(top)

    with studio_of(repo) as studio:
        play(studio)
        known = mirrored(studio, tmp_path / "m")
        monkeypatch.setattr(os, "listdir", refuse)
        done = studio.run("purge", paths=["k"])
        assert (done["mirror"], holders(known)) == (None, [])


def test_a_mirror_that_is_not_ours_is_named_and_left(
    repo: Repo, tmp_path: Path
) -> None:
    """KEEP-09: another repository lay in this directory before."""
    with studio_of(repo) as studio:
        play(studio)
        theirs = mirrored(studio, tmp_path / "m")
        theirs.git("config", "agent-undo.machines", "0" * 12)
        before = holders(theirs)
        done = studio.run("purge", paths=["k"])
        assert "another repository" in str(done["mirror"])
        assert holders(theirs) == before


def test_a_mirror_that_is_away_is_named_one_that_was_deleted_is_not(
    repo: Repo, tmp_path: Path
) -> None:
    with studio_of(repo) as studio:
        play(studio)
        mirrored(studio, tmp_path / "disk" / "m")
        mirrored(studio, tmp_path / "now")
        os.rename(tmp_path / "disk", tmp_path / "away")
        assert "is not reachable" in str(studio.run("purge", paths=["k"])["mirror"])
        (tmp_path / "disk" / "m").mkdir(parents=True)
        assert studio.run("purge", paths=["k"])["mirror"] is None


def test_a_branch_that_only_the_mirror_has_is_named(repo: Repo, tmp_path: Path) -> None:
    """KEEP-09: it is a copy of the user's: nobody takes it out unasked."""
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        studio.end("S1")
        repo.git("checkout", "-q", "-b", "aside")
        repo.commit("with it")
        mirror = mirrored(studio, tmp_path / "m")
        repo.git("checkout", "-q", "main")
        repo.git("branch", "-q", "-D", "aside")
        studio.context.observer.settle()
        (row,) = rows(studio.run("purge", paths=["k"]))
        assert row["held"] == ["refs/heads/aside"]
        assert mirror.git("show", "aside:k") == SECRET.decode()


def test_a_daemon_copies_what_goes_on_and_what_was_pruned(
    repo: Repo, tmp_path: Path
) -> None:
    with studio_of(repo) as studio:
        play(studio)
        mirror = mirrored(studio, tmp_path / "m")
        studio.write("S3", "a", "more\n")
        studio.end("S3")
        assert copied_by_the_daemon(studio) == ""
        assert f"refs/agent-undo/{studio.session('S3')}" in mirror.shadow_refs()
        os.rename(mirror.root, tmp_path / "away")
        studio.run("prune", all=True)
        os.rename(tmp_path / "away", mirror.root)
        studio.hand("b", "mine\n")
        assert copied_by_the_daemon(studio) == ""


@pytest.mark.parametrize("loss", ["gone", "other"])
def test_a_daemon_writes_nothing_over_a_history_that_is_lost_here(
    repo: Repo, tmp_path: Path, loss: str
) -> None:
    """What only the mirror still has stays there, branches too, until somebody asks."""
    with studio_of(repo) as studio:
        play(studio)
        mirror = mirrored(studio, tmp_path / "m")
        before = mirror.git("for-each-ref")
        ref = f"refs/agent-undo/{studio.session('S1')}"
        repo.git("update-ref", "-d", ref)
        if loss == "other":
            repo.git("update-ref", ref, repo.shadow_refs()[_other(repo)])
        repo.write("c", "new\n")
        repo.commit("a commit after the loss")
        said = "cannot mirror, to keep what is there: 1 session missing or different"
        assert said in copied_by_the_daemon(studio)
        check = next(one for one in examine(studio.context) if one.name == "mirror")
        assert str(check.remedy).startswith("git agent-undo restore --from-mirror; ")
        assert mirror.git("for-each-ref") == before
        ws = studio.context.workspace
        mirror_now(ws, ws.git)
        assert mirror.git("rev-parse", "main") == repo.git("rev-parse", "main")
        studio.hand("b", "mine\n")
        assert copied_by_the_daemon(studio) == ""
        repo.damaged = True


def _other(repo: Repo) -> str:
    return next(ref for ref in repo.shadow_refs() if "claude" in ref)


def test_a_daemon_waits_while_a_restore_is_planned(repo: Repo, tmp_path: Path) -> None:
    """Else it copies the loss, and the restore would find that as the newest state."""
    with studio_of(repo) as studio:
        play(studio)
        mirrored(studio, tmp_path / "m")
        db = studio.context.workspace.db
        with db.write():
            meta.note_return(db, meta.MirrorReturn(str(tmp_path), 5, 1))
        studio.hand("b", "the loss\n")
        assert "planned and not applied" in copied_by_the_daemon(studio)
        studio.run("came_back")
        assert copied_by_the_daemon(studio) == ""


def test_the_moment_stays_until_a_restore_followed(repo: Repo) -> None:
    """The plan and what is applied after it are of one state of the mirror."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
        db = studio.context.workspace.db
        came = meta.MirrorReturn("m", 5, 1)
        with db.write():
            meta.note_return(db, came)
        assert meta.pending_return(db) == came
        asked = {"targets": [{"text": "a", "path_only": True}], "yes": True}
        studio.run("undo", **asked, verb="restore")
        assert meta.pending_return(db) is None


def test_a_branch_that_the_user_rewrote_is_copied_too(
    repo: Repo, tmp_path: Path
) -> None:
    """A repository that `git init --shared` made refuses that by itself."""
    with studio_of(repo) as studio:
        play(studio)
        mirror = mirrored(studio, tmp_path / "m")
        mirror.git("config", "receive.denyNonFastForwards", "true")
        repo.git("commit", "-q", "--amend", "-m", "reworded")
        studio.hand("b", "mine\n")
        assert copied_by_the_daemon(studio) == ""
        assert mirror.git("rev-parse", "main") == repo.git("rev-parse", "main")


def test_what_the_user_rewrote_goes_from_the_mirror(repo: Repo, tmp_path: Path) -> None:
    """KEEP-09: their branch there becomes what it is here, and nothing keeps the old one."""
    with studio_of(repo) as studio:
        studio.write("S1", "k", SECRET)
        studio.end("S1")
        repo.commit("with it")
        mirror = mirrored(studio, tmp_path / "m")
        (row,) = rows(studio.run("purge", paths=["k"]))
        assert row["held"] == ["refs/heads/main"]
        repo.git("rm", "-q", "-f", "k")
        repo.git("commit", "-q", "--amend", "--allow-empty", "-m", "without it")
        repo.git("reflog", "expire", "--expire=now", "--all")
        (row,) = rows(studio.run("purge", paths=["k"]))
        assert row["held"] == []
        assert holders(mirror) == []
