"""What a power cut leaves: refs and objects that are empty, cut short, zeroed, changed or gone."""

import os
import random
from contextlib import closing
from pathlib import Path

import pytest

from gitshadow.maintenance import object_check
from gitshadow.maintenance.startup_repair import mend
from gitshadow.recording.context import open_context
from gitshadow.store.journal import events, meta
from gitshadow.store.lock import WriterLock
from tests.conftest import FULL
from tests.maintenance.test_diagnostics import found, mended
from tests.support import audit
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of

# libgit2 never returned from a torn object, and its loop does not listen to signals.
pytestmark = pytest.mark.timeout(300, method="thread")

_ROUNDS = 200 if FULL else 10


def damage(path: Path, how: str, rng: random.Random) -> None:
    """Leave a file as a power cut or a bad disk does."""
    data = path.read_bytes()
    path.chmod(0o644)
    at = rng.randrange(1, len(data))
    if how == "gone":
        path.unlink()
    elif how == "flipped":
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
    else:
        short = {"empty": b"", "torn": data[:at], "zeroed": bytes(len(data))}
        path.write_bytes(short[how])


def loose(repo: Repo, oid: str) -> Path:
    return repo.common_dir / "objects" / oid[:2] / oid[2:]


def only_ours(repo: Repo) -> list[Path]:
    """Return the loose objects that our refs reach and nothing of the user's."""
    user = ("--exclude=refs/agent-undo/*", "--all", "--reflog")
    ours = ("--objects", "--no-object-names", "--glob=refs/agent-undo/*")
    listed = repo.git("rev-list", *ours, "--not", *user).split()
    staged = {row.split()[1] for row in repo.git("ls-files", "-s").splitlines()}
    kept = staged | set(
        repo.git("rev-list", "--objects", "--no-object-names", *user).split()
    )
    paths = (loose(repo, oid) for oid in listed if oid not in kept)
    return [path for path in paths if path.exists()]


def forget_boot(studio: Studio) -> None:
    with studio.context.workspace.db.write():
        meta.put(studio.context.workspace.db, "boot_id", "another")


def check_whole(studio: Studio) -> None:
    """Check that Git finds nothing wrong, rows have their commits, and recording goes on."""
    repo = studio.repo
    repo.fsck()
    repo.git("gc", "--quiet")
    studio.write("S9", "after", f"{random.random()}\n")
    studio.hand("by hand", "after all\n")
    db = studio.context.workspace.db
    shown = repo.git("rev-list", "--glob=refs/agent-undo/*").split()
    assert set(events.commits(db)) <= set(shown)
    audit.audit_states(repo)
    bad = [one for one in ("refs", "objects", "rows") if not found(studio, one).ok]
    assert bad == []
    assert studio.run("undo", verb="oops", yes=True)["status"] == "reversed"


def record(studio: Studio, rng: random.Random) -> None:
    """Record writes of two agents and a person, with commits and upkeep of the user between."""
    repo = studio.repo
    for number in range(rng.randrange(4, 12)):
        who = rng.choice(("S1", "S2", "person", "commit", "upkeep"))
        name = rng.choice(("a", "d/b", "d/e/c", f"new{number}"))
        data = f"{number} {rng.random()}\n" * rng.choice((1, 1, 400))
        if who == "commit":
            studio.commit(f"commit {number}")
        elif who == "upkeep" and number > 2:
            how = rng.choice(
                (("gc", "--quiet"), ("pack-refs", "--all"), ("repack", "-d", "-q"))
            )
            repo.git(*how)
        elif who == "person":
            studio.hand(name, data)
        else:
            studio.write(who if who != "upkeep" else "S1", name, data)
    studio.write("S1", "last", f"{rng.random()}\n")


@pytest.mark.parametrize("seed", range(_ROUNDS))
def test_refs_and_objects_are_whole_after_a_power_cut(repo: Repo, seed: int) -> None:
    """LAW-09: whatever is empty, torn, zeroed, changed or gone, of ours, in any mixture."""
    rng = random.Random(seed)
    with studio_of(repo) as studio:
        record(studio, rng)
        forget_boot(studio)
    paths = only_ours(repo)
    refs = [p for p in (repo.common_dir / "refs/agent-undo").glob("*") if p.is_file()]
    chosen = rng.sample(paths, rng.randrange(0, min(len(paths), 12) + 1))
    for path in chosen:
        damage(
            path,
            rng.choice(("empty", "torn", "torn", "zeroed", "flipped", "gone")),
            rng,
        )
    for path in rng.sample(refs, rng.randrange(0 if chosen else 1, len(refs) + 1)):
        damage(path, rng.choice(("empty", "torn", "zeroed", "gone")), rng)
    files = repo.tree_snapshot()
    user = repo.snapshot()
    with studio_of(repo) as studio:
        studio.context.observer.settle()
        assert repo.tree_snapshot() == files
        assert repo.snapshot() == user
        check_whole(studio)


def newest(studio: Studio, what: str) -> Path:
    """Return the file of an object of the newest commit of S1."""
    ref = f"refs/agent-undo/{studio.session('S1')}"
    return loose(studio.repo, studio.repo.git("rev-parse", f"{ref}{what}"))


@pytest.mark.parametrize("what", ["", "^{tree}", ":d", ":d/a"])
def test_torn_object_hangs_no_verb_and_doctor_mends_it(repo: Repo, what: str) -> None:
    """Whenever it is torn: nobody was told of another boot."""
    with studio_of(repo) as studio:
        studio.write("S1", "d/a", "one\n" * 50)
        studio.write("S1", "d/a", "two\n" * 50)
        path = newest(studio, what)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:20])
    with studio_of(repo) as studio:
        studio.context.observer.settle()
        check = found(studio, "objects")
        assert (check.ok, check.remedy) == (False, "git agent-undo doctor --fix")
        assert check.message.startswith("broken in the object store: 1, ")
        said = mended(studio)
        assert "rewrote or removed 1 broken object" in said
        check_whole(studio)


def test_object_that_is_torn_is_stored_again_when_its_content_comes(repo: Repo) -> None:
    """libgit2 leaves what is there, so that a content was taken for stored and was not."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "new content\n")
        oid = studio.context.workspace.repo.write_blob(b"comes later\n")
        path = loose(repo, oid)
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:9])
        studio.write("S1", "b", "comes later\n")
        assert repo.git("cat-file", "blob", oid) == "comes later"


def test_broken_object_of_the_user_stays_and_is_named(repo: Repo) -> None:
    """Nobody but its owner decides what becomes of it: an older version, nowhere else."""
    with studio_of(repo) as studio:
        studio.hand("a", "first\n")
        studio.commit("first")
        studio.hand("a", "second\n")
        studio.commit("second")
        studio.write("S1", "b", "agent\n")
    path = loose(repo, repo.git("rev-parse", "HEAD~1:a"))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:9])
    torn = path.read_bytes()
    with studio_of(repo) as studio:
        forget_boot(studio)
    with studio_of(repo) as studio:
        mended(studio)
        assert path.read_bytes() == torn
        check = found(studio, "objects")
        assert (check.ok, check.remedy) == (False, "git fsck")
    repo.damaged = True


def test_rows_of_lost_commits_go_with_a_gap_that_counts_them(repo: Repo) -> None:
    with studio_of(repo) as studio:
        studio.write("S1", "a", "one\n")
        studio.write("S1", "a", "two\n")
        studio.write("S1", "a", "three\n")
        newest(studio, "").unlink()
        forget_boot(studio)
    with studio_of(repo) as studio:
        ref = f"refs/agent-undo/{studio.session('S1')}"
        (gap,) = events.list_gaps(studio.context.workspace.db)
        assert gap.note == (
            f"objects of {ref} were lost in a power failure; it was reset to its last"
            f" complete commit; 1 write lost"
        )
        check = found(studio, "gaps")
        assert ref in check.message, "the finding names the ref itself"
        check_whole(studio)


def test_check_after_a_power_cut_is_done_again_where_it_was_interrupted(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot counts as seen when all is whole, not when it is first noticed."""
    with studio_of(repo) as studio:
        studio.write("S1", "a", "one\n")
        studio.write("S1", "a", "two\n")
        newest(studio, "").unlink()
        forget_boot(studio)
    with (
        monkeypatch.context() as patch,
        closing(
            open_context(layout_of(repo), os.environ, lock_timeout_s=1.0)
        ) as context,
    ):
        patch.setattr(object_check, "WriterLock", _killed)
        with pytest.raises(KeyboardInterrupt):
            mend(context)
    with studio_of(repo) as studio:
        check_whole(studio)


def _killed(*_: object) -> WriterLock:
    raise KeyboardInterrupt


def tear(repo: Repo, name: str, how: str) -> None:
    damage(loose(repo, repo.git("rev-parse", name)), how, random.Random(1))
    repo.damaged = True


@pytest.mark.parametrize("how", ["torn", "empty", "gone"])
@pytest.mark.parametrize("name", ["HEAD^{tree}", "HEAD~1^{tree}", "HEAD~1"])
def test_doctor_names_fsck_when_an_object_of_the_user_is_broken(
    repo: Repo, name: str, how: str
) -> None:
    """Its own `--fix` would be the remedy for ever."""
    with studio_of(repo) as studio:
        studio.hand("d/f", "first\n")
        studio.commit("first")
        studio.hand("d/f", "second\n")
        studio.commit("second")
        studio.write("S1", "b", "agent\n")
        tear(repo, name, how)
        studio.run("doctor", fix=True)
        rows = studio.run("doctor", fix=True)["checks"]
    assert isinstance(rows, list)
    wrong = [row for row in rows if not row["ok"]]
    if how != "gone" or name == "HEAD^{tree}":
        assert wrong, "it is found"
    for row in wrong:
        assert "not gitshadow's, your own history needs it: 1, " in row["message"]
        assert row["remedy"].split("; ")[0] == "git fsck"
