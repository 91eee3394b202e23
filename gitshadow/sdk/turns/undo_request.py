"""The request for an undo: as options, as a value, and as a text in the journal.

A continued op does what was asked for at first.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypedDict, cast

from gitshadow.errors import JournalError, UsageError
from gitshadow.messages.codec import encode, parse
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.option_checks import (
    OptionCheck,
    check_all,
    flag,
    names,
    one_of,
    optional,
    text,
)
from gitshadow.sdk.turns.values import EVERYTHING, OnDrift, Scope
from gitshadow.words import did_you_mean

WITHOUT_EFFECTS = EVERYTHING - {Scope.EFFECTS}
"""What a rewind is about, unless it is asked for more."""


class UndoRequest(NamedTuple):
    """The request for an undo, and what it is about.

    Args:
        on_drift: An `OnDrift`: what to do where the world was changed since.
        only: Ids of the calls that are meant; None means all.
        token: Go on only if the plan is still the one with this token.
        scope: Each a `Scope`: which parts of the world are meant; None: what its kind is about.
        on_conflict: What to do where later lines are in the way in a file.
        atomic: Refuse unless all of it can be undone, and stop if a part fails.
        declined: Ids of calls that are left because they came before a point of no return.
        turn: The turn of the one call that is meant.
        calls: The calls of a savepoint.
        savepoints: Its number, and those of the savepoints inside it.
        since_ns: From when on files that were written outside of calls are named.
        why: What the report is to say of the reason.
    """

    on_drift: str = OnDrift.SKIP.value
    only: tuple[str, ...] | None = None
    token: str | None = None
    scope: tuple[str, ...] | None = None
    on_conflict: str = "skip"
    atomic: bool = False
    declined: tuple[str, ...] = ()
    turn: str | None = None
    calls: tuple[str, ...] | None = None
    savepoints: tuple[int, ...] = ()
    since_ns: int | None = None
    why: str | None = None

    def covers(self, *scopes: Scope) -> bool:
        """Return whether any of these parts of the world is meant.

        Single calls have effects and files; state and conversation are their turn's.
        """
        meant = EVERYTHING.intersection(Scope if self.scope is None else self.scope)
        if self.only is not None:
            meant &= {Scope.EFFECTS, Scope.FILES}
        return not meant.isdisjoint(scopes)

    @property
    def is_whole(self) -> bool:
        """Return whether all of a turn is meant, by an undo."""
        return self.only is None and (
            self.scope is None or set(self.scope) == EVERYTHING
        )


class UndoOptions(TypedDict, total=False):
    """The arguments of `plan` and `undo` besides the turn; all are optional.

    `only`: ids of calls; the others are left and named. `on_drift`: `skip` what was changed since,
    or `overwrite` it. `token`: of a plan: refuse where the plan is another one by now. `scope`:
    any of `files`, `effects`, `state`, `artifacts`, `events`; all by default. `on_conflict`: for
    files in which later lines are in the way: `skip`, `overwrite` or `markers`. `atomic`: refuse
    unless everything can be undone, and stop if a part fails.
    """

    only: Collection[str] | None
    on_drift: str
    token: str | None
    scope: Collection[str] | None
    on_conflict: str
    atomic: bool


class RewindOptions(TypedDict, total=False):
    """The arguments of `rewind` besides the invocation; all are optional.

    `effects`: undo external effects too; otherwise the report names them. `scope`: any of `files`,
    `effects`, `state`, `artifacts`, `events`; all but effects by default. `token`: of a plan:
    refuse where the plan is another one by now.
    """

    effects: bool
    scope: Collection[str] | None
    token: str | None


class RedoOptions(TypedDict, total=False):
    """The arguments of `redo` besides the undo: the `token` of a plan, as for `UndoOptions`."""

    token: str | None


def request_of(options: UndoOptions) -> UndoRequest:
    """Return the value for what was asked.

    Raises:
        UsageError: there is no such option, or its value is none that it may have.
    """
    _check("undo", options, _UNDO)
    only, scope = options.get("only"), options.get("scope")
    return UndoRequest(
        on_drift=options.get("on_drift", "skip"),
        only=None if only is None else tuple(sorted(only)),
        token=options.get("token"),
        scope=tuple(sorted(EVERYTHING if scope is None else set(scope))),
        on_conflict=options.get("on_conflict", "skip"),
        atomic=options.get("atomic", False),
    )


def rewind_request(options: RewindOptions) -> UndoRequest:
    """Return what a rewind is to do: all but effects, unless it is asked for more or for less.

    Raises:
        UsageError: as `request_of`.
    """
    _check("rewind", options, _REWIND)
    scope = options.get("scope")
    wanted = set(WITHOUT_EFFECTS if scope is None else scope)
    if options.get("effects", False):
        wanted.add(Scope.EFFECTS)
    return UndoRequest(scope=tuple(sorted(wanted)), token=options.get("token"))


def redo_token(options: RedoOptions) -> str | None:
    """Return the token of the plan that a redo is to carry out, or None.

    Raises:
        UsageError: as `request_of`.
    """
    _check("redo", options, _TOKEN)
    return options.get("token")


def _check(verb: str, options: object, checks: Mapping[str, OptionCheck]) -> None:
    """Check the options of a verb: one that is passed over would undo more than was asked for."""
    given = cast(Mapping[str, object], options)
    if verb == "undo" and "dry_run" in given:
        raise UsageError(
            "cannot undo: there is no option dry_run",
            hint="use plan(...), which changes nothing",
        )
    try:
        check_all(checks, given)
    except UsageError as error:
        raise UsageError(f"cannot {verb}: {error}", hint=error.hint) from error


def _scope(option: str, value: object) -> None:
    names(option, value)
    known = [scope.value for scope in Scope]
    for name in cast(Collection[str], value):
        if name not in known:
            raise UsageError(
                f"there is no scope {name}",
                hint=did_you_mean(name, known) or f"use one of {', '.join(known)}",
            )


_TOKEN = {"token": optional(text)}
_UNDO = {
    **_TOKEN,
    "only": optional(names),
    "on_drift": one_of(*OnDrift),
    "scope": optional(_scope),
    "on_conflict": one_of("skip", "overwrite", "markers"),
    "atomic": flag,
}
_REWIND = {**_TOKEN, "effects": flag, "scope": optional(_scope)}


def to_text(request: UndoRequest) -> str:
    """Return a request as the journal has it; a token is for one time only."""
    return json_values.canonical(encode(request._replace(token=None)))


def from_text(text: str) -> UndoRequest:
    """Return the request that `to_text` wrote.

    Raises:
        JournalError: it is none.
    """
    try:
        return parse(UndoRequest, json_values.parse(text))
    except UsageError as error:
        raise JournalError(f"could not read an undo: {error}") from error
