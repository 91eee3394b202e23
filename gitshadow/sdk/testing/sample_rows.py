"""Rows as a turn has just written them; who needs another one changes what it is about."""

from gitshadow.store.journal.saga_rows import (
    NewEvent,
    SagaCall,
    SagaEntry,
    SagaOp,
    SagaTurn,
)

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
OP = SagaOp(
    id="op-1",
    session="s",
    kind="undo",
    target="t-1",
    status="applying",
    token="",
    started_ns=1,
    request="{}",
)
NOTE = SagaEntry(
    session="s", turn="t-1", call=None, kind="turn_begun", ts_ns=1, body="{}"
)
EVENT = NewEvent(
    session="s", invocation="t-1", author="user", kind="user", ts_ns=1, text="hello"
)
