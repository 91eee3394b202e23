"""Inverses that are not functions of the program: who allows them, who is asked, what runs.

Neither the repository nor the journal can allow one: only the program's policy or a person can, and
what is not certain is declined. The code that runs them is imported when one runs: HTTP is 40 ms.
"""

from collections.abc import Callable
from typing import NamedTuple

from gitshadow.sdk.turns import inverse_kinds
from gitshadow.sdk.turns.commands import (
    Invoke,
    Procedure,
    Raised,
    Returned,
    TimedOut,
    ask,
)
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.json_values import StoredInverse
from gitshadow.sdk.turns.policy import Policy, Proposal
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


class Outside(NamedTuple):
    """What external inverses of a session need; `root` is where commands run."""

    root: str
    host: Host
    policy: Policy

    def handler(self, inverse: StoredInverse) -> Tool | None:
        """Return the tool that represents an external inverse; None if nothing reaches it."""
        function = self._function(inverse)
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

    def _function(self, inverse: StoredInverse) -> Callable[..., object] | None:
        timeout_s = inverse.retry.timeout_s or _TIMEOUT_S
        if inverse.handler == inverse_kinds.COMMAND:
            from gitshadow.sdk.turns.run_command import CommandRunner

            environ = self.host.environ
            return CommandRunner(root=self.root, environ=environ, timeout_s=timeout_s)
        if inverse.handler == inverse_kinds.HTTP:
            from gitshadow.sdk.turns.http_request import Sender

            return Sender(timeout_s)
        return self.host.mcp.call if self.host.mcp is not None else None

    def refusal(self, inverse: StoredInverse) -> str | None:
        """Return why an external inverse must not run; None: it may, or somebody is asked."""
        try:
            inverse_kinds.check(inverse.handler, inverse.args)
        except ValueError as error:
            return f"it is not an inverse: {error}"
        if self._is_allowed(inverse) or callable(self.policy.confirm):
            return None
        said = inverse_kinds.described(inverse.handler, inverse.args)
        return f"it {said}, which the policy does not allow, and there is no one to ask"

    def approval(self, call: SagaCall, inverse: StoredInverse) -> Procedure[str | None]:
        """Ask for approval unless the policy allows it; return why the answer is no."""
        confirm = self.policy.confirm
        if self._is_allowed(inverse) or not callable(confirm):
            return None
        said = inverse_kinds.described(inverse.handler, inverse.args)
        proposal = Proposal(
            call_id=call.id,
            tool=call.tool,
            arguments=inverse.args,
            reversibility=Reversibility.NON_REVERSIBLE,
            question=f"to undo {call.tool} {call.id}, it {said}",
        )
        timeout_s = self.policy.confirm_timeout_s
        event = yield from ask(Invoke(confirm, (proposal,), timeout_s=timeout_s))
        no = refusal_in(event)
        return None if no is None else f"it {said}: {no}"

    def _is_allowed(self, inverse: StoredInverse) -> bool:
        return self.policy.inverses.covers(inverse.handler, inverse.args)


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
