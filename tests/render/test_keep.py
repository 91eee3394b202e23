"""Pins, sharing and upkeep as text."""

from collections.abc import Callable, Iterator, Mapping

import pytest

from gitshadow.messages.codec import M, decode
from gitshadow.messages.lists import PinAnswer, UnpinAnswer
from gitshadow.messages.sharing import ExposeAnswer, UnexposeAnswer
from gitshadow.messages.storage import (
    DuAnswer,
    PackAnswer,
    PruneAnswer,
    ReindexAnswer,
)
from gitshadow.render import sharing, storage, text
from gitshadow.render.style import View

Lines = Callable[[Mapping[str, object], View], Iterator[str]]


def typed(kind: type[M], lines: Callable[[M, View], Iterator[str]]) -> Lines:
    """Return a renderer of answers as one of documents."""
    return lambda document, view: lines(decode(kind, document), view)


ONE = {"id": "codex-1", "started": "2026-11-20T10:00:00.000000Z"}


@pytest.mark.parametrize(
    ("lines", "document", "shown"),
    [
        (
            typed(PinAnswer, text.pinned_lines),
            {"name": "good"},
            [
                "pinned the working tree as good",
                "to restore it: git agent-undo restore --pin good",
            ],
        ),
        (
            typed(UnpinAnswer, text.unpinned_lines),
            {"name": "good", "deleted": True},
            ["pin good was deleted; no file changed"],
        ),
        (
            typed(DuAnswer, storage.du_lines),
            {
                "bytes": 2048,
                "loose": 7,
                "packed": 2,
                "total": {"objects": 12, "bytes": 4096},
                "packs": {"count": 1, "bytes": 3072},
                "sessions": [{"id": "codex-1", "bytes": 1024}] * 11,
                "other": [{"kind": "pins", "bytes": 512}],
            },
            [
                "4.0 KiB in 12 objects of the history, 2.0 KiB in the journal and other files",
                "1 pack of its own, 3.0 KiB; 7 loose objects and 2 packs in the whole repository",
                *["     1.0 KiB  codex-1"] * 10,
                "       512 B  pins",
                "  and 1 session more: --json lists them all",
            ],
        ),
        (
            typed(PackAnswer, storage.pack_lines),
            {"packed": 3, "merged": 2, "packs": 1, "bytes": 2048},
            [
                "3 objects packed",
                "2 packs merged into one",
                "the history has 1 pack, 2.0 KiB",
            ],
        ),
        (
            typed(PruneAnswer, storage.prune_lines),
            {"dropped": [], "dry_run": True},
            ["nothing to delete"],
        ),
        (
            typed(PruneAnswer, storage.prune_lines),
            {"dropped": [], "dry_run": False, "open": 2, "kept": 1},
            [
                "nothing to delete; sessions kept: 2 in open agent sessions,"
                " 1 with a pin, or your own from today"
            ],
        ),
        (
            typed(PruneAnswer, storage.prune_lines),
            {"dropped": [], "dry_run": False, "open": 2, "kept": 0, "needed": 3},
            [
                "nothing to delete; sessions kept: 2 in open agent sessions,"
                " 3 that these sessions need"
            ],
        ),
        (
            typed(PruneAnswer, storage.prune_lines),
            {"dropped": [ONE], "dry_run": True},
            [
                "would delete 1 session permanently",
                "  codex-1, started 2026-11-20 10:00:00",
            ],
        ),
        (
            typed(PruneAnswer, storage.prune_lines),
            {"dropped": [ONE, ONE], "dry_run": False},
            [
                "deleted 2 sessions",
                "  codex-1, started 2026-11-20 10:00:00",
                "  codex-1, started 2026-11-20 10:00:00",
                "the space is freed by the next: git gc",
            ],
        ),
        (
            typed(ExposeAnswer, sharing.expose_lines),
            {"exposed": ["refs/remotes/agent-undo/x"]},
            [
                "visible to Git tools as refs/remotes/agent-undo/x",
                "a snapshot: run expose again to update it, expose --off to remove it",
            ],
        ),
        (
            typed(UnexposeAnswer, sharing.unexpose_lines),
            {"unexposed": []},
            ["nothing to hide: it was not shown"],
        ),
        (
            typed(UnexposeAnswer, sharing.unexpose_lines),
            {"unexposed": ["refs/remotes/agent-undo/x"]},
            ["hidden again: refs/remotes/agent-undo/x"],
        ),
        (
            typed(ReindexAnswer, storage.reindex_lines),
            {
                "events": 3,
                "sessions": 2,
                "salvaged": 1,
                "damaged": ["turns"],
                "unreadable": ["refs/agent-undo/x"],
                "set_aside": "/r/.git/agent-undo/journal.db.1",
            },
            [
                "journal rebuilt: 3 events of 2 sessions from the refs, "
                "1 other row from the old journal",
                "warning: could not read all of turns",
                "warning: could not read refs/agent-undo/x",
                "the old journal was kept: /r/.git/agent-undo/journal.db.1",
            ],
        ),
    ],
)
def test_lines_answer_first_and_print_nothing_raw(
    lines: Lines, document: Mapping[str, object], shown: list[str]
) -> None:
    assert list(lines(document, View())) == shown
