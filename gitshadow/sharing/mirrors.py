"""Every mirror that may be of this copy of a repository, and pruning in all of them.

The configured one, those that it was before (another place, another machine id), and what lies
beside them and says that it is of one of our machines.
Invariant: a mirror of another copy is named, never changed.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.recording.workspace import Workspace
from gitshadow.store import machine, refs, remotes
from gitshadow.store.bare import Bare
from gitshadow.store.git import Git
from gitshadow.store.journal import meta

ROOT, MACHINES = "agent-undo.root", "agent-undo.machines"
"""What a mirror says of itself: the worktree, and the ids of the machines it is of."""
_KNOWN = "mirror_places"


class Cleared(NamedTuple):
    """Say what became of one mirror.

    `dropped` are refs of ours that it alone had and that held what was purged; `held` refs of the
    user's there that still do; `trouble` is what kept us from it.
    """

    place: str
    dropped: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    trouble: str | None = None


def place_of(ws: Workspace) -> str | None:
    """Return the repository that is this project's mirror, None where none is wanted."""
    top, name = ws.config.mirror, machine.current(ws.db)
    if top is None or name is None:
        return None
    stem = os.path.basename(ws.layout.root) or "root"
    return os.path.join(top, f"{stem}-{name}.git")


def remember(ws: Workspace, place: str) -> None:
    """Know a mirror from now on, wherever the next one will be; inside `db.write()`."""
    known = _known(ws)
    if place not in known:
        meta.put(ws.db, _KNOWN, json.dumps([*known, place]))


def forget(ws: Workspace, names: Collection[str]) -> list[Cleared]:
    """Take refs out of every mirror of ours; return those that could not be reached."""
    found = _each(ws, (), lambda copy: _drop(copy, names))
    return [one for one in found if one.trouble]


def scrub(ws: Workspace, gone: Collection[Oid]) -> list[Cleared]:
    """Take what was purged out of every mirror of ours, objects too; say what became of each."""
    return _each(ws, gone, lambda copy: clear(ws, copy, gone))


def clear(ws: Workspace, copy: Bare, gone: Collection[Oid]) -> Cleared:
    """Take what was purged out of one mirror.

    Refs that are here too become what they are here; one of ours that the mirror alone has is
    dropped where it holds any of it, one of the user's is named.

    Raises:
        StoreError: it could not be done.
    """
    there, here = copy.refs(), {**ws.repo.refs(), **users_refs(ws)}
    specs = [f"+{ref}:{ref}" for ref, tip in there.items() if here.get(ref, tip) != tip]
    if specs:
        send(ws.git, copy, specs)
    dropped: list[str] = []
    if copy.having(gone):
        alone = [r for r in there if r.startswith(refs.REF_PREFIX) and r not in here]
        dropped = [ref for ref in alone if copy.keeps(ref, gone)]
        copy.drop(dropped)
        copy.scrub()
    left = copy.having(gone)
    held = [ref for ref in copy.refs() if copy.keeps(ref, left)] if left else []
    return Cleared(copy.path, tuple(dropped), tuple(held))


def send(git: Git, copy: Bare, specs: Sequence[str]) -> None:
    """Write refs to a mirror, also where the user rewrote a branch.

    Raises:
        StoreError: it could not be done, or not for all of them.
    """
    # `git init --shared` forbids it (git-init(1)); older mirrors have it still.
    copy.put("receive.denyNonFastForwards", "false")
    answers = remotes.push(git, copy.path, specs)
    refused = [(ref, one.refused) for ref, one in answers.items() if one.refused]
    if refused:
        ref, why = refused[0]
        raise StoreError(f"cannot mirror {ref}: {why}")


def users_refs(ws: Workspace) -> dict[str, Oid]:
    """Return the user's branches and tags."""
    return {**ws.repo.refs("refs/heads/"), **ws.repo.refs("refs/tags/")}


def _drop(copy: Bare, names: Collection[str]) -> Cleared:
    copy.drop(sorted(copy.refs().keys() & set(names)))
    return Cleared(copy.path)


def _each(
    ws: Workspace, gone: Collection[Oid], work: Callable[[Bare], Cleared]
) -> list[Cleared]:
    found: list[Cleared] = []
    for place in _places(ws):
        copy = Bare(ws.git, place)
        try:
            if not os.path.isdir(place):
                found += _away(ws, place)
            elif not os.path.exists(os.path.join(place, "HEAD")):
                found.append(Cleared(place, trouble="it is no longer a repository"))
            elif _is_ours(ws, copy):
                found.append(work(copy))
            elif copy.get(ROOT) == ws.layout.root and gone and copy.having(gone):
                why = "it belongs to another repository that was here, and still contains it"
                found.append(Cleared(place, trouble=why))
        except StoreError as error:
            found.append(Cleared(place, trouble=error.message))
    return found


def _is_ours(ws: Workspace, copy: Bare) -> bool:
    named = (copy.get(MACHINES) or "").split()
    return not machine.ours(ws.layout).isdisjoint(named)


def _away(ws: Workspace, place: str) -> list[Cleared]:
    """Tell a mirror that somebody deleted from one on a disk that is not there now."""
    if place not in _known(ws):
        return []  # none was made yet
    if os.path.isdir(os.path.dirname(place)):
        known = [one for one in _known(ws) if one != place]
        with ws.db.write():
            meta.put(ws.db, _KNOWN, json.dumps(known))
        return []
    return [Cleared(place, trouble="it is not reachable")]


def _places(ws: Workspace) -> list[str]:
    """Return where mirrors of this copy are or were, and what lies beside them, sorted."""
    current = place_of(ws)
    named = {*_known(ws), *([current] if current else [])}
    words = {*machine.ours(ws.layout), ws.layout.root}
    found: set[str] = set()
    for top in {os.path.dirname(one) for one in named}:
        with suppress(
            OSError
        ):  # gone, or not ours to list: what is known there is named
            names = (name for name in os.listdir(top) if name.endswith(".git"))
            found |= {os.path.join(top, name) for name in names}
    return sorted(named | {place for place in found if _says(place, words)})


def _says(place: str, words: Collection[str]) -> bool:
    """Tell whether a repository's settings have one of some words: git need not be asked."""
    try:
        with open(
            os.path.join(place, "config"), encoding="utf-8", errors="replace"
        ) as f:
            text = f.read()
    except OSError:
        return False
    return any(word in text for word in words)


def _known(ws: Workspace) -> list[str]:
    return [str(one) for one in json.loads(meta.get(ws.db, _KNOWN) or "[]")]
