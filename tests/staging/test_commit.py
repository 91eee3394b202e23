"""A commit has exactly the changes of its units; index and files keep everything else."""

import os
from dataclasses import replace

import pytest

from gitshadow.api import staging as verbs
from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.staging import CommitRequest
from gitshadow.store.journal import sessions, turns
from tests.staging.ground import Ground, states, unit
from tests.staging.test_stage import lines
from tests.support.repo import ten_lines


def prompt(ground: Ground, who: str, turn: str, text: str) -> None:
    """Give a turn its prompt."""
    db = ground.engine.db
    ground.engine.by(who, turn)
    known = turns.get_turn(db, who, turn)
    assert known is not None
    with db.write():
        turns.put_turn(db, replace(known, prompt=text))
    assert sessions.get(db, who) is not None


def test_other_changes_stay_as_they_are(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.by("human").write("b", "staged\n")
    ground.git("add", "b")
    ground.by("s1").write("a", lines(l1="MINE", l5="AGENT"))
    ground.commit("s1:t1")
    assert ground.committed("a") == lines(l5="AGENT").encode()
    assert ground.committed("b") == ten_lines("b").encode()
    assert ground.staged("b") == b"staged\n"
    assert ground.changed() == [" M a", "M  b"]


def test_what_is_staged_in_the_same_file_stays_staged(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.git("add", "a")
    ground.by("s1").write("a", lines(l1="MINE", l5="AGENT"))
    ground.commit("s1:t1")
    assert ground.committed("a") == lines(l5="AGENT").encode()
    assert ground.staged("a") == lines(l1="MINE", l5="AGENT").encode()
    assert ground.changed() == ["M  a"]


def test_the_index_keeps_its_version_where_it_cannot_be_merged(ground: Ground) -> None:
    oid = ground.git("hash-object", "-w", "--stdin", data=b"other\n").decode().strip()
    ground.git("update-index", "--cacheinfo", f"100644,{oid},a")
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1")
    assert ground.committed("a") == lines(l5="AGENT").encode()
    assert ground.staged("a") == b"other\n"


def test_a_rename_leaves_no_trace_in_the_index(ground: Ground) -> None:
    ground.by("s1").move("a", "n")
    ground.by("s1").remove("b")
    ground.commit("s1:t1")
    assert ground.changed() == []
    assert ground.git("ls-files") == b"c\nn\n"


def test_a_promised_file_is_committed(ground: Ground) -> None:
    ground.by("s1").write("new", "x\n")
    ground.git("add", "-N", "new")
    ground.commit("s1:t1")
    assert (ground.committed("new"), ground.changed()) == (b"x\n", [])


def test_several_turns_make_one_commit(ground: Ground) -> None:
    ground.by("s1").write("new", "one\n")
    ground.by("s2").write("new", "one\ntwo\n")
    ground.by("human").write("new", "one\ntwo\nmine\n")
    ground.commit("s1:t1", "s2:t1")
    assert ground.committed("new") == b"one\ntwo\n"
    assert ground.changed() == [" M new"]


def test_the_prompt_is_the_message(ground: Ground) -> None:
    text = f"Tidy the  imports\n\nand keep # the rest\n{'word ' * 30}"
    prompt(ground, "s1", "t1", text)
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1")
    message = ground.git("log", "-1", "--format=%B").decode()
    assert message.startswith("Tidy the imports\n\nTidy the  imports\n\nand keep # the")


def test_a_short_prompt_is_the_whole_message(ground: Ground) -> None:
    prompt(ground, "s1", "t1", "Tidy up")
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1")
    assert ground.git("log", "-1", "--format=%B") == b"Tidy up\n\n"


def test_a_long_first_line_is_cut_between_words(ground: Ground) -> None:
    prompt(ground, "s1", "t1", "word " * 30)
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1")
    subject = ground.git("log", "-1", "--format=%s").decode().strip()
    assert len(subject) <= 72
    assert subject.endswith("word…")


def test_several_prompts_are_listed(ground: Ground) -> None:
    prompt(ground, "s1", "t1", "First thing")
    ground.by("s1").write("a", lines(l5="AGENT"))
    prompt(ground, "s2", "t1", "Second thing")
    ground.by("s2").write("b", "x\n")
    ground.commit("s1:t1", "s2:t1")
    message = ground.git("log", "-1", "--format=%B").decode()
    assert message == "First thing\n\n- First thing\n- Second thing\n\n"


def test_without_a_prompt_the_agent_is_named(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1")
    subject = ground.git("log", "-1", "--format=%s")
    assert subject == b"Changes by claude-code: 1 file\n"


def test_a_given_message_is_used(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1", message="mine\n\nmore\n")
    assert ground.git("log", "-1", "--format=%B") == b"mine\n\nmore\n\n"


def test_an_unborn_branch_gets_its_first_commit(ground: Ground) -> None:
    ground.git("checkout", "-q", "--orphan", "fresh")
    ground.git("rm", "-rq", "--cached", ".")
    ground.engine.record()
    ground.by("s1").write("new", "x\n")
    ground.commit("s1:t1")
    assert ground.git("ls-tree", "-r", "--name-only", "HEAD") == b"new\n"
    assert ground.git("rev-list", "--count", "HEAD") == b"1\n"
    assert ground.changed() == ["?? a", "?? b", "?? c"]


def test_a_detached_head_moves(ground: Ground) -> None:
    ground.git("checkout", "-q", "--detach")
    ground.engine.record()
    main = ground.git("rev-parse", "main")
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.commit("s1:t1")
    assert ground.git("rev-parse", "main") == main == ground.git("rev-parse", "HEAD^")


def test_a_merge_in_progress_is_refused(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    merge_head = ground.engine.root / ".git/MERGE_HEAD"
    merge_head.write_bytes(ground.git("rev-parse", "HEAD"))
    with pytest.raises(RefusedError, match="a merge is in progress"):
        ground.commit("s1:t1")


def test_a_plan_leaves_no_file_behind(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    verbs.commit(
        ground.engine.context, CommitRequest(unit("s1:t1"), trailers=True, onto=None)
    )
    ground.commit("s1:t1")
    own = ground.engine.root / ".git/agent-undo/wt/main"
    assert [one.name for one in own.iterdir() if "index" in one.name] == []


def test_trailers_name_agent_and_session(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("s2").write("a", lines(l5="AGENT", l9="OTHER"))
    asked = CommitRequest(unit("s1:t1"), message="tidy\n", trailers=True)
    plan = verbs.commit(ground.engine.context, asked)
    assert plan.commits[0].message == (
        "tidy\n\nAssisted-by: claude-code\nAgent-Session: s1\n"
    )


# Other branches


def test_a_turn_is_applied_onto_a_branch(ground: Ground) -> None:
    ground.git("branch", "other")
    ground.by("human").write("a", lines(l1="MINE"))
    ground.by("s1").write("a", lines(l1="MINE", l5="AGENT"))
    before = ground.index(), ground.git("rev-parse", "HEAD")
    asked = CommitRequest(unit("s1:t1"), onto="other", yes=True)
    prepared = verbs.commit(ground.engine.context, asked).prepared
    assert prepared is not None
    assert prepared.tree is not None
    assert ground.committed("a", prepared.tree) == lines(l5="AGENT").encode()
    assert prepared.parent == ground.git("rev-parse", "other").decode().strip()
    assert (ground.index(), ground.git("rev-parse", "HEAD")) == before


def test_work_of_the_branch_is_kept_or_the_file_is_skipped(ground: Ground) -> None:
    ground.git("checkout", "-qb", "other")
    ground.engine.write("a", lines(l9="BRANCH"))
    ground.engine.write("b", "branch\n")
    ground.git("commit", "-qam", "branch")
    ground.git("checkout", "-q", "main")
    ground.engine.record()
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("s1").remove("b")
    asked = CommitRequest(unit("s1:t1"), onto="other", yes=True)
    answer = verbs.commit(ground.engine.context, asked)
    assert states(answer) == {"a": "modify", "b": "conflict"}
    assert answer.items[1].detail == "other changes to it are on other"
    assert answer.prepared is not None
    tree = answer.prepared.tree or ""
    assert ground.committed("a", tree) == lines(l5="AGENT", l9="BRANCH").encode()
    assert ground.committed("b", tree) == b"branch\n"


def test_a_branch_that_is_checked_out_is_refused(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    for branch, said in (("main", "checked out"), ("none", "cannot find branch")):
        asked = CommitRequest(unit("s1:t1"), onto=branch)
        with pytest.raises(UsageError, match=said):
            verbs.commit(ground.engine.context, asked)


# Many turns


def test_a_split_lists_the_turns_oldest_first(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("human").write("mine", "x\n")
    ground.by("s2").write("b", "x\n")
    ground.by("s1", "t2").write("a", lines(l5="AGENT", l8="AGAIN"))
    answer = ground.split()
    assert [one.target for one in answer.commits] == ["s1:t1", "s2:t1", "s1:t2"]
    assert answer.left == ("mine",)


def test_a_split_leaves_out_what_is_committed(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.git("commit", "-qam", "all")
    ground.engine.record()
    ground.by("s2").write("a", lines(l5="REWRITTEN"))
    answer = ground.split()
    assert [one.target for one in answer.commits] == ["s2:t1"]
    assert ground.git("diff", "HEAD") != b""


def test_a_split_of_a_clean_tree_has_nothing_to_do(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.git("commit", "-qam", "all")
    ground.engine.record()
    assert ground.split().status == "nothing_to_do"


def test_a_split_of_bursts_works_without_turns(ground: Ground) -> None:
    ground.engine.by("s1").write("a", lines(l5="AGENT"))
    answer = ground.split()
    assert [states_of(one.items) for one in answer.commits] == [{"a": "modify"}]


def states_of(items: object) -> dict[str, str]:
    assert isinstance(items, tuple)
    return {item.path: item.action for item in items}


def test_a_commit_whose_maker_died_is_adopted_later(ground: Ground) -> None:
    """LAW-09: HEAD has moved, and nobody told the index."""
    ground.by("human").write("b", "staged\n")
    ground.git("add", "b")
    ground.by("s1").write("a", lines(l5="AGENT"))
    ground.by("s2").write("c", "x\n")
    asked = CommitRequest(unit("s1:t1"), yes=True)
    prepared = verbs.commit(ground.engine.context, asked).prepared
    assert prepared is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_INDEX_FILE", str(prepared.index_))
        ground.git("commit", "-qm", "made")
    assert ground.changed() == ["MM a", "M  b", " M c"]
    ground.stage("s2:t1")
    assert ground.changed() == ["M  b", "M  c"]
    assert not os.path.exists(str(prepared.index_))


def test_a_commit_that_is_being_made_is_left_alone(ground: Ground) -> None:
    ground.by("s1").write("a", lines(l5="AGENT"))
    asked = CommitRequest(unit("s1:t1"), yes=True)
    prepared = verbs.commit(ground.engine.context, asked).prepared
    assert prepared is not None
    path = str(prepared.index_)
    ground.plan("s1:t1")
    assert os.path.exists(path)
    os.utime(path, (1, 1))
    ground.plan("s1:t1")
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    "settings",
    [
        ("core.splitIndex=true",),
        ("index.version=4", "core.untrackedCache=true"),
        ("core.sparseCheckoutCone=true", "index.sparse=true"),
    ],
)
def test_any_kind_of_index_can_be_used(
    ground: Ground, settings: tuple[str, ...]
) -> None:
    ground.by("human").write("in/f", "x\n")
    ground.by("human").write("out/f", "x\n")
    ground.git("add", ".")
    ground.git("commit", "-qm", "directories")
    for setting in settings:
        ground.git("config", *setting.split("="))
    if "index.sparse=true" in settings:
        ground.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    ground.git("update-index", "--force-write-index")
    ground.engine.record()
    engine = ground.by("s1")
    engine.write("in/f", "agent\n")
    engine.write("in/new", "x\n")
    ground.by("human").write("in/mine", "x\n")
    ground.git("add", "in/mine")
    ground.stage("s1:t1")
    assert ground.changed() == ["M  in/f", "A  in/mine", "A  in/new"]
    ground.unstage()
    assert ground.changed() == [" M in/f", "A  in/mine", "?? in/new"]
    ground.commit("s1:t1")
    assert ground.changed() == ["A  in/mine"]
    assert ground.committed("out/f") == b"x\n"
    listed = ground.git("ls-files", "-t", "out/f")
    assert listed == (b"S out/f\n" if "index.sparse=true" in settings else b"H out/f\n")


def test_own_changes_can_be_committed_too(ground: Ground) -> None:
    ground.by("human").write("a", lines(l1="MINE"))
    ground.by("s1").write("a", lines(l1="MINE", l5="AGENT"))
    ground.commit("human")
    assert ground.committed("a") == lines(l1="MINE").encode()
    assert ground.git("log", "-1", "--format=%s") == b"Change 1 file\n"
