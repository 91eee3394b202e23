"""A selection cut down to what is surely somebody's: pure.

Invariant: what is left out is named as what may be theirs, never taken.
"""

from dataclasses import replace

from gitshadow.model import Confidence, Event
from gitshadow.undo.choose import Selection

_SURE = frozenset({Confidence.CERTAIN, Confidence.HIGH})


def theirs(selection: Selection, whose: frozenset[str]) -> Selection:
    """Return a selection with only what these sessions surely wrote.

    Not `medium`: where only a turn was open, a person may as well have written it.
    """
    taken = tuple(one for one in selection.taken if _is_theirs(one, whose))
    left = tuple(one for one in selection.taken if not _is_theirs(one, whose))
    if not left:
        return selection
    said = f"nothing to undo: no change of {selection.target} is certain to be by this session"
    return replace(
        selection,
        taken=taken,
        undoes=tuple(str(one.seq) for one in taken),
        maybe=(*selection.maybe, *left),
        headline=selection.headline if taken else said,
    )


def _is_theirs(event: Event, whose: frozenset[str]) -> bool:
    who = event.attribution
    return who is not None and who.session in whose and who.confidence in _SURE
