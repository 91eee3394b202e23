"""A repository whose format changes while it is open: the store follows, or refuses."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gitshadow.errors import StaleTipError, StoreError, UnsupportedError
from gitshadow.model import Oid
from gitshadow.store.backends.libgit2 import Libgit2Backend
from gitshadow.store.backends.port import FILES, REFTABLE
from gitshadow.store.objects import NewCommit
from gitshadow.store.repo import Repo as Store
from tests.support.newer_git import need_newer_git
from tests.support.repo import Repo
from tests.support.studio import layout_of
from tests.support.waiting import HANGS_S

REF = "refs/agent-undo/s-1"


@pytest.fixture(autouse=True)
def newer_git(monkeypatch: pytest.MonkeyPatch, sealed: Path) -> None:
    """`git refs migrate` is of git 2.46."""
    need_newer_git(monkeypatch)


@contextmanager
def opened(repo: Repo) -> Iterator[Store]:
    store = Store.open(layout_of(repo))
    try:
        yield store
    finally:
        store.close()


def commit(store: Store, text: str) -> Oid:
    return store.write_commit(
        NewCommit(
            tree=store.write_tree(b""),
            parents=(),
            author_name=b"a",
            author_email=b"a@b.invalid",
            author_time=2_000_000_000,
            committer_time=1_000_000_000,
            message=text.encode(),
        )
    )


def migrate(repo: Repo, to: str) -> None:
    repo.git("refs", "migrate", f"--ref-format={to}")


def test_refs_are_read_and_moved_in_the_format_that_they_have_now(repo: Repo) -> None:
    tip = repo.git("rev-parse", "HEAD")
    with opened(repo) as store:
        made = [commit(store, text) for text in "12345"]
        store.create_ref(REF, made[0])
        for number, to in enumerate((REFTABLE, FILES, REFTABLE), 1):
            mark = [one.mark.partition(":")[2] for one in store.head_log.newest(1)]
            migrate(repo, to)
            assert store.ref(REF) == made[number - 1]
            assert store.head() == ("refs/heads/main", tip)
            store.move_ref(REF, made[number - 1], made[number])
            assert repo.git("rev-parse", REF) == made[number]
            with pytest.raises(StaleTipError):
                store.move_ref(REF, made[0], made[number])
            found = [one.mark.partition(":")[2] for one in store.head_log.newest(1)]
            assert found == mark
        store.delete_ref(REF)
    assert repo.shadow_refs() == {}
    assert not (repo.git_dir / "refs" / "agent-undo").exists()


def test_ref_that_was_written_first_after_the_change_is_in_the_new_place(
    repo: Repo,
) -> None:
    with opened(repo) as store:
        tip = commit(store, "1")
        migrate(repo, REFTABLE)
        store.create_ref(REF, tip)
    assert repo.shadow_refs() == {REF: tip}
    assert (repo.git_dir / "refs" / "heads").is_file()
    assert not (repo.git_dir / "refs" / "agent-undo").exists()


def between_formats(repo: Repo) -> None:
    """Leave the repository as `git refs migrate` has it before it writes the configuration."""
    config = (repo.git_dir / "config").read_bytes()
    migrate(repo, REFTABLE)
    (repo.git_dir / "config").write_bytes(config)
    repo.damaged = True


def test_nothing_is_absent_and_nothing_is_written_between_two_formats(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitshadow.store.backends.following._WAIT_S", 0.05)
    with opened(repo) as store:
        tip = commit(store, "1")
        store.create_ref(REF, tip)
        between_formats(repo)
        for question in (
            lambda: store.ref(REF),
            lambda: store.refs(),
            store.head,
            lambda: store.create_ref("refs/agent-undo/s-2", tip),
            lambda: store.move_ref(REF, tip, tip),
            lambda: store.delete_ref(REF),
        ):
            with pytest.raises(StoreError, match=r"refs|HEAD"):
                question()
        assert not (repo.git_dir / "refs" / "agent-undo").exists()
        repo.git("config", "core.repositoryFormatVersion", "1", check=False)
        (repo.git_dir / "config").write_text(
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
            "[extensions]\n\trefstorage = reftable\n"
        )
        assert store.ref(REF) == tip
        store.create_ref("refs/agent-undo/s-2", tip)
    assert set(repo.shadow_refs()) == {REF, "refs/agent-undo/s-2"}


def test_write_waits_until_the_refs_have_arrived(repo: Repo) -> None:
    with opened(repo) as store:
        first, second = commit(store, "1"), commit(store, "2")
        store.create_ref(REF, first)
        between_formats(repo)
        config = repo.git_dir / "config"
        text = config.read_text().replace("version = 0", "version = 1")
        text += "[extensions]\n\trefstorage = reftable\n"
        later = threading.Timer(0.3, config.write_text, [text])
        later.start()
        store.move_ref(REF, first, second)
        later.join()
    assert repo.shadow_refs() == {REF: second}


def test_writers_and_a_migration_lose_no_ref(repo: Repo) -> None:
    """What a writer was told is done is there afterwards, whatever git did in between."""
    done: dict[str, Oid] = {}
    begun, ended = threading.Event(), threading.Event()

    def write() -> None:
        with opened(repo) as store:
            number = 0
            while not ended.is_set():
                number += 1
                name, tip = f"refs/agent-undo/w-{number}", commit(store, str(number))
                with suppress(StoreError):
                    store.create_ref(name, tip)
                    done[name] = tip
                    begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert begun.wait(HANGS_S)
    for to in (REFTABLE, FILES, REFTABLE):
        repo.git("refs", "migrate", f"--ref-format={to}", check=False)
    ended.set()
    writer.join()
    assert done
    assert {name: repo.shadow_refs().get(name) for name in done} == done


@pytest.mark.parametrize("act", ["create_ref", "move_ref", "delete_ref"])
def test_change_that_comes_too_late_to_be_migrated_is_made_again(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Git has copied the refs before one is written where they were."""
    change, moves = getattr(Libgit2Backend, act), [REFTABLE]

    def late(backend: Libgit2Backend, *args: str) -> None:
        for to in moves:
            migrate(repo, to)
        moves.clear()
        change(backend, *args)

    with opened(repo) as store:
        first, second = commit(store, "1"), commit(store, "2")
        if act != "create_ref":
            store.create_ref(REF, first)
        monkeypatch.setattr(Libgit2Backend, act, late)
        match act:
            case "create_ref":
                store.create_ref(REF, first)
            case "move_ref":
                store.move_ref(REF, first, second)
            case _:
                store.delete_ref(REF)
        assert moves == []
    expected = {"create_ref": {REF: first}, "move_ref": {REF: second}}
    assert repo.shadow_refs() == expected.get(act, {})


def test_configuration_that_git_has_half_written_is_read_again(repo: Repo) -> None:
    """On the way to files the version is 0 before the extension is gone."""
    tip = repo.git("rev-parse", "HEAD")
    migrate(repo, REFTABLE)
    with opened(repo) as store:
        store.create_ref(REF, commit(store, "1"))
        migrate(repo, FILES)
        config = repo.git_dir / "config"
        whole = config.read_text()
        for reader in (store.head, lambda: head_of(repo)):
            config.write_text(whole + "[extensions]\n\trefstorage = reftable\n")
            later = threading.Timer(0.2, config.write_text, [whole])
            later.start()
            assert reader() == ("refs/heads/main", tip)
            later.join()


def head_of(repo: Repo) -> tuple[str | None, Oid | None]:
    with opened(repo) as store:
        return store.head()


def test_left_copy_of_a_dry_run_is_no_obstacle(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitshadow.store.backends.following._LEFT_S", 0.05)
    repo.git("refs", "migrate", "--ref-format=reftable", "--dry-run")
    assert list(repo.git_dir.glob("ref_migration.*"))
    with opened(repo) as store:
        store.create_ref(REF, commit(store, "1"))
    assert set(repo.shadow_refs()) == {REF}


def test_mistake_in_the_configuration_changes_nothing(repo: Repo) -> None:
    with opened(repo) as store:
        tip = commit(store, "1")
        store.create_ref(REF, tip)
        config = repo.git_dir / "config"
        whole = config.read_text()
        config.write_text(whole + "[broken\n")
        assert store.ref(REF) == tip
        store.create_ref("refs/agent-undo/s-2", tip)
        config.write_text(whole)
        assert set(store.refs()) == {REF, "refs/agent-undo/s-2"}


def test_unknown_format_ends_all_reading_and_writing(repo: Repo) -> None:
    with opened(repo) as store:
        tip = commit(store, "1")
        store.create_ref(REF, tip)
        repo.git("config", "core.repositoryFormatVersion", "1")
        repo.git("config", "extensions.unheardOf", "true")
        with pytest.raises(UnsupportedError, match="unheardof"):
            store.ref(REF)
        with pytest.raises(UnsupportedError, match="unheardof"):
            store.delete_ref(REF)
        assert os.path.exists(repo.git_dir / REF)
        repo.damaged = True
