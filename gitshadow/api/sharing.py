"""push and fetch: the only ways by which recorded history leaves or comes.

Invariant: nothing here runs by itself.
"""

from gitshadow.api import Document, Params
from gitshadow.errors import UsageError
from gitshadow.query import params as read
from gitshadow.recording import ingest
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing.mirror import mirror_now
from gitshadow.sharing.transfer import BRANCHES, Fetching, Sending, refused
from gitshadow.store import marks
from gitshadow.store.journal import returned
from gitshadow.store.layout import machines


def push(context: RecorderContext, params: Params) -> Document:
    """Send sessions to a remote, unless they hold what looks secret.

    Raises:
        RefusedError: they do; nothing was sent.
        StoreError: the remote did not take all of it.
    """
    context.observer.settle()
    remote = read.needed(params, "remote")
    sending = Sending(context)
    parcel = sending.chosen(read.strings(params, "sessions"))
    if not parcel.refs:
        raise UsageError("cannot push: no session or review mark to send")
    if not read.flag(params, "force_secrets"):
        sending.check_secrets(parcel.chains)
    as_branches = read.flag(params, "as_branches")
    sent = sending.send(
        remote, parcel, as_branches=as_branches, force=read.flag(params, "force")
    )
    if any(one.refused for one in sent.values()):
        raise refused(remote, sent)
    return {
        "remote": remote,
        "pushed": sorted(sent),
        "changed": sorted(ref for ref, one in sent.items() if one.changed),
        "sessions": parcel.sessions,
        "marks": sorted(one.id for one in parcel.marks),
        "as": BRANCHES if as_branches else None,
    }


def came_back(context: RecorderContext, params: Params) -> Document:
    """Note that what came back from a mirror is in place: a daemon may copy there again."""
    del params
    with context.workspace.db.write():
        returned.settle(context.workspace.db)
    return {}


def mirror(context: RecorderContext, params: Params) -> Document:
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
    return {"mirror": place}


def fetch(context: RecorderContext, params: Params) -> Document:
    """Bring the sessions of other machines from a remote, and take them in."""
    remote = read.needed(params, "remote")
    fetching = Fetching(context)
    fetched = fetching.fetch(remote, read.strings(params, "sessions"))
    ws = context.workspace
    taken = ingest.follow(ws.layout, ws.repo)
    came = {place for _, place in fetched}
    new = [one for one in marks.list_marks(ws.repo) if one.ref in came]
    return {
        "remote": remote,
        "fetched": [list(one) for one in fetched],
        "sessions": list(taken.sessions),
        "marks": [{"id": one.id, "who": one.who, "target": one.target} for one in new],
        "broken": [{"ref": ref, "why": why} for ref, why in taken.broken],
        "machines": machines(ws.layout),
    }
