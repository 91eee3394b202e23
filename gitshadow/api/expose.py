"""expose, unexpose: sessions as remote branches, which every GUI lists and no plain push sends.

Invariant: nothing here runs by itself; what expose writes, unexpose takes back exactly, and a ref
that somebody else made there is never touched.
"""

from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.sharing import (
    ExposeAnswer,
    ExposeRequest,
    UnexposeAnswer,
    UnexposeRequest,
)
from gitshadow.model import Chain
from gitshadow.query.resolve import session_of
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing.remotes import is_ours
from gitshadow.store.journal import sessions
from gitshadow.store.refs import EXPOSED_PREFIX, exposed_ref

_REMOTE = EXPOSED_PREFIX.split("/")[2]


def expose(context: RecorderContext, request: ExposeRequest) -> ExposeAnswer:
    """Show a session's chains, as they are now."""
    repo = context.workspace.repo
    context.observer.settle()
    if _REMOTE in repo.push_settings():
        raise RefusedError(
            f"cannot expose: you have a remote named {_REMOTE}",
            hint=f"git remote rename {_REMOTE} <other name>",
        )
    refs = {
        exposed_ref(chain.ref): chain.tip for chain in _chains(context, request.session)
    }
    for ref in refs:
        present = repo.ref(ref)
        if present is not None and not is_ours(repo, present):
            raise RefusedError(
                f"cannot expose: {ref} was not created by gitshadow",
                hint=f"if it is not needed: git update-ref -d {ref}",
            )
    for ref, tip in refs.items():
        repo.force_ref(ref, tip)
    return ExposeAnswer(tuple(sorted(refs)))


def unexpose(context: RecorderContext, request: UnexposeRequest) -> UnexposeAnswer:
    """Delete what `expose` wrote for a session, or for all of them."""
    repo = context.workspace.repo
    typed = request.session
    if typed is None and not request.all:
        raise UsageError("missing argument: SESSION, or --all")
    shown = repo.refs(EXPOSED_PREFIX)
    if typed is not None:
        wanted = {exposed_ref(chain.ref) for chain in _chains(context, typed)}
        shown = {ref: tip for ref, tip in shown.items() if ref in wanted}
    gone = sorted(ref for ref, tip in shown.items() if is_ours(repo, tip))
    for ref in gone:
        repo.delete_ref(ref)
    return UnexposeAnswer(tuple(gone), tuple(sorted(shown.keys() - set(gone))))


def _chains(context: RecorderContext, typed: str) -> list[Chain]:
    session = session_of(context.workspace.db, typed)
    return sessions.chains_of(context.workspace.db, session.id)
