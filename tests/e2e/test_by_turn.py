"""stage, commit, split, apply and move, by the installed command and the real git."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Document, Shadow
from tests.support.terminal import on_a_terminal

Make = Callable[..., Shadow]


def wrote(shadow: Shadow, agent: str, script: str) -> str:
    """Have an agent run a script; return its session."""
    shadow.ok("exec", "--agent", agent, "--", "sh", "-c", script)
    rows = shadow.ok("sessions", "--json").rows()
    (found,) = [str(row["id"]) for row in rows if row["agent"] == agent]
    return found


def hook(repo: Repo, name: str, script: str) -> Path:
    """Install one of Git's hooks; return where it writes what it saw."""
    path = repo.git_dir / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    seen = repo.root.parent / f"{name}.seen"
    path.write_text(f"#!/bin/sh\nSEEN={seen}\n{script}\n")
    path.chmod(0o755)
    return seen


def items(document: Document) -> dict[str, str]:
    found = document["items"]
    assert isinstance(found, list)
    return {
        one["path"]: one["action"] if one["state"] == "included" else one["reason"]
        for one in found
    }


def commits(document: Document) -> list[Document]:
    found = document["commits"]
    assert isinstance(found, list)
    return found


@pytest.fixture
def mixed(shadow: Shadow) -> tuple[Shadow, str]:
    """Return the command and a session that changed `a` and made `new`; line 9 is ours."""
    session = wrote(shadow, "helper", "sed -i s/5/FIVE/ a; echo x >new")
    shadow.repo.write("a", ten_lines("a", line_5="a line FIVE", line_9="MINE"))
    shadow.settle()
    return shadow, session


ONLY_THEIRS = ten_lines("a", line_5="a line FIVE")


@pytest.mark.both_modes
def test_a_turn_of_hooks_is_committed_with_its_prompt(
    agent: Claude, repo: Repo, shadow: Shadow
) -> None:
    agent.start()
    agent.prompt("Make five a word\nand nothing else")
    agent.write("a", ten_lines("a", line_5="a line FIVE"))
    agent.stop()
    repo.write("a", ten_lines("a", line_5="a line FIVE", line_9="MINE"))
    turn = str(shadow.ok("turns", "--json").rows()[0]["id"])
    done = shadow.ok("commit", turn, "--yes", "--json").json()
    assert done["status"] == "done"
    assert repo.git("log", "-1", "--format=%B").startswith(
        "Make five a word\n\nMake five a word\nand nothing else"
    )
    assert repo.git("show", "HEAD:a") + "\n" == ONLY_THEIRS
    assert repo.git("status", "--short") == " M a"
    assert commits(done)[0]["commit"] == repo.git("rev-parse", "HEAD")


@pytest.mark.both_modes
def test_the_way_back_of_a_commit_is_printed(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    repo = shadow.repo
    before = repo.git("rev-parse", "HEAD")
    done = shadow.ok("commit", session, "--yes", "--json").json()
    words = str(done["way_back"]).split()
    assert words[:3] == ["git", "reset", "--soft"]
    repo.git(*words[1:])
    assert repo.git("rev-parse", "HEAD") == before
    assert repo.git("diff", "--cached", "--name-only") == "a\nnew"


@pytest.mark.usefixtures("untouched")
def test_nothing_changes_without_a_yes(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    for words in (
        ("stage", session),
        ("commit", session),
        ("split",),
        ("apply", session, "--onto", "other"),
    ):
        if "other" in words:
            continue
        refused = shadow(*words)
        assert refused.code == 5
        assert "to apply this plan: --yes" in refused.err
        planned = shadow.ok(*words, "--dry-run", "--json").json()
        assert planned["status"] == "planned"
        assert "prepared" not in planned
        assert shadow(*words, "--json").json()["status"] == "refused"
        assert shadow(*words, "--token", "0" * 16).code == 5


def test_a_plan_is_applied_by_its_token(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    for words in (("stage", session), ("commit", session)):
        token = shadow.ok(*words, "--dry-run", "--json").json()["token"]
        assert shadow.ok(*words, "--token", str(token), "--json").json()["status"] == (
            "done"
        )
        if words[0] == "stage":
            shadow.ok("stage", "--undo", "--yes")


def test_a_person_is_asked_on_a_terminal(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    no = on_a_terminal(shadow, "stage", session, typed=b"n\n")
    assert (no.code, shadow.repo.git("diff", "--cached", "--name-only")) == (5, "")
    assert "helper, just now" in no.text
    yes = on_a_terminal(shadow, "stage", session, typed=b"\n")
    assert (yes.code, shadow.repo.git("diff", "--cached", "--name-only")) == (
        0,
        "a\nnew",
    )


def test_paths_are_relative_to_the_current_directory(shadow: Shadow) -> None:
    session = wrote(shadow, "helper", "mkdir d; echo x >d/x; echo y >d/y; echo z >z")
    there = shadow.repo.root / "d"
    done = shadow("stage", session, "x", "--yes", "--json", cwd=there).json()
    assert items(done) == {"d/x": "create"}
    done = shadow("stage", session, "--yes", "--json", "--", "y", cwd=there).json()
    assert items(done) == {"d/y": "create"}
    assert shadow.repo.git("diff", "--cached", "--name-only") == "d/x\nd/y"


def test_file_of_a_turn_is_undone_and_staged_alone(shadow: Shadow) -> None:
    """`last:FILE` never touches the other files of the turn."""
    wrote(shadow, "helper", "echo x >one; echo y >two; echo z >last:two")
    repo = shadow.repo
    shadow.ok("undo", "last:one", "--yes")
    assert (repo.root / "two").read_bytes() == b"y\n"
    assert not (repo.root / "one").exists()
    staged = shadow.ok("stage", "@helper:two", "--yes", "--json").json()
    assert items(staged) == {"two": "create"}
    assert repo.git("diff", "--cached", "--name-only") == "two"
    for words in (("last:one", "@helper"), ("last:two", "--only", "one")):
        refused = shadow("undo", *words, "--yes")
        assert (refused.code, "it means one file" in refused.err) == (2, True)
    # A file may be called so, too.
    shadow.ok("undo", "--yes", "--", "last:two")
    assert not (repo.root / "last:two").exists()
    shadow.ok("restore", "--yes", "last:two")
    assert (repo.read("last:two"), repo.read("two")) == (b"z\n", b"y\n")


def test_hooks_see_exactly_the_commit(mixed: tuple[Shadow, str]) -> None:
    """They run as with `git commit`, with the index of what is committed."""
    shadow, session = mixed
    repo = shadow.repo
    repo.write("b", "staged\n")
    repo.git("add", "b")
    before = hook(repo, "pre-commit", 'git diff --cached --name-only >"$SEEN"')
    message = hook(repo, "commit-msg", 'cp "$1" "$SEEN"; echo "Checked: yes" >>"$1"')
    shadow.ok("commit", session, "-m", "subject", "-m", "body", "--yes")
    assert before.read_text() == "a\nnew\n"
    assert message.read_text() == "subject\n\nbody\n"
    assert repo.git("log", "-1", "--format=%B") == "subject\n\nbody\nChecked: yes\n"
    assert repo.git("status", "--short") == " M a\nM  b"


@pytest.mark.both_modes
def test_a_hook_that_refuses_leaves_everything(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    repo = shadow.repo
    hook(repo, "pre-commit", "echo no such style >&2; exit 1")
    head, index = repo.git("rev-parse", "HEAD"), repo.git("ls-files", "--stage")
    refused = shadow("commit", session, "--yes")
    assert refused.code == 1
    assert "no such style" in refused.err
    assert "nothing was committed" in refused.err
    assert repo.git("rev-parse", "HEAD") == head
    assert repo.git("ls-files", "--stage") == index
    own = repo.state_dir / "wt" / "main"
    assert [one.name for one in own.iterdir() if one.name.startswith("commit-")] == []
    shadow.ok("commit", session, "--yes", "--no-verify")
    assert repo.git("rev-parse", "HEAD") != head


def test_what_a_hook_formats_is_in_commit_and_index(shadow: Shadow) -> None:
    repo = shadow.repo
    session = wrote(shadow, "helper", "echo x >new")
    script = "tr a-z A-Z <new >t && mv t new && git add new"
    hook(repo, "pre-commit", script)
    shadow.ok("commit", session, "--yes")
    assert repo.git("show", "HEAD:new") == "X"
    assert repo.git("status", "--short") == ""


@pytest.mark.both_modes
def test_our_own_git_hooks_and_trailers_work_in_it(mixed: tuple[Shadow, str]) -> None:
    """They ask the engine, which must not wait for the command."""
    shadow, session = mixed
    shadow.ok("hooks", "install", "git", "--yes")
    shadow.repo.git("config", "agent-undo.trailers", "true")
    shadow.ok("commit", session, "--yes", "--trailers", "-m", "by turn")
    message = shadow.repo.git("log", "-1", "--format=%B")
    assert message.count("Assisted-by: helper") == 1
    assert message.count(f"Agent-Session: {session}") == 1


def test_a_commit_is_signed_as_configured(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    repo = shadow.repo
    program = repo.root.parent / "gpg"
    program.write_text(
        "#!/bin/sh\ncat >/dev/null\n"
        "echo '[GNUPG:] SIG_CREATED D 1 8 00 1 AB' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    program.chmod(0o755)
    repo.git("config", "gpg.program", str(program))
    repo.git("config", "commit.gpgSign", "true")
    repo.git("branch", "other")
    shadow.ok("apply", session, "--onto", "other", "--yes")
    shadow.ok("commit", session, "--yes")
    for name in ("HEAD", "other"):
        assert "gpgsig" in repo.git("cat-file", "commit", name)


def test_the_author_is_that_of_the_environment(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    env = {"GIT_AUTHOR_NAME": "Somebody", "GIT_INDEX_FILE": "/nowhere"}
    shadow.ok("commit", session, "--yes", env=env)
    assert shadow.repo.git("log", "-1", "--format=%an %cn") == "Somebody Test User"


def test_the_message_can_be_edited(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    env = {"GIT_EDITOR": "sed -i 1s/.*/edited/"}
    shadow.ok("commit", session, "--yes", "--edit", "-m", "subject", env=env)
    assert shadow.repo.git("log", "-1", "--format=%s") == "edited"
    assert shadow("commit", session, "--yes", "-e", env=env).code == 0


def test_a_locked_index_is_named(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    lock = shadow.repo.git_dir / "index.lock"
    lock.touch()
    try:
        refused = shadow("stage", session, "--yes")
    finally:
        lock.unlink()
    assert refused.code == 5
    assert "another git command has it locked" in refused.err


def test_a_target_is_needed(shadow: Shadow) -> None:
    for words, said in (
        (("stage",), "no target given"),
        (("stage", "x", "--undo"), "takes no target"),
        (("commit",), "no turn or session given"),
        (("apply", "x"), "apply where?"),
        (("apply", "x", "--worktree", "."), "not another worktree"),
        (("stage", "nonesuch"), "cannot find nonesuch"),
    ):
        refused = shadow(*words)
        assert refused.code == 2
        assert said in refused.err


# Many commits


@pytest.mark.kinds
@pytest.mark.both_modes
@pytest.mark.sampled
def test_a_messy_tree_becomes_one_commit_per_turn(shadow: Shadow) -> None:
    repo = shadow.repo
    wrote(shadow, "one", "sed -i s/5/FIVE/ a; printf '1\\n' >new")
    wrote(shadow, "two", "sed -i s/2/TWO/ a; printf '1\\n2\\n' >new; git mv b moved")
    repo.write("mine", "x\n")
    repo.write("a", repo.read("a") + b"MINE\n")
    before = repo.tree_snapshot()
    first = repo.git("rev-parse", "HEAD")
    done = shadow.ok("split", "--yes", "--json").json()
    assert [len(one["items"]) for one in commits(done)] == [2, 3]  # type: ignore[arg-type]
    assert done["left"] == ["a", "mine"]
    assert repo.git("log", "--format=%H", f"{first}..").splitlines() == [
        one["commit"] for one in reversed(commits(done))
    ]
    assert repo.git("show", "HEAD^:new") == "1"
    assert repo.git("show", "HEAD:new") == "1\n2"
    assert repo.git("status", "--short") == " M a\n?? mine"
    assert repo.git("diff", "--stat").splitlines()[-1].strip() == (
        "1 file changed, 1 insertion(+)"
    )
    assert repo.tree_snapshot() == before
    again = shadow.ok("split", "--yes", "--json").json()
    assert again["status"] == "nothing_to_do"


def test_a_split_that_stops_says_how_far_it_came(shadow: Shadow) -> None:
    wrote(shadow, "one", "echo 1 >first")
    wrote(shadow, "two", "echo 2 >second")
    hook(shadow.repo, "pre-commit", "! git diff --cached --name-only | grep -q second")
    stopped = shadow("split", "--yes", "--json")
    document = stopped.json()
    assert (stopped.code, document["status"]) == (4, "partial")
    assert ["commit" in one for one in commits(document)] == [True, False]
    assert "stopped: could not commit" in json.dumps(document["notes"])
    assert shadow.repo.git("status", "--short") == "?? second"
    assert "made 1 commit" not in stopped.err


# Other branches and worktrees


@pytest.mark.both_modes
def test_a_turn_is_applied_onto_a_branch_and_back(mixed: tuple[Shadow, str]) -> None:
    shadow, session = mixed
    repo = shadow.repo
    repo.git("branch", "other")
    head, index = repo.git("rev-parse", "HEAD"), repo.git("ls-files", "--stage")
    before = repo.tree_snapshot()
    done = shadow.ok("apply", session, "--onto", "other", "--yes", "--json").json()
    assert repo.git("show", "other:a") + "\n" == ONLY_THEIRS
    assert repo.git("show", "other:new") == "x"
    assert (repo.git("rev-parse", "HEAD"), repo.git("ls-files", "--stage")) == (
        head,
        index,
    )
    assert repo.tree_snapshot() == before
    repo.git(*str(done["way_back"]).split()[1:])
    assert repo.git("rev-parse", "other") == head


@pytest.fixture
def there(shadow: Shadow, make_shadow: Make) -> Shadow:
    """Return the command in another worktree of R."""
    root = shadow.repo.root.parent / "there"
    shadow.repo.git("worktree", "add", "-q", "--detach", str(root))
    made = make_shadow(Repo(root), daemon=shadow.daemon)
    made.init()
    return made


@pytest.mark.both_modes
def test_a_turn_is_applied_to_a_worktree_and_back(
    mixed: tuple[Shadow, str], there: Shadow
) -> None:
    shadow, session = mixed
    there.repo.write("a", ten_lines("a", line_1="THERE"))
    here = shadow.repo.tree_snapshot()
    done = shadow.ok(
        "apply", session, "--worktree", str(there.repo.root), "--yes", "--json"
    ).json()
    assert there.repo.read("a").decode() == ten_lines(
        "a", line_1="THERE", line_5="a line FIVE"
    )
    assert there.repo.read("new") == b"x\n"
    assert shadow.repo.tree_snapshot() == here
    op = str(done["way_back"]).split()[-1]
    there.ok("undo", op, "--yes")
    assert there.repo.read("a").decode() == ten_lines("a", line_1="THERE")
    assert not there.repo.exists("new")


@pytest.mark.both_modes
def test_a_turn_moves_to_a_worktree(mixed: tuple[Shadow, str], there: Shadow) -> None:
    shadow, session = mixed
    done = shadow.ok("move", session, str(there.repo.root), "--yes", "--json").json()
    assert (done["status"], items(done)) == ("done", {"a": "modify", "new": "create"})
    assert shadow.repo.read("a").decode() == ten_lines("a", line_9="MINE")
    assert there.repo.read("a").decode() == ONLY_THEIRS
    assert (shadow.repo.exists("new"), there.repo.read("new")) == (False, b"x\n")


def test_a_file_that_cannot_go_there_stays_here(
    mixed: tuple[Shadow, str], there: Shadow
) -> None:
    shadow, session = mixed
    there.repo.write("new", "there\n")
    moved = shadow("move", session, str(there.repo.root), "--yes", "--json")
    assert (moved.code, items(moved.json())) == (
        4,
        {"a": "modify", "new": "conflict"},
    )
    assert shadow.repo.read("new") == b"x\n"
    assert there.repo.read("new") == b"there\n"
    assert there.repo.read("a").decode() == ONLY_THEIRS
    assert shadow.repo.read("a").decode() == ten_lines("a", line_9="MINE")


def test_a_file_that_cannot_be_undone_here_does_not_go_there(
    shadow: Shadow, there: Shadow
) -> None:
    session = wrote(shadow, "helper", "sed -i s/5/FIVE/ a; echo x >new")
    shadow.repo.write("a", ten_lines("a", line_5="MINE"))
    moved = shadow("move", session, str(there.repo.root), "--yes", "--json")
    assert (moved.code, items(moved.json())) == (
        4,
        {"a": "conflict", "new": "create"},
    )
    assert there.repo.read("a").decode() == ten_lines("a")
    assert shadow.repo.read("a").decode() == ten_lines("a", line_5="MINE")


def test_a_move_back_gives_the_former_files(
    mixed: tuple[Shadow, str], there: Shadow
) -> None:
    shadow, session = mixed
    before = {path: shadow.repo.read(path) for path in ("a", "b", "c", "new")}
    done = shadow.ok("move", session, str(there.repo.root), "--yes", "--json").json()
    redo, back = str(done["way_back"]).split(" && ")
    shadow.ok("redo", redo.split()[-1], "--yes")
    there.ok("undo", back.split()[-1], "--yes")
    assert {path: shadow.repo.read(path) for path in before} == before
    assert there.repo.git("status", "--short") == ""


def test_another_repository_is_no_worktree(
    mixed: tuple[Shadow, str], make_repo: Callable[..., Repo]
) -> None:
    shadow, session = mixed
    other = make_repo("other")
    refused = shadow("move", session, os.fspath(other.root), "--yes")
    assert refused.code == 2
    assert "not another worktree of this repository" in refused.err


def test_what_is_there_already_is_only_undone_here(
    mixed: tuple[Shadow, str], there: Shadow
) -> None:
    shadow, session = mixed
    there.repo.write("a", ONLY_THEIRS)
    there.repo.write("new", "x\n")
    done = shadow.ok("move", session, str(there.repo.root), "--yes", "--json").json()
    assert shadow.repo.read("a").decode() == ten_lines("a", line_9="MINE")
    assert str(done["way_back"]).startswith("git agent-undo redo u")
    assert "&&" not in str(done["way_back"])
