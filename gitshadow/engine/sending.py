"""Sending: which sessions, what in them looks secret, and what a remote said.

Invariant: sessions of other machines are never sent on; what looks secret is named by kind and
path, never shown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gitshadow.engine.desk import Desk
from gitshadow.engine.resolve import session_of
from gitshadow.engine.secrets import secret_names, token_in
from gitshadow.errors import RefusedError, StoreError
from gitshadow.model import GITLINK_MODE, Chain, Oid, RepoPath
from gitshadow.store import marks, refs, remotes
from gitshadow.store.commits import CommitInfo
from gitshadow.store.journal import sessions
from gitshadow.store.refs import display_path
from gitshadow.store.repo import Repo

BRANCHES = "refs/heads/agent-undo/"
"""Where sessions lie on a server that takes nothing but branches."""
_SHOWN = 5
_MOST_BYTES = 1 << 20
"""So much of each content is looked through."""


class Secret(NamedTuple):
    """Hold a path that looks secret, and what is in it where that is known."""

    path: RepoPath
    kind: str | None

    def describe(self) -> str:
        """Return it in a few words."""
        name = display_path(self.path)
        return name if self.kind is None else f"{name}: {self.kind}"


class Sending:
    """Send sessions of this machine."""

    def __init__(self, desk: Desk) -> None:
        self._ws = desk.workspace

    def chosen(self, typed: Sequence[str]) -> list[Chain]:
        """Return the chains of some sessions; of all where none is named.

        Raises:
            UsageError: an id names no session of ours, or several.
        """
        db = self._ws.db
        if not typed:
            return sessions.chains(db)
        found = [session_of(db, name).id for name in typed]
        return [chain for one in found for chain in sessions.chains_of(db, one)]

    def check_secrets(self, chains: Sequence[Chain]) -> None:
        """Refuse to send what looks secret.

        Raises:
            RefusedError: something does.
        """
        found = list(_secrets(self._ws.repo, chains))
        if found:
            shown = "; ".join(one.describe() for one in found[:_SHOWN])
            raise RefusedError(
                f"could not push: the history holds {len(found)} files that look secret"
                f" ({shown})",
                hint="look at them first; git agent-undo purge PATH takes one out,"
                " --force-secrets sends them all the same",
            )

    def send(
        self, remote: str, chains: Sequence[Chain], *, as_branches: bool, force: bool
    ) -> dict[str, str | None]:
        """Send chains and the review marks that name them; return what became of each ref."""
        sent = [chain.ref for chain in chains]
        sent += self._marks_of({chain.session for chain in chains})
        there = BRANCHES if as_branches else refs.REF_PREFIX
        specs = [
            f"{'+' * force}{ref}:{there}{ref.removeprefix(refs.REF_PREFIX)}"
            for ref in sent
        ]
        return remotes.push(self._ws.git, remote, specs)

    def _marks_of(self, named: Collection[str]) -> list[str]:
        """Return the refs of the review marks of some sessions."""
        found = marks.list_marks(self._ws.repo)
        return [one.ref for one in found if not set(named).isdisjoint(one.sessions)]


def refused(remote: str, sent: Mapping[str, str | None]) -> StoreError:
    """Return the error that says what a remote did not take, and what helps."""
    refusals = {ref: why for ref, why in sent.items() if why is not None}
    ref, why = next(iter(refusals.items()))
    message = (
        f"could not push {len(refusals)} of {len(sent)} refs to {remote}: {ref}: {why}"
    )
    if "non-fast-forward" in why or "fetch first" in why or "already exists" in why:
        hint = "it holds another history of that session: --force replaces it there"
    elif ref.startswith(BRANCHES):
        hint = "the server takes no such branch: ask who runs it"
    else:
        hint = "a server that takes nothing but branches: push --as-branches"
    return StoreError(message, hint=hint)


def _secrets(repo: Repo, chains: Sequence[Chain]) -> Iterator[Secret]:
    """Yield the secret-looking paths that any commit of some chains holds, names first."""
    paths: set[RepoPath] = set()
    blobs: dict[Oid, RepoPath] = {}
    for chain in chains:
        commits = repo.chain(chain.tip)
        if not commits:
            continue
        paths |= repo.flat(commits[0].tree).keys()
        for before, after in _steps(repo, commits):
            for change in repo.diff(before, after):
                paths.add(change.path)
                if change.new is not None and change.new[0] != GITLINK_MODE:
                    blobs.setdefault(change.new[1], change.path)
    named = secret_names(paths)
    yield from (Secret(path, None) for path in named)
    seen = set(named)
    for oid, path in sorted(blobs.items(), key=lambda item: item[1]):
        kind = None if path in seen else token_in(repo.read_blob(oid)[:_MOST_BYTES])
        if kind is not None:
            seen.add(path)
            yield Secret(path, kind)


def _steps(
    repo: Repo, commits: Sequence[CommitInfo]
) -> Iterator[tuple[Oid | None, Oid]]:
    """Yield the trees before and after each commit of a chain, its baseline among them."""
    parents = commits[0].parents
    yield repo.commit(parents[0]).tree if parents else None, commits[0].tree
    for before, after in pairwise(commits):
        yield before.tree, after.tree
