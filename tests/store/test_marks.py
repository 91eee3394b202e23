"""Review marks: made whole, read back, bound to content, and in nobody's way."""

from gitshadow.model import RepoPath
from gitshadow.store import marks
from gitshadow.store.journal.db import Db
from gitshadow.store.marks import Reviewed, file_digest, line_digest
from gitshadow.store.objects import NewCommit
from gitshadow.store.refs import MARK_PREFIX, REF_PREFIX, is_chain, session_id
from gitshadow.store.replay import agree, rebuild
from gitshadow.store.repo import Repo
from tests.support.repo import Repo as Folder
from tests.support.studio import layout_of

NOW_NS = 1_795_248_000_123_456_000
ODD = RepoPath(b'od"d\n\xff name')


def items() -> list[Reviewed]:
    line = line_digest(("s1", 7), ODD, b"text")
    return [
        Reviewed(line, ODD, "claude-code-20261121-abcdef"),
        Reviewed(line, ODD, "claude-code-20261121-abcdef"),
        Reviewed(file_digest(ODD, b"text\n"), ODD, line=False),
    ]


def test_mark_is_read_back_as_it_was_made(repo: Folder) -> None:
    store = Repo.open(layout_of(repo))
    head = store.head()[1]
    made = marks.publish(store, "src and more", items(), NOW_NS, head)
    assert marks.list_marks(store) == [made]
    assert made.id.startswith("review-20261121-")
    assert made.ref == REF_PREFIX + made.id
    assert (made.who, made.ts_ns) == ("Test User <test@example.com>", NOW_NS)
    assert made.target == "src and more"
    assert sorted(made.items) == sorted(items())
    repo.fsck()


def test_newest_mark_comes_first(repo: Folder) -> None:
    store = Repo.open(layout_of(repo))
    first = marks.publish(store, "a", items(), NOW_NS, None)
    second = marks.publish(store, "b", items(), NOW_NS + 1_000_000, None)
    assert [one.id for one in marks.list_marks(store)] == [second.id, first.id]


def test_fetch_does_not_offer_a_mark_first(repo: Folder) -> None:
    store = Repo.open(layout_of(repo))
    head = store.head()[1]
    assert head is not None
    mark = marks.publish(store, "a", items(), NOW_NS, head)
    dated = store.commit(mark.commit).committer_time
    assert dated == store.commit(head).committer_time - 1


def test_foreign_commit_on_such_a_ref_marks_nothing(repo: Folder) -> None:
    store = Repo.open(layout_of(repo))
    head = store.head()[1]
    assert head is not None
    store.create_ref(f"{REF_PREFIX}{MARK_PREFIX}x", head)
    blob = store.write_blob(b"line zz -\n")
    tree = store.trees.splice(None, {RepoPath(b"reviewed"): (0o100644, blob)})
    said = ("Format: 1", "Kind: review", "Time: 2026-11-21T08:00:00.000000Z")
    message = "Review x\n\n" + "".join(f"Agent-Undo-{one}\n" for one in said)
    forged = store.write_commit(NewCommit(tree, (), b"x", b"x", 1, 1, message.encode()))
    store.create_ref(f"{REF_PREFIX}{MARK_PREFIX}y", forged)
    assert marks.list_marks(store) == []


def test_digest_is_of_the_write_and_the_text() -> None:
    path = RepoPath(b"a")
    known = line_digest(("s1", 7), path, b"text")
    assert line_digest(("s1", 7), RepoPath(b"renamed"), b"text") == known
    others = {
        line_digest(("s1", 8), path, b"text"),
        line_digest(("s2", 7), path, b"text"),
        line_digest(("s1", 7), path, b"text "),
        line_digest(None, path, b"text"),
        line_digest(None, RepoPath(b"renamed"), b"text"),
        file_digest(path, b"text"),
    }
    assert known not in others
    assert len(others) == 6


def test_journal_agrees_with_the_refs_whatever_is_marked(repo: Folder) -> None:
    store = Repo.open(layout_of(repo))
    mark = marks.publish(store, "a", items(), NOW_NS, None)
    db = Db.open(str(repo.root / ".git" / "journal.db"), create=True)
    assert agree(db, store.refs())
    with db.write():
        rebuilt = rebuild(db, store)
    db.close()
    assert (rebuilt.worktrees, rebuilt.broken) == ({}, ())
    assert not is_chain(mark.ref)


def test_no_session_has_a_ref_like_a_mark() -> None:
    assert session_id("review", "x", NOW_NS).startswith("agent-review-")
