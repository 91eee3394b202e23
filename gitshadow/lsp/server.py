"""The language server: requests of an editor in, answers about authors and undos out.

Each question about authors runs on a thread of the pool; nothing is asked that the editor did not
ask for. Source: the Language Server Protocol 3.17.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from gitshadow import __version__
from gitshadow.errors import RefusedError, ShadowError
from gitshadow.lsp.authors import UNSAVED, AuthorRun, hover, run_at, title
from gitshadow.lsp.buffers import LineMap
from gitshadow.lsp.documents import (
    Authors,
    Documents,
    Opener,
    Place,
    compared,
    origin,
)
from gitshadow.lsp.undo import (
    UndoAction,
    UndoPlan,
    actions_at,
    applied,
    planned,
)
from gitshadow.messages.codec import encode, parse
from gitshadow.messages.lists import OPS, OpsRequest
from gitshadow.undo.merge import MergeEdit

NAME = "gitshadow"
COMMAND = "gitshadow.undo"
_KIND = types.CodeActionKind.RefactorRewrite
_SHOWN = ("off", "agents", "all")
_DO, _CANCEL = "Do it", "Cancel"


@dataclass(slots=True)
class LspSettings:
    """What an editor sets in `initializationOptions`, or later below `gitshadow`.

    `lens` and `hints` say whose lines are marked: `off`, `agents` or `all`. Without `trusted`
    nothing is offered that writes.
    """

    lens: str = "agents"
    hints: str = "off"
    trusted: bool = True

    def take(self, given: object) -> None:
        """Take over settings that have a value of their kind; others are left."""
        if not isinstance(given, Mapping):
            return
        inner = given.get(NAME)
        found = inner if isinstance(inner, Mapping) else given
        self.lens = found["lens"] if found.get("lens") in _SHOWN else self.lens
        self.hints = found["hints"] if found.get("hints") in _SHOWN else self.hints
        if isinstance(found.get("trusted"), bool):
            self.trusted = bool(found["trusted"])


def make(opened: Opener) -> LanguageServer:
    """Return a server that is not started yet.

    Args:
        opened: Finds the worktree of a directory, and who answers about it.
    """
    server = LanguageServer(NAME, __version__)
    session = _Session(server, opened)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.settings.take(params.initialization_options)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        session.settings.take(params.settings)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        session.typed.add(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        session.typed.discard(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        session.typed.discard(params.text_document.uri)
        session.documents.forget(uris.to_fs_path(params.text_document.uri) or "")

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    @server.thread()
    def hovered(params: types.HoverParams) -> types.Hover | None:
        return session.hover(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    @server.thread()
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        return session.lenses(params)

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    @server.thread()
    def hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        return session.hints(params)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([_KIND]))
    @server.thread()
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return session.actions(params)

    @server.command(COMMAND)
    async def undo(file: str, asked: str) -> None:
        await session.undo(file, parse(UndoAction, json.loads(asked)))

    return server


class _Unsaved(NamedTuple):
    """A document that differs from its file, and its text when both were compared."""

    document: TextDocument
    version: int | None
    source: str
    lines: LineMap

    def is_old(self) -> bool:
        """Return whether somebody has typed since."""
        return self.document.version != self.version

    def edit(self, edits: Sequence[MergeEdit]) -> types.TextDocumentEdit:
        """Return edits of its lines as the protocol has them."""
        named = types.OptionalVersionedTextDocumentIdentifier(
            self.document.uri, self.version
        )
        lines = self.source.split("\n")
        ends = self.document.position_codec.client_num_units(lines[-1])

        def at(line: int) -> types.Position:
            # The end of a text without a line break at its end is no beginning of a line.
            known = line < len(lines)
            return (
                types.Position(line, 0)
                if known
                else types.Position(len(lines) - 1, ends)
            )

        changes = [
            types.TextEdit(
                types.Range(at(one.start), at(one.end)),
                b"".join(one.lines).decode("utf-8", "replace"),
            )
            for one in edits
        ]
        return types.TextDocumentEdit(named, changes)


class _Session:
    """What one editor has open, and what it is answered.

    `typed` are the documents that changed since they were opened or saved. Another one that is not
    like its file is out of date: the file was written, and the editor has not read it again.
    """

    def __init__(self, server: LanguageServer, opened: Opener) -> None:
        self._server = server
        self.settings = LspSettings()
        self.typed: set[str] = set()
        self.documents = Documents(opened, self._log)

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Return who wrote the line under the cursor."""
        seen = self._authors(params.text_document.uri)
        if seen is None:
            return None
        place, authors = seen
        line = params.position.line
        if line < len(authors.lines.in_file) and authors.lines.in_file[line] is None:
            is_typed = params.text_document.uri in self.typed
            return _markdown(f"**{UNSAVED}**") if is_typed else None
        run = run_at(authors.runs, line)
        if run is None:
            return None
        one = run.lines[line - run.first]
        owner = authors.owners[one.owner]
        found = origin(place, owner, one.origin)
        return _markdown(hover(owner, found.turn, found.before))

    def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """Return a line above each run, as the settings say."""
        return [
            types.CodeLens(_line(run.first), types.Command(title(run.owner), ""))
            for run in self._runs(params.text_document.uri, self.settings.lens)
        ]

    def hints(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        """Return a word behind the first line of each run, as the settings say."""
        document = self._server.workspace.get_text_document(params.text_document.uri)
        lines = document.source.split("\n")
        wanted = range(params.range.start.line, params.range.end.line + 1)
        found: list[types.InlayHint] = []
        for run in self._runs(params.text_document.uri, self.settings.hints):
            if run.first in wanted:
                text = lines[run.first].removesuffix("\r")
                end = document.position_codec.client_num_units(text)
                place = types.Position(run.first, end)
                found.append(
                    types.InlayHint(place, title(run.owner), padding_left=True)
                )
        return found

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return what can be undone at the selection."""
        seen = (
            self._authors(params.text_document.uri) if self.settings.trusted else None
        )
        if seen is None:
            return []
        place, authors = seen
        first, end = params.range.start.line, params.range.end
        # A selection of whole lines ends before the first character of the next one.
        last = end.line - (end.character == 0 and end.line > first)
        runs = [_limited(run, first, last) for run in authors.runs]
        touched = [run for run in runs if run.lines]
        return [
            types.CodeAction(
                one.title,
                kind=_KIND,
                command=types.Command(
                    one.title, COMMAND, arguments=[place.file, json.dumps(encode(one))]
                ),
            )
            for one in actions_at(place.path, touched, redo=self._redo(place))
        ]

    async def undo(self, file: str, action: UndoAction) -> None:
        """Plan an action, show the plan, and carry it out if the person says so."""
        place = self.documents.place(file) if self.settings.trusted else None
        if place is None:
            return
        try:
            unsaved = await asyncio.to_thread(self._unsaved, place)
            plan = await asyncio.to_thread(
                planned,
                place.backend,
                action,
                {path: one.lines for path, one in unsaved.items()},
            )
            if not await self._agreed(plan):
                return
            if any(one.is_old() for one in map(unsaved.__getitem__, plan.edits)):
                raise RefusedError(
                    "cannot undo: you have typed since", hint="try again"
                )
            # An edit of a buffer can be undone there, and a refusal leaves nothing half done.
            said = await asyncio.to_thread(applied, place.backend, plan)
            if plan.edits:
                edits = plan.edits.items()
                await self._edit([unsaved[path].edit(found) for path, found in edits])
        except ShadowError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._say(types.MessageType.Error, f"{error}{hint}")
            return
        self._say(types.MessageType.Info, said)

    async def _agreed(self, plan: UndoPlan) -> bool:
        if plan.is_empty:
            self._say(types.MessageType.Info, plan.words)
            return False
        choices = [types.MessageActionItem(one) for one in (_DO, _CANCEL)]
        answer = await self._server.window_show_message_request_async(
            types.ShowMessageRequestParams(types.MessageType.Info, plan.words, choices)
        )
        return answer is not None and answer.title == _DO

    def _unsaved(self, place: Place) -> dict[str, _Unsaved]:
        """Return the documents of a worktree with changes that are not in their files."""
        found: dict[str, _Unsaved] = {}
        for uri in list(self.typed):
            document = self._server.workspace.get_text_document(uri)
            file = uris.to_fs_path(document.uri)
            other = self.documents.place(file) if file else None
            if other is None or other.backend is not place.backend:
                continue
            version, source = document.version, document.source
            lines = compared(other.file, source)
            if lines.is_changed:
                found[other.path] = _Unsaved(document, version, source, lines)
        return found

    async def _edit(self, changes: Sequence[types.TextDocumentEdit]) -> None:
        """Have the editor change buffers, if they are still the versions that were compared.

        Raises:
            RefusedError: it did not do it.
        """
        edit = types.WorkspaceEdit(document_changes=changes)
        done = await self._server.workspace_apply_edit_async(
            types.ApplyWorkspaceEditParams(edit, "undo")
        )
        if not done.applied:
            reason = done.failure_reason or "no reason"
            raise RefusedError(
                f"the editor did not change its buffers: {reason}",
                hint="files that are not open there were written; try again",
            )

    def _runs(self, uri: str, shown: str) -> list[AuthorRun]:
        seen = None if shown == "off" else self._authors(uri)
        if seen is None:
            return []
        return [run for run in seen[1].runs if shown == "all" or run.is_agents]

    def _authors(self, uri: str) -> tuple[Place, Authors] | None:
        file = uris.to_fs_path(uri)
        place = self.documents.place(file) if file else None
        if place is None:
            return None
        document = self._server.workspace.get_text_document(uri)
        authors = self.documents.authors(place, document.source)
        return None if authors is None else (place, authors)

    def _redo(self, place: Place) -> str:
        """Return the short id of the newest undo that a redo would take back, empty for none."""
        rows = place.backend.send(OPS, OpsRequest(limit=1)).rows
        newest = rows[0] if rows else None
        if newest is None or newest.kind == "redo" or newest.undone_by:
            return ""
        return newest.short or newest.id

    def _log(self, said: str) -> None:
        self._server.window_log_message(
            types.LogMessageParams(types.MessageType.Info, f"{NAME}: {said}")
        )

    def _say(self, kind: types.MessageType, said: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(kind, said))


def _limited(run: AuthorRun, first: int, last: int) -> AuthorRun:
    """Return a run with only its lines between two of the buffer."""
    begin, end = max(first, run.first), min(last, run.last)
    lines = run.lines[begin - run.first : end - run.first + 1] if begin <= end else ()
    return run._replace(first=begin, last=end, lines=lines)


def _line(number: int) -> types.Range:
    return types.Range(types.Position(number, 0), types.Position(number, 0))


def _markdown(text: str) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))
