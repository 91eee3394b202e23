"""export, import: attribution for and from other tools."""

from typing import NamedTuple

from gitshadow.messages.codec import JsonObject, Verb


class ExportEventsRequest(NamedTuple):
    """The sessions and commits to export (none: all), and the event to continue after."""

    words: tuple[str, ...] = ()
    after: int = 0


class ExportEventsAnswer(NamedTuple):
    """A page of lines for the file; `next` is the event to continue after, if more follow."""

    lines: tuple[JsonObject, ...]
    next: int | None


class ExportRequest(NamedTuple):
    """The sessions and commits to export; none: all."""

    words: tuple[str, ...] = ()
    dry_run: bool = False


class UnnamedFile(NamedTuple):
    """A file that a format cannot name."""

    path: str
    reason: str


class ExportTracesAnswer(NamedTuple):
    """Agent Trace records: of each commit, then of what is not committed."""

    records: tuple[JsonObject, ...]
    left_out: tuple[UnnamedFile, ...]


class CommitNote(NamedTuple):
    """The note of a commit."""

    commit: str
    text: str


class ExportNotesAnswer(NamedTuple):
    """git-ai's notes of commits; `written` is not set if they were only planned."""

    ref: str
    written: bool
    notes: tuple[CommitNote, ...]
    left_out: tuple[UnnamedFile, ...]


class ExportRemoveRequest(NamedTuple):
    """All notes that an export wrote."""

    dry_run: bool = False


class ExportRemoveAnswer(NamedTuple):
    """How many notes were removed, or would be."""

    ref: str
    removed: int
    dry_run: bool


class ImportFileRequest(NamedTuple):
    """The file to import."""

    file: str


class ImportClaimsRequest(NamedTuple):
    """The tool whose claims about commits of this repository are imported."""

    source: str


class ImportAnswer(NamedTuple):
    """What was imported: lines of events, or claims about lines of commits.

    `elsewhere` counts events whose commits no ref here reaches. The fields of the other kind
    are missing.
    """

    from_: str
    new: int | None = None
    known: int | None = None
    elsewhere: int | None = None
    claims: int | None = None
    commits: int | None = None
    lines: int | None = None
    skipped: tuple[str, ...] | None = None


EXPORT_EVENTS = Verb("export_events", ExportEventsRequest, ExportEventsAnswer)
EXPORT_TRACES = Verb("export_traces", ExportRequest, ExportTracesAnswer)
EXPORT_NOTES = Verb("export_notes", ExportRequest, ExportNotesAnswer)
EXPORT_REMOVE = Verb("export_remove", ExportRemoveRequest, ExportRemoveAnswer)
IMPORT_FILE = Verb("import_file", ImportFileRequest, ImportAnswer)
IMPORT_CLAIMS = Verb("import_claims", ImportClaimsRequest, ImportAnswer)
