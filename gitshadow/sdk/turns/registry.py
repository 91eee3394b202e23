"""What a program's tools are and how each is undone, declared once, before any turn.

Invariant: what is registered is the only truth about a tool; what a model says of it is not asked.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, Unpack

from gitshadow.errors import UsageError
from gitshadow.sdk.turns import mcp_tools
from gitshadow.sdk.turns.deferred_work import is_async
from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.option_checks import (
    OptionCheck,
    check_all,
    flag,
    instance_of,
    names,
    one_of,
    seconds,
    text,
)
from gitshadow.sdk.turns.option_checks import function as check_function
from gitshadow.sdk.turns.tool import Call, Tool, ToolOptions, window_s
from gitshadow.sdk.turns.values import Retry, Reversibility
from gitshadow.words import did_you_mean

_F = TypeVar("_F", bound=Callable[..., object])


def _class(option: str, value: object) -> None:
    if not isinstance(value, str) or value not in list(Reversibility):
        near = did_you_mean(str(value).lower(), list(Reversibility))
        raise UsageError(
            f"there is no class {value!r}", hint=near or ", ".join(Reversibility)
        )


def _verify(option: str, value: object) -> None:
    if not isinstance(value, bool):
        check_function(option, value)


def _window(option: str, value: object) -> None:
    if not isinstance(value, str):
        seconds(option, value)
        return
    try:
        window_s(value)
    except ValueError as error:
        raise UsageError(f"{option} is not a length of time", hint="30d") from error


_NEEDS_INVERSE = (Reversibility.REVERSIBLE, Reversibility.COMPENSABLE)
_FLAGS = (
    *("idempotent", "files_only", "after_files", "allow_duplicates", "pivot", "hold"),
)
_OPTIONS: Mapping[str, OptionCheck] = {
    **dict.fromkeys(_FLAGS, flag),
    **dict.fromkeys(
        ("capture", "inverse", "fingerprint", "probe", "describe"), check_function
    ),
    **dict.fromkeys(("secrets", "paths", "accepts"), names),
    "delay_s": seconds,
    **dict.fromkeys(("residue", "follow_up", "description", "version"), text),
    "reversibility": _class,
    "on_capture_failure": one_of("refuse", "record"),
    "errors": one_of("unknown", "nothing_done"),
    "verify": _verify,
    "retry": instance_of(Retry, "a Retry"),
    "schema": instance_of(Mapping, "a JSON schema"),
    "undo_for": _window,
}


class ToolRegistry:
    """The tools of a program, and the handlers of their inverses, by name."""

    def __init__(self, domain: str | None = None) -> None:
        self._domain = domain
        self._tools: dict[str, Tool] = {}
        self._handlers: dict[str, Tool] = {}

    def domain(self, name: str) -> "ToolRegistry":
        """Return a view of the same registry that puts a domain before every name."""
        view = ToolRegistry(name)
        # All views share the names, so that none can be registered twice.
        view._tools, view._handlers = self._tools, self._handlers
        return view

    def tool(self, name: str, **options: Unpack[ToolOptions]) -> Callable[[_F], _F]:
        """Declare a tool; the function stays as it is.

        Args:
            name: `domain.name`, or a bare name in a view made by `domain()`.
            options: See `ToolOptions`.

        Raises:
            RegistrationError: no domain, taken, an unknown option or value, a generator function,
                reversible without an inverse, or `secrets` or `paths` that name no argument.
        """

        def declare(function: _F) -> _F:
            self.add(name, function, **options)
            return function

        return declare

    def add(
        self,
        name: str,
        function: Callable[..., object],
        **options: Unpack[ToolOptions],
    ) -> Tool:
        """Declare a tool, as `tool` does, where there is no place for a decorator."""
        full = self._qualified(name)
        with _registering(full):
            check_function("the function", function)
            check_all(_OPTIONS, options)
        reversibility: Reversibility | None = None
        if "reversibility" in options:
            reversibility = Reversibility(options["reversibility"])
            options["reversibility"] = reversibility
        has_inverse = "inverse" in options or options.get("files_only", False)
        if reversibility in _NEEDS_INVERSE and not has_inverse:
            raise RegistrationError(
                f"cannot register {full}: {reversibility} without an inverse",
                hint="pass inverse= or files_only=True, or declare it non_reversible",
            )
        if options.get("verify") is True and "fingerprint" not in options:
            raise RegistrationError(
                f"cannot register {full}: verify=True without fingerprint"
            )
        if options.get("hold", False) and options.get("secrets", ()):
            raise RegistrationError(
                f"cannot register {full}: a held call is stored with its arguments",
                hint="let the function look up its secrets itself",
            )
        made = Tool(
            name=full,
            function=function,
            reversibility=reversibility,
            takes=_extras(function),
            options=options,
            keyed=frozenset(_keyed(options)),
        )
        with _registering(full):
            _check_arguments(made)
        self._tools[full] = made
        return made

    def handler(
        self,
        name: str,
        *,
        idempotent: bool = False,
        version: str = "",
        accepts: tuple[str, ...] = (),
    ) -> Callable[[_F], _F]:
        """Declare a function that only inverses call.

        Args:
            name: `domain.name`.
            idempotent: Whether calling it twice is the same as once. One that takes
                `idempotency_key` is expected to see to that itself. Any other is never tried
                twice: after a failure nobody can know what it did.
            version: Of the handler: an inverse is run by the version that it was written down for.
            accepts: Versions whose inverses it can run as well.

        Raises:
            RegistrationError: no domain, taken, a generator function, or an option of another type.
        """
        options: ToolOptions = {
            "idempotent": idempotent,
            "version": version,
            "accepts": accepts,
        }

        def declare(function: _F) -> _F:
            full = self._qualified(name)
            with _registering(full):
                check_function("the function", function)
                check_all(_OPTIONS, options)
            self._handlers[full] = Tool(
                name=full, function=function, takes=_extras(function), options=options
            )
            return function

        return declare

    def import_mcp(
        self,
        listed: object,
        *,
        trusted: bool = False,
        overrides: Mapping[str, ToolOptions] | None = None,
        call: Call | None = None,
    ) -> list[Tool]:
        """Declare the tools of an MCP server.

        What a server says of its tools is a hint. A trusted server's `readOnlyHint` is believed,
        and so is a declaration in `_meta["gitshadow/undo"]`; `idempotentHint` permits calling
        again. `destructiveHint` says nothing about undoing. All else is undeclared, so it counts
        as non-reversible, until `overrides` declare it.

        Args:
            listed: A `tools/list` result, as JSON or as the `mcp` package has it.
            trusted: Whether the server's word counts.
            overrides: Options by the server's own tool names; they win over hints.
            call: Calls a tool of the server; without it only hooks can report the tools.

        Returns:
            What was declared. Names are those of the server, after the domain of this view, with
            `_` for blanks.

        Raises:
            UsageError: `trusted` is no bool.
            RegistrationError: as `tool`; an override names no listed tool; the result is none.
        """
        flag("trusted", trusted)
        found = mcp_tools.declared(
            self._domain, listed, trusted=trusted, overrides=overrides or {}, call=call
        )
        return [
            self.add(name, function, **options) for name, function, options in found
        ]

    def remove(self, name: str) -> None:
        """Forget a tool or handler, if there is one of that name."""
        self._tools.pop(name, None)
        self._handlers.pop(name, None)

    def find(self, name: str) -> Tool | None:
        """Return the tool that a model may call by this name, or None."""
        return self._tools.get(name)

    def find_handler(self, name: str) -> Tool | None:
        """Return what an inverse may call by this name: a handler or a tool."""
        return self._handlers.get(name) or self._tools.get(name)

    def version_of(self, name: str) -> str:
        """Return the version of a handler; none of an unknown one."""
        found = self.find_handler(name)
        return "" if found is None else found.version

    def check_front(self, *, awaits: bool) -> None:
        """Check that a front can build every inverse.

        Raises:
            UsageError: one would have to be awaited, and the front does not do that.
        """
        for one in self._tools.values():
            if not awaits and is_async(one.options.get("inverse")):
                raise UsageError(
                    f"cannot use {one.name} in AgentUndo: its inverse is a coroutine function",
                    hint="use AsyncAgentUndo",
                )

    def __iter__(self) -> Iterator[Tool]:
        """Return the tools by name; handlers are not among them."""
        return iter(self._tools[name] for name in sorted(self._tools))

    def _qualified(self, name: str) -> str:
        with _registering(repr(name)):
            text("the name", name)
        full = f"{self._domain}.{name}" if self._domain else name
        if full != mcp_tools.as_name(full):
            raise RegistrationError(
                f"cannot register {full!r}: a name is a word without blanks",
                hint="name it domain.name",
            )
        if "." not in full.strip("."):
            raise RegistrationError(
                f"cannot register {full}: the name has no domain",
                hint=f"name it domain.{full}",
            )
        if full in self._tools or full in self._handlers:
            raise RegistrationError(f"cannot register {full}: the name is taken")
        return full


@contextmanager
def _registering(name: str) -> Iterator[None]:
    """Raise RegistrationError for a UsageError of the block."""
    try:
        yield
    except UsageError as error:
        raise RegistrationError(
            f"cannot register {name}: {error}", hint=error.hint
        ) from error


def _check_arguments(tool: Tool) -> None:
    """Check that the arguments exist that options name: a wrong name would store a secret."""
    known = tool.parameters
    if known is None:
        return
    for option, named in (
        ("secrets", tool.options.get("secrets", ())),
        ("paths", tool.options.get("paths", ())),
    ):
        for name in named:
            if name not in known:
                near = did_you_mean(name, known)
                raise UsageError(
                    f"{option} names {name}, which is no argument of the function",
                    hint=near or f"it has {', '.join(sorted(known)) or 'none'}",
                )


def _keyed(options: ToolOptions) -> Iterator[str]:
    """Yield the options whose functions ask for the key of the call."""
    for option, value in options.items():
        if callable(value) and "idempotency_key" in _extras(value):
            yield option


def _extras(function: Callable[..., object]) -> frozenset[str]:
    """Return which of our own arguments a function asks for."""
    try:
        names = inspect.signature(function).parameters.keys()
    except (TypeError, ValueError):
        return frozenset()
    return frozenset({"revision", "idempotency_key"} & names)
