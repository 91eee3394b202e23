"""The state of things as text, from literal documents."""

from gitshadow.render.status import (
    doctor_lines,
    init_lines,
    size,
    status_lines,
)
from gitshadow.render.style import View

STATUS: dict[str, object] = {
    "root": "/r",
    "enabled": True,
    "daemon": {"running": True, "pid": 7},
    "degraded": None,
    "events": 3,
    "sessions": 2,
    "open_sessions": 1,
    "gaps": 0,
    "coverage": {
        "tracked": 10,
        "excluded": [
            {"path": "big", "reason": "ignored", "rule": ".gitignore:1:big", "count": 4}
        ],
    },
    "disk": {"loose": 5, "packed": 6, "bytes": 2048},
    "current": [{"id": "s1", "started": "2026-11-21T08:00:00.000000Z"}],
    "hints": ["install the hooks"],
}


def test_status_lines_say_what_is_recorded_and_what_is_not() -> None:
    assert list(status_lines(STATUS, View())) == [
        "worktree   /r",
        "recording  on, daemon 7",
        "history    3 events, 2 sessions (1 open), 0 gaps",
        "  open: s1 since 2026-11-21 08:00:00",
        "disk       2.0 KiB, 5 loose objects, 6 packed",
        "coverage   10 paths",
        "  not covered: big: ignored (.gitignore:1:big), 4 entries",
        "hint: install the hooks",
    ]


def test_status_lines_say_off() -> None:
    """GIT-21: recording that is off is not shown as on."""
    lines = list(status_lines({**STATUS, "enabled": False}, View()))
    assert lines[1] == "recording  off (agent-undo.enabled is false)"


def test_status_lines_say_degraded() -> None:
    """ROB-16: not silent."""
    lines = list(status_lines({**STATUS, "degraded": "no watches left"}, View()))
    assert lines[1] == "recording  degraded: no watches left"


def test_status_lines_say_that_there_is_no_daemon() -> None:
    lines = list(status_lines({**STATUS, "daemon": {"running": False}}, View()))
    assert lines[1] == "recording  on, without a daemon: at hooks and commands"


def test_init_lines_warn_and_say_what_to_type_next() -> None:
    document = {
        "root": "/r",
        "files": 3,
        "excluded": 2,
        "daemon": True,
        "warnings": ["a mirror remote sends everything"],
    }
    assert list(init_lines(document, View())) == [
        "recording /r from now on: 3 files",
        "not covered: 2 paths (git agent-undo status lists them)",
        "warning: a mirror remote sends everything",
        "when an agent went wrong: git agent-undo oops",
    ]


def test_init_lines_of_a_second_run() -> None:
    """UX-08: the second run says that it only looked again."""
    document = {"root": "/r", "files": 3, "already": True, "daemon": True}
    first = next(init_lines(document, View()))
    assert first == "already recording /r, 3 files looked at again"


def test_doctor_lines_never_say_healthy_beside_a_warning() -> None:
    """UX-11: a warning is named with its remedy."""
    checks = [
        {"name": "journal", "ok": True, "message": "version 1"},
        {"name": "daemon", "ok": False, "message": "gone", "remedy": "start it"},
    ]
    assert list(doctor_lines({"checks": checks}, View())) == [
        "ok    journal: version 1",
        "warn  daemon: gone",
        "      hint: start it",
        "1 of 2 checks failed",
    ]


def test_doctor_lines_say_healthy_when_every_check_passes() -> None:
    checks = [{"name": "journal", "ok": True}]
    assert list(doctor_lines({"checks": checks}, View())) == [
        "ok    journal",
        "healthy",
    ]


def test_size_is_what_people_read() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 * 2**30)] == [
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
        "undo       until 2026-11-21 08:00:00: card.charge t-1.2 of session s-42"
        in list(status_lines({**STATUS, "undo_window": window}, View()))
    )
