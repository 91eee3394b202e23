"""`stage` puts exactly what a unit changed into the index, and `stage --undo` takes it out."""

import os
from pathlib import Path

import pytest

from gitshadow.api import staging as verbs
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.staging import StageRequest
from gitshadow.recording import index
from tests.staging.ground import Ground, states, unit
from tests.support.repo import ten_lines

A = ten_lines("a").encode()


def lines(**changed: str) -> str:
    """Return `a` with some lines changed: `l3="X"`."""
    found = ten_lines("a").splitlines()
    for name, text in changed.items():
        found[int(name[1:]) - 1] = text
    return "".join(f"{line}\n" for line in found)


def test_only_the_hunks_of_the_unit_are_staged(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.by("s1").write("a", lines(l1="MINE", l5="AGENT"))
    ground.by("s2").write("a", lines(l1="MINE", l5="AGENT", l9="OTHER"))
    answer = ground.stage("s1:t1")
    assert (answer.status, states(answer)) == ("done", {"a": "modify"})
    assert ground.staged("a") == lines(l5="AGENT").encode()
    assert ground.engine.read("a") == lines(l1="MINE", l5="AGENT", l9="OTHER").encode()


def test_a_plan_changes_nothing(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    before = ground.index()
    answer = ground.plan("s1:t1")
    assert answer.status == "planned"
    assert answer.items[0].added == answer.items[0].removed == 1
    assert ground.index() == before


def test_what_is_staged_already_stays(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.git("add", "a")
    ground.by("s1").write("a", lines(l1="MINE", l5="AGENT"))
    ground.engine.by("human").write("b", "mine\n")
    ground.stage("s1:t1")
    assert ground.staged("a") == lines(l1="MINE", l5="AGENT").encode()
    assert ground.staged("b") == ten_lines("b").encode()


def test_a_file_that_is_partly_staged_gets_the_rest(ground: Ground) -> None:
    """The person ran `git add` in the middle of the turn, and wrote on."""
    ground.by("s1").write("a", lines(l5="FIRST"))
    ground.git("add", "a")
    ground.by("human").write("a", lines(l1="MINE", l5="FIRST"))
    ground.by("s1").write("a", lines(l1="MINE", l5="SECOND"))
    assert ground.stage("s1:t1").status == "done"
    assert ground.staged("a") == lines(l5="SECOND").encode()


def test_a_new_file_that_is_partly_staged_gets_the_rest(ground: Ground) -> None:
    ground.by("s1").write("new", "one\n")
    ground.git("add", "new")
    ground.by("s1").write("new", "one\ntwo\n")
    assert states(ground.stage("s1:t1")) == {"new": "modify"}
    assert ground.staged("new") == b"one\ntwo\n"


def test_a_promised_file_is_staged(ground: Ground) -> None:
    """`git add -N` makes an entry without content; taking the staging back makes it again."""
    ground.by("s1").write("new", "one\n")
    ground.git("add", "-N", "new")
    before = ground.git("ls-files", "--stage", "--debug", "new").splitlines()[-1]
    assert states(ground.stage("s1:t1")) == {"new": "create"}
    assert ground.staged("new") == b"one\n"
    ground.unstage()
    after = ground.git("ls-files", "--stage", "--debug", "new").splitlines()[-1]
    assert after == before


def test_a_file_that_others_edited_is_staged_as_it_was_created(ground: Ground) -> None:
    ground.by("s1").write("new", "one\n")
    ground.by("s2").write("new", "ONE\n")
    answer = ground.stage("s1:t1")
    assert ground.staged("new") == b"one\n"
    assert answer.items[0].detail == "as it was then; edited later"
    ground.stage("s2:t1")
    assert ground.staged("new") == b"ONE\n"


def test_edits_of_a_file_that_is_not_staged_are_skipped(ground: Ground) -> None:
    ground.by("s1").write("new", "one\n")
    ground.by("s2").write("new", "one\ntwo\n")
    answer = ground.stage("s2:t1")
    assert (answer.status, states(answer)) == ("partial", {"new": "conflict"})
    assert answer.items[0].detail == "it is not in the index"
    assert ground.staged("new") is None


def test_what_was_reverted_since_is_not_staged(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l2="TWO", l8="EIGHT"))
    ground.by("human").write("a", lines(l8="EIGHT"))
    ground.stage("s1:t1")
    assert ground.staged("a") == lines(l8="EIGHT").encode()


def test_a_reverted_part_of_a_rewritten_file_is_not_staged(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l2="TWO", l8="EIGHT"))
    ground.by("s2").write("a", lines(l8="REWRITTEN"))
    ground.stage("s1:t1")
    assert ground.staged("a") == lines(l8="EIGHT").encode()


def test_what_is_undone_is_not_staged(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.engine.undo("s1:t1")
    answer = ground.stage("s1:t1")
    assert answer.status == "nothing_to_do"
    assert ground.staged("a") == A


def test_conflicting_staged_lines_are_skipped(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.git("update-index", "--cacheinfo", f"100644,{_blob(ground, 'x')},a")
    answer = ground.stage("s1:t1")
    assert states(answer) == {"a": "conflict"}
    assert answer.status == "partial"
    assert ground.staged("a") == b"x"


def _blob(ground: Ground, data: str) -> str:
    out = ground.git("hash-object", "-w", "--stdin", data=data.encode())
    return out.decode().strip()


def test_a_deletion_is_staged(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.by("s1").remove("a")
    assert states(ground.stage("s1:t1")) == {"a": "delete"}
    assert ground.staged("a") is None


def test_a_deletion_keeps_what_a_person_staged(ground: Ground) -> None:
    ground.git("update-index", "--cacheinfo", f"100644,{_blob(ground, 'x')},a")
    ground.by("s1").remove("a")
    answer = ground.stage("s1:t1")
    assert states(answer) == {"a": "conflict"}
    assert answer.items[0].detail == "other changes to it are in the index"
    assert ground.staged("a") == b"x"


def test_a_rename_with_an_edit_is_staged(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.move("a", "dir/n")
    engine.write("dir/n", lines(l5="AGENT"))
    ground.by("human").write("dir/n", lines(l1="MINE", l5="AGENT"))
    answer = ground.stage("s1:t1")
    assert states(answer) == {"dir/n": "rename"}
    assert answer.items[0].old_path == "a"
    assert (ground.staged("a"), ground.staged("dir/n")) == (
        None,
        lines(l5="AGENT").encode(),
    )


def test_an_edit_after_the_rename_of_another_needs_the_rename(ground: Ground) -> None:
    ground.by("s1").move("a", "n")
    ground.by("s2").write("n", lines(l5="AGENT"))
    assert states(ground.stage("s2:t1")) == {"n": "conflict"}
    ground.stage("s1:t1")
    ground.stage("s2:t1")
    assert ground.staged("n") == lines(l5="AGENT").encode()


def test_a_file_over_another_is_staged(ground: Ground) -> None:
    ground.by("s1").move("a", "b")
    ground.stage("s1:t1")
    assert (ground.staged("a"), ground.staged("b")) == (None, A)


def test_files_that_change_places_are_staged(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.move("a", "t")
    engine.move("b", "a")
    engine.move("t", "b")
    ground.stage("s1:t1")
    assert ground.staged("a") == ten_lines("b").encode()
    assert ground.staged("b") == A


def test_a_directory_in_place_of_a_file_is_staged(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.remove("a")
    engine.write("a/in", "x\n")
    ground.stage("s1:t1")
    assert (ground.staged("a"), ground.staged("a/in")) == (None, b"x\n")


def test_a_file_below_a_staged_file_is_skipped(ground: Ground) -> None:
    ground.by("human").remove("a")
    ground.by("s1").write("a/in", "x\n")
    answer = ground.stage("s1:t1")
    assert states(answer) == {"a/in": "type_clash"}
    assert ground.staged("a") == A


def test_a_mode_is_staged(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.by("s1").write("a", lines(l1="MINE"), 0o755)
    assert states(ground.stage("s1:t1")) == {"a": "mode"}
    assert ground.git("ls-files", "--stage", "a").startswith(b"100755 ")
    assert ground.staged("a") == A


def test_modes_are_ignored_where_git_ignores_them(ground: Ground) -> None:
    ground.git("config", "core.fileMode", "false")
    ground.by("s1").write("a", lines(l5="AGENT"), 0o755)
    ground.by("s1").write("new", "x\n", 0o755)
    ground.stage("s1:t1")
    listed = ground.git("ls-files", "--stage", "a", "new").decode().splitlines()
    assert [line[:6] for line in listed] == ["100644", "100644"]


def test_links_are_staged(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.put("link", 0o120000, b"a")
    engine.put("b", 0o120000, b"c")
    engine.record()
    ground.stage("s1:t1")
    assert (ground.staged("link"), ground.staged("b")) == (b"a", b"c")
    assert ground.git("ls-files", "--stage", "b", "link").count(b"120000") == 2
    assert ground.changed() == ["T  b", "A  link"]


def test_a_binary_file_is_staged_whole_or_not_at_all(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.write("bin", b"\0one")
    ground.by("s2").write("bin", b"\0two")
    assert states(ground.stage("s2:t1")) == {"bin": "conflict"}
    ground.stage("s1:t1")
    assert ground.staged("bin") == b"\0one"
    ground.stage("s2:t1")
    assert ground.staged("bin") == b"\0two"


def test_a_name_that_is_no_utf8_is_staged(ground: Ground) -> None:
    ground.by("s1").write(b"q\xff \n", "x\n")
    assert ground.stage("s1:t1").status == "done"
    assert b"q\xff \n" in ground.git("ls-files", "-z").split(b"\0")


def test_only_the_named_paths_are_staged(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.write("d/one", "1\n")
    engine.write("two", "2\n")
    assert states(ground.stage("s1:t1", only=["d"])) == {"d/one": "create"}
    with pytest.raises(UsageError, match="none of its paths"):
        ground.stage("s1:t1", only=["c"])


def test_a_session_is_a_unit_too(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.engine.by("s1", "t2").write("b", "x\n")
    ground.by("s2").write("c", "x\n")
    assert states(ground.stage("s1")) == {"a": "modify", "b": "modify"}


# Content that Git converts


def test_line_ends_are_staged_as_git_add_does(ground: Ground) -> None:
    ground.by("human").write(".gitattributes", "*.txt text eol=crlf\n")
    ground.by("human").write("f.txt", b"1\r\n2\r\n3\r\n4\r\n")
    ground.git("add", ".")
    ground.git("commit", "-qm", "text")
    ground.engine.record()
    ground.by("s1").write("f.txt", b"ONE\r\n2\r\n3\r\n4\r\n")
    ground.by("s2").write("f.txt", b"ONE\r\n2\r\n3\r\nFOUR\r\n")
    ground.stage("s1:t1")
    assert ground.staged("f.txt") == b"ONE\n2\n3\n4\n"
    ground.stage("s2:t1")
    assert ground.changed() == ["M  f.txt"]


@pytest.mark.parametrize("crlf_is_committed", [False, True])
def test_autocrlf_leaves_committed_line_ends(
    ground: Ground, crlf_is_committed: bool
) -> None:
    """Git converts a file only if the index has no CRLF in it yet."""
    data = b"1\r\n2\r\n" if crlf_is_committed else b"1\n2\n"
    ground.by("human").write("f", data)
    ground.git("add", "f")
    ground.git("commit", "-qm", "f")
    ground.git("config", "core.autocrlf", "true")
    ground.by("human").write("f", b"1\r\n2\r\n")
    ground.by("s1").write("f", b"1\r\n2\r\n3\r\n")
    ground.stage("s1:t1")
    ours = ground.staged("f")
    ground.git("add", "f")
    assert ours == ground.staged("f")


def test_a_filter_is_run_as_git_add_does(ground: Ground) -> None:
    ground.git("config", "filter.up.clean", "tr a-z A-Z")
    ground.git("config", "filter.up.smudge", "tr A-Z a-z")
    ground.by("human").write(".gitattributes", "*.up filter=up\n")
    ground.by("human").write("f.up", "one\ntwo\nthree\n")
    ground.git("add", ".")
    ground.git("commit", "-qm", "filtered")
    ground.engine.record()
    ground.by("s1").write("f.up", "first\ntwo\nthree\n")
    ground.by("human").write("f.up", "first\ntwo\nthird\n")
    ground.stage("s1:t1")
    assert ground.staged("f.up") == b"FIRST\nTWO\nTHREE\n"


def test_a_required_filter_that_fails_skips_its_files(ground: Ground) -> None:
    ground.git("config", "filter.no.clean", "false")
    ground.git("config", "filter.no.required", "true")
    engine = ground.by("s1")
    engine.write(".gitattributes", "*.no filter=no\n")
    engine.write("f.no", "x\n")
    answer = ground.stage("s1:t1")
    assert answer.status == "partial"
    assert states(answer) == {".gitattributes": "create", "f.no": "io_error"}


def test_ident_is_staged_as_git_add_does(ground: Ground) -> None:
    ground.by("human").write(".gitattributes", "f ident\n")
    ground.by("s1").write("f", "$Id: 0123 $\nx\n")
    ground.stage("s1:t1")
    assert ground.staged("f") == b"$Id$\nx\n"


# Places where git add stops


def test_a_submodule_is_left_alone(ground: Ground) -> None:
    head = ground.git("rev-parse", "HEAD").decode().strip()
    ground.by("s1").write("sub", "x\n")
    ground.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    answer = ground.stage("s1:t1")
    assert states(answer) == {"sub": "other_repository"}


def test_a_path_outside_the_sparse_checkout_is_skipped(ground: Ground) -> None:
    ground.by("human").write("in/f", "x\n")
    ground.by("human").write("out/f", "x\n")
    ground.git("add", ".")
    ground.git("commit", "-qm", "directories")
    ground.git("sparse-checkout", "set", "--cone", "in")
    ground.engine.record()
    engine = ground.by("s1")
    engine.write("in/f", "y\n")
    engine.write("out/f", "y\n")
    engine.write("out/new", "y\n")
    answer = ground.stage("s1:t1")
    assert states(answer)["in/f"] == "modify"
    assert states(answer)["out/new"] == "excluded"
    assert ground.staged("out/f") == b"x\n"
    assert ground.staged("out/new") is None


def test_an_assumed_file_is_skipped(ground: Ground) -> None:
    ground.git("update-index", "--assume-unchanged", "a")
    ground.by("s1").write("a", lines(l5="AGENT"))
    answer = ground.stage("s1:t1")
    assert states(answer) == {"a": "excluded"}
    assert ground.git("ls-files", "-v", "a") == b"h a\n"


def test_a_locked_index_is_refused(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The lock is open here, so a git seems to be at work, for which recording waits half a minute.
    monkeypatch.setattr(index, "_HOLD_LIMIT_S", 0.5)
    ground.by("s1").write("a", lines(l5="AGENT"))
    before = ground.index()
    lock = ground.engine.root / ".git/index.lock"
    with lock.open("w"):
        with pytest.raises(RefusedError, match="has it locked"):
            ground.stage("s1:t1")
        lock.unlink()
    assert ground.index() == before
    assert ground.unstage().status == "nothing_to_do"


@pytest.mark.parametrize(
    ("name", "what"), [("MERGE_HEAD", "merge"), ("rebase-merge/", "rebase")]
)
def test_a_merge_in_progress_is_refused(ground: Ground, name: str, what: str) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    path = ground.engine.root / ".git" / name
    if name.endswith("/"):
        path.mkdir()
    else:
        path.write_bytes(ground.git("rev-parse", "HEAD"))
    with pytest.raises(RefusedError, match=f"a {what} is in progress"):
        ground.stage("s1:t1")


def test_unmerged_paths_are_refused(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    oid = _blob(ground, "x")
    rows = "".join(f"100644 {oid} {stage}\tb\n" for stage in (1, 2, 3))
    ground.git("update-index", "--index-info", data=rows.encode())
    with pytest.raises(RefusedError, match="unmerged"):
        ground.stage("s1:t1")


def test_an_unborn_branch_can_be_staged(ground: Ground) -> None:
    ground.git("checkout", "-q", "--orphan", "fresh")
    ground.git("rm", "-rq", "--cached", ".")
    ground.engine.record()
    ground.by("s1").write("new", "x\n")
    assert states(ground.stage("s1:t1")) == {"new": "create"}
    assert ground.git("ls-files") == b"new\n"


def test_a_plan_is_applied_by_its_token_only(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    token = ground.plan("s1:t1").token
    ground.by("s1").write("a", lines(l5="AGENT", l7="MORE"))
    asked = StageRequest(unit("s1:t1"), yes=True, token=token)
    with pytest.raises(RefusedError, match="different now"):
        verbs.stage(ground.engine.context, asked)
    fresh = ground.plan("s1:t1").token
    done = verbs.stage(ground.engine.context, asked._replace(token=fresh))
    assert done.status == "done"


# The way back


def test_the_index_gets_its_former_entries_again(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.git("add", "a")
    before = ground.index()
    engine = ground.by("s1")
    engine.write("a", lines(l1="MINE", l5="AGENT"))
    engine.write("new", "x\n")
    engine.remove("b")
    ground.stage("s1:t1")
    assert ground.index() != before
    answer = ground.unstage()
    assert states(answer) == {"a": "modify", "b": "create", "new": "delete"}
    assert ground.index() == before
    assert ground.unstage().status == "nothing_to_do"


def test_each_staging_is_taken_back_by_itself(ground: Ground) -> None:
    first = ground.index()
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.stage("s1:t1")
    second = ground.index()
    ground.by("s2").write("a", lines(l5="AGENT", l9="OTHER"))
    ground.stage("s2:t1")
    ground.unstage()
    assert ground.index() == second
    ground.unstage()
    assert ground.index() == first


def test_what_was_staged_since_is_kept(ground: Ground) -> None:
    engine = ground.by("s1")
    engine.write("a", lines(l5="AGENT"))
    engine.write("b", "x\n")
    ground.stage("s1:t1")
    ground.by("human").write("a", "mine\n")
    ground.git("add", "a")
    answer = ground.unstage()
    assert (answer.status, states(answer)) == (
        "partial",
        {"a": "conflict", "b": "modify"},
    )
    assert (ground.staged("a"), ground.staged("b")) == (
        b"mine\n",
        ten_lines("b").encode(),
    )


def test_a_commit_ends_the_way_back(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.stage("s1:t1")
    ground.git("commit", "-qm", "staged")
    before = ground.index()
    assert ground.unstage().notes == ("HEAD has moved since",)
    assert ground.index() == before


def test_staging_runs_no_hook(ground: Ground) -> None:
    hook = ground.engine.root / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ground.engine.root.parent}/ran\n")
    hook.chmod(0o755)
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.stage("s1:t1")
    assert not os.path.exists(Path(ground.engine.root.parent) / "ran")
