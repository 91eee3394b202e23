"""Prove that a script of calls can be taken back, by failing at every step of it.

Invariant: both functions run one procedure, so what is proven does not depend on the front.
"""

from collections.abc import Callable

from gitshadow.sdk.testing.combined_steps import Together
from gitshadow.sdk.testing.proof import Proof, StepProof
from gitshadow.sdk.testing.single_step import Alone
from gitshadow.sdk.testing.trials import AsyncHurried, Hurried, Script, Trials
from gitshadow.sdk.turns.commands import Procedure
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry


def prove_rollback(
    tools: ToolRegistry,
    script: Script,
    observe: Callable[[], object],
    *,
    reset: Callable[[], object] | None = None,
    policy: Policy | None = None,
    host: Host | None = None,
) -> Proof:
    """Run a script many times, fail before and after each step, and look what came back.

    Args:
        tools: As the program declares them. Every tool and inverse runs several times.
        script: The calls; each must succeed.
        observe: Returns the part of the world that the tools change, as a value that can be
            compared: nested dicts and lists make the most readable proof.
        reset: Puts the world back before each trial; without it each begins where the last ended.
        policy: What calls and inverses must pass; tools that nothing takes back may run here.
        host: What the program plugs in.

    Returns:
        The proof. `assert proof.ok, proof` is a test.

    Raises:
        UsageError: a step of the script did not succeed, or `observe` is not steady.
        Exception: what a tool, `observe` or `reset` raised.
    """
    rules, plugs = policy or Policy(), host or Host()
    trials = Trials(tools, script, observe, reset, rules, plugs)
    return Hurried(trials).run(_proof(trials))


async def prove_rollback_async(
    tools: ToolRegistry,
    script: Script,
    observe: Callable[[], object],
    *,
    reset: Callable[[], object] | None = None,
    policy: Policy | None = None,
    host: Host | None = None,
) -> Proof:
    """Prove a script whose tools, `observe` or `reset` may be coroutine functions."""
    rules, plugs = policy or Policy(), host or Host()
    trials = Trials(tools, script, observe, reset, rules, plugs)
    return await AsyncHurried(trials).run(_proof(trials))


def _proof(trials: Trials) -> Procedure[Proof]:
    """Prove each step alone, then all together, then each before its time."""
    steps: list[StepProof] = []
    for index in range(len(trials.script)):
        steps += [(yield from Alone(trials, index).prove())]
    if any(step.flaws for step in steps):
        note = "all steps together: one of them is flawed by itself"
        return Proof(tuple(steps), (note,))
    return (yield from Together(trials, steps).prove())
