"""States that are packed come out as they went in, and say the same of a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.model import FileState, FileVersion, Oid, RepoPath, StatKey
from gitshadow.store.files import Look
from gitshadow.store.journal.state import Looks, PackedState, States
from gitshadow.store.object_format import SHA1, SHA256, ObjectFormat

A, B = RepoPath(b"a"), RepoPath(b"b")
STATE = FileState(
    FileVersion(Oid("ab" * 20), 0o100600),
    StatKey(10, -5, 1 << 62, (1 << 63) - 1),
    7,
)
_NUMBERS = st.integers(-9, 9) | st.sampled_from([1 << 62, 1 << 63, -(1 << 64)])
_STATES = st.builds(
    FileState,
    st.builds(
        FileVersion,
        st.sampled_from(["ab" * 20, "0f" * 20, "", "zz" * 20, "ab" * 32]).map(Oid),
        st.integers(0, 1 << 33),
    ),
    st.builds(StatKey, _NUMBERS, _NUMBERS, _NUMBERS, _NUMBERS),
    _NUMBERS,
    st.booleans(),
    st.none() | st.just(b"\1" * 20),
)


def looked(mode: int, stat: StatKey) -> Look | bytes:
    """Return a look as a walk has it."""
    looks = Looks()
    looks[A] = Look(mode, stat)
    assert looks[A] == Look(mode, stat)
    ((_, look),) = looks.packed()
    return look


@given(_STATES)
def test_what_goes_in_comes_out(state: FileState) -> None:
    """Also what no journal would hold: nothing is cut to fit."""
    states = States.of({A: state})
    assert states[A] == state
    assert dict(states.modes()) == {A: state.version.mode}
    assert states.stands(A, looked(state.version.mode, state.stat)) is not state.racy


def test_row_of_the_journal_is_the_state() -> None:
    states, fields = States(), ("ab" * 20, 0o100600, *STATE.stat, 7, 0)
    states.put(A, PackedState(*fields))
    assert states[A] == STATE == PackedState(*fields).state()


@pytest.mark.parametrize("form", [SHA1, SHA256], ids=lambda form: form.name)
def test_ids_of_either_length_come_from_a_walk_and_go_into_rows(
    form: ObjectFormat,
) -> None:
    looks = Looks()
    stat = StatKey(1, 2, 3, 4)
    looks[A] = looks[B] = Look(0o100644, stat)
    states = States()
    states.take(looks, {A: form.empty_tree}, 1 << 62)
    states.put(B, PackedState(form.empty_blob, 0o100644, *stat, 1 << 62, 0))
    assert list(states.cells("w")) == [
        ("w", path, oid, 0o100644, *stat, 1 << 62, False, None)
        for path, oid in ((A, form.empty_tree), (B, form.empty_blob))
    ]


def test_file_stands_only_as_it_was_read_safely() -> None:
    states = States.of({A: STATE, B: FileState(*_fields(racy=True))})
    assert states.stands(A, looked(0o100600, STATE.stat))
    assert not states.stands(A, looked(0o100644, STATE.stat))
    assert not states.stands(B, looked(0o100600, STATE.stat))
    assert not states.stands(RepoPath(b"c"), looked(0o100600, STATE.stat))
    for field in STATE.stat._fields:
        assert not states.stands(
            A, looked(0o100600, STATE.stat._replace(**{field: 11}))
        )


def test_stat_that_no_journal_takes_is_another_one() -> None:
    states = States.of({A: STATE})
    assert not states.stands(A, looked(0o100600, STATE.stat._replace(mtime_ns=1 << 70)))


def test_states_are_a_mapping_like_any_other() -> None:
    states = States.of({A: STATE})
    states[B] = STATE
    del states[A]
    assert states == {B: STATE}
    assert (A in states, B in states, len(states)) == (False, True, 1)
    assert states.pop(A, None) is None


def _fields(*, racy: bool) -> tuple[FileVersion, StatKey, int, bool]:
    return STATE.version, STATE.stat, STATE.seen_ns, racy
