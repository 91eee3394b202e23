"""The language server: requests of an editor in, answers about authors and undos out.

Each question about authors runs on a thread of the pool; nothing is asked that the editor did not
ask for. Source: the Language Server Protocol 3.17.
"""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from tempfile import mkstemp
from typing import NamedTuple, TypeVar, TypeVarTuple
from uuid import uuid4

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

from gitshadow import __version__
from gitshadow.errors import RefusedError, ShadowError
from gitshadow.ipc import own_process
from gitshadow.lsp.documents import (
    AuthorRun,
    Authors,
    Documents,
    LineMap,
    Opener,
    Place,
    compared,
    content_of,
    origin,
    unreviewed,
)
from gitshadow.lsp.undo import UndoAction, UndoPlan, actions_at, applied, planned
from gitshadow.messages.check import REVIEW, ReviewRequest
from gitshadow.messages.codec import encode, parse
from gitshadow.messages.lists import OPS, OpsRequest
from gitshadow.render.check import review_lines
from gitshadow.render.owner import described, title
from gitshadow.render.style import View
from gitshadow.undo.merge import MergeEdit

NAME = "gitshadow"
COMMAND = "gitshadow.undo"
_KIND = types.CodeActionKind.RefactorRewrite
_SHOWN = ("off", "agents", "all")
_DO, _CANCEL = "Do it", "Cancel"
_UNSAVED = "yours, not saved yet"
_LONG_S = 0.5
Given = TypeVarTuple("Given")
R = TypeVar("R")


@dataclass(slots=True)
class LspSettings:
    """What an editor sets in `initializationOptions`, or later below `gitshadow`.

    `lens` and `hints` say whose lines are marked: `off`, `agents` or `all`. With `unreviewed` the
    lines of agents without a review are diagnostics. Without `trusted` nothing is offered that
    writes.
    """

    lens: str = "agents"
    hints: str = "off"
    unreviewed: bool = False
    trusted: bool = True

    def take(self, given: object) -> None:
        """Take over settings that have a value of their kind; others are left."""
        if not isinstance(given, Mapping):
            return
        inner = given.get(NAME)
        found = inner if isinstance(inner, Mapping) else given
        self.lens = found["lens"] if found.get("lens") in _SHOWN else self.lens
        self.hints = found["hints"] if found.get("hints") in _SHOWN else self.hints
        for name in ("unreviewed", "trusted"):
            if isinstance(found.get(name), bool):
                setattr(self, name, found[name])


def make(opened: Opener, agent: str | None, diffs: str) -> LanguageServer:
    """Return a server that is not started yet.

    Args:
        opened: Finds the worktree of a directory, and who answers about it.
        agent: The agent that started the editor, which may not review.
        diffs: An empty directory, for plans that the editor shows.
    """
    # Not by ranges: pygls counts a form feed and other controls as ends of lines
    # (`TextDocument.lines`, 2.1), and editors do not.
    full = types.TextDocumentSyncKind.Full
    server = LanguageServer(NAME, __version__, text_document_sync_kind=full)
    session = _Session(server, opened, agent, diffs)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.settings.take(params.initialization_options)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        session.settings.take(params.settings)
        session.diagnose()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        session.diagnose(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        session.typed.add(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        session.typed.discard(params.text_document.uri)
        session.diagnose(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        session.typed.discard(params.text_document.uri)
        session.documents.forget(uris.to_fs_path(params.text_document.uri) or "")

    options = types.CodeActionOptions([_KIND])
    for feature, answer, more in (
        (types.TEXT_DOCUMENT_HOVER, session.hover, None),
        (types.TEXT_DOCUMENT_CODE_LENS, session.lenses, None),
        (types.TEXT_DOCUMENT_INLAY_HINT, session.hints, None),
        (types.TEXT_DOCUMENT_CODE_ACTION, session.actions, options),
    ):
        # pygls marks the function, and a bound method takes no attributes.
        server.feature(feature, more)(server.thread()(partial(answer)))

    @server.command(COMMAND)
    async def act(file: str, asked: str) -> None:
        await session.act(file, parse(UndoAction, json.loads(asked)))

    return server


class _Unsaved(NamedTuple):
    """A document that differs from its file, and its text when both were compared."""

    document: TextDocument
    version: int | None
    source: str
    lines: LineMap

    def edit(self, edits: Sequence[MergeEdit]) -> types.TextDocumentEdit:
        """Return edits of its lines as the protocol has them."""
        named = types.OptionalVersionedTextDocumentIdentifier(
            self.document.uri, self.version
        )
        lines = self.source.split("\n")
        ends = self.document.position_codec.client_num_units(lines[-1])

        def at(line: int) -> types.Position:
            # The end of a text without a line break at its end is no beginning of a line.
            last = len(lines) - 1
            return types.Position(min(line, last), ends if line > last else 0)

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

    def __init__(
        self, server: LanguageServer, opened: Opener, agent: str | None, diffs: str
    ) -> None:
        self._server, self._agent = server, agent
        self._diffs, self._is_marked = diffs, False
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
            return _markdown(f"**{_UNSAVED}**") if is_typed else None
        run = next((run for run in authors.runs if run.first <= line <= run.last), None)
        if run is None:
            return None
        one = run.lines[line - run.first]
        owner = authors.owners[one.owner]
        return _markdown(described(owner, *origin(place, owner, one.origin)))

    def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """Return a line above each run, as the settings say."""
        found: list[types.CodeLens] = []
        for run in self._runs(params.text_document.uri, self.settings.lens):
            place = types.Range(_begin(run.first), _begin(run.first))
            found.append(types.CodeLens(place, types.Command(title(run.owner), "")))
        return found

    def hints(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        """Return a word behind the first line of each run, as the settings say."""
        wanted = range(params.range.start.line, params.range.end.line + 1)
        runs = self._runs(params.text_document.uri, self.settings.hints)
        if not runs:
            return []
        document = self._server.workspace.get_text_document(params.text_document.uri)
        lines = document.source.split("\n")
        found: list[types.InlayHint] = []
        for run in runs:
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
        is_trusted, uri = self.settings.trusted, params.text_document.uri
        seen = self._authors(uri) if is_trusted else None
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
            for one in actions_at(
                place.path,
                touched,
                redo=self._redo(place),
                is_saved=not authors.lines.changes,
            )
        ]

    async def act(self, file: str, action: UndoAction) -> None:
        """Carry out what was chosen; of an undo show the plan, and ask first."""
        place = self.documents.place(file) if self.settings.trusted else None
        if place is None:
            return
        try:
            act = self._review if action.verb == REVIEW.name else self._undo
            said = await act(place, action)
        except ShadowError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._say(types.MessageType.Error, f"{error}{hint}")
            return
        if said:
            self._say(types.MessageType.Info, said)
            self.diagnose()

    async def _review(self, place: Place, action: UndoAction) -> str:
        """Mark the lines of a file as reviewed; return what was done."""
        request = ReviewRequest((place.path,), pid=own_process.pid(), agent=self._agent)
        answer = await self._worked(action, place.backend.send, REVIEW, request)
        return next(review_lines(answer, View()))

    async def _undo(self, place: Place, action: UndoAction) -> str:
        """Plan an undo, show the plan and carry it out; return what was done, empty for nothing.

        Raises:
            ShadowError: it cannot be done.
        """
        unsaved = await self._worked(action, self._unsaved, place)
        buffers = {path: one.lines for path, one in unsaved.items()}
        plan = await self._worked(action, planned, place.backend, action, buffers)
        if plan.request is None and not plan.edits:
            return plan.words
        if not await self._agreed(plan):
            return ""
        held = [(unsaved[path], edits) for path, edits in plan.edits.items()]
        if any(one.document.version != one.version for one, _ in held):
            raise RefusedError("cannot undo: you have typed since", hint="try again")
        # An edit of a buffer can be undone there, and a refusal leaves nothing half done.
        said = await self._worked(action, applied, place.backend, plan)
        if held:
            changes = [one.edit(edits) for one, edits in held]
            edit = types.WorkspaceEdit(document_changes=changes)
            # The editor changes buffers only if they are still the versions that were compared.
            done = await self._server.workspace_apply_edit_async(
                types.ApplyWorkspaceEditParams(edit, "undo")
            )
            if not done.applied:
                reason = done.failure_reason or "no reason"
                raise RefusedError(
                    f"the editor did not change its buffers: {reason}",
                    hint="files that are not open there were written; try again",
                )
        return said

    async def _agreed(self, plan: UndoPlan) -> bool:
        """Show a plan, as a diff where the editor can, and ask."""
        window = self._server.client_capabilities.window
        shows = window and window.show_document and window.show_document.support
        if shows and plan.diff:
            descriptor, file = mkstemp(".diff", "undo-", self._diffs)
            with open(descriptor, "wb") as stream:
                stream.write(plan.diff.encode("utf-8", "surrogateescape"))
            os.chmod(file, 0o400)
            uri = uris.from_fs_path(file) or ""
            shown = types.ShowDocumentParams(uri, take_focus=False)
            await self._server.window_show_document_async(shown)
        choices = [types.MessageActionItem(one) for one in (_DO, _CANCEL)]
        answer = await self._server.window_show_message_request_async(
            types.ShowMessageRequestParams(types.MessageType.Info, plan.words, choices)
        )
        return answer is not None and answer.title == _DO

    def diagnose(self, *only: str) -> None:
        """Have the lines without a review shown, in some documents or in all that are open."""
        if self.settings.unreviewed or self._is_marked:
            # Marks that were made stay until others are, also if nobody wants them any more.
            self._is_marked = self.settings.unreviewed
            for uri in only or tuple(self._server.workspace.text_documents):
                self._server.thread_pool.submit(self._diagnose, uri)

    def _diagnose(self, uri: str) -> None:
        seen = self._authors(uri)
        is_asked = self.settings.unreviewed
        numbers = unreviewed(seen[0]) if seen is not None and is_asked else ()
        found: list[types.Diagnostic] = []
        for run in seen[1].runs if seen is not None else ():
            lines = enumerate(run.lines, run.first)
            at = [number for number, one in lines if one.number in numbers]
            if at:
                place = types.Range(_begin(at[0]), _begin(at[-1] + 1))
                said = f"not reviewed: {title(run.owner)}"
                hint = types.DiagnosticSeverity.Hint
                found.append(types.Diagnostic(place, said, severity=hint, source=NAME))
        self._server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, found)
        )

    async def _worked(
        self, action: UndoAction, do: Callable[[*Given], R], *args: *Given
    ) -> R:
        with self._progress(action.title):
            return await asyncio.to_thread(do, *args)

    @contextmanager
    def _progress(self, said: str) -> Iterator[None]:
        """Have the editor show what takes long, where it can."""
        window = self._server.client_capabilities.window
        if not (window and window.work_done_progress):
            yield
            return
        token, progress = str(uuid4()), self._server.work_done_progress
        value, created = types.WorkDoneProgressBegin(said), list[Future[None]]()

        def begin() -> None:
            made = progress.create(token, lambda _: progress.begin(token, value))
            created.append(made)

        timer = threading.Timer(_LONG_S, begin)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            end = types.WorkDoneProgressEnd()
            for one in created:
                one.add_done_callback(lambda _: progress.end(token, end))

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
            # A file that is gone has no lines.
            lines = compared(source, content_of(other.file) or b"")
            if lines.changes:
                found[other.path] = _Unsaved(document, version, source, lines)
        return found

    def _runs(self, uri: str, shown: str) -> list[AuthorRun]:
        seen = None if shown == "off" else self._authors(uri)
        if seen is None:
            return []
        return [
            run for run in seen[1].runs if shown == "all" or run.owner.actor == "agent"
        ]

    def _authors(self, uri: str) -> tuple[Place, Authors] | None:
        file = uris.to_fs_path(uri)
        place = self.documents.place(file) if file else None
        if place is None:
            return None
        document = self._server.workspace.get_text_document(uri)
        try:
            source = document.source
        except (OSError, ValueError):
            # It is not open, and its file cannot be read, or not as UTF-8.
            return None
        with self._progress(f"reading who wrote {place.path}"):
            authors = self.documents.authors(place, source)
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


def _begin(line: int) -> types.Position:
    return types.Position(line, 0)


def _markdown(text: str) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))
