"""Whether /proc is about the processes that this one has to do with. Hooks need nothing else."""

import os


def shows_own_numbers() -> bool:
    """Return whether /proc has processes by the numbers that they have for this one.

    It is that of another PID namespace in a sandbox that made one without mounting it. There
    our numbers are those of unrelated processes.
    """
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False
