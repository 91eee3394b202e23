"""push and fetch: the only ways by which recorded history leaves or comes.

Invariant: nothing here runs by itself.
"""

from gitshadow.errors import UsageError
from gitshadow.messages.sharing import (
    CameBackAnswer,
    CameBackRequest,
    FetchAnswer,
    FetchedMark,
    FetchRequest,
    MirrorAnswer,
    MirrorRequest,
    PushAnswer,
    PushRequest,
    UnreadableRef,
)
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing.mirror import mirror_now
from gitshadow.sharing.transfer import BRANCHES, Fetching, Sending, refused
from gitshadow.store import marks
from gitshadow.store.journal import meta
from gitshadow.store.layout import machines


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


def came_back(context: RecorderContext, request: CameBackRequest) -> CameBackAnswer:
    """Record that a restore from a mirror is complete, so that a daemon may copy there again."""
    with context.workspace.db.write():
        meta.settle_return(context.workspace.db)
    return CameBackAnswer()


def mirror(context: RecorderContext, request: MirrorRequest) -> MirrorAnswer:
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
    """Bring the sessions of other machines from a remote, and take them in."""
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
