"""Runs of lines of one turn, of the buffer that an editor shows; pure."""

from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.lsp.buffers import LineMap
from gitshadow.messages.blame import OwnerRow
from gitshadow.render.blame import BlameLine


class AuthorRun(NamedTuple):
    """Lines of a buffer, from `first` to `last`, that one turn wrote, or one author without turns.

    `owner` is that of the first line; `lines` are those of the file.
    """

    first: int
    last: int
    owner: OwnerRow
    lines: tuple[BlameLine, ...]

    @property
    def is_agents(self) -> bool:
        """Return whether an agent wrote it."""
        return self.owner.actor == "agent"


def runs_of(
    blamed: Sequence[BlameLine], owners: Sequence[OwnerRow], lines: LineMap
) -> list[AuthorRun]:
    """Return the runs of a buffer in order; lines that the editor changed are in none."""
    found: list[AuthorRun] = []
    for at, number in enumerate(lines.in_file):
        if number is None or number >= len(blamed):
            continue
        line = blamed[number]
        owner = owners[line.owner]
        last = found[-1] if found else None
        if (
            last is not None
            and last.last == at - 1
            and _unit(last.owner) == _unit(owner)
        ):
            found[-1] = last._replace(last=at, lines=(*last.lines, line))
        else:
            found.append(AuthorRun(at, at, owner, (line,)))
    return found


def _unit(owner: OwnerRow) -> tuple[object, ...]:
    if owner.actor == "agent" and owner.turn is not None:
        return owner.session, owner.turn
    return (
        owner.actor,
        owner.session,
        owner.agent,
        owner.author,
        owner.commit,
        owner.seq,
    )
