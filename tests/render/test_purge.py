"""What was purged is said first, then who still has a copy, and what to type about it."""

from collections.abc import Mapping

import pytest

from gitshadow.messages.codec import decode
from gitshadow.messages.storage import PurgeAnswer
from gitshadow.render.storage import purge_lines
from gitshadow.render.style import View

MINE = {"commit": "1" * 40, "path": "k", "refs": ["refs/heads/main", "refs/tags/v1"]}


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (
            {"names": [], "remains": {"objects": 0}},
            ["no object in the repository contains purged content"],
        ),
        (
            {
                "names": ["typo"],
                "contents": 0,
                "rewritten": [],
                "remains": {"objects": 0},
            },
            [
                "nothing to purge: the history has no content of typo",
                "no object in the repository contains purged content",
            ],
        ),
        (
            {
                "names": ["k\x1b"],
                "contents": 2,
                "rewritten": ["refs/agent-undo/a"],
                "on_disk": ["k\x1b"],
                "fetched_dropped": ["refs/agent-undo/fetched/y"],
                "remains": {
                    "objects": 2,
                    "commits": [MINE, {"commit": "2" * 40, "path": "k", "refs": []}],
                    "staged": ["s"],
                    "history": ["copy"],
                    "fetched": ["refs/agent-undo/fetched/x"],
                },
            },
            [
                "2 contents purged from 1 ref: k\\x1b",
                "deleted here, but the other machine still has it: refs/agent-undo/fetched/y",
                "2 purged contents still in objects: Git keeps your commits",
                "  your commit 111111111111 contains k (main, v1)",
                "  your commit 222222222222 contains k (your reflog alone)",
                "    to rewrite it yourself: git filter-repo --force --invert-paths --path k"
                " --refs refs/heads/main refs/tags/v1",
                "    then: git reflog expire --expire=now --all, this purge again,"
                " git gc --prune=now",
                "  your index contains s",
                "  the history has the same content as copy: purge it too",
                "  fetched history contains it: refs/agent-undo/fetched/x",
                "    to delete it here: the same purge with --fetched;"
                " a fetch restores it",
                "still on disk: k\\x1b; your next change to it will be recorded",
            ],
        ),
        (
            {"remains": {"objects": 1, "standing": ["3" * 40]}},
            [
                "1 purged content still in objects, and stays there as long as this contains it:",
                "  sessions are based on 333333333333, a commit that no branch contains",
                "    to release it: the same purge again, then: git gc --prune=now",
            ],
        ),
        (
            {"remains": {"objects": 1, "fetched": ["refs/agent-undo/fetched/x"]}},
            [
                "1 purged content still in objects, and stays there as long as this contains it:",
                "  fetched history contains it: refs/agent-undo/fetched/x",
                "    to delete it here: the same purge with --fetched;"
                " a fetch restores it",
            ],
        ),
        (
            {
                "dry_run": True,
                "texts": 1,
                "contents": 2,
                "rewritten": ["refs/agent-undo/a"],
                "rows": {"turns.prompt": 3, "x.y\n": 1},
                "files": ["pages/a.html"],
                "effects": 1,
                "fetched_dropped": ["refs/agent-undo/fetched/y"],
                "named": {"events.path": 2},
                "named_files": 1,
            },
            [
                "2 contents would be purged from 1 ref: all that contain the text",
                "in the journal [purged] would be marked in: prompts (3), x.y\\n (1)",
                "below .git/agent-undo would be cleared or removed: pages/a.html",
                "1 effect could no longer be undone: its inverse contained it",
                "would be deleted here, but the other machine still has it:"
                " refs/agent-undo/fetched/y",
                "warning: 3 file names or ids contain it and were kept",
            ],
        ),
        (
            {
                "texts": 1,
                "contents": 1,
                "rewritten": ["refs/agent-undo/a"],
                "journal_holds": ["journal.db-wal"],
                "unsearched": 1,
                "remains": {
                    "objects": 1,
                    "commits": [{**MINE, "path": None, "refs": ["refs/heads/main"]}],
                },
            },
            [
                "1 content purged from 1 ref: all that contain the text",
                "warning: journal.db-wal still contains it: another process is"
                " reading it; purge again",
                "warning: 1 object too large to be searched",
                "1 purged content still in objects: Git keeps your commits",
                "  your commit 111111111111 contains it in the commit message (main)",
                "    to rewrite it yourself: git filter-repo --force --replace-text FILE"
                " --refs refs/heads/main",
                "    then: git reflog expire --expire=now --all, this purge again,"
                " git gc --prune=now",
            ],
        ),
    ],
)
def test_lines_answer_first_and_say_whose_a_copy_is(
    document: Mapping[str, object], shown: list[str]
) -> None:
    """KEEP-09."""
    assert list(purge_lines(decode(PurgeAnswer, document), View())) == shown
