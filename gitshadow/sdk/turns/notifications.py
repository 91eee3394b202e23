"""The callbacks of the program and the user's hook commands around an undo.

A program that keeps a cursor, a cache or a view of a session learns here what was undone or hidden.
Only a callback before an undo can stop it, and none can stop a rollback. A failure after an undo is
a note in the report.
"""

from collections.abc import Iterator
from dataclasses import replace

from gitshadow.errors import RefusedError
from gitshadow.sdk.turns import json_values
from gitshadow.sdk.turns.commands import (
    Invoke,
    Procedure,
    Raised,
    Returned,
    TimedOut,
    ask,
)
from gitshadow.sdk.turns.policy import VerdictKind, verdict_of
from gitshadow.sdk.turns.report import UndoKind, UndoReport
from gitshadow.sdk.turns.settings import TurnSettings
from gitshadow.sdk.turns.undo_operation import Whole
from gitshadow.sdk.turns.user_hooks import Commands, HookName


def undo(setting: TurnSettings, work: Whole) -> Procedure[UndoReport]:
    """Run an undo or a rollback, and report it before and after.

    Raises:
        RefusedError: `pre_undo` does not want it; nothing was done.
    """
    commands, notes = yield from _commands(setting)
    if setting.host.pre_undo is not None or commands.get("pre_undo"):
        # A plan takes fingerprints, so it is made only for a callback or a command.
        plan = yield from work.plan()
        notes += yield from _told(setting, "pre_undo", plan, commands)
    # A rollback cannot be refused: its turn has failed, and its effects would stay.
    if notes and work.op.kind != UndoKind.ROLLBACK:
        raise RefusedError(f"cannot undo {work.op.target}: {notes[0]}")
    report = yield from work.run()
    notes += yield from _told(setting, "post_undo", report, commands)
    return _with_notes(report, notes)


def rewind(setting: TurnSettings, work: Whole) -> Procedure[UndoReport]:
    """Run a rewind, and report it."""
    report = yield from work.run()
    commands, notes = yield from _commands(setting)
    notes += yield from _told(setting, "post_rewind", report, commands)
    return _with_notes(report, notes)


def _told(
    setting: TurnSettings, name: HookName, report: UndoReport, commands: Commands
) -> Procedure[list[str]]:
    """Pass a report to a callback and a command; return their failures."""
    notes: list[str] = []
    callback = {
        "pre_undo": setting.host.pre_undo,
        "post_undo": setting.host.post_undo,
        "post_rewind": setting.host.post_rewind,
    }[name]
    if callback is not None:
        event = yield from ask(Invoke(callback, (report,)))
        notes += _trouble(name, event)
        if name == "pre_undo" and isinstance(event, Returned):
            verdict = verdict_of(event.value, name)
            if verdict is not None and verdict.kind is not VerdictKind.ALLOW:
                notes.append(f"{name} refused it: {verdict.text}")
    argv = commands.get(name)
    if argv and setting.hooks is not None:
        told = {"name": name, "argv": argv, "report": report.to_json()}
        event = yield from ask(Invoke(setting.hooks.run, kwargs=told, blocking=True))
        notes += _trouble(f"{name} command", event)
    return notes


def _commands(setting: TurnSettings) -> Procedure[tuple[Commands, list[str]]]:
    """Return the user's commands, and in words why they could not be read."""
    if setting.hooks is None:
        return {}, []
    event = yield from ask(Invoke(setting.hooks.commands, blocking=True))
    if not isinstance(event, Returned):
        return {}, list(_trouble("reading the hook commands", event))
    return event.value, []


def _with_notes(report: UndoReport, notes: list[str]) -> UndoReport:
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def _trouble(name: str, event: Returned[object] | Raised | TimedOut) -> Iterator[str]:
    if isinstance(event, Raised):
        yield f"{name} failed: {json_values.in_words(event.error)}"
