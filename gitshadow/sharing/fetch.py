"""Fetching: the refs of a remote that are sessions of others, brought to where theirs lie.

Invariant: no ref of ours, and none outside our namespace, is written.
"""

import re
from collections.abc import Sequence

from gitshadow.errors import UsageError
from gitshadow.recording.context import RecorderContext
from gitshadow.sharing.push import BRANCHES
from gitshadow.store import refs, remotes
from gitshadow.store.journal import sessions

_NAME = re.compile(r"[a-z0-9-]{1,40}")


class Fetching:
    """Fetch for one worktree."""

    def __init__(self, context: RecorderContext) -> None:
        self._ws = context.workspace

    def fetch(self, remote: str, typed: Sequence[str]) -> list[tuple[str, str]]:
        """Fetch the sessions that words name (their ids or beginnings); all where there is none.

        Returns:
            The refs over there, and here, of those that are new or moved.

        Raises:
            UsageError: a word names no session of the remote.
            StoreError: the remote cannot be reached, or its objects cannot be read.
        """
        patterns = (f"{refs.REF_PREFIX}*", f"{BRANCHES}*")
        there = remotes.remote_refs(self._ws.git, remote, patterns)
        here, ours = self._ws.repo.refs(), self._ours()
        wanted: dict[str, str] = {}
        for name in sorted(there):
            place = self._place(name, ours)
            if place is not None:
                wanted.setdefault(place, name)
        moved = [
            (name, place)
            for place, name in _named(remote, wanted, typed).items()
            if here.get(place) != there[name]
            and not (refs.is_mark(place) and place in here)  # a mark is never changed
        ]
        if moved:
            specs = [
                f"{'' if refs.is_mark(place) else '+'}{name}:{place}"
                for name, place in moved
            ]
            remotes.fetch(self._ws.git, remote, specs)
        return sorted(moved)

    def _ours(self) -> frozenset[str]:
        return frozenset(chain.ref for chain in sessions.chains(self._ws.db))

    def _place(self, name: str, ours: frozenset[str]) -> str | None:
        """Return where a ref of a remote belongs here; None for what is not to be fetched."""
        for prefix in (refs.REF_PREFIX, BRANCHES):
            last = name.removeprefix(prefix)
            if last == name or _NAME.fullmatch(last) is None:
                continue
            ref = refs.REF_PREFIX + last
            if refs.is_mark(ref):
                return ref
            if refs.is_chain(ref) and ref not in ours:
                return refs.fetched_ref(ref)
        return None


def _named(remote: str, wanted: dict[str, str], typed: Sequence[str]) -> dict[str, str]:
    """Return those of some refs, by their places here, that words name, and all review marks."""
    if not typed:
        return wanted
    chosen = {place: name for place, name in wanted.items() if refs.is_mark(place)}
    for word in typed:
        found = {
            place: name
            for place, name in wanted.items()
            if name.rpartition("/")[2].startswith(word) and not refs.is_mark(place)
        }
        if not found:
            raise UsageError(f"cannot find session {word} at {remote}")
        chosen |= found
    return chosen
