"""An id of another machine says whose it is, in every verb that cannot use it."""

import pytest

from gitshadow.errors import UsageError
from tests.support.sharing import rows_of, shared
from tests.support.studio import Studio


@pytest.mark.parametrize(
    ("verb", "params"),
    [
        ("undo", {"verb": "undo", "targets": [{"text": "ID"}], "yes": True}),
        ("undo", {"verb": "restore", "at": "ID", "yes": True}),
        ("cat", {"path": "a", "at": "ID"}),
        ("session_end", {"id": "ID"}),
    ],
)
def test_id_of_another_machine_says_what_it_is(
    ann: Studio, bob: Studio, verb: str, params: dict[str, object]
) -> None:
    session = shared(ann, bob)
    machine = str(bob.run("log", session=session)["machine"])
    targets = [{"text": session}] if "targets" in params else []
    given = {key: session if value == "ID" else value for key, value in params.items()}
    with pytest.raises(UsageError) as caught:
        bob.run(verb, **given | ({"targets": targets} if targets else {}))
    assert caught.value.message == (
        f"cannot use {session} here: it was recorded on another machine ({machine})"
    )
    assert f"git agent-undo show {session}" in str(caught.value.hint)
    assert "git revert" in str(caught.value.hint)
    assert bob.repo.read("a") == b"one\ntwo\n"


@pytest.mark.parametrize("kind", ["turn", "numbered", "pair"])
def test_parts_of_a_fetched_session_say_so_too(
    ann: Studio, bob: Studio, kind: str
) -> None:
    session = shared(ann, bob)
    [turn] = rows_of(bob.run("turns", session=session))
    row = rows_of(bob.run("log", session=session))[0]
    names = {
        "turn": str(turn["id"]),
        "numbered": f"{str(row['machine'])[:6]}:{row['seq']}",
        "pair": f"{session}:{turn['id']}",
    }
    with pytest.raises(UsageError, match="recorded on another machine"):
        bob.run("undo", verb="undo", targets=[{"text": names[kind]}], yes=True)


def test_id_that_nobody_knows_is_not_found_as_before(ann: Studio, bob: Studio) -> None:
    shared(ann, bob)
    with pytest.raises(UsageError, match="cannot find nope"):
        bob.run("undo", verb="undo", targets=[{"text": "nope"}], yes=True)


@pytest.mark.parametrize("typed", [":", ":x", "c:x"])
def test_beginning_of_a_pair_names_no_session_of_others(
    ann: Studio, bob: Studio, typed: str
) -> None:
    shared(ann, bob)
    with pytest.raises(UsageError, match=f"cannot find {typed}"):
        bob.run("undo", verb="undo", targets=[{"text": typed}], yes=True)
