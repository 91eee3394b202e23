"""Inverses that are not functions of the program: who allows them, who is asked, what runs.

Neither the repository nor the journal can allow one: only the program's policy or a person can, and
what is not certain is declined. The code that runs them is imported when one runs: HTTP is 40 ms.
"""

from collections.abc import Callable

from gitshadow.sdk.turns import inverse_kinds
from gitshadow.sdk.turns.commands import (
    Invoke,
    Procedure,
    Raised,
    Returned,
    TimedOut,
    ask,
)
from gitshadow.sdk.turns.json_values import StoredInverse
from gitshadow.sdk.turns.policy import Policy, Proposal
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.tool import Tool
from gitshadow.sdk.turns.values import Reversibility
from gitshadow.store.journal.saga_rows import SagaCall

# An inverse outside of the program may never answer, so each one has a time limit.
_TIMEOUT_S = 60.0
# A command or a request ends itself at its limit; the driver waits a little longer for that.
_GRACE_S = 5.0


def patience_s(inverse: StoredInverse, handler: Tool) -> float | None:
    """Return how long to wait for one attempt; None for ever."""
    if not handler.foreign:
        return inverse.retry.timeout_s
    grace_s = _GRACE_S if handler.blocking else 0.0
    return (inverse.retry.timeout_s or _TIMEOUT_S) + grace_s


def handler(setting: TurnSettings, inverse: StoredInverse) -> Tool | None:
    """Return the tool that represents an external inverse; None if nothing reaches it."""
    function = _function(setting, inverse)
    if function is None:
        return None
    return Tool(
        name=inverse.handler,
        function=function,
        takes=frozenset({"idempotency_key"}),
        options={"idempotent": inverse.idempotent},
        foreign=True,
        blocking=inverse.handler != inverse_kinds.MCP,
    )


def _function(
    setting: TurnSettings, inverse: StoredInverse
) -> Callable[..., object] | None:
    host, timeout_s = setting.host, inverse.retry.timeout_s or _TIMEOUT_S
    if inverse.handler == inverse_kinds.COMMAND:
        from gitshadow.sdk.turns.run_command import CommandRunner

        return CommandRunner(
            root=setting.root, environ=host.environ, timeout_s=timeout_s
        )
    if inverse.handler == inverse_kinds.HTTP:
        from gitshadow.sdk.turns.http_request import Sender

        return Sender(timeout_s)
    return host.mcp.call if host.mcp is not None else None


def refusal(policy: Policy, inverse: StoredInverse) -> str | None:
    """Return why an external inverse must not run; None: it may, or somebody is asked."""
    try:
        inverse_kinds.check(inverse.handler, inverse.args)
    except ValueError as error:
        return f"it is not an inverse: {error}"
    is_allowed = policy.inverses.covers(inverse.handler, inverse.args)
    if is_allowed or callable(policy.confirm):
        return None
    said = inverse_kinds.described(inverse.handler, inverse.args)
    return f"it {said}, which the policy does not allow, and there is no one to ask"


def approval(
    policy: Policy, call: SagaCall, inverse: StoredInverse
) -> Procedure[str | None]:
    """Ask for approval unless the policy allows it; return why the answer is no."""
    confirm = policy.confirm
    is_allowed = policy.inverses.covers(inverse.handler, inverse.args)
    if is_allowed or not callable(confirm):
        return None
    said = inverse_kinds.described(inverse.handler, inverse.args)
    proposal = Proposal(
        call_id=call.id,
        tool=call.tool,
        arguments=inverse.args,
        reversibility=Reversibility.NON_REVERSIBLE,
        question=f"to undo {call.tool} {call.id}, it {said}",
    )
    timeout_s = policy.confirm_timeout_s
    event = yield from ask(Invoke(confirm, (proposal,), timeout_s=timeout_s))
    no = refusal_in(event)
    return None if no is None else f"it {said}: {no}"


def refusal_in(event: Returned[object] | Raised | TimedOut) -> str | None:
    """Return why the end of a confirmation handler is a no, or None for a yes: only True is one."""
    if isinstance(event, TimedOut):
        return f"no answer after {event.seconds:g} s"
    if isinstance(event, Raised):
        return f"the question failed: {type(event.error).__name__}"
    if event.value is True:
        return None
    if event.value is False or event.value is None:
        return "declined"
    kind = type(event.value).__name__
    return f"declined: confirm must return True or False, not a value of {kind}"
