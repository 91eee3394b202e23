"""What the embedding program plugs in, and the context that its models get.

A source of context that fails is a diagnostic; it never ends a turn.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gitshadow.errors import UsageError
from gitshadow.sdk.turns.bench import EngineProvider
from gitshadow.sdk.turns.commands import Invoke, Procedure, Raised, Returned, ask, now
from gitshadow.sdk.turns.option_checks import (
    OptionCheck,
    check_fields,
    flag,
    function,
    having,
    instance_of,
    optional,
    plain_function,
    seconds,
    tuple_of,
)
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.protocols import (
    Clock,
    ContextSource,
    McpCaller,
    RevisionProvider,
    Telemetry,
    UndoTransactionProvider,
)
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport

_NS_PER_S = 1_000_000_000

Listener: TypeAlias = Callable[[UndoReport], object]
"""A callback for undos; its result is ignored, but awaited with the async front."""


@dataclass(frozen=True, slots=True)
class Context:
    """A source of context; its summary is kept for `ttl_s` seconds, or until a conflict."""

    name: str
    source: ContextSource
    ttl_s: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, {"source": having("summary"), "ttl_s": seconds})


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a program plugs in; all of it may be left out.

    Args:
        undo: The program's own undo machinery: one transaction per turn.
        revisions: Returns the version of the program's document before every call.
        contexts: Sent to the model in requests, and again after a conflict.
        secrets: Where inverses look up what is not stored, by name; the environment by default.
        mcp: Reaches MCP servers, for inverses that are tools of theirs.
        environ: Of which commands get what they need to start, and nothing else.
        pre_undo: Given the plan before an undo or a rollback. An undo is refused if it raises, or
            returns anything but None or `Verdict.allow()`.
        post_undo: Given the report after one.
        post_rewind: Given the report after a rewind, which names the invocations that it hid.
        telemetry: Gets each call and each attempt to undo one; by default there is none.
        clock: Nanoseconds since the epoch.
        files: Whether the files that a turn writes are its own, and undone with it; by default
            where `init` was run in this working tree.
        writes_below: Whether all files of a turn are written by this program and processes that it
            starts, not by a container or server: then what others write is not the turn's.
        engine: Runs undos; without one, the caller that asks for them, in its own thread.

    Raises:
        UsageError: a value is of another type, or lacks the methods that it needs.
    """

    undo: UndoTransactionProvider | None = None
    revisions: RevisionProvider | None = None
    contexts: tuple[Context, ...] = ()
    secrets: Mapping[str, str] | Callable[[str], str] | None = None
    mcp: McpCaller | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    pre_undo: Listener | None = None
    post_undo: Listener | None = None
    post_rewind: Listener | None = None
    telemetry: Telemetry | None = None
    clock: Clock = time.time_ns
    files: bool | None = None
    writes_below: bool = False
    engine: EngineProvider | None = None

    def __post_init__(self) -> None:
        check_fields(self, _HOST)

    def secret(self, name: str) -> str:
        """Return a secret.

        Raises:
            KeyError: there is none of that name.
        """
        known = self.environ if self.secrets is None else self.secrets
        found: object = known[name] if isinstance(known, Mapping) else known(name)
        # Such as None from `os.environ.get`, which would be sent as the secret.
        if not isinstance(found, str):
            raise KeyError(name)
        return found


def _secrets(option: str, value: object) -> None:
    if not isinstance(value, Mapping) and not callable(value):
        # The text does not repeat the value, which may be the secret itself.
        raise UsageError(f"{option} must be a mapping or a function")
    if not isinstance(value, Mapping):
        plain_function(option, value)


_HOST: Mapping[str, OptionCheck] = {
    "undo": optional(having("begin_transaction")),
    "revisions": optional(having("current_revision")),
    "contexts": tuple_of(lambda one: isinstance(one, Context), "Context"),
    "secrets": optional(_secrets),
    "mcp": optional(having("call")),
    "environ": instance_of(Mapping, "a mapping of variables"),
    "pre_undo": optional(function),
    "post_undo": optional(function),
    "post_rewind": optional(function),
    "telemetry": optional(having("started")),
    "clock": plain_function,
    "files": optional(flag),
    "writes_below": flag,
    "engine": optional(having("bind")),
}


_PROGRAM: Mapping[str, OptionCheck] = {
    "tools": instance_of(ToolRegistry, "a ToolRegistry"),
    "policy": optional(instance_of(Policy, "a Policy")),
    "host": optional(instance_of(Host, "a Host")),
}


@dataclass(frozen=True, slots=True)
class Program:
    """The parts with which a program opens its sessions, for `--tools MODULE:NAME`.

    The program says here what an undo may run; the journal and the repository have no say.

    Args:
        tools: Its tools and compensators.
        policy: Which inverses outside of it may run, and who is asked.
        host: Its secrets, its MCP servers, its callbacks for undos.
    """

    tools: ToolRegistry
    policy: Policy | None = None
    host: Host | None = None

    def __post_init__(self) -> None:
        check_fields(self, _PROGRAM)


@dataclass(slots=True)
class ContextCache:
    """Keep the summaries of a session's sources for as long as each allows."""

    contexts: tuple[Context, ...]
    diagnostics: list[str] = field(default_factory=list)
    _kept: dict[str, tuple[int, str]] = field(default_factory=dict)

    def invalidate(self) -> None:
        """Forget every summary."""
        self._kept.clear()

    def summaries(self) -> Procedure[dict[str, str]]:
        """Return the summary of each source by name; failing ones are left out and noted."""
        found: dict[str, str] = {}
        for context in self.contexts:
            text = yield from self._summary(context)
            if text is not None:
                found[context.name] = text
        return found

    def section(self) -> Procedure[str | None]:
        """Return all summaries as one text, or None where there is none."""
        found = yield from self.summaries()
        return "\n".join(f"{name}: {text}" for name, text in found.items()) or None

    def _summary(self, context: Context) -> Procedure[str | None]:
        moment = yield from now()
        kept = self._kept.get(context.name)
        # The difference is negative if the clock was set back; a summary must not last until it
        # has caught up.
        if kept is not None and 0 <= moment - kept[0] < context.ttl_s * _NS_PER_S:
            return kept[1]
        event = yield from ask(Invoke(context.source.summary))
        if isinstance(event, Returned):
            self._kept[context.name] = (moment, str(event.value))
            return str(event.value)
        why = event.error if isinstance(event, Raised) else "no answer"
        self.diagnostics.append(f"{context.name}: {why}")
        return None
