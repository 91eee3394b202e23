"""push: sending sessions away.

Invariant: nothing here runs by itself.
"""

from itertools import pairwise

from gitshadow.engine import params as read
from gitshadow.engine.desk import Desk
from gitshadow.engine.resolve import session_of
from gitshadow.engine.secrets import secret_names
from gitshadow.engine.verbs import Document, Params
from gitshadow.errors import RefusedError, UsageError
from gitshadow.model import Chain, RepoPath
from gitshadow.store import marks
from gitshadow.store.journal import sessions
from gitshadow.store.refs import display_path

_SHOWN = 5


def push(desk: Desk, params: Params) -> Document:
    """Send sessions to a remote, unless they hold files that look secret."""
    ws = desk.workspace
    desk.observer.settle()
    remote = read.needed(params, "remote")
    wanted = read.strings(params, "sessions")
    chains = [chain for name in wanted for chain in _chains(desk, name)]
    if not wanted:
        chains = sessions.chains(ws.db)
    if not chains:
        raise UsageError("could not push: there is no session to send")
    found = _secrets(desk, chains)
    if found and not read.flag(params, "force_secrets"):
        shown = ", ".join(display_path(path) for path in found[:_SHOWN])
        raise RefusedError(
            f"could not push: the history holds {len(found)} files that look secret"
            f" ({shown})",
            hint="look at them first; --force-secrets sends them all the same",
        )
    sent = [chain.ref for chain in chains]
    sent += _marks_of({chain.session for chain in chains}, desk)
    ws.git.push(remote, [f"{ref}:{ref}" for ref in sent])
    return {"remote": remote, "pushed": sent}


def _marks_of(named: set[str], desk: Desk) -> list[str]:
    """Return the refs of the review marks of some sessions."""
    found = marks.list_marks(desk.workspace.repo)
    return [one.ref for one in found if not named.isdisjoint(one.sessions)]


def _chains(desk: Desk, typed: str) -> list[Chain]:
    session = session_of(desk.workspace.db, typed)
    return sessions.chains_of(desk.workspace.db, session.id)


def _secrets(desk: Desk, chains: list[Chain]) -> list[RepoPath]:
    """Return the secret-looking paths that any commit of some chains holds."""
    repo = desk.workspace.repo
    paths: set[RepoPath] = set()
    for chain in chains:
        commits = repo.chain(chain.tip)
        if not commits:
            continue
        paths |= repo.flat(commits[0].tree).keys()
        for before, after in pairwise(commits):
            paths |= {change.path for change in repo.diff(before.tree, after.tree)}
    return secret_names(paths)
