"""The error boundary: every way out of the command line is words and an exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitshadow.cli import main
from gitshadow.commands import (
    EVERYDAY,
    GROUPS,
    MACHINE_GROUP,
    error_handler,
    find,
    known_names,
    names,
    status,
)
from gitshadow.commands.client import raise_if_error
from gitshadow.errors import RefusedError, ShadowError, UsageError
from gitshadow.ipc import client
from tests.support.counting import CountingEngine, initialised, serving
from tests.support.repo import Repo
from tests.support.waiting import until

START = "import sys; from gitshadow.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a directory that is in no repository."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_explains_nine_verbs_and_names_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first help fits a terminal of 24 lines with the prompt below."""
    assert main(["-h"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) < 24
    explained = [line.split()[0] for line in out.splitlines() if line.endswith(".")]
    assert tuple(explained[1:-1]) == EVERYDAY
    machine = set(GROUPS[MACHINE_GROUP])
    words = {word for line in out.splitlines() for word in line.split()}
    assert set(names()) - machine <= words
    assert not machine - {"session", "record", "hook"} & words


@pytest.mark.parametrize("words", ["-h --all", "--all -h", "help --all"])
def test_whole_help_lists_every_verb(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    assert [name for name in names() if f"  {name} " not in out] == []
    assert (
        list(map(str.lower, GROUPS))
        == [line.rstrip(":").lower() for line in out.splitlines() if line[-1:] == ":"][
            1:
        ]
    )


def test_help_imports_no_verb() -> None:
    code = (
        "import sys; from gitshadow.cli import main; main(['-h'])\n"
        "print(sorted(n for n in sys.modules if n.startswith('gitshadow.commands.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    own = ("error_handler", "usage_errors")
    expected = [f"gitshadow.commands.{name}" for name in own]
    assert done.stdout.splitlines()[-1] == repr(expected)


@pytest.mark.parametrize("words", ["log -n 5", "status", "oops", "blame a", "show x"])
def test_verb_that_the_daemon_answers_opens_no_repository(
    repo: Repo, words: str
) -> None:
    code = (
        "import sys; from gitshadow import cli; cli.main(sys.argv[1:])\n"
        "print(sorted({'pygit2', 'sqlite3'} & sys.modules.keys()))"
    )
    layout = initialised(repo)
    with serving(layout, CountingEngine()):
        until(lambda: client.ready(layout) is not None)
        done = subprocess.run(
            [sys.executable, "-c", code, *words.split()],
            cwd=repo.root,
            env={k: v for k, v in os.environ.items() if not k.startswith("COV")},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_words_print_the_help_and_are_a_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("Usage: git agent-undo")


def test_every_verb_of_the_table_has_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [main([name, "-h"]) for name in names()] == [0] * len(names())
    helps = capsys.readouterr().out
    assert [
        name for name in names() if f"Usage: git agent-undo {name}" not in helps
    ] == []


def test_table_helps_are_sentences() -> None:
    helps = [verb.help for verbs in GROUPS.values() for verb in verbs.values()]
    assert [text for text in helps if not text.endswith(".")] == []
    assert find("nothing") is None


def test_unknown_verb_suggests_near_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops?"]) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[0] == "error: no such command: ops?"
    assert err.splitlines()[1].startswith("hint: did you mean ops")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((word, "undo") for word in ("revert", "rollback", "discard")),
        *((word, "log") for word in ("history", "list")),
        *((word, "pin") for word in ("checkpoint", "snapshot", "save")),
        *((word, "show") for word in ("changes", "last")),
        *((word, "restore") for word in ("recover-file", "undelete")),
        ("who", "blame"),
        ("clean", "prune"),
    ],
)
def test_word_of_another_program_is_the_verb_of_the_same_meaning(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed, "-h"]) == 0
    assert f"Usage: git agent-undo {meant} [OPTIONS]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((word, f"daemon {word}") for word in ("start", "stop", "watch")),
        *(
            (word, f"program {word}")
            for word in ("attention", "events", "recover", "resolve", "saga", "tools")
        ),
        ("pins", "pin"),
        ("unpin", "pin"),
        ("unexpose", "expose"),
    ],
)
def test_name_of_an_earlier_version_is_the_same_command(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", old]) == 0
    assert f"Usage: git agent-undo {new} [OPTIONS]" in capsys.readouterr().out


def test_other_names_are_no_verbs_of_the_table() -> None:
    others = set(known_names()) - set(names())
    assert [name for name in others if find(name) is not None] == []
    assert [
        name for name in others if find(known_names()[name].split()[0]) is None
    ] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("histroy", "log"), ("lst", "log"), ("revrt", "undo"), ("pns", "pin")],
)
def test_near_miss_of_another_name_suggests_the_verb(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == 2
    hint = capsys.readouterr().err.splitlines()[1]
    assert hint.startswith(f"hint: did you mean {meant}")


def test_help_is_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "log"]) == 0
    assert "Usage: git agent-undo log" in capsys.readouterr().out
    assert main(["help"]) == 0
    assert "Usage: git agent-undo VERB [OPTIONS]" in capsys.readouterr().out
    assert main(["help", "zzzz"]) == 2


def test_unknown_verb_without_a_near_name_points_to_the_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["zzzz\x1b"]) == 2
    assert capsys.readouterr().err == (
        "error: no such command: zzzz\\x1b\nhint: see: git agent-undo -h\n"
    )


def test_unknown_option_is_said_in_our_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """UX-05: a bad flag is exit 2."""
    assert main(["log", "--zzz"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "error: no such option: --zzz"
    assert err[-1] == "hint: see: git agent-undo log -h"


def test_a_missing_option_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """UX-05: the choices too."""
    assert main(["resolve", "t-1.1", "--note", "x"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: missing option: --as"
        " (one of reversed, compensated, not_reversed, no_effect)",
        "hint: see: git agent-undo program resolve -h",
    ]


@pytest.mark.parametrize(
    ("typed", "error", "hint"),
    [
        (
            ["hooks", "lst"],
            "no such command: hooks lst",
            "did you mean list?",
        ),
        (
            ["saga", "zzz"],
            "no such command: program saga zzz",
            "see: git agent-undo program saga -h",
        ),
        (
            ["daemon"],
            "missing command: git agent-undo daemon needs one",
            "one of: start, stop, watch",
        ),
        (
            ["log", "--sinc", "1d"],
            "no such option: --sinc",
            "did you mean --since?",
        ),
        (
            ["log", "--colour"],
            "no such option: --colour",
            "did you mean --color?",
        ),
        (
            ["log", "--kind", "gapp"],
            "cannot use 'gapp' as --kind",
            "did you mean gap?",
        ),
        (
            ["undo", "x", "--on-conflict", "zzz"],
            "cannot use 'zzz' as --on-conflict",
            "one of: skip, overwrite, markers",
        ),
        (
            ["push"],
            "missing argument: REMOTE",
            "usage: git agent-undo push [OPTIONS] REMOTE [SESSION]...",
        ),
    ],
)
def test_what_was_mistyped_is_answered_with_what_is_near(
    typed: list[str], error: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """UX-05: verbs, verbs below a group, options, values, missing words."""
    assert main(typed) == 2
    assert capsys.readouterr().err == f"error: {error}\nhint: {hint}\n"


@pytest.mark.parametrize("verb", ["log", "status", "oops", "init", "start", "flush"])
def test_outside_a_repository_is_one_line_and_a_hint(
    outside: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """GIT-11: one line and a hint, exit 1, nothing created."""
    assert main([verb]) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "error: not in a Git working tree"
    assert err[1].startswith("hint: ")
    assert list(outside.iterdir()) == []


def test_json_was_asked_for_so_the_error_is_json_too(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """UX-05: the outcome is the same in text and JSON."""
    assert main(["log", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "error": "not in a Git working tree",
        "hint": "change to a repository, or create one with: git init",
        "exit": 1,
    }


def test_bad_time_is_a_usage_error_before_anything_is_asked(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """UX-10: `--since soon`."""
    assert main(["log", "--since", "soon"]) == 2
    assert capsys.readouterr().err.startswith("error: invalid time: 'soon'\n")


@pytest.mark.parametrize(
    "words",
    [
        ["undo", "--only", "a"],
        ["restore"],
        ["restore", "--at", "5m", "--pin", "good"],
        ["restore", "--at", "some time ago"],
        ["prune"],
        ["prune", "--all", "--older-than", "5m"],
        ["prune", "--older-than", "soon"],
        ["log", "-n", "many"],
        ["log", "--kind", "nonsense"],
        ["oops", "--on-conflict=guess"],
    ],
)
def test_arguments_that_mean_nothing_are_a_usage_error(
    outside: Path, words: list[str]
) -> None:
    assert main(words) == 2


@pytest.mark.parametrize("words", ["-h", "hooks list --json", "completion bash"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk_is_an_error_in_words(
    repo: Repo, words: str, unbuffered: str
) -> None:
    initialised(repo)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", START, *words.split()],
            cwd=repo.root,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    error = "error: could not write: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, f"{error}hint: free some space\n")


def test_prune_without_a_yes_is_refused_where_nobody_can_be_asked(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prune", "--all", "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["hint"] == "--yes"


def test_git_hook_exits_0_whatever_is_wrong(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Git must go on: a hook of ours never fails."""
    assert main(["git-hook", "post-checkout", "a", "b", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_status_says_a_cause_once() -> None:
    error = ShadowError("could not open lock: Permission denied")
    error.__cause__ = PermissionError(13, "Permission denied")
    assert status.not_recorded(error).why == error.message


def test_complain_prints_causes_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = ShadowError("could not read ref x\x1b", hint="look at it")
    error.__cause__ = OSError(28, "No space left on device")
    error_handler.complain(error)
    assert capsys.readouterr().err == (
        "error: could not read ref x\\x1b\n"
        "caused by: No space left on device\n"
        "hint: look at it\n"
    )


def test_unexpected_exception_is_one_line_and_a_report_file(
    outside: Path, sealed: Path
) -> None:
    def broken() -> int:
        raise KeyError("lost")

    with pytest.raises(ShadowError) as caught:
        error_handler.contain(broken)
    assert caught.value.message == "internal: KeyError: 'lost'"
    (report,) = (sealed / "state" / "gitshadow" / "reports").iterdir()
    assert "raise KeyError" in report.read_text()
    assert caught.value.hint == f"please report this, with {report}"
    assert report.stat().st_mode & 0o777 == 0o600


def test_report_directory_that_cannot_be_made_leaves_the_line(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROB-15: HOME read-only or unset."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")

    def broken() -> int:
        raise KeyError("lost")

    with pytest.raises(ShadowError) as caught:
        error_handler.contain(broken)
    assert caught.value.hint is None


@pytest.mark.parametrize(
    ("code", "kind"), [(1, ShadowError), (2, UsageError), (5, RefusedError)]
)
def test_error_document_is_raised_again_with_its_exit_code(
    code: int, kind: type[ShadowError]
) -> None:
    with pytest.raises(kind) as caught:
        raise_if_error({"error": "no", "hint": "h", "exit": code})
    assert (caught.value.exit_code, caught.value.hint) == (code, "h")


def test_document_without_an_error_raises_nothing() -> None:
    raise_if_error({"rows": []})
    assert error_handler.error_document(UsageError("no")) == {
        "error": "no",
        "hint": None,
        "exit": 2,
    }


def test_reader_that_goes_away_is_no_traceback(outside: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-c", START, "-h"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_interrupt_is_130() -> None:
    """UX-09: Ctrl-C is 130, without a traceback."""
    code = (
        "import signal, sys, types\n"
        "import click\n"
        "from gitshadow.cli import main\n"
        "module = types.ModuleType('gitshadow.commands.record')\n"
        "raising = lambda: signal.raise_signal(signal.SIGINT)\n"
        "module.flush_command = click.Command('flush', callback=raising)\n"
        "sys.modules[module.__name__] = module\n"
        "sys.exit(main(['flush']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"\n")
