"""Sending: which sessions, what in them looks secret, and what a remote said.

Invariant: sessions of other machines are never sent on; what looks secret is named by kind and
path, never shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gitshadow.errors import RefusedError, StoreError
from gitshadow.model import GITLINK_MODE, Chain, Oid, RepoPath
from gitshadow.query.routing import session_anywhere
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing.secrets import Token, looks_secret, token_in
from gitshadow.store import machine, marks, refs, remotes
from gitshadow.store.commits import CommitInfo
from gitshadow.store.journal import sessions
from gitshadow.store.marks import ReviewMark
from gitshadow.store.purged import is_purged
from gitshadow.store.refs import display_path
from gitshadow.store.remotes import RefResult
from gitshadow.store.repo import Repo

BRANCHES = "refs/heads/agent-undo/"
"""Where sessions lie on a server that takes nothing but branches."""
_SHOWN = 5
_MOST_BYTES = 1 << 20
"""So much of each content is looked through."""


class SecretFinding(NamedTuple):
    """Hold what looks secret, whose session has it, and what is in it where it is known.

    `path` is that of a file, None where a commit says it: in a prompt, as a rule.
    """

    path: RepoPath | None
    session: str
    token: Token | None = None

    def describe(self) -> str:
        """Return it in a few words."""
        name = "a prompt" if self.path is None else display_path(self.path)
        if self.token is None:
            return f"{name} in {self.session}"
        line = "" if self.path is None else f":{self.token.line}"
        return f"{name}{line}: {self.token.kind} in {self.session}"


class Parcel(NamedTuple):
    """Hold what is to be sent: chains of ours, and review marks."""

    chains: tuple[Chain, ...]
    marks: tuple[ReviewMark, ...]

    @property
    def sessions(self) -> list[str]:
        """Return the sessions in it, sorted."""
        return sorted({chain.session for chain in self.chains})

    @property
    def refs(self) -> list[str]:
        """Return the refs, as they are here."""
        return [*(one.ref for one in self.chains), *(one.ref for one in self.marks)]


class Sending:
    """Send sessions of this machine, and the review marks that were set on it."""

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._ws = context.workspace

    def chosen(self, typed: Sequence[str]) -> Parcel:
        """Return some sessions with the marks that name them; all, and our marks, where none is.

        Of a session that was fetched the marks alone are ours to send.

        Raises:
            UsageError: an id names no session, or several.
        """
        db, own = self._ws.db, machine.ours(self._ws.layout)
        found = [session_anywhere(self._context, name) for name in typed]
        named = [session.id for context, session in found if context is self._context]
        theirs = {
            session.id for context, session in found if context is not self._context
        }
        chains = [row for one in named for row in sessions.chains_of(db, one)]
        if not typed:
            chains = sessions.chains(db)
        sent = {chain.session for chain in chains}
        chosen = [
            mark
            for mark in marks.list_marks(self._ws.repo)
            if sent & mark.sessions
            or (mark.machine in own and (not typed or theirs & mark.sessions))
        ]
        return Parcel(tuple(chains), tuple(chosen))

    def check_secrets(self, chains: Sequence[Chain]) -> None:
        """Refuse to send what looks secret.

        Raises:
            RefusedError: something does.
        """
        found = list(_secrets(self._ws.repo, chains))
        if found:
            shown = "; ".join(one.describe() for one in found[:_SHOWN])
            more = f"; {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            looks = "a file that looks" if len(found) == 1 else "files that look"
            if any(one.path is None for one in found):
                looks = "what looks"
            raise RefusedError(
                f"cannot push: the history contains {looks} secret: {shown}{more}",
                hint="to see who wrote one: git agent-undo log -- PATH; to erase it:"
                " git agent-undo purge PATH, or --text; to send them anyway:"
                " --force-secrets",
            )

    def send(
        self, remote: str, parcel: Parcel, *, as_branches: bool, force: bool
    ) -> dict[str, RefResult]:
        """Send it; return what became of each ref, by its name over there."""
        there = BRANCHES if as_branches else refs.REF_PREFIX
        specs = [
            f"{'+' * force}{ref}:{there}{ref.removeprefix(refs.REF_PREFIX)}"
            for ref in parcel.refs
        ]
        return remotes.push(self._ws.git, remote, specs)


def refused(remote: str, sent: Mapping[str, RefResult]) -> StoreError:
    """Return the error that says what a remote did not take, and what helps."""
    refusals = {ref: one.refused for ref, one in sent.items() if one.refused}
    ref, why = next(iter(refusals.items()))
    of = f" of {len(sent)}" if len(sent) > 1 else ""
    refs_ = "ref" if len(sent) == 1 else "refs"
    message = f"cannot push {len(refusals)}{of} {refs_} to {remote}: {ref}: {why}"
    if "non-fast-forward" in why or "fetch first" in why or "already exists" in why:
        hint = "it has a different history of that session; to replace it: --force"
    elif ref.startswith(BRANCHES):
        hint = "the server rejects such branches: ask its administrator"
    else:
        hint = "for a server that accepts only branches: push --as-branches"
    return StoreError(message, hint=hint)


def _secrets(repo: Repo, chains: Sequence[Chain]) -> Iterator[SecretFinding]:
    """Yield what looks secret in the commits of some chains: their words, names, contents."""
    named: dict[RepoPath, str] = {}
    blobs: dict[Oid, tuple[RepoPath, str]] = {}
    for chain in chains:
        commits = repo.chain(chain.tip)
        if not commits:
            continue
        whose = chain.session
        told = (token_in(commit.message) for commit in commits)
        spoken = next((token for token in told if token is not None), None)
        if spoken is not None:
            yield SecretFinding(None, whose, spoken)
        held = [(path, oid) for path, (_, oid) in repo.flat(commits[0].tree).items()]
        for before, after in _steps(repo, commits):
            for change in repo.diff(before, after):
                if change.new is not None and change.new[0] != GITLINK_MODE:
                    held.append((change.path, change.new[1]))
                    blobs.setdefault(change.new[1], (change.path, whose))
        for path, oid in held:
            if path not in named and looks_secret(path) and not _is_gone(repo, oid):
                named[path] = whose
    yield from (SecretFinding(path, named[path]) for path in sorted(named))
    for oid, (path, whose) in sorted(blobs.items(), key=lambda item: item[1]):
        if path in named:
            continue
        token = token_in(repo.read_blob(oid)[:_MOST_BYTES])
        if token is not None:
            named[path] = whose
            yield SecretFinding(path, whose, token)


def _is_gone(repo: Repo, oid: Oid) -> bool:
    """Tell whether a content was purged: its name alone tells nothing any more."""
    try:
        return is_purged(repo.read_blob(oid))
    except StoreError:  # a submodule's commit, or what a partial clone lacks
        return False


def _steps(
    repo: Repo, commits: Sequence[CommitInfo]
) -> Iterator[tuple[Oid | None, Oid]]:
    """Yield the trees before and after each commit of a chain, its baseline among them."""
    parents = commits[0].parents
    yield repo.commit(parents[0]).tree if parents else None, commits[0].tree
    for before, after in pairwise(commits):
        yield before.tree, after.tree
