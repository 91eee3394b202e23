"""GIT: recording, looking and undoing never touch what is the user's in an ordinary repository."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Document, Shadow
from tests.support.waiting import until

pytestmark = pytest.mark.both_modes

REF = re.compile(r"refs/agent-undo/[a-z0-9-]{1,40}")
HOOKS = (
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "push-to-checkout",
    "reference-transaction",
)


def taken_back(report: Document) -> None:
    assert report["status"] == "reversed", report


def test_index_is_the_same_at_every_moment(agent: Claude) -> None:
    """GIT-01: staged, unstaged, both and intent-to-add stay through write and oops."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write("a", "staged\n")
    repo.git("add", "a")
    repo.write("b", "unstaged\n")
    repo.write("c", "staged\n")
    repo.git("add", "c")
    repo.write("c", "and more\n")
    repo.write("n", "intended\n")
    repo.git("add", "--intent-to-add", "n")
    repo.write("other", "old\n")
    shadow.ok("flush")
    index = repo.read(".git/index")
    with kept(repo, "other"):
        agent.write("other", "new\n")
        shadow.ok("flush")
        assert repo.read(".git/index") == index
        taken_back(shadow.oops())
    assert repo.read(".git/index") == index
    assert repo.read("other") == b"old\n"
    assert repo.git("status", "--porcelain").splitlines() == [
        "M  a",
        " M b",
        "MM c",
        " A n",
        "?? other",
    ]


def test_stash_and_reflogs_are_the_same(agent: Claude) -> None:
    """GIT-02: a stash and all reflogs stay through write, oops and redo."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write("a", "to be stashed\n")
    repo.git("stash")
    shadow.ok("flush")
    assert "stash@{0}" in repo.git("stash", "list")
    reflogs = repo.git("reflog", "show", "--all")
    with kept(repo, "b"):
        agent.write("b", "new\n")
        taken_back(shadow.oops())
        assert repo.read("b") == ten_lines("b").encode()
        taken_back(shadow("redo", "--yes", "--json").json())
        assert repo.read("b") == b"new\n"
    assert repo.git("reflog", "show", "--all") == reflogs


def test_reflogs_stay_when_git_is_told_to_log_every_ref(
    shadow_new: Shadow,
) -> None:
    """GIT-02: `core.logAllRefUpdates=always` leaves no reflog of ours behind."""
    repo = shadow_new.repo
    repo.git("config", "core.logAllRefUpdates", "always")
    shadow_new.init()
    with kept(repo, "a"):
        Claude(shadow_new).write("a", "new\n")
        taken_back(shadow_new.oops())
    assert not repo.exists(".git/logs/refs/agent-undo")


def trap(path: Path, marker: Path) -> None:
    """Write a program that leaves a mark and fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {path.name} >> {marker}\nexit 1\n")
    path.chmod(0o755)


@pytest.mark.parametrize("where", ["core.hooksPath", ".git/hooks"])
def test_nothing_of_the_users_is_run(
    shadow_new: Shadow, tmp_path: Path, where: str
) -> None:
    """GIT-03: failing hooks, gpg, fsmonitor, pager and diff programs are never started."""
    shadow, repo = shadow_new, shadow_new.repo
    marker = tmp_path / "marker"
    hooks = repo.root / ".git" / "hooks"
    template = tmp_path / "template"
    if where == "core.hooksPath":
        hooks = tmp_path / "hooks"
        repo.git("config", "core.hooksPath", str(hooks))
    for name in HOOKS:
        trap(hooks / name, marker)
        trap(template / "hooks" / name, marker)
    program = tmp_path / "program"
    trap(program, marker)
    repo.git("config", "commit.gpgSign", "true")
    for key in (
        "gpg.program",
        "core.fsmonitor",
        "core.editor",
        "core.pager",
        "core.sshCommand",
        "core.askPass",
        "diff.external",
        "diff.x.textconv",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "merge.x.driver",
    ):
        repo.git("config", key, str(program))
    repo.git("config", "filter.x.required", "true")
    repo.write(".git/info/attributes", "* diff=x filter=x merge=x\n")
    repo.git("config", "--global", "init.templateDir", str(template))
    shadow.init()
    with kept(repo, "a"):
        Claude(shadow).write("a", "new\n")
        for verb in ("status", "log", "diff"):
            shadow.ok(verb)
        shadow.ok(
            "show", str(shadow.session("s1")["ref"]).removeprefix("refs/agent-undo/")
        )
        taken_back(shadow.oops())
        taken_back(shadow("redo", "--yes", "--json").json())
        shadow.ok("prune", "--all", "--yes")
    assert repo.read("a") == b"new\n"
    assert not marker.exists(), marker.read_text()


def test_nothing_has_to_be_configured(shadow_new: Shadow, tmp_path: Path) -> None:
    """GIT-04: no config, an empty home and no user.name: recorded, undone, our committer."""
    shadow, repo = shadow_new, shadow_new.repo
    home = tmp_path / "empty"
    home.mkdir()
    shadow.env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    shadow.init()
    with kept(repo, "a", "b"):
        Claude(shadow).write("a", "agent\n")
        repo.write("b", "person\n")
        taken_back(shadow.oops())
    assert (repo.read("a"), repo.read("b")) == (ten_lines("a").encode(), b"person\n")
    refs = list(repo.shadow_refs())
    committers = repo.git("log", "--format=%cn <%ce>", *refs, "^main").splitlines()
    assert set(committers) == {"gitshadow <gitshadow@agent-undo.invalid>"}
    assert len(committers) >= 4
    assert list(home.iterdir()) == []


def conflicted(repo: Repo, how: str) -> None:
    """Stop a merge or a rebase on a conflict in `a`."""
    repo.git("checkout", "-q", "-b", "side")
    repo.write("a", "side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("a", "main\n")
    repo.commit("main")
    repo.git(how, "side", check=False)
    assert b"<<<<<<<" in repo.read("a")


@pytest.mark.parametrize("how", ["merge", "rebase"])
def test_conflict_comes_back_byte_for_byte(agent: Claude, how: str) -> None:
    """GIT-06: markers, unmerged entries and the state of the merge or rebase stay."""
    shadow, repo = agent.shadow, agent.shadow.repo
    conflicted(repo, how)
    shadow.ok("flush")
    markers = repo.read("a")
    unmerged = repo.git("ls-files", "-u")
    state = ".git/MERGE_HEAD" if how == "merge" else ".git/rebase-merge"
    with kept(repo, "a"):
        agent.write("a", "resolved\n")
        taken_back(shadow.oops())
        assert repo.exists(state)
    assert repo.read("a") == markers
    assert repo.git("ls-files", "-u") == unmerged != ""


def everything(repo: Repo) -> dict[str, bytes]:
    """Return every file of a repository, Git's own included."""
    found = {}
    for directory, _, names in os.walk(repo.root):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as stream:
                found[path] = stream.read()
    return found


def test_environment_does_not_lead_us_elsewhere(
    shadow_new: Shadow, make_repo: Callable[..., Repo]
) -> None:
    """GIT-13: GIT_DIR and its like point to a second repository, which stays as it is."""
    shadow, repo = shadow_new, shadow_new.repo
    second = make_repo("second")
    git = second.root / ".git"
    shadow.env |= {
        "GIT_DIR": str(git),
        "GIT_WORK_TREE": str(second.root),
        "GIT_INDEX_FILE": str(git / "index"),
        "GIT_OBJECT_DIRECTORY": str(git / "objects"),
        "GIT_COMMON_DIR": str(git),
    }
    before = everything(second)
    shadow.init()
    with kept(repo, "a"):
        Claude(shadow).write("a", "new\n")
        assert [row["path"] for row in shadow.log()] == ["a"]
        taken_back(shadow.oops())
    assert repo.read("a") == ten_lines("a").encode()
    assert everything(second) == before


def test_stale_index_lock_hinders_nobody(agent: Claude) -> None:
    """GIT-14: with an index.lock lying about, writes are recorded and undone; it stays."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.write(".git/index.lock", "somebody's")
    with kept(repo, "a"):
        agent.write("a", "new\n")
        assert [row["kind"] for row in shadow.log()] == ["modify"]
        taken_back(shadow.oops())
    assert repo.read("a") == ten_lines("a").encode()
    assert repo.read(".git/index.lock") == b"somebody's"
    repo.delete(".git/index.lock")


def test_users_commits_never_meet_a_lock_of_ours(shadow_d: Shadow) -> None:
    """GIT-14: a loop of commits beside the recording daemon; none of them fails."""
    repo = shadow_d.repo
    for number in range(15):
        repo.write("a", f"version {number}\n")
        repo.write(f"n{number}", "x\n")
        repo.git("add", "--all")
        repo.git("commit", "-qm", f"commit {number}")
        repo.git("status")
    rows = shadow_d.log("--all")
    assert {row["path"] for row in rows if row["kind"] == "create"} == {
        f"n{number}" for number in range(15)
    }
    assert not repo.exists(".git/index.lock")
    assert repo.git("rev-list", "--count", "HEAD") == "16"


def test_chain_reads_as_the_history_of_the_tree(agent: Claude) -> None:
    """GIT-15: baseline, edit, sync with its own author, edit; each diff one write alone."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "agent a\n")
    first = repo.git("hash-object", "a")
    repo.write("b", "person b\n")
    shadow.ok("flush")
    agent.write("c", "agent c\n")
    shadow.ok("flush")
    ref = str(shadow.session("s1")["ref"])
    commits = repo.git("rev-list", "--reverse", ref, "^main").splitlines()
    subjects = [repo.git("log", "-1", "--format=%an: %s", one) for one in commits]
    assert subjects == [
        "claude-code: Baseline",
        "claude-code: Edit a",
        "unknown: Sync 1 file (unknown)",
        "claude-code: Edit c",
    ]
    parent = repo.git("rev-parse", f"{commits[0]}^")
    assert parent == repo.git("rev-parse", "main")
    changed = [
        repo.git("diff-tree", "-r", "--name-only", f"{one}^", one).split()
        for one in commits
    ]
    assert changed == [[], ["a"], ["b"], ["c"]]
    assert repo.git("rev-parse", f"{commits[1]}:a") == first
    for path in ("a", "b", "c"):
        assert repo.git("rev-parse", f"{ref}:{path}") == repo.blob(path)
    patch = repo.git("log", "-p", "--format=%s", ref, "^main")
    assert patch.count("diff --git") == 3
    assert repo.git("log", "-p", ref, "--", "b").count("+person b") == 1


def test_every_kind_of_commit_is_plain_to_git(agent: Claude) -> None:
    """GIT-16: trailers parse, the author is the actor, the committer ours, unsigned."""
    shadow, repo = agent.shadow, agent.shadow.repo
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", "/bin/false")
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.write("n", "new\n")
    agent.shell("chmod +x b; rm c; mv n m")
    repo.write("b", "person\n")
    shadow.ok("flush")
    agent.write("a", "more\n")
    agent.stop()
    repo.write(".gitignore", "b2\n")
    repo.write("b2", "x\n")
    shadow.ok("flush")
    repo.git("checkout", "-q", "-f", "-b", "other")
    shadow.ok("flush")
    shadow.oops()
    repo.write(".agent-undoignore", "b\n")
    shadow.ok("flush")
    seen: dict[str, str] = {}
    for oid in repo.git("rev-list", "--glob=refs/agent-undo/*", "^main").splitlines():
        message = repo.git("log", "-1", "--format=%B", oid)
        parsed = repo.git("interpret-trailers", "--parse", stdin=message.encode())
        trailers = dict(line.split(": ", 1) for line in parsed.splitlines())
        body = message.strip().split("\n\n")
        assert len(body) == 2, message
        assert parsed.splitlines() == body[1].splitlines()
        assert trailers["Agent-Undo-Format"] == "1"
        session = trailers["Agent-Undo-Session"]
        author, committer, signed = repo.git(
            "log", "-1", "--format=%an/%cn/%G?", oid
        ).split("/")
        assert (committer, signed) == ("gitshadow", "N")
        kind = trailers["Agent-Undo-Kind"]
        if kind != "sync":
            assert (
                author
                == {
                    "claude-code": "claude-code",
                    "unknown": "unknown",
                    "human": "Test User",
                }[re.sub(r"-\d{8}-.*", "", session)]
            )
        seen[kind] = seen.get(kind, "") + body[0] + "\n"
    assert set(seen) == {"baseline", "write", "sync", "restore", "head", "coverage"}
    for word in ("Edit a", "Create n", "Chmod b", "Delete c", "Rename n → m"):
        assert word in seen["write"]


def test_refs_are_plain_names_whatever_the_agent_calls_itself(agent: Claude) -> None:
    """GIT-17: hostile, long, emoji and near-equal native ids give distinct safe refs."""
    shadow, repo = agent.shadow, agent.shadow.repo
    natives = (
        "../../heads/main",
        "x" * 300,
        "\U0001f600\U0001f680",
        "two words",
        "two/words",
        "Two Words",
        "a.lock",
    )
    with kept(repo, "a"):
        for number, native in enumerate(natives):
            Claude(shadow, session=native).write("a", f"{number}\n")
        shadow.ok("flush")
    rows = shadow.ok("sessions", "--json").rows()
    refs = {
        str(row["native_id"]): str(row["ref"])
        for row in rows
        if row["agent"] == "claude-code"
    }
    assert set(refs) == set(natives)
    assert len(set(refs.values())) == len(natives)
    assert all(REF.fullmatch(ref) for ref in refs.values())
    assert set(refs.values()) <= set(repo.shadow_refs())


def test_nothing_of_ours_shows_in_the_users_git(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """GIT-18: 20 sessions, and branch, tag, status, push and log show none of them."""
    shadow = make_shadow(repo)
    Repo(repo.root.parent).git("init", "-q", "--bare", "remote.git")
    repo.git("remote", "add", "origin", "../remote.git")
    repo.git("push", "-q", "-u", "origin", "main")
    config = repo.read(".git/config")
    said = shadow.ok("init").out
    assert "log.excludeDecoration" in said
    assert "refs/agent-undo/*" in said
    assert repo.read(".git/config") == config
    shadow.ok("start")
    commands = (
        ("branch", "-a"),
        ("tag",),
        ("status", "--porcelain"),
        ("push", "--dry-run", "--porcelain"),
        ("push", "--dry-run", "--porcelain", "--all"),
        ("push", "--dry-run", "--porcelain", "--tags"),
        ("log", "--exclude=refs/agent-undo/*", "--all", "--format=%H %d"),
        ("stash", "list"),
    )
    before = [repo.git(*command) for command in commands]
    for number in range(20):
        shadow.ok("exec", "--", "/bin/sh", "-c", f"echo {number} > a")
    repo.write("a", ten_lines("a"))
    shadow.ok("flush")
    assert len(repo.shadow_refs()) >= 20
    repo.git("update-index", "--refresh")
    assert [repo.git(*command) for command in commands] == before


@pytest.mark.parametrize("unpushed", [0, 3])
@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.full)])
def test_fetch_offers_no_more_because_of_us(
    repo: Repo,
    make_shadow: Callable[..., Shadow],
    tmp_path: Path,
    count: int,
    unpushed: int,
) -> None:
    """GIT-19: with our commits about, `git fetch` sends as many "have" lines as without."""
    import_history(repo, 100)
    remote = Repo(tmp_path / "remote")
    repo.git("clone", "-q", "--bare", ".", str(remote.root))
    repo.git("remote", "add", "origin", str(remote.root))
    repo.git("fetch", "-q")
    for number in range(unpushed):
        repo.write("local", f"{number}\n")
        repo.git("add", "local")
        repo.git("commit", "-qm", f"local {number}")
    shadow = make_shadow(repo)
    shadow.init()
    for number in range(count // 60):
        command = f"for n in $(seq 60); do echo {number} > f$n; done"
        shadow.ok("exec", "--", "/bin/sh", "-c", command)
    ours = repo.git("rev-list", "--count", "--glob=refs/agent-undo/*", "^main")
    assert int(ours) >= count
    news = remote.git("commit-tree", "-m", "news", "-p", "main", "main^{tree}")
    remote.git("update-ref", "refs/heads/main", news)
    shadow.ok("stop")  # a daemon would pack loose objects away while they are copied
    with_us, without = Repo(tmp_path / "with"), Repo(tmp_path / "without")
    for copy in (with_us, without):
        shutil.copytree(repo.root, copy.root, ignore=shutil.ignore_patterns("sock"))
    for name in repo.shadow_refs():
        without.git("update-ref", "-d", name)
    assert haves(with_us) == haves(without) > 0


def import_history(repo: Repo, count: int) -> None:
    """Add commits an hour apart."""
    parts = ["reset refs/heads/main\nfrom refs/heads/main^0\n"]
    for number in range(count):
        when = 1_770_000_000 + 3600 * number
        parts.append(
            f"commit refs/heads/main\ncommitter T <t@example.com> {when} +0000\n"
            "data 2\nx\n"
        )
    repo.git("fast-import", "--quiet", stdin="\n".join(parts).encode())


def haves(repo: Repo) -> int:
    """Return how many commits a fetch offers; what is fetched stays here."""
    done = subprocess.run(
        ["git", "fetch", "origin"],
        cwd=repo.root,
        env={**os.environ, "GIT_TRACE_PACKET": "1"},
        capture_output=True,
        check=True,
    )
    return done.stderr.count(b"fetch> have ")


def test_exposed_session_is_listed_and_never_pushed(agent: Claude) -> None:
    """GIT-20: `expose` lists it under remotes, no push sends it, `unexpose` takes it back."""
    shadow, repo = agent.shadow, agent.shadow.repo
    Repo(repo.root.parent).git("init", "-q", "--bare", "remote.git")
    repo.git("remote", "add", "origin", "../remote.git")
    repo.git("push", "-q", "-u", "origin", "main")
    agent.write("a", "agent\n")
    shadow.ok("flush")
    ref = str(shadow.session("s1")["ref"])
    session = ref.removeprefix("refs/agent-undo/")
    push = ("push", "--dry-run", "--porcelain", "--all")
    sent = repo.git(*push)
    with kept(repo):
        shadow.ok("expose", session)
        branches = repo.git("branch", "-r").split()
        tips = repo.git("rev-parse", f"agent-undo/{session}", ref).splitlines()
        during = repo.git(*push)
        shadow.ok("unexpose", session)
    assert branches == [f"agent-undo/{session}", "origin/main"]
    assert tips[0] == tips[1]
    assert during == sent
    assert repo.git("branch", "-r").split() == ["origin/main"]
    assert ref in repo.shadow_refs()


def test_nothing_is_recorded_when_it_is_switched_off(agent: Claude) -> None:
    """GIT-21: `agent-undo.enabled=false`: hook, write and start exit 0, status says off."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.write("a", "recorded\n")
    shadow.ok("flush")
    shadow.ok("stop")
    repo.git("config", "agent-undo.enabled", "false")
    refs = repo.shadow_refs()
    with kept(repo, "a", "n"):
        shadow.ok("start")
        agent.prompt("go")
        agent.write("a", "not recorded\n")
        agent.stop()
        shadow.ok("exec", "--", "/bin/sh", "-c", "echo x > n")
        shadow.ok("flush")
        status = shadow.status()
        said = shadow.ok("status").out
    assert status["enabled"] is False
    daemon = status["daemon"]
    assert isinstance(daemon, dict)
    assert (daemon["running"], daemon["pid"]) == (False, None)
    assert said.startswith("not protected: recording is off")
    assert repo.shadow_refs() == refs
    rows = shadow.ok("log", "--json").rows()
    assert [row["path"] for row in rows] == ["a"]
    # What served a command ends a moment after the command does.
    until(lambda: list(shadow.processes()) == [])
    repo.git("config", "agent-undo.enabled", "true")
    assert {row["path"] for row in shadow.log()} == {"a", "n"}
