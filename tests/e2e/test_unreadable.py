"""Undo and redo tell the truth about files that their owner may not read (chmod 000, 0200)."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.platform.stamps import RACY_NS
from tests.support.repo import Repo, ten_lines
from tests.support.reports import items
from tests.support.shadow import Document, Shadow
from tests.support.waiting import until

PROGRAM = str(Path(sys.executable).parent / "git-agent-undo")
# Root may read every file, unless it gives that right up.
WITHOUT = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")

pytestmark = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None,
    reason="root reads files whatever their mode, and setpriv is not installed",
)


@pytest.fixture
def run(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> Callable[..., tuple[int, Document]]:
    """Return a function that runs a verb as somebody who needs the right to read."""
    # A file that could have been written again within a tick has to be read to be known.
    newest = max((repo.root / name).lstat().st_ctime_ns for name in "abc")
    until(lambda: time.time_ns() > newest + 2 * RACY_NS)
    make_shadow(repo, daemon=False).init()
    rights = WITHOUT if os.geteuid() == 0 else ()

    def command(*words: str) -> tuple[int, Document]:
        done = subprocess.run(
            [*rights, PROGRAM, *words],
            cwd=repo.root,
            env={**os.environ, "GITSHADOW_DAEMON": "off"},
            capture_output=True,
            check=False,
        )
        return done.returncode, json.loads(done.stdout or "{}")

    return command


def mode_of(repo: Repo, path: str) -> int:
    return (repo.root / path).lstat().st_mode & 0o777


@pytest.mark.parametrize("mode", [0o000, 0o200])
def test_mode_that_forbids_reading_is_undone_and_redone(
    repo: Repo, run: Callable[..., tuple[int, Document]], mode: int
) -> None:
    run("exec", "--agent", "helper", "--", "chmod", f"{mode:o}", "a")
    for verb, expected in (("oops", 0o644), ("redo", mode), ("oops", 0o644)):
        code, report = run(verb, "--yes", "--json")
        assert (code, report["status"]) == (0, "reversed")
        assert mode_of(repo, "a") == expected
        assert report["not_covered"] == []


def test_deleted_file_that_nobody_may_read_comes_back(
    repo: Repo, run: Callable[..., tuple[int, Document]]
) -> None:
    held = repo.read("a")
    repo.chmod("a", 0o200)
    run("flush")
    run("exec", "--agent", "helper", "--", "rm", "a")
    code, report = run("oops", "--yes", "--json")
    assert (code, report["status"], mode_of(repo, "a")) == (0, "reversed", 0o200)
    repo.chmod("a", 0o600)
    assert repo.read("a") == held


def test_mode_that_changes_from_one_that_forbids_reading_to_another_is_undone(
    repo: Repo, run: Callable[..., tuple[int, Document]]
) -> None:
    repo.chmod("a", 0o000)
    run("flush")
    run("exec", "--agent", "helper", "--", "chmod", "200", "a")
    code, report = run("oops", "--yes", "--json")
    assert (code, report["status"], mode_of(repo, "a")) == (0, "reversed", 0o000)


def test_write_into_a_file_that_nobody_may_read_is_a_gap(
    repo: Repo, run: Callable[..., tuple[int, Document]]
) -> None:
    """What nobody saw is never reported as reversed."""
    repo.chmod("a", 0o200)
    run("flush")
    run("exec", "--agent", "helper", "--", "sh", "-c", "echo more >>a; chmod 000 a")
    _, report = run("oops", "--yes", "--json")
    assert (report["status"], mode_of(repo, "a")) == ("nothing_to_do", 0o000)
    named = report["not_covered"]
    assert isinstance(named, list)
    assert {row["what"] for row in named} == {"a"}


@pytest.mark.parametrize("then", ["rm -f a", "chmod 600 a; echo other >a"])
def test_file_that_may_not_be_read_is_restored_and_redone(
    repo: Repo, run: Callable[..., tuple[int, Document]], then: str
) -> None:
    """Its bytes are those that were recorded while it looks the same."""
    repo.chmod("a", 0)
    run("exec", "--agent", "helper", "--", "sh", "-c", then)
    left = repo.read("a") if repo.exists("a") else None
    for verb in ("oops", "redo", "oops"):
        code, report = run(verb, "--yes", "--json")
        assert (code, report["status"]) == (0, "reversed")
        assert report["not_covered"] == []
        if verb == "redo":
            assert (repo.read("a") if repo.exists("a") else None) == left
        else:
            assert mode_of(repo, "a") == 0
            assert repo.read("a") == ten_lines("a").encode()


def test_file_that_may_not_be_read_is_left_where_it_was_written_again(
    repo: Repo, run: Callable[..., tuple[int, Document]]
) -> None:
    repo.chmod("a", 0)
    run("exec", "--agent", "helper", "--", "rm", "-f", "a")
    run("oops", "--yes", "--json")
    repo.write("a", "a person's\n", mode=0)
    code, report = run("redo", "--yes", "--json")
    assert (code, items(report)["a"]["state"]) == (4, "not_reversed")
    assert repo.read("a") == b"a person's\n"
