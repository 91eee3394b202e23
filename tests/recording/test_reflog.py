"""What Git's log of HEAD says of how it moved."""

import pytest

from gitshadow.model import Oid
from gitshadow.recording.head import reflog_mark, reflog_since
from gitshadow.store.backends.ref_files import FileHeadLog
from tests.support.repo import Repo


def head(repo: Repo) -> Oid:
    return Oid(repo.git("rev-parse", "HEAD").strip())


def words_since(repo: Repo, mark: str, known: Oid | None) -> list[str] | None:
    found = reflog_since(FileHeadLog(str(repo.git_dir)), mark, known, head(repo))
    return None if found is None else [entry.words.split(":")[0] for entry in found]


@pytest.fixture
def changed(repo: Repo) -> Repo:
    repo.git("branch", "other")
    repo.write("a", "changed\n")
    return repo


def test_entries_since_a_mark_are_in_their_order(changed: Repo) -> None:
    old = head(changed)
    mark = reflog_mark(FileHeadLog(str(changed.git_dir)), old)
    changed.git("commit", "-qam", "x")
    changed.git("checkout", "-q", "other")
    changed.git("merge", "-q", "main")
    assert words_since(changed, mark, old) == ["commit", "checkout", "merge main"]


def test_entries_begin_where_head_last_was_without_a_mark(changed: Repo) -> None:
    """A journal of an older version has none."""
    old = head(changed)
    changed.git("commit", "-qam", "x")
    changed.git("checkout", "-q", "--detach")
    assert words_since(changed, "", old) == ["commit", "checkout"]


def test_mark_tells_entries_from_older_ones_of_the_same_commits(changed: Repo) -> None:
    old = head(changed)
    for branch in ("other", "main") * 2:
        changed.git("checkout", "-q", branch)
    mark = reflog_mark(FileHeadLog(str(changed.git_dir)), old)
    assert words_since(changed, mark, old) == []
    changed.git("checkout", "-q", "other")
    assert words_since(changed, mark, old) == ["checkout"]


def test_mark_is_found_when_git_has_removed_older_entries(changed: Repo) -> None:
    """`git gc` expires entries: a trip that was read before it is not a new one."""
    old = head(changed)
    for branch in ("other", "main") * 2:
        changed.git("checkout", "-q", branch)
    mark = reflog_mark(FileHeadLog(str(changed.git_dir)), old)
    log = changed.git_dir / "logs" / "HEAD"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    assert words_since(changed, mark, old) == []
    changed.git("checkout", "-q", "other")
    assert words_since(changed, mark, old) == ["checkout"]


def test_mark_is_none_while_head_is_behind_its_log(changed: Repo) -> None:
    """Git writes the entry first: who read it already would never see the move."""
    old = head(changed)
    changed.git("commit", "-qam", "x")
    assert reflog_mark(FileHeadLog(str(changed.git_dir)), old) == ""
    found = reflog_since(FileHeadLog(str(changed.git_dir)), "", head(changed), old)
    assert found is None


def test_entry_of_the_first_commit_is_found(make_unborn: Repo) -> None:
    repo = make_unborn
    repo.write("a", "1\n")
    repo.git("add", "a")
    repo.git("commit", "-qm", "first")
    assert words_since(repo, "", None) == ["commit (initial)"]


@pytest.fixture
def make_unborn(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return Repo.create(tmp_path_factory.mktemp("unborn") / "repo", ())


def test_nothing_is_claimed_without_a_log(changed: Repo) -> None:
    changed.git("config", "core.logAllRefUpdates", "false")
    old = head(changed)
    (changed.git_dir / "logs" / "HEAD").unlink()
    changed.git("commit", "-qam", "x")
    assert words_since(changed, "", old) is None


def test_nothing_is_claimed_of_another_head(changed: Repo) -> None:
    changed.git("commit", "-qam", "x")
    assert words_since(changed, "", Oid("1" * 40)) is None


def test_words_that_are_no_text_are_read(changed: Repo) -> None:
    """A subject may hold any bytes, and separators of lines that are none here."""
    old = head(changed)
    changed.git("commit", "-qam", "x\x85y\u2028z\x0c")
    log = changed.git_dir / "logs" / "HEAD"
    log.write_bytes(log.read_bytes().replace(b"z", b"\xff"))
    assert words_since(changed, "", old) == ["commit"]
