"""Our reader of reftables returns what Git does, for whatever Git writes."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitshadow.errors import StoreError
from gitshadow.store.backends.reftable import ReftableHeadLog, Reftables, Stack
from gitshadow.store.object_format import format_named
from tests.support.examples import SHARED_FIXTURE
from tests.support.kinds import Kind
from tests.support.repo import Repo
from tests.support.studio import layout_of

pytestmark = pytest.mark.kinds("sha1-reftable", "sha256-reftable")

_PARTS = st.sampled_from(["a", "b", "long-" * 9, "x" * 60, "é", "z.1", "a-b"])
_NAMES = st.lists(_PARTS, min_size=1, max_size=3).map("/".join)


def tables_of(repo: Repo) -> Reftables:
    form = repo.git("rev-parse", "--show-object-format=storage")
    return Reftables(layout_of(repo), format_named(form))


def by_git(repo: Repo) -> dict[str, str]:
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def agrees(repo: Repo, tables: Reftables | None = None) -> None:
    """Check that all refs, each one of them, and HEAD are what git says."""
    tables = tables or tables_of(repo)
    refs = by_git(repo)
    assert tables.refs("refs/") == refs
    for name in [*refs][:: max(1, len(refs) // 50)]:
        assert tables.ref(name) == refs[name]
    assert tables.ref("refs/heads/none-of-this-name") is None
    branch = repo.git("symbolic-ref", "-q", "HEAD", check=False)
    at = repo.git("rev-parse", "-q", "--verify", "HEAD", check=False)
    assert tables.head() == (branch or None, at or None)


def update(repo: Repo, lines: Sequence[str]) -> None:
    repo.git("update-ref", "--stdin", stdin="".join(f"{x}\n" for x in lines).encode())


@pytest.mark.parametrize("count", [1, 40, 700, 6000])
def test_refs_of_many_blocks_are_those_of_git(repo: Repo, count: int) -> None:
    """From one block to an index of several levels, before and after tables are merged."""
    tip = repo.git("rev-parse", "HEAD")
    repo.git("config", "reftable.blockSize", "512")
    tables = tables_of(repo)
    update(
        repo, [f"create refs/heads/n/{n * 7919 % 10007} {tip}" for n in range(count)]
    )
    agrees(repo, tables)
    update(
        repo, [f"delete refs/heads/n/{n * 7919 % 10007}" for n in range(0, count, 3)]
    )
    agrees(repo, tables)
    repo.git("pack-refs", "--all")
    agrees(repo, tables)


def test_prefix_is_found_in_the_middle(repo: Repo) -> None:
    tip = repo.git("rev-parse", "HEAD")
    update(repo, [f"create refs/x/{n:05}/y {tip}" for n in range(3000)])
    tables = tables_of(repo)
    assert len(tables.refs("refs/x/017")) == 100
    assert tables.refs("refs/x/02999/") == {"refs/x/02999/y": tip}
    assert tables.refs("refs/y") == {}
    assert tables.refs("refs/a") == {}


def test_tags_symbolic_refs_and_detached_heads_are_followed(repo: Repo) -> None:
    tip = repo.git("rev-parse", "HEAD")
    repo.git("tag", "-m", "annotated", "v1")
    repo.git("symbolic-ref", "refs/remotes/o/HEAD", "refs/heads/main")
    repo.git("symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere")
    tables = tables_of(repo)
    assert tables.ref("refs/tags/v1") == repo.git("rev-parse", "v1") != tip
    assert tables.ref("refs/remotes/o/HEAD") == tip
    assert tables.ref("refs/heads/dangling") is None
    agrees(repo, tables)
    repo.git("checkout", "-q", "--detach")
    assert tables.head() == (None, tip)
    repo.git("symbolic-ref", "HEAD", "refs/heads/unborn")
    assert tables.head() == ("refs/heads/unborn", None)
    repo.git("symbolic-ref", "refs/heads/ring", "refs/heads/ring2")
    repo.git("symbolic-ref", "refs/heads/ring2", "refs/heads/ring")
    with pytest.raises(StoreError, match="too many symbolic refs"):
        tables.ref("refs/heads/ring")


def test_worktree_has_its_own_head_and_the_shared_branches(
    repo: Repo, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    linked = Repo(tmp_path / "w")
    linked.git("commit", "-q", "--allow-empty", "-m", "x")
    linked.git("update-ref", "refs/worktree/own", "HEAD")
    agrees(repo)
    agrees(linked)
    assert tables_of(repo).ref("refs/worktree/own") is None


def head_log(repo: Repo) -> ReftableHeadLog:
    return ReftableHeadLog(tables_of(repo).own)


def log_by_git(repo: Repo) -> list[tuple[str, str]]:
    rows = repo.git("log", "-g", "--format=%H %gs", "HEAD").splitlines()
    return [(row.split(" ", 1)[0], row.split(" ", 1)[1]) for row in reversed(rows)]


def test_log_of_head_is_that_of_git_and_grows(repo: Repo) -> None:
    log = head_log(repo)
    sizes = [log.size()]
    for number in range(60):
        repo.git("commit", "-q", "--allow-empty", "-m", f"n {number} {'w' * 80}")
        sizes.append(log.size())
    assert sizes == sorted(set(sizes))
    rows = [(entry.new, entry.words) for entry in log.newest(1000)]
    assert rows == log_by_git(repo)
    assert [entry.new for entry in log.newest(3)] == [new for new, _ in rows[-3:]]
    newest = log.since(sizes[-2])[-1]
    assert int(newest.mark.partition(":")[0]) == sizes[-1]
    repo.git("pack-refs", "--all")
    assert log.size() == sizes[-1]
    repo.git("reflog", "delete", "--rewrite", "HEAD@{30}")
    assert [(e.new, e.words) for e in log.newest(1000)] == log_by_git(repo)
    repo.git("reflog", "expire", "--expire=all", "--all")
    assert (log.newest(9), log.size()) == ([], 0)


def test_marks_of_the_log_are_those_of_a_log_in_a_file(tmp_path: Path) -> None:
    """After `git refs migrate` the daemon goes on in the log where it was."""
    from gitshadow.store.backends.ref_files import FileHeadLog

    repo = Repo.create(tmp_path / "f")
    repo.git("refs", "migrate", "--ref-format=files")
    repo.git("commit", "-q", "--allow-empty", "-m", "second  with   blanks")
    digests = [
        one.mark.partition(":")[2] for one in FileHeadLog(str(repo.git_dir)).newest(9)
    ]
    repo.git("refs", "migrate", "--ref-format=reftable")
    found = [one.mark.partition(":")[2] for one in head_log(repo).newest(9)]
    assert found == digests


def newest_table(repo: Repo) -> Path:
    names = (repo.git_dir / "reftable" / "tables.list").read_text().split()
    return repo.git_dir / "reftable" / names[-1]


@pytest.mark.parametrize("cut", [0, 3, 23, 40, 90])
def test_table_that_is_cut_short_is_an_error_and_never_absent(
    repo: Repo, cut: int
) -> None:
    table = newest_table(repo)
    data = table.read_bytes()
    table.chmod(0o644)
    table.write_bytes(data[:cut])
    with pytest.raises(StoreError, match="could not read"):
        tables_of(repo).ref("refs/heads/main")
    with pytest.raises(StoreError, match="could not read HEAD"):
        tables_of(repo).head()
    with pytest.raises(StoreError):
        tables_of(repo).refs("refs/")


@settings(max_examples=200, suppress_health_check=SHARED_FIXTURE)
@given(data=st.data())
def test_no_damage_is_taken_for_an_absent_ref_without_an_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, repo_kind: Kind
) -> None:
    """Each byte of a table that is changed gives an error, or another id, or another name."""
    repo = _damaged_copy(tmp_path_factory, repo_kind)
    table = newest_table(repo)
    whole = table.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    table.chmod(0o644)
    table.write_bytes(changed)
    try:
        found = tables_of(repo).refs("refs/")
    except StoreError:
        return
    finally:
        table.write_bytes(whole)
    assert len(found) <= 1


_COPIES: dict[Kind, Repo] = {}


def _damaged_copy(factory: pytest.TempPathFactory, repo_kind: Kind) -> Repo:
    if repo_kind not in _COPIES:
        place = factory.mktemp("damaged") / "r"
        _COPIES[repo_kind] = Repo.create(place)
    return _COPIES[repo_kind]


def test_list_that_names_no_table_is_an_error(repo: Repo) -> None:
    listed = repo.git_dir / "reftable" / "tables.list"
    whole = listed.read_text()
    for wrong in ("../../config\n", whole + "0x1-0x2-33333333.ref\n", "\0\n"):
        listed.write_text(wrong)
        with pytest.raises(StoreError, match=r"tables\.list"):
            tables_of(repo).head()
    listed.unlink()
    with pytest.raises(StoreError, match=r"tables\.list"):
        tables_of(repo).head()


def test_table_of_another_hash_is_an_error(repo: Repo, repo_kind: Kind) -> None:
    other = format_named("sha1" if repo_kind.hash == "sha256" else "sha256")
    stack = Stack(str(repo.git_dir / "reftable"), other)
    with pytest.raises(StoreError, match="another hash"):
        stack.tables()


def test_tables_that_vanish_in_between_are_looked_up_again(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git merges tables at any time, and removes the old ones."""
    tables, form = tables_of(repo), repo.git("rev-parse", "--show-object-format")
    stack = Stack(str(repo.git_dir / "reftable"), format_named(form))
    read, merges = stack._read_list, iter([True])

    def read_before_a_merge() -> bytes:
        listed = read()
        if next(merges, False):
            repo.git("branch", "meanwhile")
            repo.git("pack-refs", "--all")
        return listed

    monkeypatch.setattr(stack, "_read_list", read_before_a_merge)
    (table,) = stack.tables()
    assert table.ref(b"refs/heads/meanwhile")[0]
    agrees(repo, tables)


@settings(max_examples=15, suppress_health_check=SHARED_FIXTURE)
@given(
    steps=st.lists(
        st.tuples(_NAMES, st.sampled_from(["put", "put", "drop", "link", "merge"])),
        max_size=12,
    )
)
def test_any_history_of_refs_reads_as_git_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, str]],
) -> None:
    place = tmp_path_factory.mktemp("history") / "r"
    repo = Repo.create(place)
    tables, tip = tables_of(repo), repo.git("rev-parse", "HEAD")
    for name, what in steps:
        ref = f"refs/heads/h/{name}"
        if what == "put":
            repo.git("update-ref", ref, tip, check=False)
        elif what == "drop":
            repo.git("update-ref", "-d", "--no-deref", ref, check=False)
        elif what == "link":
            repo.git("symbolic-ref", ref, "refs/heads/main", check=False)
        else:
            repo.git("pack-refs", "--all")
        # A dangling or circular link is left out by both.
        assert tables.refs("refs/") == by_git(repo)
    shutil.rmtree(place)
    assert not os.path.exists(place)
