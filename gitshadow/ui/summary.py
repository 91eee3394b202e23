"""What the view says of a block in one line.

Invariant: pure; times are local, ids are whole where they are shown.
"""

from gitshadow.render.text import local_time
from gitshadow.ui.timeline import BlockKind, TimelineLine


def heading(line: TimelineLine, listed: str, *, moment: bool) -> str:
    """Return what stands above the files of a line: whose they are, and against what.

    Args:
        line: What is selected.
        listed: How many files are listed, in words.
        moment: Whether what differs between then and now is listed.
    """
    block = line.block
    if block is None:
        return ""
    if moment or block.pin is not None:
        return f"{listed} differ between {local_time(block.ts)} and now   R restores"
    if line.event is not None:
        one = line.event
        tool = f", {one.tool}" if one.tool else ""
        return f"write {one.seq}: {one.confidence or 'not attributed'}{tool}"
    named = {BlockKind.BURST: "burst", BlockKind.OP: "op"}.get(block.kind)
    said = f"{named} {block.target}" if named else f"event {block.target}"
    return f"{listed} of {said}" + (f": {block.prompt}" if block.prompt else "")
