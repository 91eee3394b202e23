"""docs/config.md, made from the table of settings: `make docs` writes it."""

import sys

from gitshadow.config import KEYS

_HEAD = """\
# Settings

<!-- Made from gitshadow/config.py by `make docs`; do not edit. -->

A setting is looked up in this order; the last one found wins:

1. the default in the table,
2. `git config agent-undo.<key>` (system, global, repository, worktree: as Git itself does),
3. the environment variable in the table; an empty one counts as not set,
4. a flag of the command, where it has one.

Nothing is read from files of the working tree; what `.agent-undo.toml` demands in a commit
or in the index is added to the settings of `check`, and never replaces them. A value that
is not allowed is an error that names the setting and where it stands; it never falls back
to the default.

| key | environment | allowed | default | meaning |
| --- | --- | --- | --- | --- |
"""

_TAIL = """
A variable may also be written without the inner underscores (`GITSHADOW_MAXFILESIZE`).
Git's `k`, `m` and `g` stand for 1024, 1024² and 1024³ bytes. `agent-undo.include` and
`agent-undo.check.protectedPaths` may be given several times (`git config --add agent-undo.include
.env`); a variable replaces the whole list.
"""


def page() -> str:
    """Return the whole page."""
    rows = []
    for key in KEYS:
        default = f"`{key.default}`" if key.default else "none"
        cells = (
            f"`{key.git_name}`",
            f"`{key.env_name}`",
            key.allowed,
            default,
            key.meaning,
        )
        rows.append("| " + " | ".join(cells) + " |\n")
    return _HEAD + "".join(rows) + _TAIL


if __name__ == "__main__":
    sys.stdout.write(page())
