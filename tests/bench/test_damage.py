"""The damage timeline: ours comes out exactly right, and the published table is what it gives."""

from pathlib import Path

import pytest

from bench import damage
from bench.__main__ import damage_page
from bench.recipes import RECIPES, Ours

pytestmark = [pytest.mark.uncounted, pytest.mark.release]

ROOT = Path(__file__).parent.parent.parent


def test_oops_takes_the_three_changes_of_the_agent_and_nothing_else() -> None:
    """LAW-01 to LAW-04 in one afternoon: bytes, modes, mtimes, index, HEAD, refs, stash."""
    outcome = damage.run(Ours)
    before, after = outcome.before, outcome.after
    ten = b"".join(b"line %d\n" % number for number in range(1, 11))
    gone = {"a.py": ten, "both.py": ten + b"and the user this\n"}
    assert {path: after.files[path][2] for path in gone} == gone
    assert "agent_new.py" in before.files
    kept = before.files.keys() - gone.keys() - {"agent_new.py"}
    assert len(kept) == 10
    assert after.files.keys() == kept | gone.keys()
    assert {path: after.files[path] for path in kept} == {
        path: before.files[path] for path in kept
    }
    assert after.files["old.py"][1] == 1_577_836_800 * 10**9
    assert (after.index, after.index_bytes) == (before.index, before.index_bytes)
    assert (after.head, after.refs, after.stash) == (before.head, before.refs, "")
    assert (outcome.failed, damage.harms(outcome)) == (None, (0, 0))


def test_published_table_is_what_every_recipe_does() -> None:
    outcomes = [damage.run(recipe) for recipe in RECIPES]
    tables = f"{damage.legend(RECIPES)}\n{damage.table(outcomes)}"
    page = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert page.startswith(damage_page(tables)), (
        "run `python -m bench damage --write …`"
    )
    assert [outcome.failed for outcome in outcomes] == [None] * len(RECIPES)
