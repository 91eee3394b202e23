"""What the tests of check and review say: `stage(studio)`, `said(check(studio))`."""

import os
from dataclasses import replace

from gitshadow.api import run
from gitshadow.attribution.process import process_start
from gitshadow.messages.codec import JsonObject as Document
from gitshadow.store.journal import sessions
from tests.support.studio import Studio

LINES = "a line that an agent wrote\nand another one of its lines\n"


def check(studio: Studio, **params: object) -> Document:
    """Run check on what is staged, or on what is named."""
    return studio.run("check", **params)


def findings(document: Document) -> list[dict[str, object]]:
    """Return the findings of a document."""
    found = document["findings"]
    assert isinstance(found, list)
    return found


def said(document: Document) -> list[tuple[object, object, object, object]]:
    """Return rule, level, path and lines of each finding."""
    rows = findings(document)
    return [(row["rule"], row["level"], row["path"], row["lines"]) for row in rows]


def demand(studio: Studio, **settings: str) -> None:
    """Set what the user demands."""
    for name, value in settings.items():
        studio.repo.git("config", "--add", f"agent-undo.check.{name}", value)


def undo(studio: Studio, verb: str, *targets: str) -> Document:
    """Run an undo verb and return its report."""
    named = [{"text": one} for one in targets]
    params = {"cwd": str(studio.repo.root), "verb": verb, "targets": named, "yes": True}
    return run(studio.context, "undo", params)


def stage(studio: Studio, *paths: str) -> None:
    """Stage paths, or everything."""
    studio.repo.git("add", "--", *(paths or (".",)))


def runs_in_this_process(studio: Studio, who: str) -> None:
    """Make a session of an agent belong to this process."""
    runs_in(studio, who, os.getpid())


def runs_in(studio: Studio, who: str, pid: int) -> None:
    """Make a session of an agent belong to a process."""
    db = studio.context.workspace.db
    session = sessions.get(db, studio.session(who))
    assert session is not None
    with db.write():
        sessions.put(db, replace(session, pid=pid, pid_started=process_start(pid)))
