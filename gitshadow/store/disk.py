"""What a repository and our own files take on disk, counted without starting Git."""

import os

from gitshadow.messages.storage import DiskFigures


def disk(state_dir: str, common_dir: str) -> DiskFigures:
    """Return the loose objects and packs of the repository, and the bytes of our own files.

    Git's own gc may remove any of them meanwhile.
    """
    objects = os.path.join(common_dir, "objects")
    fans = [name for name in _names(objects) if len(name) == 2]
    loose = sum(len(_names(os.path.join(objects, fan))) for fan in fans)
    packs = sum(
        name.endswith(".pack") for name in _names(os.path.join(objects, "pack"))
    )
    return DiskFigures(loose, packs, own_bytes(state_dir))


def own_bytes(state_dir: str) -> int:
    """Return the bytes of our own files; any of them may go meanwhile."""
    return sum(
        _size(os.path.join(top, name))
        for top, _, names in os.walk(state_dir)
        for name in names
    )


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0
