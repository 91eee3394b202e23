"""How fine the times of files are, by what their stamps look like."""

# More than a tick of the kernel's coarse clock (10 ms at 100 Hz): within a tick a second write can
# leave the stat as it was, which Git has to know for its index, too (its racy-git.txt).
RACY_NS = 20_000_000
_STEPS_NS = (2_000_000_000, 1_000_000_000, 100_000_000, 10_000_000)


def step_ns(stamp_ns: int) -> int:
    """Return the steps in which a file system seems to count, from one of its stamps.

    0 is a fine one, whose stamps look otherwise once in a million times.
    """
    # vfat has 2 s, HFS+ and many shares 1 s, exfat 10 ms.
    return next((step for step in _STEPS_NS if stamp_ns % step == 0), 0)


def racy_ns(ctime_ns: int) -> int:
    """Return how long after a change of a file another one could get the same stamp."""
    return step_ns(ctime_ns) + RACY_NS
