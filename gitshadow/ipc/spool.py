"""The file in which a hook payload waits that no process could take when it came.

Invariant: a file is whole when it gets its name; `attribution.delivery.parse_spool` reads it.
"""

import json
import os

from gitshadow.platform import current
from gitshadow.store.safe_files import check_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gitshadow.store.layout import Layout


def write(layout: "Layout", body: bytes, name: "Callable[[int], str]") -> str:
    """Write a delivery into the spool; return its path.

    Args:
        layout: The worktree.
        body: The delivery in the form of a request to the daemon.
        name: Returns the name of the file, given the time of its content in the clock of the
            file system. The rename to that name stamps the file with the present time.

    Raises:
        OSError: it could not be written.
        StoreError: the spool is a link.
    """
    head, _, payload = body.partition(b"\n\n")
    lines = [line.partition(": ") for line in os.fsdecode(head).split("\n")]
    named = {key: value for key, _, value in lines}
    markers = [value.partition("=") for key, _, value in lines if key == "env"]
    document = {
        "agent": named.get("agent", "generic"),
        "cwd": named.get("cwd", "/"),
        # Bytes that are not UTF-8 become escapes in the file; the reader restores them.
        "payload": payload.decode("utf-8", "surrogateescape"),
        "pids": named["ppids"].split(),
        "own": named.get("own", ""),
        "root": named.get("root", ""),
        "worktree": named.get("worktree", ""),
        "pid_namespace": current().machine_facts().pid_namespace(),
        "env": {key: value for key, _, value in markers},
    }
    check_dir(layout, "spool")
    part = os.path.join(layout.spool_dir, f"{os.getpid()}-{id(document)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(part, flags, 0o600)
    try:
        with open(fd, "wb") as out:
            out.write(json.dumps(document).encode("ascii"))
        path = os.path.join(layout.spool_dir, name(os.stat(part).st_ctime_ns))
        os.rename(part, path)
    except OSError:
        os.unlink(part)
        raise
    return path
