"""push, fetch, mirror, expose, unexpose: what leaves this repository, and what comes."""

from gitshadow.errors import RefusedError, UsageError
from gitshadow.messages.codec import Nothing
from gitshadow.messages.sharing import (
    ExposeAnswer,
    ExposeRequest,
    FetchAnswer,
    FetchedMark,
    FetchRequest,
    MirrorAnswer,
    PushAnswer,
    PushRequest,
    UnexposeAnswer,
    UnexposeRequest,
    UnreadableRef,
)
from gitshadow.model import Chain
from gitshadow.query.resolve import session_of
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing.mirror import mirror_now
from gitshadow.sharing.remotes import is_ours
from gitshadow.sharing.transfer import BRANCHES, Fetching, Sending, refused
from gitshadow.store import marks
from gitshadow.store.journal import meta, sessions
from gitshadow.store.layout import machines
from gitshadow.store.refs import EXPOSED_PREFIX, exposed_ref


def push(context: RecorderContext, request: PushRequest) -> PushAnswer:
    """Send sessions to a remote, unless they hold what looks secret.

    Raises:
        RefusedError: they do; nothing was sent.
        StoreError: the remote did not take all of it.
    """
    context.observer.settle()
    remote = request.remote
    sending = Sending(context)
    parcel = sending.chosen(request.sessions)
    if not parcel.refs:
        raise UsageError("cannot push: no session or review mark to send")
    # Before anything is sent: what a remote has once, nobody can be sure to delete there.
    if not request.force_secrets:
        sending.check_secrets(parcel.chains)
    sent = sending.send(
        remote, parcel, as_branches=request.as_branches, force=request.force
    )
    if any(one.refused for one in sent.values()):
        raise refused(remote, sent)
    return PushAnswer(
        remote=remote,
        pushed=tuple(sorted(sent)),
        changed=tuple(sorted(ref for ref, one in sent.items() if one.changed)),
        sessions=tuple(parcel.sessions),
        marks=tuple(sorted(one.id for one in parcel.marks)),
        as_=BRANCHES if request.as_branches else None,
    )


def came_back(context: RecorderContext, request: Nothing) -> Nothing:
    """Record that a restore from a mirror is complete, so that a daemon may copy there again."""
    with context.workspace.db.write():
        meta.settle_return(context.workspace.db)
    return Nothing()


def mirror(context: RecorderContext, request: Nothing) -> MirrorAnswer:
    """Bring the mirror up to what is here.

    Raises:
        UsageError: none is configured.
        StoreError: it could not be written.
    """
    context.observer.settle()
    place = mirror_now(context.workspace, context.workspace.git)
    if place is None:
        raise UsageError(
            "cannot mirror: no mirror is set",
            hint="git config --global agent-undo.mirror DIRECTORY",
        )
    return MirrorAnswer(place)


def fetch(context: RecorderContext, request: FetchRequest) -> FetchAnswer:
    """Fetch the sessions of other machines from a remote, and import them."""
    remote = request.remote
    fetching = Fetching(context)
    fetched = fetching.fetch(remote, request.sessions)
    ws = context.workspace
    taken = ingest.follow(ws.layout, ws.repo)
    came = {place for _, place in fetched}
    new = [one for one in marks.list_marks(ws.repo) if one.ref in came]
    return FetchAnswer(
        remote=remote,
        fetched=tuple(tuple(one) for one in fetched),
        sessions=tuple(taken.sessions),
        marks=tuple(FetchedMark(one.id, one.who, one.target) for one in new),
        broken=tuple(UnreadableRef(ref, why) for ref, why in taken.broken),
        machines=tuple(machines(ws.layout)),
    )


# Every GUI lists remote branches, and no plain push sends them. A real remote of this name would
# have its branches in the same place.
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
    # All are checked before the first is written: a refusal leaves nothing half exposed.
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
    # A ref that somebody else made below our prefix is left, and listed.
    gone = sorted(ref for ref, tip in shown.items() if is_ours(repo, tip))
    for ref in gone:
        repo.delete_ref(ref)
    return UnexposeAnswer(tuple(gone), tuple(sorted(shown.keys() - set(gone))))


def _chains(context: RecorderContext, typed: str) -> list[Chain]:
    session = session_of(context.workspace.db, typed)
    return sessions.chains_of(context.workspace.db, session.id)
