"""One planned change of one file: a plan shows it, an installation applies it.

Invariant: values only; a step that fails has its reason and changes nothing.
"""

import difflib
from dataclasses import dataclass
from enum import StrEnum

from gitshadow.errors import ShadowError
from gitshadow.hookfiles.files import Content
from gitshadow.hookfiles.ledger import LedgerRecord
from gitshadow.hookfiles.placement import InstallScope


class FileAction(StrEnum):
    """What happens to a file."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    NONE = "none"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep:
    """The planned action on one file, or the reason why it is impossible.

    Attributes:
        record: The ledger's entry to write (install) or to delete (uninstall).
        former: The bytes for the backup.
        shown_as: The one line of the difference, for a symbolic link.
    """

    agent: str
    scope: InstallScope
    path: str
    real: str = ""
    action: FileAction
    before: Content | None = None
    after: bytes | None = None
    mode: int | None = None
    record: LedgerRecord | None = None
    former: bytes | None = None
    shown_as: str = ""
    error: ShadowError | None = None

    def diff(self) -> list[str]:
        """Return the change in the form of `diff -u`, without its two file names."""
        if self.action in (FileAction.NONE, FileAction.FAIL):
            return []
        if self.shown_as:
            return [("-" if self.action is FileAction.DELETE else "+") + self.shown_as]
        old = _lines(None if self.before is None else self.before.data)
        new = _lines(self.after)
        return list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]


def _lines(data: bytes | None) -> list[str]:
    """Return the lines of a file as a difference shows them."""
    if data is None:
        return []
    *lines, last = data.decode("utf-8", "replace").split("\n")
    return [*lines, f"{last}  (no newline at the end)"] if last else lines
