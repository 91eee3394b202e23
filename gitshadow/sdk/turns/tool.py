"""One declared tool: its function, its options and what is known of them.

Invariant: what is declared is the only truth about a tool; what a model says of it is not asked.
"""

import inspect
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NotRequired, Protocol, TypeAlias, TypedDict

from gitshadow.sdk.turns.values import Inverse, Json, JsonObject, Retry, Reversibility

_NS_PER_S = 1_000_000_000

Call: TypeAlias = Callable[[str, JsonObject], object]
"""Call a tool of one server by name, with arguments; the value, or an awaitable of it."""


class Capture(Protocol):
    """Read before a call what its inverse will need."""

    def __call__(self, arguments: JsonObject, /) -> object:
        """Return it: JSON, or an awaitable of it with the async front; it is copied at once."""
        ...


class KeyedCapture(Protocol):
    """As `Capture`, and given the key that the tool gets."""

    def __call__(self, arguments: JsonObject, /, *, idempotency_key: str) -> object:
        """Return it."""
        ...


class BuildInverse(Protocol):
    """Make the inverse of a call that has just succeeded."""

    def __call__(
        self, arguments: JsonObject, captured: object, result: object, /
    ) -> Inverse:
        """Return it; it is stored at once and never made again."""
        ...


class KeyedBuildInverse(Protocol):
    """As `BuildInverse`, and given the key that the tool gets."""

    def __call__(
        self,
        arguments: JsonObject,
        captured: object,
        result: object,
        /,
        *,
        idempotency_key: str,
    ) -> Inverse:
        """Return it."""
        ...


class Verify(Protocol):
    """Check after an inverse has returned whether the effect of its call is gone."""

    def __call__(
        self, arguments: JsonObject, captured: object, /
    ) -> Awaitable[bool] | bool:
        """Return it, or an awaitable of it with the async front."""
        ...


class KeyedVerify(Protocol):
    """As `Verify`, and given the key that the tool gets."""

    def __call__(
        self,
        arguments: JsonObject,
        captured: object,
        /,
        *,
        idempotency_key: str,
    ) -> Awaitable[bool] | bool:
        """Return it."""
        ...


ReversibilityWord: TypeAlias = Literal[
    "non_reversible", "compensable", "reversible", "read_only"
]
"""A `Reversibility` as a text."""


class ToolOptions(TypedDict):
    """The arguments of `tool` besides the name; all are optional.

    `reversibility`: the class; undeclared counts as non-reversible. `capture`: read before the
    call. `inverse`: built after it from arguments, capture and result. `on_capture_failure`:
    `refuse` the call (the default), or `record` it as one without an inverse. `fingerprint`: read
    before and after the call and again before the undo, to notice that the world has moved on; it
    returns JSON, or sets of it. `probe`: asked about a call of which nobody knows whether it
    happened: True, False or None. `describe`: the entry's text. `retry`: how its inverse is
    tried. `undo_for`: how long it can be undone, in seconds or as a text (`30d`, `12h`).
    `residue`: what remains after its inverse. `follow_up`: what a person can do if nothing undoes
    it. `idempotent`: calling it again with the same arguments changes nothing. `secrets`:
    arguments that are never stored. `paths`: arguments that name every file it writes; without it
    the time of a write decides whose it is. `files_only`: all that it changes are files of the
    working tree, which are undone with the turn: it needs no inverse. `after_files`: its inverse
    runs after the files. `allow_duplicates`: run it again although a rewind hid the same call and
    it was not undone. `schema`, `description`: for the model. `version`: of the handler.

    `errors`: `nothing_done` where a tool that raises has surely done nothing; by default
    (`unknown`) its `probe` is asked, and without an answer the call is in doubt.

    `capture`, `inverse`, `fingerprint`, `probe` and `verify` get the key that the tool gets where
    they have a parameter `idempotency_key`.

    `verify`: after an inverse that returned, says from arguments and capture whether the effect
    is gone; True: `fingerprint` must see what it saw before the call. `accepts`: versions that
    this handler can stand in for; an inverse that was written down for any other than its own
    stays. `hold`: it runs when its turn has committed, `delay_s` later. `pivot`: a turn that
    fails after it does not by itself undo what came before.
    """

    reversibility: NotRequired[Reversibility | ReversibilityWord]
    capture: NotRequired[Capture | KeyedCapture]
    inverse: NotRequired[BuildInverse | KeyedBuildInverse]
    on_capture_failure: NotRequired[Literal["refuse", "record"]]
    fingerprint: NotRequired[Capture | KeyedCapture]
    probe: NotRequired[Capture | KeyedCapture]
    describe: NotRequired[Callable[[JsonObject], str]]
    retry: NotRequired[Retry]
    undo_for: NotRequired[str | float]
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
    """One declared tool; `options` are those of `ToolOptions`.

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
        """Return whether it can run an inverse that was stored for a version."""
        return version == self.version or version in self.options.get("accepts", ())

    @property
    def repeatable(self) -> bool:
        """Return whether a second call with the same key or arguments changes nothing."""
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
    def parameters(self) -> frozenset[str] | None:
        """Return the names of its arguments, or None where it may have any.

        A function that takes any has those of its schema, unless that admits others.
        """
        schema = self.options.get("schema", {})
        properties = schema.get("properties")
        listed = frozenset(properties if isinstance(properties, Mapping) else ())
        try:
            found = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return listed or None
        takes_any = any(one.kind is one.VAR_KEYWORD for one in found)
        if takes_any and (not listed or schema.get("additionalProperties")):
            return None
        others = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return listed | {one.name for one in found if one.kind not in others}

    def extras(self, option: str, key: str) -> dict[str, str]:
        """Return what the function of an option gets besides its own arguments."""
        return {"idempotency_key": key} if option in self.keyed else {}

    def misfit(self, arguments: JsonObject, *places: object) -> str | None:
        """Return why the function cannot be called with these arguments, or None.

        `places` are arguments that a framework passes by their places.
        Only its own signature counts: what a decorator passes on is not known before the call.
        Afterwards `misfit_inside` can say.
        """
        try:
            signature = inspect.signature(self.function, follow_wrapped=False)
        except (TypeError, ValueError):
            return None
        return self._unbound(signature, arguments, places)

    def misfit_inside(
        self, error: BaseException, arguments: JsonObject, *places: object
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
        return self._unbound(inspect.signature(inner), arguments, places)

    def _unbound(
        self,
        signature: inspect.Signature,
        arguments: JsonObject,
        places: tuple[object, ...],
    ) -> str | None:
        ours = dict.fromkeys(self.takes)
        try:
            signature.bind(*places, **{**arguments, **ours})
        except TypeError as error:
            return str(error)
        return None

    def expires_ns(self, now_ns: int) -> int | None:
        """Return until when a call made now can be undone; None: forever."""
        seconds = self.window_s
        return None if seconds is None else now_ns + int(seconds * _NS_PER_S)

    @property
    def window_s(self) -> float | None:
        """Return how long a call can be undone; None: forever."""
        found = self.options.get("undo_for")
        return None if found is None else window_s(found)


def window_s(window: str | float) -> float:
    """Return a length of time in seconds; a text is like `30d`.

    Raises:
        ValueError: the text is not a length of time.
    """
    if not isinstance(window, str):
        return window
    # Most programs have no such option; the settings are loaded for the first that has one.
    from gitshadow.config import duration_ns

    return duration_ns(window) / _NS_PER_S
