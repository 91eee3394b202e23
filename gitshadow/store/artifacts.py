"""The bytes of artifacts: blobs, reachable from one ref per session of an agent program.

Each saved version is a commit, whose tree has every version as `<name>/<number>`, so that any Git
program shows them. No version is ever removed from the tree. The journal knows which version is
current; a rewind makes an old blob current again and writes nothing here.
"""

from urllib.parse import quote

from gitshadow.model import Oid, RepoPath
from gitshadow.store import refs
from gitshadow.store.digests import digest
from gitshadow.store.objects import OUR_EMAIL, OUR_NAME, NewCommit
from gitshadow.store.refs import ShadowCommit
from gitshadow.store.repo import Repo

_MODE = 0o100644
_NAME_BYTES = 8
_SUBJECT_CHARS = 60


def artifact_ref(session: str) -> str:
    """Return the ref that keeps the artifacts of a session alive."""
    # The program chooses the id of its session, and not every text is a valid name of a ref
    # (git-check-ref-format(1)).
    return refs.REF_PREFIX + refs.ARTIFACT_PREFIX + digest(session, _NAME_BYTES)


def keep(repo: Repo, session: str, path: RepoPath, data: bytes, now_ns: int) -> Oid:
    """Store one version and return its blob.

    Raises:
        StoreError: it could not be written; then no version was added.
    """
    blob = repo.write_blob(data)
    ref = artifact_ref(session)
    tip = repo.ref(ref)
    tree = repo.commit(tip).tree if tip is not None else None
    _, head = repo.head()
    message = ShadowCommit(
        subject=f"Artifact {path.decode()}"[:_SUBJECT_CHARS],
        kind="artifact",
        time_ns=now_ns,
        native=session,
    )
    commit = repo.write_commit(
        NewCommit(
            tree=repo.trees.splice(tree, {path: (_MODE, blob)}),
            parents=() if tip is None else (tip,),
            author_name=OUR_NAME,
            author_email=OUR_EMAIL,
            author_time=now_ns // 1_000_000_000,
            committer_time=repo.date_before(head),
            message=refs.format_message(message),
        )
    )
    if tip is None:
        repo.create_ref(ref, commit)
    else:
        repo.move_ref(ref, tip, commit)
    return blob


def path_of(name: str, version: int) -> RepoPath:
    """Return the path of a version in the tree."""
    # Every name gives one component that Git accepts: a leading dot could make it `.` or `.git`.
    safe = quote(name, safe=" :@+=,").replace(".", "%2E", int(name.startswith(".")))
    return RepoPath(f"{safe}/{version}".encode())
