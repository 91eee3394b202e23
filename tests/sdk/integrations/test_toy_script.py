"""What the toy script leaves in the log when nothing stands between it and the turn (AN-40)."""

from pathlib import Path

import pytest

from tests.sdk.integrations.toy import in_process
from tests.support.places import recorded


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory that looks like a recorded repository."""
    return recorded(tmp_path / "place")


def test_the_script_has_every_class_and_outcome(place: Path) -> None:
    rows = in_process(place)
    assert [(row.tool, row.klass, row.outcome, row.handler) for row in rows] == [
        ("notes.read", "read_only", "success", None),
        ("crm.update", "reversible", "success", "crm.restore"),
        ("draft.create", "reversible", "success", "draft.delete"),
        ("toy.soft_fail", "read_only", "failed", None),
        ("cal.invite", "compensable", "success", "cal.cancel"),
        ("card.charge", "compensable", "success", "card.refund"),
        ("mail.send", "non_reversible", "success", None),
        ("slack.post", "undeclared", "success", None),
    ]
    assert rows[1].inverse == {"id": 7, "field": "name", "value": "Y"}
    assert rows[2].inverse == {"id": 9}
