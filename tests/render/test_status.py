"""The state of things as text, from literal documents."""

from collections.abc import Mapping

from gitshadow.messages.codec import decode
from gitshadow.messages.status import (
    DoctorAnswer,
    InitAnswer,
    InitProtection,
    Protection,
    StatusAnswer,
)
from gitshadow.render import status
from gitshadow.render.style import View
from gitshadow.words import byte_size

VERDICT: dict[str, object] = {
    "state": "protected",
    "since": "2026-11-21T07:00:00.000000Z",
    "by": ["daemon", "claude-code", "codex"],
    "hooks": [
        {
            "agent": "claude-code",
            "scope": "user",
            "state": "installed",
            "heard": "2026-11-21T08:00:00.000000Z",
        },
        {"agent": "codex", "scope": "project", "state": "installed"},
    ],
}
STATUS: dict[str, object] = {
    "root": "/r",
    "protected": VERDICT,
    "events": 3,
    "sessions": 1,
    "gaps": 0,
    "coverage": {
        "tracked": 10,
        "excluded": [
            {"path": "big", "reason": "ignored", "rule": ".gitignore:1:big", "count": 4}
        ],
    },
    "disk": {"loose": 5, "packed": 1, "bytes": 2048},
    "current": [{"id": "s1", "started": "2026-11-21T08:00:00.000000Z"}],
}


def status_lines(
    document: Mapping[str, object], view: View, *, whole: bool = False
) -> list[str]:
    known = decode(StatusAnswer, document) if "events" in document else None
    protected = document["protected"]
    assert isinstance(protected, dict)
    verdict = decode(Protection, protected)
    return list(status.status_lines(known, verdict, view, whole=whole))


def init_lines(document: Mapping[str, object]) -> list[str]:
    return list(status.init_lines(decode(InitAnswer, document), View()))


def init_end_lines(document: Mapping[str, object]) -> list[str]:
    return list(status.init_end_lines(decode(InitProtection, document), View()))


def doctor_lines(document: Mapping[str, object]) -> list[str]:
    return list(status.doctor_lines(decode(DoctorAnswer, document), View()))


def test_status_answers_first_and_ends_with_what_to_type() -> None:
    """UX-05: protected right now, since when, by which hooks, what is not covered."""
    assert status_lines(STATUS, View()) == [
        "protected: since 2026-11-21 07:00:00,"
        " by the daemon and the hooks of claude-code, codex",
        "worktree     /r",
        "hooks        claude-code (user): installed, last event 2026-11-21 08:00:00",
        "             codex (project): installed, no event received yet",
        "history      3 events in 1 session",
        "active       s1 since 2026-11-21 08:00:00",
        "disk         2.0 KiB used by gitshadow; the repository has 5 loose objects and 1 pack",
        "recorded     10 files",
        "not recorded 1 ignored: big",
        "             for the rules: git agent-undo status --all",
        "if an agent goes wrong: git agent-undo oops",
    ]


def test_status_names_each_uncovered_path_where_asked() -> None:
    lines = status_lines(STATUS, View(), whole=True)
    assert lines[-2] == "not recorded: big: ignored (.gitignore:1:big), 4 entries"


def test_status_counts_what_is_not_covered_by_reason() -> None:
    left = [{"path": f"i{n}", "reason": "ignored"} for n in range(6)]
    left.insert(3, {"path": "big.bin", "reason": "too large"})
    coverage = {"tracked": 1, "excluded": left}
    lines = status_lines({**STATUS, "coverage": coverage}, View())
    assert lines[-4:-2] == [
        "not recorded 6 ignored: i0, i1, i2, i3 and 2 more",
        "             1 too large: big.bin",
    ]


def test_status_fits_a_screen_whatever_there_is() -> None:
    """24 lines of 60 columns, with everything that can be said."""
    left = [{"path": f"d/{n}", "reason": f"r{n}"} for n in range(40)]
    verdict = {**VERDICT, "unhooked": ["cursor", "gemini"]}
    document = {
        **STATUS,
        "protected": verdict,
        "gaps": 2,
        "coverage": {"tracked": 1, "excluded": left},
    }
    lines = status_lines(document, View(terminal=True, width=60))
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 60


def test_status_says_what_is_missing_before_what_is_there() -> None:
    """ROB-16: degraded capture is in the first line, its remedy in the last."""
    verdict = {
        **VERDICT,
        "state": "partly",
        "why": "inotify has no watches left, so changes are detected late (by scanning)",
        "by": ["daemon"],
        "fix": "sudo sysctl x=1",
    }
    lines = status_lines({**STATUS, "protected": verdict}, View())
    assert lines[0] == (
        "partly protected: inotify has no watches left, so changes are detected late"
        " (by scanning) (recorded since 2026-11-21 07:00:00 by the daemon)"
    )
    assert lines[-1] == "next: sudo sysctl x=1"


def test_status_of_what_is_not_recorded_is_two_lines() -> None:
    verdict = {"state": "not", "why": "nothing is recorded in /r", "fix": "git x init"}
    assert status_lines({"protected": verdict}, View()) == [
        "not protected: nothing is recorded in /r",
        "next: git x init",
    ]


def test_init_lines_warn_and_say_what_to_type_next() -> None:
    document = {
        "root": "/r",
        "files": 3,
        "excluded": 2,
        "daemon": True,
        "warnings": ["a mirror remote sends everything"],
    }
    assert init_lines(document) == [
        "recording /r: 3 files",
        "not recorded: 2 paths (to list them: git agent-undo status)",
        "warning: a mirror remote sends everything",
    ]


def test_init_ends_with_what_protects_and_what_to_type_next() -> None:
    document = {"by": ["daemon", "claude-code"], "unhooked": ["codex", "gemini"]}
    assert init_end_lines(document) == [
        "protected by the daemon and the hooks of claude-code",
        "no hooks for codex, gemini, so authorship is a guess: git agent-undo hooks install",
        "if an agent goes wrong: git agent-undo oops",
    ]
    assert init_end_lines({"by": [], "unhooked": []}) == [
        "if an agent goes wrong: git agent-undo oops",
    ]


def test_init_lines_of_a_second_run() -> None:
    """UX-08: the second run says that it only looked again."""
    document = {"root": "/r", "files": 3, "already": True, "daemon": True}
    first = init_lines(document)[0]
    assert first == "already recording /r (rescanned 3 files)"


def test_doctor_lines_never_say_healthy_beside_a_warning() -> None:
    """UX-11: a warning is named with its remedy."""
    checks = [
        {"name": "journal", "ok": True, "message": "version 1"},
        {"name": "daemon", "ok": False, "message": "gone", "remedy": "start it"},
    ]
    assert doctor_lines({"checks": checks}) == [
        "ok    journal: version 1",
        "warn  daemon: gone",
        "      hint: start it",
        "1 of 2 checks failed",
    ]


def test_doctor_lines_say_healthy_when_every_check_passes() -> None:
    checks = [{"name": "journal", "ok": True}]
    assert doctor_lines({"checks": checks}) == [
        "ok    journal",
        "healthy",
    ]


def test_size_is_what_people_read() -> None:
    assert [byte_size(n) for n in (0, 1023, 1536, 5 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
    ]


def test_status_lines_say_until_when_the_next_effect_can_be_undone() -> None:
    """AN-21."""
    window = {
        "closes": "2026-11-21T08:00:00.000000Z",
        "session": "s-42",
        "turn": "t-1",
        "call": "t-1.2",
        "tool": "card.charge",
    }
    assert (
        "effects      can be undone until 2026-11-21 08:00:00:"
        " card.charge t-1.2 of session s-42"
        in status_lines({**STATUS, "undo_window": window}, View())
    )
