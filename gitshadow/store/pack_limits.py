"""How many loose objects there may be before Git's own maintenance starts."""

from collections.abc import Callable

# Git's defaults: gc.auto (git-config(1)), and the limits of its maintenance tasks
# (git-maintenance(1)).
_FANS = 256
_GC_AUTO = 6700
_TASK_AUTO = 100
_GEOMETRIC_SINCE = (2, 54)
_OFF = frozenset({"false", "no", "off", "0", ""})
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def pack_at(version: tuple[int, ...], setting: Callable[[str], str | None]) -> int:
    """Return how many files in `objects/17` are enough to pack even while somebody writes.

    Half of what makes Git start maintenance, at least one. Git estimates the number of loose
    objects from one directory of 256 (`too_many_loose_objects` in builtin/gc.c), at the end of
    the user's own commits: git-gc(1) `gc.auto`, git-maintenance(1).

    Args:
        version: Git's.
        setting: Gives the value of a key of Git's configuration, None where it is not set.
    """
    return max(1, (_allowed(version, setting) + 1) // 2)


def _allowed(version: tuple[int, ...], setting: Callable[[str], str | None]) -> int:
    """Return how many files may lie there before maintenance starts."""
    limits = [max(0, _number(setting("gc.auto"), _GC_AUTO))]
    strategy = setting("maintenance.strategy")
    geometric = strategy == "geometric" or (
        strategy is None and version >= _GEOMETRIC_SINCE
    )
    if geometric or _is_on(setting("maintenance.geometric-repack.enabled")):
        limits.append(_number(setting("maintenance.geometric-repack.auto"), _TASK_AUTO))
    if strategy == "incremental" or _is_on(
        setting("maintenance.loose-objects.enabled")
    ):
        limits.append(_number(setting("maintenance.loose-objects.auto"), _TASK_AUTO))
    # 0 switches a task off, less than 0 has it run each time; of gc both switch it off.
    files = [-(-limit // _FANS) if limit > 0 else 1 for limit in limits if limit != 0]
    return min(files, default=-(-_GC_AUTO // _FANS))


def _number(text: str | None, default: int) -> int:
    """Return a number as git-config(1) reads it, with its unit."""
    if not text:
        return default
    unit = _UNITS.get(text[-1].lower())
    try:
        return int(text[:-1]) * unit if unit else int(text)
    except ValueError:
        return default


def _is_on(text: str | None) -> bool:
    return text is not None and text.lower() not in _OFF
