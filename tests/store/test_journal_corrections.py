"""Runs of row numbers, as a correction writes them into its commit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.errors import StoreError
from gitshadow.store.refs import format_rows, parse_rows


@given(st.sets(st.integers(1, 60)))
def test_rows_come_back_when_they_were_written_as_runs(seqs: set[int]) -> None:
    runs = parse_rows(format_rows(seqs))
    assert {seq for a, b in runs for seq in range(a, b + 1)} == seqs


def test_neighbours_are_one_run() -> None:
    assert format_rows([20, 17, 21, 22]) == ("17", "20-22")


@pytest.mark.parametrize("run", ["", "x", "1-y", "-1"])
def test_what_is_no_run_is_refused(run: str) -> None:
    with pytest.raises(StoreError):
        parse_rows([run])
