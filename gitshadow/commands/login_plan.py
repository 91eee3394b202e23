"""The daemon at login as `hooking` shows and does plans."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from gitshadow.commands.hooks_plan import item_of
from gitshadow.errors import ShadowError, UnsupportedError
from gitshadow.hookfiles import login
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.steps import FileStep
from gitshadow.render.document import Document

NOTE = "systemd starts it at your next login; to start it without a login: loginctl enable-linger"


class LoginWork(NamedTuple):
    """Hold the unit and the links."""

    plan: login.LoginPlan
    around: InstallEnvironment

    def items(self) -> list[Document]:
        """Return an item per file."""
        return [*map(item_of, self.plan.unit), *map(_link_item, self.plan.links)]

    def errors(self) -> list[ShadowError]:
        """Return what cannot be done, or could not."""
        found: Sequence[login.UnitLink | FileStep] = [*self.plan.unit, *self.plan.links]
        return [one.error for one in found if one.error is not None]

    def apply(self) -> "LoginWork":
        """Write or remove them."""
        return self._replace(plan=login.apply(self.plan, self.around))


def refuse_without_systemd() -> None:
    """Raise UnsupportedError where no systemd serves this user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not os.path.exists(os.path.join(runtime, "systemd", "private")):
        raise UnsupportedError(
            "cannot start at login: no systemd user manager is running for you",
            hint="add `git agent-undo start` to your shell profile; hooks start it too",
        )


def _link_item(link: login.UnitLink) -> Document:
    sign = {"create": "+", "delete": "-"}.get(link.action.value)
    return {
        "agent": "systemd",
        "scope": "user",
        "path": link.path,
        "action": link.action.value,
        "diff": [f"{sign}a link to the unit"] if sign else [],
        "error": None if link.error is None else link.error.message,
    }
