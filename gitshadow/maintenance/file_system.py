"""What the file system of a worktree does otherwise than that of most Linux machines.

Invariant: reads only, and nothing is written to find it out.
"""

from collections.abc import Iterator

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath
from gitshadow.platform import current
from gitshadow.platform.stamps import step_ns
from gitshadow.recording.workspace import Workspace
from gitshadow.store.refs import display_path
from gitshadow.store.spelling import clashes
from gitshadow.words import counted

_SHOWN = 5
_LOOKED_AT = 100
_SECOND_NS = 1_000_000_000


def differences(ws: Workspace) -> Iterator[str]:
    """Yield what is different here, each in one sentence."""
    kind = current().machine_facts().shared_file_system(ws.layout.root)
    if kind is not None:
        yield (
            f"{kind}: other machines or programs may write here without a report, so all"
            " files are scanned for changes"
        )
    if ws.files.folds:
        yield "names that differ only by case or Unicode form are one file"
    if (step := _step_ns(ws)) >= _SECOND_NS:
        yield (
            f"file times have steps of {step // _SECOND_NS} s: who wrote is known less often"
        )
    if not ws.repo.config_is("core.fileMode", unset=True):
        yield "Git does not record permissions here (core.fileMode)"


def clash(ws: Workspace) -> str | None:
    """Return which names of the last commit are one file here, None where all have their own."""
    if not ws.files.folds:
        return None
    head = ws.repo.head()[1]
    if head is None:
        return None
    try:
        paths = ws.repo.trees.flat(ws.repo.commit(head).tree)
    except StoreError:  # other checks report it
        return None
    # Each file system has its own rules, and single directories may keep names apart.
    glance = ws.files.glance
    found = [
        names
        for names in clashes(paths)
        if sum(glance(RepoPath(name)) is not None for name in names) < 2
    ]
    if not found:
        return None
    shown = "; ".join(
        " and ".join(display_path(RepoPath(path)) for path in group)
        for group in found[:_SHOWN]
    )
    return f"{counted(len(found), 'file')} here for several names of the last commit: {shown}"


def _step_ns(ws: Workspace) -> int:
    """Return the steps of file times, by those of some files; 0 where they are fine."""
    steps: list[int] = []
    for path in ws.states.within(RepoPath(b"")):
        look = ws.files.glance(path)
        if look is not None:
            steps.append(step_ns(look.stat.ctime_ns))
        if len(steps) == _LOOKED_AT:
            break
    return min(steps, default=0)
