"""The sync fronts are generated: `make fronts` after a change of an async one."""

import pytest

from tests.support.sync_fronts import FRONTS, TURNS, generated


@pytest.mark.parametrize(("source", "front"), FRONTS.items())
def test_sync_front_is_the_one_generated_from_the_async_front(
    source: str, front: str
) -> None:
    assert (TURNS / f"{front}.py").read_text(encoding="utf-8") == generated(source)
