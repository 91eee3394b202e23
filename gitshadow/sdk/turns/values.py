"""The words of turns as values: what a tool declares, answers and can undo.

Invariant: frozen and without I/O; what goes into the journal is JSON, never code.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from gitshadow.model import JsonValue
from gitshadow.sdk.turns.option_checks import (
    at_least,
    check_fields,
    flag,
    instance_of,
    names,
    optional,
    seconds,
    text,
    tuple_of,
    unfit,
)

Json: TypeAlias = JsonValue
"""What `json.dumps` writes without help."""
JsonObject: TypeAlias = Mapping[str, object]
"""An object that becomes JSON or came from it: arguments of tools, values of a state, a report.

Its values are not `Json` alone, because a program may pass what cannot be stored, as secrets.
"""

Revision: TypeAlias = int | str | None
"""A version of the host's own document: a counter, or a text such as a Git tree id."""


# RFC 9110, section 9.2.2; the other idempotent methods change nothing.
_IDEMPOTENT = ("PUT", "DELETE")


class Reversibility(StrEnum):
    """How far a tool's effect can be undone; the worst class is first."""

    NON_REVERSIBLE = "non_reversible"
    COMPENSABLE = "compensable"
    REVERSIBLE = "reversible"
    READ_ONLY = "read_only"


@dataclass(frozen=True, slots=True)
class UndoEntry:
    """One successful call of a turn."""

    tool_call_id: str
    tool_name: str
    description: str


class OutcomeKind(StrEnum):
    """How a call ended that did not raise."""

    SUCCESS = "success"
    FAILED = "failed"
    DENIED = "denied"
    CONFLICT = "conflict"
    UNKNOWN_TOOL = "unknown_tool"
    DUPLICATE = "duplicate"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Conflict:
    """The message to a model that acted on outdated state.

    `expected` and `actual` are for people and logs: a model reads `message` and `state_delta`.
    """

    message: str
    expected: Revision = None
    actual: Revision = None
    state_delta: str | None = None

    def render(self) -> str:
        """Return what the model reads: two lines, or one where there is no delta."""
        said = f"Conflict: {self.message}"
        return f"{said}\nState delta: {self.state_delta}" if self.state_delta else said


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call for the model; a call that raised has none.

    `content` is the tool's own result, or the text of a failure, or a `Conflict`. `state` is the
    fresh summary of the host's context that follows a conflict.
    """

    kind: OutcomeKind
    content: object = None
    state: str | None = None

    @classmethod
    def success(cls, content: object = None) -> "Outcome":
        """Return the outcome of a call that did its work."""
        return cls(OutcomeKind.SUCCESS, content)

    @classmethod
    def failed(cls, message: str) -> "Outcome":
        """Return the outcome of a call that could not do its work, and did none of it."""
        return cls(OutcomeKind.FAILED, message)

    @classmethod
    def denied(cls, reason: str) -> "Outcome":
        """Return the outcome of a call that was not allowed to run."""
        return cls(OutcomeKind.DENIED, reason)

    @classmethod
    def conflict(cls, conflict: Conflict) -> "Outcome":
        """Return the outcome of a call that met a newer state than the model knew."""
        return cls(OutcomeKind.CONFLICT, conflict)

    @classmethod
    def unknown_tool(cls, name: str) -> "Outcome":
        """Return the outcome of a call to a tool that does not exist."""
        return cls(OutcomeKind.UNKNOWN_TOOL, f"Unknown tool: {name}")

    @classmethod
    def duplicate(cls, text: str) -> "Outcome":
        """Return the outcome of a call that was made before and still has its effect."""
        return cls(OutcomeKind.DUPLICATE, text)

    @classmethod
    def held(cls, text: str) -> "Outcome":
        """Return the outcome of a call that runs when its turn has committed."""
        return cls(OutcomeKind.HELD, text)

    @property
    def ok(self) -> bool:
        """Return whether the call did its work."""
        return self.kind is OutcomeKind.SUCCESS

    @property
    def text(self) -> str:
        """Return what the model reads."""
        if isinstance(self.content, Conflict):
            said = self.content.render()
        elif isinstance(self.content, str):
            said = self.content
        else:
            said = _in_json(self.content)
        return f"{said}\n\nCurrent state:\n{self.state}" if self.state else said


def _in_json(value: object) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except Exception:  # noqa: BLE001 - it runs code of the host's own classes
        # The value has keys that are not strings, contains itself, or is nested too deeply.
        return f"<{type(value).__name__}>"


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work that is reported to telemetry.

    `kind` is `execute_tool` for a call, `undo` for an attempt to undo one: that has a
    `handler`, and `link` is the reference of the call's own work.
    """

    kind: str
    tool: str
    call_id: str
    turn: str
    session: str
    handler: str | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """The result of sending a held call that was due.

    `state` is `sent`, `failed` (it said itself that it did nothing), `in_doubt` (nobody knows, and
    it is not safe to repeat), or `due` still: it is tried again later, or has no tool here.
    """

    turn: str
    call_id: str
    tool: str
    state: str
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Return whether it was sent."""
        return self.state == "sent"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is stored by name only and looked up when it is needed."""

    variable: str

    @classmethod
    def named(cls, reference: "str | Secret") -> "Secret":
        """Return the secret that `env:NAME` means.

        Raises:
            ValueError: it is no reference; the text does not repeat it.
        """
        if isinstance(reference, Secret):
            return reference
        word, _, name = reference.partition(":")
        if word != "env" or not name:
            # The text does not repeat the value, which may be the secret itself.
            raise ValueError("a secret must be given by name: env:NAME")
        return cls(name)


@dataclass(frozen=True, slots=True)
class Inverse:
    """The inverse of one effect, as data: a handler's name and its arguments.

    Args:
        handler: A registered tool or compensator, or `command`, `http`, `mcp`.
        args: JSON values, and `Secret` for what must not be stored.
        residue: What stays in the world although this ran; a sentence for people.
        depends_on: Ids of calls whose inverses must have succeeded before this one runs.
        critical: Whether the inverses of earlier calls wait for this one to succeed.
        idempotent: Whether doing it twice is the same as once; a handler says that for itself.

    Raises:
        UsageError: a value is of another type, for example one text as `depends_on`.
    """

    handler: str
    args: JsonObject = field(default_factory=dict)
    residue: str | None = None
    depends_on: tuple[str, ...] = ()
    critical: bool = False
    idempotent: bool = False

    def __post_init__(self) -> None:
        check_fields(self, _INVERSE)

    @classmethod
    def tool(cls, handler: str, /, **args: object) -> "Inverse":
        """Return the inverse that calls a handler with these arguments."""
        return cls(handler, args)

    @classmethod
    def command(
        cls,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        secrets: Sequence[str] = (),
    ) -> "Inverse":
        """Return the inverse that runs a program, without a shell.

        It runs only where the policy allows it or somebody says yes. It succeeds with exit code 0.

        Args:
            argv: The program (a bare name or an absolute path) and its arguments.
            cwd: Where; the root of the working tree by default.
            secrets: Names that are looked up then and handed over as variables of that name.

        Raises:
            UsageError: one text instead of several.
        """
        if isinstance(argv, str):
            hint = f"{argv.split()!r}: no shell reads it"
            raise unfit("argv", "a list of words", argv, hint=hint)
        names("secrets", secrets)
        env = {name: Secret(name) for name in secrets}
        return cls("command", {"argv": list(argv), "cwd": cwd, "env": env})

    @classmethod
    def http(
        cls,
        method: str,
        url: str,
        *,
        json: object = None,
        auth: str | Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        accept: Sequence[int] = (),
    ) -> "Inverse":
        """Return the inverse that sends one HTTP request.

        It is sent only where the policy allows it or somebody says yes, goes through no proxy and
        follows no redirect. It succeeds with an answer of 200 to 299.

        Args:
            method: PUT and DELETE are idempotent by RFC 9110, others need `repeatable()`.
            url: Without credentials.
            json: The body.
            auth: `env:NAME` of a bearer token.
            headers: Credentials among them as `Secret`.
            accept: Further statuses that are a success, such as 404 where something is deleted.
        """
        args = {
            "method": method.upper(),
            "url": url,
            "json": json,
            "auth": None if auth is None else Secret.named(auth),
            "headers": dict(headers or {}),
            "accept": list(accept),
        }
        return cls("http", args, idempotent=method.upper() in _IDEMPOTENT)

    @classmethod
    def mcp(cls, server: str, tool: str, /, **arguments: object) -> "Inverse":
        """Return the inverse that calls a tool of an MCP server, by `Host(mcp=...)`."""
        args = {"server": server, "tool": tool, "arguments": arguments}
        return cls("mcp", args)

    def repeatable(self) -> "Inverse":
        """Return the same inverse, which does no harm when it is tried again."""
        return replace(self, idempotent=True)

    def leaving(self, residue: str) -> "Inverse":
        """Return the same inverse, which admits that something stays."""
        return replace(self, residue=residue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and with which pauses, an inverse is tried.

    The pause doubles from `backoff_s` up to `max_backoff_s`. An attempt that takes longer than
    `timeout_s` counts as failed; whether it had its effect is then unknown. With a time limit a
    plain function runs in a thread of its own, because nothing else could stop waiting for it;
    without one it runs in the thread that asks for the undo, and as long as it takes. Commands,
    requests and tools of servers have a minute where no limit is given.

    Raises:
        UsageError: no attempt, a negative time, a limit of no time, or no exception class.
    """

    attempts: int = 3
    backoff_s: float = 0.2
    max_backoff_s: float = 30.0
    timeout_s: float | None = None
    non_retryable: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, _RETRY)
        if self.timeout_s == 0:
            raise unfit("timeout_s", "more than 0 seconds, or None", self.timeout_s)

    def pause_s(self, attempt: int) -> float:
        """Return how long to wait after a failed attempt, counted from 1."""
        return float(min(self.backoff_s * 2 ** (attempt - 1), self.max_backoff_s))


def _is_error_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


_INVERSE = {
    "handler": text,
    "args": instance_of(Mapping, "a mapping of arguments"),
    "residue": optional(text),
    "depends_on": names,
    "critical": flag,
    "idempotent": flag,
}
_RETRY = {
    "attempts": at_least(1),
    "backoff_s": seconds,
    "max_backoff_s": seconds,
    "timeout_s": optional(seconds),
    "non_retryable": tuple_of(_is_error_class, "exception classes"),
}


class Scope(StrEnum):
    """A part of the world that an undo may be about."""

    FILES = "files"
    EFFECTS = "effects"
    STATE = "state"
    ARTIFACTS = "artifacts"
    EVENTS = "events"


EVERYTHING = frozenset(Scope)


class OnDrift(StrEnum):
    """What an undo does if the world was changed since the call."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
