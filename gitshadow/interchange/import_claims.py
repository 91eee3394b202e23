"""Importing what others claim of commits: git-ai's notes, Entire's trailers, Agent Trace records.

Claims stand beside our events, never among them; a claim names no line of which we have evidence.
Invariant: what is malformed is named and left out; what is claimed of commits that are not here is
left out too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gitshadow.errors import StoreError
from gitshadow.interchange import agent_trace, authorship, commit_trailers
from gitshadow.interchange.claims import ExternalClaim, Reader, Span
from gitshadow.model import GITLINK_MODE, TREE_MODE, Actor, Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.store.journal import blame

NOTES = "refs/notes/ai"
_MOST_SKIPPED = 200


@dataclass(slots=True)
class Believed:
    """Count what was taken in, and say what was left out."""

    claims: int = 0
    lines: int = 0
    commits: set[Oid] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)

    def skip(self, notes: Iterable[str]) -> None:
        """Note what was left out; of very many the first ones."""
        room = _MOST_SKIPPED - len(self.skipped)
        self.skipped += list(notes)[: max(0, room)]


class Believer:
    """Take in the claims of others for one repository; use it inside `db.write()`."""

    def __init__(self, workspace: Workspace) -> None:
        self._ws = workspace
        self.done = Believed()

    def notes(self) -> Believed:
        """Take git-ai's notes."""
        tip = self._ws.repo.ref(NOTES)
        if tip is None:
            return self.done
        flat = self._ws.repo.flat(self._ws.repo.commit(tip).tree)
        for path, (mode, blob) in flat.items():
            name = path.replace(b"/", b"").decode("ascii", "replace")
            if mode in (TREE_MODE, GITLINK_MODE):
                continue
            reader = Reader(f"note of {name[:40]}")
            if not reader.is_commit(name):
                self.done.skip([f"{NOTES}: a name is not a commit"])
                continue
            self._take_note(Oid(name), blob, reader)
        return self.done

    def _take_note(self, commit: Oid, blob: Oid, reader: Reader) -> None:
        try:
            data = self._ws.repo.read_blob(blob)
        except StoreError as error:
            reader.skip(error.message)
            data = b""
        if data:
            found = list(authorship.read_note(commit, data, reader))
            self._store(authorship.SOURCE, {commit: found}, reader)
        self.done.skip(reader.skipped)

    def checkpoints(self, tip: Oid) -> Believed:
        """Take the trailers with which commits up to one name Entire's checkpoints."""
        pattern = f"^{commit_trailers.CHECKPOINT}:"
        for commit in self._ws.git.commits_saying(tip, pattern):
            message = self._ws.repo.commit(commit).message
            found = [
                ExternalClaim(
                    "entire",
                    commit,
                    blame.WHOLE_COMMIT,
                    Span(number, number),
                    Actor.AGENT,
                    session=name,
                )
                for number, name in enumerate(commit_trailers.checkpoints(message))
            ]
            if found:
                self._store("entire", {commit: found}, Reader(commit))
        return self.done

    def traces(self, texts: Iterable[str], name: str) -> Believed:
        """Take Agent Trace records, one in each text."""
        by_commit: dict[Oid, list[ExternalClaim]] = {}
        for number, text in enumerate(texts, 1):
            reader = Reader(f"{name}, line {number}")
            for claim in agent_trace.read_record(text, reader):
                by_commit.setdefault(claim.commit, []).append(claim)
            self.done.skip(reader.skipped)
        self._store("agent-trace", by_commit, Reader(name))
        return self.done

    def _store(
        self, source: str, by_commit: Mapping[Oid, list[ExternalClaim]], reader: Reader
    ) -> None:
        for commit, found in by_commit.items():
            if not self._ws.repo.has(commit):
                self.done.skip([f"{reader.what}: commit {commit[:10]} is not here"])
                continue
            rows = [_row(claim) for claim in found]
            self.done.claims += blame.replace_claims(self._ws.db, source, commit, rows)
            self.done.commits.add(commit)
            self.done.lines += sum(
                row.last - row.first + 1
                for row in rows
                if row.path != blame.WHOLE_COMMIT
            )


def _row(claim: ExternalClaim) -> blame.ClaimRow:
    return blame.ClaimRow(
        claim.source,
        claim.commit,
        claim.path,
        claim.span.first,
        claim.span.last,
        claim.actor,
        claim.agent,
        claim.model,
        claim.session,
    )
