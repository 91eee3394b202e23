"""What a program's tools are and how each is taken back, declared once, before any turn.

Invariant: what is registered is the only truth about a tool; what a model says of it is not asked.
"""

import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Literal,
    NotRequired,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
)

from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.values import Inverse, Json, Retry, Reversibility
from gitshadow.words import did_you_mean

if TYPE_CHECKING:
    from gitshadow.sdk.turns.declarations import Call

_F = TypeVar("_F", bound=Callable[..., object])
_NEEDS_INVERSE = (Reversibility.REVERSIBLE, Reversibility.COMPENSABLE)
_NS_PER_S = 1_000_000_000
_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "on_capture_failure": ("refuse", "record"),
    "errors": ("unknown", "nothing_done"),
}
_NAMES = ("secrets", "paths", "accepts")


class Capture(Protocol):
    """Read, before a call, what its inverse will need."""

    def __call__(self, arguments: Mapping[str, object], /) -> object:
        """Return it: JSON, or an awaitable of it with the async front."""
        ...


class KeyedCapture(Protocol):
    """As `Capture`, and given the key that the tool gets."""

    def __call__(
        self, arguments: Mapping[str, object], /, *, idempotency_key: str
    ) -> object:
        """Return it."""
        ...


class BuildInverse(Protocol):
    """Make the inverse of a call that has just succeeded."""

    def __call__(
        self, arguments: Mapping[str, object], captured: object, result: object, /
    ) -> Inverse:
        """Return it; it is stored at once and never made again."""
        ...


class KeyedBuildInverse(Protocol):
    """As `BuildInverse`, and given the key that the tool gets."""

    def __call__(
        self,
        arguments: Mapping[str, object],
        captured: object,
        result: object,
        /,
        *,
        idempotency_key: str,
    ) -> Inverse:
        """Return it."""
        ...


class Verify(Protocol):
    """Look, after an inverse has returned, whether the effect of its call is gone."""

    def __call__(
        self, arguments: Mapping[str, object], captured: object, /
    ) -> Awaitable[bool] | bool:
        """Return it, or an awaitable of it with the async front."""
        ...


class KeyedVerify(Protocol):
    """As `Verify`, and given the key that the tool gets."""

    def __call__(
        self,
        arguments: Mapping[str, object],
        captured: object,
        /,
        *,
        idempotency_key: str,
    ) -> Awaitable[bool] | bool:
        """Return it."""
        ...


class ToolOptions(TypedDict):
    """What `tool` takes beside the name; all of it may be left out.

    `reversibility`: the class; undeclared counts as non-reversible. `capture`: read before the
    call. `inverse`: built after it from arguments, capture and result. `on_capture_failure`:
    `refuse` the call (the default), or `record` it as one without an inverse. `observe`: read
    before and after the call and again before the undo, to notice that the world has moved on.
    `probe`: asked about a call of which nobody knows whether it happened: True, False or None.
    `describe`: the entry's text. `retry`: how its inverse is tried. `undo_for_s`: how long it can
    be taken back. `residue`: what stays after its inverse. `follow_up`: what a person can do where
    nothing takes it back. `idempotent`: calling it again with the same arguments changes nothing.
    `secrets`: arguments that are never stored. `paths`: arguments that name every file it writes;
    without it the time of a write tells whose it is. `files_only`: all that it changes are files
    of the working tree, which come back with the turn: it needs no inverse. `after_files`: its
    inverse runs after the files. `allow_duplicates`: run it again although a rewind hid the same
    call and nothing took it back. `schema`, `description`: for the model. `version`: of the
    handler.

    `errors`: `nothing_done` where a tool that raises has surely done nothing; by default
    (`unknown`) its `probe` is asked, and without an answer the call is in doubt.

    `capture`, `inverse`, `observe`, `probe` and `verify` get the key that the tool gets where they
    have a parameter `idempotency_key`.

    `undo_for`: `undo_for_s` as a text: `30d`, `12h`, `90s`. `verify`: after an inverse that
    returned, says from arguments and capture whether the effect is gone; True: `observe` must see
    what it saw before the call. `accepts`: versions that this handler can stand in for; an
    inverse that was written down for any other than its own stays. `hold`: it runs when its turn
    has committed, `delay_s` later. `pivot`: a turn that fails after it does not by itself take back
    what came before.
    """

    reversibility: NotRequired[Reversibility]
    capture: NotRequired[Capture | KeyedCapture]
    inverse: NotRequired[BuildInverse | KeyedBuildInverse]
    on_capture_failure: NotRequired[Literal["refuse", "record"]]
    observe: NotRequired[Capture | KeyedCapture]
    probe: NotRequired[Capture | KeyedCapture]
    describe: NotRequired[Callable[[Mapping[str, object]], str]]
    retry: NotRequired[Retry]
    undo_for_s: NotRequired[float]
    undo_for: NotRequired[str]
    residue: NotRequired[str]
    follow_up: NotRequired[str]
    idempotent: NotRequired[bool]
    secrets: NotRequired[tuple[str, ...]]
    paths: NotRequired[tuple[str, ...]]
    files_only: NotRequired[bool]
    after_files: NotRequired[bool]
    allow_duplicates: NotRequired[bool]
    pivot: NotRequired[bool]
    hold: NotRequired[bool]
    delay_s: NotRequired[float]
    schema: NotRequired[Mapping[str, Json]]
    description: NotRequired[str]
    version: NotRequired[str]
    accepts: NotRequired[tuple[str, ...]]
    verify: NotRequired[Verify | KeyedVerify | bool]
    errors: NotRequired[Literal["unknown", "nothing_done"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Hold one declared tool; `options` as in `ToolOptions`.

    `reversibility` is None for a tool that declares none. `foreign` is what stands for a program or
    server of others: it is handed a key, and nobody knows whether it heeds that. `blocking` is what
    waits without letting others go on. `keyed` are the options whose functions ask for the key.
    """

    name: str
    function: Callable[..., object]
    reversibility: Reversibility | None = None
    takes: frozenset[str] = frozenset()
    options: ToolOptions = field(default_factory=ToolOptions)
    keyed: frozenset[str] = frozenset()
    foreign: bool = False
    blocking: bool = False

    @property
    def effective(self) -> Reversibility:
        """Return the class that counts: an undeclared tool is not reversible."""
        return self.reversibility or Reversibility.NON_REVERSIBLE

    @property
    def retry(self) -> Retry:
        """Return how the inverse of this tool's calls is tried."""
        return self.options.get("retry", Retry())

    @property
    def version(self) -> str:
        """Return the version of the handler."""
        return self.options.get("version", "")

    def serves(self, version: str) -> bool:
        """Tell whether it can run an inverse that was written down for a version."""
        return version == self.version or version in self.options.get("accepts", ())

    @property
    def repeatable(self) -> bool:
        """Tell whether a second call with one key or arguments is the same as one."""
        return self.heeds_key or self.options.get("idempotent", False)

    @property
    def holds(self) -> bool:
        """Return whether its calls wait until their turn has committed."""
        return self.options.get("hold", False)

    @property
    def heeds_key(self) -> bool:
        """Return whether it sees to it itself that one key has one effect."""
        return "idempotency_key" in self.takes and not self.foreign

    @property
    def fails_clean(self) -> bool:
        """Return whether it has surely done nothing where it raises."""
        return self.options.get("errors", "unknown") == "nothing_done"

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the arguments that it is known to have."""
        try:
            names = frozenset(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            names = frozenset()
        properties = self.options.get("schema", {}).get("properties")
        return names | frozenset(properties if isinstance(properties, Mapping) else ())

    def extras(self, option: str, key: str) -> dict[str, str]:
        """Return what the function of an option gets besides its own arguments."""
        return {"idempotency_key": key} if option in self.keyed else {}

    def misfit(self, arguments: Mapping[str, object]) -> str | None:
        """Return why the function cannot be called with these arguments, or None.

        Only its own signature counts: what a decorator passes on is not known before the call.
        Afterwards `misfit_inside` can say.
        """
        try:
            signature = inspect.signature(self.function, follow_wrapped=False)
        except (TypeError, ValueError):
            return None
        return self._unbound(signature, arguments)

    def misfit_inside(
        self, error: BaseException, arguments: Mapping[str, object]
    ) -> str | None:
        """Return why a decorated function could not be called, or None for any other error.

        Python names the function whose parameters do not fit, and no frame of it is in the
        traceback: nothing of the function ran.
        """
        inner = inspect.unwrap(self.function)
        name = getattr(inner, "__qualname__", None)
        code = getattr(inner, "__code__", None)
        if inner is self.function or code is None or type(error) is not TypeError:
            return None
        if not str(error).startswith(f"{name}() "):
            return None
        frames = traceback.walk_tb(error.__traceback__)
        if any(frame.f_code is code for frame, _ in frames):
            return None
        return self._unbound(inspect.signature(inner), arguments)

    def _unbound(
        self, signature: inspect.Signature, arguments: Mapping[str, object]
    ) -> str | None:
        ours = dict.fromkeys(self.takes)
        try:
            signature.bind(**{**arguments, **ours})
        except TypeError as error:
            return str(error)
        return None

    def expires_ns(self, now_ns: int) -> int | None:
        """Return until when a call made now can be taken back; None for ever."""
        seconds = self.window_s
        return None if seconds is None else now_ns + int(seconds * _NS_PER_S)

    @property
    def window_s(self) -> float | None:
        """Return how long a call can be taken back; None for ever."""
        if "undo_for" in self.options:
            return _window_ns(self.options["undo_for"]) / _NS_PER_S
        return self.options.get("undo_for_s")


class ToolRegistry:
    """Hold the tools and compensators of a program, by name."""

    def __init__(self, domain: str | None = None) -> None:
        self._domain = domain
        self._tools: dict[str, Tool] = {}
        self._compensators: dict[str, Tool] = {}

    def domain(self, name: str) -> "ToolRegistry":
        """Return a view of the same registry that puts a domain before every name."""
        view = ToolRegistry(name)
        view._tools, view._compensators = self._tools, self._compensators
        return view

    def tool(self, name: str, **options: Unpack[ToolOptions]) -> Callable[[_F], _F]:
        """Declare a tool; the function stays as it is.

        Args:
            name: `domain.name`, or a bare name in a view made by `domain()`.
            options: See `ToolOptions`.

        Raises:
            RegistrationError: no domain, taken, an unknown option, or reversible without an
                inverse.
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
        _check_options(full, options)
        if "reversibility" in options:
            options["reversibility"] = _class_of(full, options["reversibility"])
        reversibility = options.get("reversibility")
        has_inverse = "inverse" in options or options.get("files_only", False)
        if reversibility in _NEEDS_INVERSE and not has_inverse:
            raise RegistrationError(
                f"cannot register {full}: {reversibility} without an inverse",
                hint="pass inverse= or files_only=True, or declare it non_reversible",
            )
        if options.get("verify") is True and "observe" not in options:
            raise RegistrationError(
                f"cannot register {full}: verify=True without observe"
            )
        if "undo_for" in options:
            _check_window(full, options)
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
        self._tools[full] = made
        return made

    def compensator(
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
            RegistrationError: no domain, or taken.
        """

        def declare(function: _F) -> _F:
            full = self._qualified(name)
            self._compensators[full] = Tool(
                name=full,
                function=function,
                takes=_extras(function),
                options={
                    "idempotent": idempotent,
                    "version": version,
                    "accepts": accepts,
                },
            )
            return function

        return declare

    def import_mcp(
        self,
        listed: object,
        *,
        trusted: bool = False,
        overrides: Mapping[str, ToolOptions] | None = None,
        call: "Call | None" = None,
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
            call: Calls a tool of the server; without it the tools can be told of by hooks only.

        Returns:
            What was declared. Names are those of the server, after the domain of this view.

        Raises:
            RegistrationError: as `tool`; an override names no listed tool; the result is none.
        """
        from gitshadow.sdk.turns import mcp_tools

        return mcp_tools.declare(
            self, listed, trusted=trusted, overrides=overrides or {}, call=call
        )

    @property
    def prefix(self) -> str | None:
        """Return the domain that this view puts before names, if it does."""
        return self._domain

    def remove(self, name: str) -> None:
        """Forget a tool or compensator, if there is one of that name."""
        self._tools.pop(name, None)
        self._compensators.pop(name, None)

    def find(self, name: str) -> Tool | None:
        """Return the tool that a model may call by this name, or None."""
        return self._tools.get(name)

    def handler(self, name: str) -> Tool | None:
        """Return what an inverse may call by this name: a compensator or a tool."""
        return self._compensators.get(name) or self._tools.get(name)

    def version_of(self, name: str) -> str:
        """Return the version of a handler; none of an unknown one."""
        found = self.handler(name)
        return "" if found is None else found.version

    def __iter__(self) -> Iterator[Tool]:
        """Return the tools by name; compensators are not among them."""
        return iter(self._tools[name] for name in sorted(self._tools))

    def _qualified(self, name: str) -> str:
        full = f"{self._domain}.{name}" if self._domain else name
        if "." not in full.strip("."):
            raise RegistrationError(
                f"cannot register {full}: the name has no domain",
                hint=f"name it domain.{full}",
            )
        if full in self._tools or full in self._compensators:
            raise RegistrationError(f"cannot register {full}: the name is taken")
        return full


def _window_ns(text: str) -> int:
    """Return a length of time; where none is written, the settings are not loaded for it."""
    from gitshadow.config import duration_ns

    return duration_ns(text)


def _check_window(name: str, options: ToolOptions) -> None:
    try:
        _window_ns(options.get("undo_for", ""))
    except ValueError as error:
        raise RegistrationError(
            f"cannot register {name}: undo_for is not a length of time", hint="30d"
        ) from error
    if "undo_for_s" in options:
        raise RegistrationError(
            f"cannot register {name}: undo_for and undo_for_s mean the same"
        )


def _check_options(name: str, options: ToolOptions) -> None:
    """Raise RegistrationError for an option that there is not, or whose value means nothing."""
    known = sorted(ToolOptions.__annotations__)
    for option in options:
        if option not in known:
            raise RegistrationError(
                f"cannot register {name}: there is no option {option}",
                hint=did_you_mean(option, known) or ", ".join(known),
            )
    for option, value in options.items():
        allowed = _ALLOWED.get(option)
        if allowed is not None and value not in allowed:
            words = " or ".join(allowed)
            raise RegistrationError(
                f"cannot register {name}: {option} must be {words}, not {value!r}"
            )
        if option in _NAMES and isinstance(value, str):
            raise RegistrationError(
                f"cannot register {name}: {option} must be a tuple of names",
                hint=f"{option}=({value!r},)",
            )


def _class_of(name: str, value: str) -> Reversibility:
    """Return the class that a value names; a text will do."""
    try:
        return Reversibility(value)
    except ValueError as error:
        raise RegistrationError(
            f"cannot register {name}: there is no class {value!r}",
            hint=", ".join(Reversibility),
        ) from error


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
