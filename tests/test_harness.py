"""The test kit itself: a sealed environment, and checks that can fail."""

import ast
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pygit2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitshadow.store.journal import schema
from tests.conftest import sampled
from tests.support import audit, console, kinds
from tests.support.claude import Claude
from tests.support.examples import shares_fixture
from tests.support.kinds import Kind
from tests.support.repo import Repo, ten_lines
from tests.support.shadow import Result, Shadow

FIXTURES = Path(__file__).parent / "fixtures" / "hook_payloads"


@dataclass(eq=False)
class _Case:
    """A test with parameters, as pytest collects it."""

    nodeid: str
    params: dict[str, object]
    is_sampled: bool = True

    @property
    def callspec(self) -> "_Case":
        return self

    def get_closest_marker(self, name: str) -> bool | None:
        return self.is_sampled or None


def test_environment_has_no_git_or_own_variables() -> None:
    left = {name for name in os.environ if name.startswith(("GIT_", "GITSHADOW_"))}
    assert left == {
        "GIT_CONFIG_NOSYSTEM",
        "GITSHADOW_SERVER",
        *kinds.environment(kinds.KIND),
    }


@pytest.mark.kinds
def test_make_repo_gives_the_kind_that_is_asked_for(
    repo: Repo, repo_kind: Kind, tmp_path: Path
) -> None:
    repo.git("clone", "-q", str(repo.root), "../clone")
    repo.git("worktree", "add", "-q", "-b", "side", "../linked")
    repo.git("init", "-q", "../another")
    for name in ("repo", "clone", "linked", "another"):
        other = Repo(tmp_path / name)
        assert other.object_format == repo_kind.object_format
        assert other.has_reftables == (repo_kind.refs == "reftable")
    tips = [
        Repo(tmp_path / name).git("rev-parse", "main") for name in ("repo", "clone")
    ]
    assert len({*tips}) == 1


def test_home_is_the_sealed_one_for_git_and_libgit2(sealed: Path, repo: Repo) -> None:
    origin = repo.git("config", "--show-origin", "user.email")
    assert origin == f"file:{sealed}/.gitconfig\ttest@example.com"
    config = pygit2.Config.get_global_config()
    assert config["user.email"] == "test@example.com"


def test_make_repo_gives_r(repo: Repo) -> None:
    assert repo.git("ls-files").split() == ["a", "b", "c"]
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert repo.read("a") == ten_lines("a").encode()
    assert len(set(ten_lines("a").splitlines())) == 10
    assert repo.git("log", "--format=%at %ct") == "1767225600 1767225600"


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("sha3-files", "not one of sha1-files, sha256-files, "),
        ("sha256-reftable", "no git here makes sha256-reftable repositories"),
    ],
)
def test_run_about_a_kind_that_cannot_be_made_does_not_begin(
    tmp_path: Path, named: str, words: str
) -> None:
    """Else it would be green, with everything skipped or about another kind."""
    git = tmp_path / "git"  # it knows no variables, as if it were older than 2.29
    git.write_text(f'#!/bin/sh\nexec env -i PATH="{os.environ["PATH"]}" git "$@"\n')
    git.chmod(0o755)
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", __file__],
        cwd=root,
        env={
            **os.environ,
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "GITSHADOW_NEWER_GIT": str(tmp_path),
            "GITSHADOW_TEST_KIND": named,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert words in done.stderr


def test_snapshot_is_equal_when_only_our_ref_moved(repo: Repo) -> None:
    before = repo.snapshot()
    repo.git("update-ref", "refs/agent-undo/s-1", "HEAD")
    repo.write(".git/agent-undo/journal.db", "x")
    assert repo.snapshot() == before
    assert list(repo.shadow_refs()) == ["refs/agent-undo/s-1"]


@pytest.mark.parametrize(
    "touch",
    [
        lambda repo: repo.git("update-index", "--chmod=+x", "a"),
        lambda repo: repo.git("update-ref", "refs/heads/x", "HEAD"),
        lambda repo: repo.git("update-ref", "refs/other/x", "HEAD"),
        lambda repo: repo.git("checkout", "--quiet", "--detach"),
        lambda repo: repo.git("config", "x.y", "z"),
        lambda repo: repo.write(".git/hooks/post-commit", "#!/bin/sh\n"),
        lambda repo: repo.write(".git/logs/HEAD", "forged\n"),
        lambda repo: (repo.write("a", "x"), repo.git("stash")),
        lambda repo: repo.write(".git/MERGE_HEAD", "x"),
    ],
    ids=[
        "index",
        "branch",
        "ref",
        "head",
        "config",
        "hook",
        "reflog",
        "stash",
        "merge",
    ],
)
def test_snapshot_differs_when_something_of_the_users_changed(
    repo: Repo, touch: Callable[[Repo], object]
) -> None:
    before = repo.snapshot()
    touch(repo)
    assert repo.snapshot() != before


@pytest.mark.kinds
def test_snapshot_differs_when_an_older_stash_was_dropped(repo: Repo) -> None:
    for text in ("one", "two"):
        repo.write("a", text)
        repo.git("stash")
    before = repo.snapshot()
    repo.git("stash", "drop", "stash@{1}")
    assert repo.snapshot() != before


def test_tree_snapshot_names_what_changed(repo: Repo) -> None:
    repo.symlink("l", "nowhere")
    repo.mkdir("d/e")
    before = repo.tree_snapshot()
    assert set(before) == {"a", "b", "c", "d", "d/e", "l"}
    repo.chmod("a", 0o755)
    os.utime(repo.path("b"), ns=(1, 1))
    repo.write("c", repo.read("c"))
    repo.symlink("l", "elsewhere")
    repo.write("d/e/f", "x")
    after = repo.tree_snapshot()
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed >= {"a", "b", "l", "d/e/f"}
    assert set(repo.tree_snapshot(exclude=["d", "l"])) == {"a", "b", "c"}


def test_tree_snapshot_takes_names_that_are_not_utf8(repo: Repo) -> None:
    repo.write(b"\xff", b"\x00\xff")
    assert repo.tree_snapshot()[os.fsdecode(b"\xff")].data == b"\x00\xff"


def test_blob_is_of_the_raw_bytes(repo: Repo) -> None:
    repo.write(".gitattributes", "* text=auto eol=lf\n")
    repo.write("crlf", b"x\r\n")
    assert repo.blob("crlf") == repo.object_format.blob(b"x\r\n")


def test_check_passes_when_all_is_well(repo: Repo) -> None:
    repo.git("update-ref", "refs/agent-undo/s-1", "HEAD")
    repo.check()
    assert repo.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda repo: repo.git("update-ref", "refs/agent-undo/t", "HEAD^{tree}"),
        lambda repo: repo.write("d/.agent-undo-tmp-1", "x"),
        lambda repo: repo.write(".git/logs/refs/agent-undo/s", "x"),
        lambda repo: repo.write(".git/refs/agent-undo/s.lock", ""),
        lambda repo: repo.write(".git/agent-undo.lock", ""),
    ],
    ids=["ref at a tree", "temp file", "reflog", "ref lock", "stray file"],
)
def test_check_fails_when_something_of_ours_is_wrong(
    repo: Repo, damage: Callable[[Repo], object]
) -> None:
    damage(repo)
    with pytest.raises(AssertionError):
        repo.check()


def test_close_finds_a_process_that_was_left_behind(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow = Shadow(repo, daemon=False)
    monkeypatch.setattr("tests.support.shadow._EXIT_SECONDS", 0.1)
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=shadow.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(AssertionError, match=r"print\(flush=True\); input\(\)"):
            shadow.close()
    assert child.returncode == -signal.SIGKILL
    assert list(shadow.processes()) == []


@pytest.fixture
def recorded(repo: Repo) -> Repo:
    """Return R with a journal in which `a` was rewritten and `b` renamed to `d`."""
    old = repo.blob("a")
    repo.write("a", "new\n")
    new = repo.blob("a")
    repo.rename("b", "d")
    commit = repo.commit("recorded")
    repo.mkdir(".git/agent-undo")
    with closing(sqlite3.connect(repo.state_dir / "journal.db")) as db:
        for statement in schema.STATEMENTS:
            db.execute(statement)
        db.execute("INSERT INTO worktrees (id, path) VALUES ('main', ?)", [repo.path()])
        states = [(p, repo.blob(p)) for p in (b"a", b"c", b"d")]
        db.executemany(
            "INSERT INTO file_state VALUES ('main', ?, ?, 33188, 0, 0, 0, 0, 0, 0, NULL)",
            states,
        )
        db.executemany(
            "INSERT INTO events (ts_ns, worktree, kind, path, old_path, before_oid,"
            " after_oid, after_mode, commit_oid) VALUES (0, 'main', ?, ?, ?, ?, ?, ?, ?)",
            [
                ("modify", b"a", None, old, new, 0o100644, commit),
                ("rename", b"d", b"b", states[2][1], states[2][1], 0o100644, commit),
            ],
        )
        db.commit()
    return repo


def alter(repo: Repo, statement: str) -> None:
    with closing(sqlite3.connect(repo.state_dir / "journal.db")) as db:
        db.execute(statement)
        db.commit()


def test_audit_passes_when_journal_and_disk_agree(recorded: Repo) -> None:
    audit.audit(recorded)
    assert audit.unrecorded(recorded, []) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda repo: repo.write("a", "unseen\n"),
        lambda repo: repo.chmod("c", 0o755),
        lambda repo: repo.delete("d"),
        lambda repo: alter(
            repo, "DELETE FROM file_state WHERE path = CAST('a' AS BLOB)"
        ),
        lambda repo: alter(repo, "UPDATE events SET path = old_path, old_path = path"),
        lambda repo: alter(
            repo, f"UPDATE events SET before_oid = '{repo.object_format.null}'"
        ),
    ],
    ids=["bytes", "mode", "deleted", "no state", "wrong rename", "dangling oid"],
)
def test_audit_fails_when_they_differ(
    recorded: Repo, damage: Callable[[Repo], object]
) -> None:
    damage(recorded)
    with pytest.raises(AssertionError):
        audit.audit(recorded)


@pytest.mark.parametrize("where", ["gap", "report"])
def test_audit_fails_when_our_own_code_failed(recorded: Repo, where: str) -> None:
    if where == "gap":
        note = "could not process a hook payload: TypeError at intake.py:12"
        alter(
            recorded,
            "INSERT INTO events (ts_ns, worktree, kind, note)"
            f" VALUES (0, 'main', 'gap', '{note}')",
        )
    else:
        report = recorded.state_dir / "reports" / "1-daemon.txt"
        report.parent.mkdir(exist_ok=True)
        report.write_text("Traceback:\n  File ...\nTypeError: not a number\n")
    with pytest.raises(AssertionError, match="TypeError"):
        audit.audit(recorded)


def test_unrecorded_names_files_that_the_journal_misses(recorded: Repo) -> None:
    recorded.write(".gitignore", "*.log\n")
    for name in ("n", "x.log", "big/one", "bigger"):
        recorded.write(name, "x")
    assert audit.unrecorded(recorded, ["big"]) == [".gitignore", "bigger", "n"]


def test_environment_turns_the_daemon_off_on_request(repo: Repo) -> None:
    off = Shadow(repo, daemon=False).environment({"X": "1"})
    assert (off["GITSHADOW_DAEMON"], off["X"]) == ("off", "1")
    assert "GITSHADOW_DAEMON" not in Shadow(repo, daemon=True).environment()


@pytest.mark.parametrize(
    ("event", "fixture"),
    [
        ("SessionStart", "SessionStart"),
        ("UserPromptSubmit", "UserPromptSubmit"),
        ("PreToolUse", "PreToolUse__Bash"),
        ("PostToolUse", "PostToolUse__Write"),
        ("Stop", "Stop"),
        ("SessionEnd", "SessionEnd"),
    ],
)
def test_claude_sends_the_fields_of_the_samples(
    repo: Repo, event: str, fixture: str
) -> None:
    sample = json.loads((FIXTURES / f"claude_code__{fixture}.json").read_text())
    assert sample["hook_event_name"] == event
    sent: list[dict[str, object]] = []

    class Recording(Claude):
        def _hook(self, payload: Mapping[str, object]) -> Result:
            sent.append(dict(payload))
            return Result((), 0, b"", "")

    agent = Recording(Shadow(repo, daemon=False))
    agent.start()
    agent.prompt("go")
    agent.write("a", "x\n", mode=0o600)
    agent.shell("rm b")
    agent.stop()
    agent.end()
    assert (repo.read("a"), repo.mode("a"), repo.exists("b")) == (b"x\n", 0o600, False)
    missing = [
        set(sample) - set(payload)
        for payload in sent
        if payload["hook_event_name"] == event
    ]
    assert missing
    optional = {"effort", "background_tasks", "session_crons"}
    assert all(names <= optional for names in missing), missing


PAGE = """\
```sh
$ not run
```

```console
$ echo one; echo two
one
…
$ printf 'a %s z' middle
a … z
$ echo first \\
> second
first second
```

* in a list
  ```console
  $ cd / && pwd
  /
  $ pwd; exit_with() { return "$1"; }; exit_with 4
  /
  [exit 4]
  ```
"""


def test_sampled_cases_show_each_value() -> None:
    cases = [_Case(f"t[{a}{b}]", {"a": a, "b": b}) for a in "xyz" for b in (1, 2)]
    plain = [_Case(f"u[{a}]", {"a": a}, is_sampled=False) for a in "xy"]
    taken = list(sampled(cast("list[pytest.Item]", [*cases, *plain])))
    assert [one.nodeid for one in taken] == ["t[x1]", "t[y2]", "t[z1]", "u[x]", "u[y]"]


def test_console_runs_the_marked_blocks_only(tmp_path: Path) -> None:
    blocks = console.parse(PAGE)
    assert [len(block) for block in blocks] == [3, 2] == [3, console.count_fences(PAGE)]
    steps = [step for block in blocks for step in block]
    assert console.run(steps, tmp_path, {}) == []


@pytest.mark.parametrize(
    "body",
    [
        "$ echo one\ntwo",
        "$ echo one",
        "$ true\none",
        "$ false",
        "$ true\n[exit 3]",
        "$ exit 0",
        "$ printf 'a\\nb\\n'\n…\na",
    ],
)
def test_console_reports_a_difference(tmp_path: Path, body: str) -> None:
    (steps,) = console.parse(f"```console\n{body}\n```\n")
    assert len(console.run(steps, tmp_path, {})) == 1


def test_console_refuses_output_before_a_command() -> None:
    with pytest.raises(ValueError, match="line 2: output before"):
        console.parse("```console\noutput\n```\n")


def _can_fail(node: ast.AST, asserting: set[str]) -> bool:
    """Whether a function asserts, raises, or calls what does, by its name."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert | ast.Raise):
            return True
        if isinstance(inner, ast.Call):
            called = ast.unparse(inner.func).rpartition(".")[2]
            if called in asserting:
                return True
    return False


def test_every_test_can_fail() -> None:
    """Each asserts something, or calls a helper of the tests that does."""
    asserting = {"raises", "warns", "fail", "assert_outcomes", "assert_called_once"}
    tests: list[tuple[Path, ast.AST, str]] = []
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, functions):
                continue
            if node.name.startswith("test_"):
                tests.append((path, node, node.name))
            elif _can_fail(node, asserting):
                asserting.add(node.name)
    # `seen` and `passed` call helpers that assert.
    asserting |= {"seen", "passed"}
    idle = [
        f"{path.name}::{name}"
        for path, node, name in tests
        if not _can_fail(node, asserting)
    ]
    assert len(tests) > 3000
    assert idle == []


def test_property_that_shares_a_fixture_has_no_deadline_and_the_profiles_examples() -> (
    None
):
    @shares_fixture
    @given(st.none())
    def law(_: None) -> None:
        pass

    found = law._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    assert (found.deadline, found.max_examples) == (None, settings().max_examples)
    assert HealthCheck.too_slow in found.suppress_health_check
