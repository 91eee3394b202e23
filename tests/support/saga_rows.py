"""Rows of the saga tables as a turn has just written them; a test changes what it is about."""

from gitshadow.store.journal.saga_rows import SagaCall, SagaTurn

TURN = SagaTurn(
    session="s",
    id="t-1",
    ordinal=1,
    label="go",
    agent=None,
    status="open",
    started_ns=1,
    owner="me",
)
CALL = SagaCall(
    session="s",
    turn="t-1",
    id="c1",
    ordinal=1,
    tool="x.do",
    klass="reversible",
    description="",
    intent="{}",
    started_ns=1,
    key="k",
)
