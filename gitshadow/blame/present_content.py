"""The content that is asked for, against the last recorded state.

Invariant: every line has an origin; what no recorded state has is shown as unrecorded.
"""

from gitshadow.blame.owners import (
    BlamedContent,
    Diff,
    OriginSource,
    Owner,
    Vector,
    carried,
    count_lines,
    fresh,
    whole,
)
from gitshadow.model import RepoPath

UNSEEN = "it is on disk, but in no recorded state"


def laid_over(
    recorded: BlamedContent | None, path: RepoPath, data: bytes, diff: Diff
) -> Vector:
    """Return the origins of a content's lines, as far as the recorded state has them.

    Args:
        recorded: The last recorded state of the file, None where there is none.
        path: The file.
        data: What it holds.
        diff: How lines are compared.
    """
    unseen = Owner(source=OriginSource.UNRECORDED, path=path, note=UNSEEN)
    if recorded is None:
        return fresh(unseen, count_lines(data))
    if recorded.data == data:
        return recorded.vector
    return carried(recorded.vector, diff(whole(recorded.data), whole(data)), unseen)
