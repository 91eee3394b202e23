"""UX: the command line as a person and a script meet it."""

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.store.object_format import is_oid
from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.reports import items, states
from tests.support.shadow import Document, Result, Shadow

pytestmark = [pytest.mark.usefixtures("untouched"), pytest.mark.process]

Untouched = Callable[[], None]


def tree_of(repo: Repo) -> dict[str, tuple[int, bytes]]:
    return {
        path: (entry.mode, entry.data) for path, entry in repo.tree_snapshot().items()
    }


def write_from(agent: Claude, cwd: Path, named: str, path: str, data: str) -> None:
    """Do W with a path that the payload gives relative to another directory."""
    agent.extra["cwd"] = str(cwd)
    call = agent.pre("Write", {"file_path": named, "content": data})
    agent.shadow.repo.write(path, data)
    agent.post(call)


def test_paths_are_relative_to_the_current_directory(shadow_new: Shadow) -> None:
    """UX-01: the same result from `sub` and from the root; siblings untouched."""
    repo = shadow_new.repo
    repo.write("sub/b", "sibling of the same name\n")
    shadow_new.init()
    sub = repo.root / "sub"
    agent = Claude(shadow_new)
    agent.prompt("go")
    write_from(agent, sub, "../a", "a", "agent\n")
    write_from(agent, sub, "b", "sub/b", "agent\n")
    before = repo.tree_snapshot()
    from_sub = shadow_new.ok("oops", "--yes", cwd=sub).out
    assert set(re.findall(r"^  reverted  (\S+)", from_sub, re.MULTILINE)) == {
        "../a",
        "b",
    }
    restored = tree_of(repo)
    shadow_new.ok("redo", "--yes", cwd=sub)
    from_root = shadow_new.ok("oops", "--yes").out
    shown = re.findall(r"^  reverted  (\S+)", from_root, re.MULTILINE)
    assert set(shown) == {"a", "sub/b"}
    assert tree_of(repo) == restored
    assert repo.read("a") == ten_lines("a").encode()
    assert repo.tree_snapshot()["b"] == before["b"]
    shadow_new.ok("redo", "--yes")
    report = shadow_new.ok("restore", "../a", "--yes", "--json", cwd=sub).json()
    assert list(items(report)) == ["a"]
    assert repo.read("a") == ten_lines("a").encode()
    assert (repo.read("sub/b"), repo.read("b")) == (
        b"agent\n",
        ten_lines("b").encode(),
    )


@pytest.fixture
def wronged(agent: Claude) -> Shadow:
    """Return R after one turn in which an agent has rewritten `a` and made `new`."""
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.write("new", "agent\n")
    agent.stop()
    return agent.shadow


def is_back(shadow: Shadow) -> bool:
    """Tell whether the turn is taken back; anything between is an error."""
    repo = shadow.repo
    found = (repo.read("a"), repo.exists("new"))
    assert found in ((ten_lines("a").encode(), False), (b"agent\n", True))
    return not found[1]


def in_text_and_json(shadow: Shadow, *args: str) -> tuple[int, Result]:
    """Run one command twice, with `--json` first; check that the exit codes agree."""
    as_json = shadow(*args, "--json")
    as_text = shadow(*args)
    assert as_json.code == as_text.code, (as_json, as_text)
    return as_text.code, as_json


def test_exit_codes(wronged: Shadow, tmp_path: Path) -> None:
    """UX-05: 0, 0, 1, 2, 4, 5 in text and `--json` alike."""
    repo = wronged.repo
    assert in_text_and_json(wronged, "oops")[0] == 5
    assert in_text_and_json(wronged, "oops", "--no-such-flag")[0] == 2
    assert in_text_and_json(wronged, "oops", "--yes", "--token", "0")[0] == 5
    repo.write("a", "human\n")
    partial = wronged("oops", "--yes", "--json")
    assert (partial.code, partial.json()["status"]) == (4, "partial")
    assert wronged("redo", "--yes").code == 0
    assert wronged("oops", "--yes").code == 4
    assert wronged("redo", "--yes").code == 0
    repo.write("a", "agent\n")
    done = wronged("oops", "--yes", "--json")
    assert (done.code, done.json()["status"]) == (0, "reversed")
    assert wronged("redo", "--yes").code == 0
    assert wronged("oops", "--yes").code == 0
    code, nothing = in_text_and_json(wronged, "oops", "--yes")
    assert (code, nothing.json()["status"]) == (0, "nothing_to_do")
    for as_json in ([], ["--json"]):
        error = wronged("oops", "--yes", *as_json, cwd=tmp_path)
        assert error.code == 1
        assert error.err.startswith("error: ")
        if as_json:
            assert error.json()["exit"] == 1


def documents(result: Result) -> list[Document]:
    """Read what a verb prints with `--json`; check that it prints nothing else."""
    assert result.code == 0, result
    assert result.err == "", result
    assert b"\x1b" not in result.raw
    lines = result.raw.splitlines()
    assert result.raw == b"".join(line + b"\n" for line in lines)
    found = [json.loads(line) for line in lines]
    assert all(isinstance(one, dict) for one in found)
    return found


FIELDS = {
    "status": "root worktree daemon events sessions open_sessions gaps coverage disk",
    "log": "seq ts path kind actor agent session turn call tool confidence reason burst"
    " commit before after op",
    "sessions": "id native_id agent parent worktree ref tip started ended events files"
    " turns",
    "turns": "id session prompt started ended",
    "ops": "op_id kind target status commit",
    "diff": "patch stat",
    "du": "loose packed bytes",
    "doctor": "checks",
    "pins": "name",
}


@pytest.mark.parametrize("verb", FIELDS)
def test_reading_verbs_print_json_and_nothing_else(
    wronged: Shadow, untouched: Untouched, verb: str
) -> None:
    """UX-06: one document, or one object per line, with the documented fields."""
    wronged.repo.git("config", "color.ui", "always")
    untouched()
    if verb == "pins":
        wronged.ok("pin", "good")
    if verb == "ops":
        wronged.ok("oops", "--yes")
    found = documents(wronged(verb, "--json"))
    assert found
    for one in found:
        assert set(FIELDS[verb].split()) <= set(one), one


def test_status_and_log_have_the_inner_fields(wronged: Shadow) -> None:
    """UX-06: times and modes are spelled as docs/format.md says."""
    (status,) = documents(wronged("status", "--json"))
    daemon, coverage, disk = status["daemon"], status["coverage"], status["disk"]
    assert isinstance(daemon, dict)
    assert isinstance(coverage, dict)
    assert isinstance(disk, dict)
    assert set(daemon) >= {"running", "pid"}
    assert daemon["running"] is wronged.daemon
    assert set(coverage) >= {"tracked", "excluded"}
    assert set(disk) >= {"loose", "packed", "bytes"}
    (row,) = documents(wronged("log", "--json", "a"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", str(row["ts"]))
    before = row["before"]
    assert isinstance(before, dict)
    assert is_oid(before["oid"])
    assert before["mode"] == "100644"


def test_every_id_that_is_printed_is_shown(wronged: Shadow) -> None:
    """UX-06: `show` and `cat` of what `log` prints."""
    row = documents(wronged("log", "--json", "-n", "1", "a"))[0]
    for key, kind in (
        ("seq", "event"),
        ("call", "call"),
        ("turn", "turn"),
        ("burst", "burst"),
        ("session", "session"),
    ):
        (shown,) = documents(wronged("show", "--json", str(row[key])))
        assert shown["type"] == kind
    (cat,) = documents(wronged("cat", "--json", "a"))
    after = row["after"]
    assert isinstance(after, dict)
    assert (cat["path"], cat["oid"]) == ("a", after["oid"])


REPORT = {
    "op_id",
    "kind",
    "target",
    "status",
    "token",
    "items",
    "counts",
    "commit",
    "not_covered",
}
ITEM = {"domain", "path", "session", "action", "state", "reason", "residue"}


def test_reports_have_one_shape(agent: Claude) -> None:
    """UX-06: an undo with each item state; `counts` sum to the items."""
    shadow, repo = agent.shadow, agent.shadow.repo
    agent.prompt("go")
    for name in ("a", "b", "c"):
        agent.write(name, "agent\n")
    repo.write("a", "human\n")
    repo.write("b", ten_lines("b"))
    result = shadow("oops", "--yes", "--json")
    report = result.json()
    assert (result.code, result.err) == (4, "")
    assert states(report) == {
        "a": "not_reversed",
        "b": "no_effect",
        "c": "reversed",
    }
    assert set(report) >= REPORT
    assert report["not_covered"] == []
    for item in items(report).values():
        assert set(item) >= ITEM
    (nothing,) = documents(shadow("redo", "--dry-run", "--json"))
    assert set(nothing) >= REPORT


def test_partial_undo_is_never_called_undone(agent: Claude) -> None:
    """UX-07: counts first, then what stayed and why, and how to take it back."""
    shadow = agent.shadow
    agent.prompt("go")
    agent.write("a", "agent\n")
    agent.write("b", "agent\n")
    shadow.repo.write("a", "human\n")
    result = shadow("oops", "--yes")
    lines = result.out.splitlines()
    assert (result.code, lines[0]) == (4, "restored 1 file, skipped 1")
    assert "undone" not in result.out
    assert re.search(r"^  skipped   a: .*same lines", result.out, re.MULTILINE)
    assert "undo this with: git agent-undo redo" in lines
    (rest,) = re.findall(
        r"git agent-undo (undo \S+ --on-conflict=overwrite)", result.out
    )
    assert shadow(*rest.split(), "--yes").code == 0
    assert shadow.repo.read("a") == ten_lines("a").encode()


@pytest.mark.parametrize(
    "args",
    [
        ("undo", "--yes", "no-such-id"),
        ("undo", "--yes", "--", "no/such/file"),
        ("restore", "--yes", "no/such/file"),
        ("restore", "--yes", "--at", "no-such-time"),
        ("restore", "--yes", "--pin", "none"),
        ("undo", "--yes", "../outside"),
        ("undo", "--yes", ""),
        ("undo", "--yes", "--", ""),
        ("undo", "--yes", "last", "--only", ""),
        ("redo", "--yes", ""),
        ("purge", "--yes", ""),
        ("show", ""),
        ("show", "9" * 20),
        ("show", "no-such-id"),
        ("cat", "no/such/file"),
        ("cat", r'"a\000b"'),
        ("log", "--session", "nobody"),
        ("oops", "--yes", "--token", "stale"),
        ("no-such-verb",),
    ],
    ids=lambda args: "-".join(args),
)
def test_failures_are_said_in_our_own_words(
    wronged: Shadow, args: tuple[str, ...]
) -> None:
    """UX-07: `error:` and `hint:`, no pathspec text, no traceback."""
    kept = wronged.repo.tree_snapshot()
    result = wronged(*args)
    assert result.code in (2, 5), result
    lines = result.err.splitlines()
    assert lines[0].startswith("error: ")
    assert any(line.startswith("hint: ") for line in lines[1:]), result
    assert "Traceback" not in result.err
    assert "pathspec" not in result.err
    assert wronged.repo.tree_snapshot() == kept


@pytest.mark.parametrize("verb", ["cat", "blame --commit HEAD", "blame --at 1"])
def test_a_directory_in_place_of_a_file_is_named(wronged: Shadow, verb: str) -> None:
    result = wronged(*verb.split(), ".")
    assert (result.code, result.err.split()[:4]) == (
        2,
        ["error:", "cannot", "find", "."],
    )


def test_second_init_reconciles(shadow: Shadow) -> None:
    """UX-08: exit 0, and what was written meanwhile is recorded."""
    refs = set(shadow.repo.shadow_refs())
    shadow.repo.write("a", "meanwhile\n")
    shadow.ok("init")
    (row,) = shadow.ok("log", "--json", "a").rows()
    assert row["kind"] == "modify"
    assert set(shadow.repo.shadow_refs()) >= refs
    assert shadow.ok("status", "--json").json()["gaps"] == 0


@pytest.mark.both_modes
def test_interrupted_apply_is_whole(agent: Claude) -> None:
    """UX-09: Ctrl-C while it runs is 130; finished or rolled back."""
    shadow, repo = agent.shadow, agent.shadow.repo
    before = tree_of(repo)
    agent.prompt("go")
    agent.shell("for i in $(seq 2500); do echo agent > f$i; done; echo agent > a")
    shadow.ok("flush")
    after = tree_of(repo)
    while interrupted(shadow) == 0:  # it was quicker than the signal
        shadow.ok("redo", "--yes")
    shadow.ok("flush")
    assert tree_of(repo) in (before, after)


def interrupted(shadow: Shadow) -> int:
    """Interrupt an undo once it has begun; return its exit code."""
    with shadow.spawn("oops", "--yes") as undoing:
        while shadow.repo.exists("f1") and undoing.poll() is None:
            time.sleep(0.001)
        undoing.send_signal(signal.SIGINT)
        _, err = undoing.communicate()
    assert undoing.returncode in (0, 130), err
    assert b"Traceback" not in err
    return undoing.returncode


def test_log_is_filtered(shadow: Shadow) -> None:
    """UX-10: by session, agent, age and path; what is no time exits 2."""
    repo = shadow.repo
    Claude(shadow, "one").write("a", "one\n")
    Claude(shadow, "two").write("d/b", "two\n")
    repo.write("c", "nobody\n")

    def paths(*args: str) -> list[object]:
        return [row["path"] for row in shadow.ok("log", "--json", *args).rows()]

    one = str(shadow.session("one")["id"])
    assert paths() == ["c", "d/b", "a"]
    assert paths("--session", one) == ["a"]
    assert paths("--agent", "claude-code") == ["d/b", "a"]
    assert paths("--agent", "codex") == []
    assert paths("--since", "5m") == ["c", "d/b", "a"]
    assert paths("--grep", "D/") == ["d/b"]
    newest = shadow.ok("log", "--json", "-n", "1").rows()[0]["seq"]
    assert paths("--below", str(newest), "--prompts") == ["d/b", "a"]
    assert paths("--until", "5m") == []
    assert paths("d") == ["d/b"]
    assert paths("-n", "1") == ["c"]
    soon = shadow("log", "--since", "soon")
    assert (soon.code, soon.out) == (2, "")
    assert "soon" in soon.err


def test_doctor_names_a_warning_and_its_remedy(
    shadow: Shadow, untouched: Untouched
) -> None:
    """UX-11: exit 1, and never "healthy" beside it."""
    fine = shadow("doctor")
    assert (fine.code, fine.out.splitlines()[-1]) == (0, "healthy")
    shadow.repo.git("config", "remote.backup.url", "/nowhere")
    shadow.repo.git("config", "remote.backup.mirror", "true")
    untouched()
    result = shadow("doctor")
    assert result.code == 1
    assert "healthy" not in result.out
    assert re.search(r"^warn  .*backup.*\n      hint: \S", result.out, re.MULTILINE)
    as_json = shadow("doctor", "--json")
    checks = as_json.json()["checks"]
    assert as_json.code == 1
    assert isinstance(checks, list)
    (bad,) = [check for check in checks if not check["ok"]]
    assert "backup" in bad["message"]
    assert bad["remedy"]


@pytest.mark.parametrize(
    "settings",
    [("mirror", "true"), ("push", "+refs/*:refs/*"), ("push", "+refs/*")],
    ids=["mirror", "push", "short-push"],
)
def test_init_warns_of_a_remote_that_mirrors(
    shadow_new: Shadow, untouched: Untouched, settings: tuple[str, str]
) -> None:
    """UX-12: a push there would send the history."""
    repo = shadow_new.repo
    repo.git("config", "remote.backup.url", "/nowhere")
    repo.git("config", f"remote.backup.{settings[0]}", settings[1])
    untouched()
    result = shadow_new.ok("init")
    assert re.search(r"^warning: .*backup", result.out + result.err, re.MULTILINE)


def test_push_refuses_secrets_unless_told(
    shadow_new: Shadow, untouched: Untouched, tmp_path: Path
) -> None:
    """UX-12: a session that holds a secret-looking path stays here."""
    repo = shadow_new.repo
    remote = tmp_path / "remote.git"
    repo.git("init", "--quiet", "--bare", str(remote))
    repo.git("config", "remote.there.url", str(remote))
    repo.write("id_rsa", "a key\n")
    untouched()
    shadow_new.init()
    Claude(shadow_new).write("a", "agent\n")

    def sent() -> str:
        return repo.git("ls-remote", str(remote))

    refused = shadow_new("push", "there")
    assert (refused.code, sent()) == (5, "")
    assert "id_rsa" in refused.err
    assert "hint: " in refused.err
    shadow_new.ok("push", "--force-secrets", "there")
    assert set(repo.shadow_refs()) == {
        line.split("\t")[1] for line in sent().split("\n")
    }


def test_push_sends_the_sessions_that_are_named(
    shadow: Shadow, untouched: Untouched, tmp_path: Path
) -> None:
    """UX-12: without a secret-looking path nothing has to be said."""
    repo = shadow.repo
    remote = tmp_path / "remote.git"
    repo.git("init", "--quiet", "--bare", str(remote))
    repo.git("config", "remote.there.url", str(remote))
    untouched()
    Claude(shadow).write("a", "agent\n")
    (session,) = [
        row
        for row in shadow.ok("sessions", "--json").rows()
        if row["agent"] == "claude-code"
    ]
    shadow.ok("push", "--session", str(session["id"]), "there")
    assert repo.git("ls-remote", str(remote)) == f"{session['tip']}\t{session['ref']}"
