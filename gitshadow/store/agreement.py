"""Whether the journal stands where the refs do: asked whenever a worktree is opened.

Invariant: nothing is read but the refs and two small tables; only where they differ is anything
replayed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.model import Chain, CommitEvent, Oid
from gitshadow.store import refs
from gitshadow.store.journal import pins, sessions
from gitshadow.store.journal.db import Db


class Lost(NamedTuple):
    """Hold a chain as the journal knew it, whose ref is gone (`tip` None) or went elsewhere."""

    chain: Chain
    tip: Oid | None


class CatchUp(NamedTuple):
    """Say what start-up brought into agreement.

    `rows` are those that a crash had kept from the journal, newer than all that stood, in order of
    seq; `trees` has the tree of a worktree after them, which file states must be derived from.
    `foreign` are the refs of chains that another machine recorded: they are none of ours.
    """

    rows: tuple[CommitEvent, ...]
    lost: tuple[Lost, ...]
    broken: tuple[tuple[str, str], ...]
    trees: dict[str, Oid]
    foreign: tuple[str, ...] = ()


NOTHING = CatchUp((), (), (), {})


def agree(db: Db, found: Mapping[str, Oid]) -> bool:
    """Tell whether every chain and pin of the journal is at its ref, and no ref without one.

    Review marks are in no table: their refs are all there is of them. Artifacts are none of these.
    """
    known = {chain.ref: chain.tip for chain in sessions.chains(db)}
    known |= {pin.ref: pin.commit for pin in pins.list_pins(db)}
    return known == {ref: tip for ref, tip in found.items() if not refs.is_apart(ref)}
