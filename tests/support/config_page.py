"""docs/config.md, generated from the table of settings: `make docs` writes it."""

import sys

from gitshadow.config import KEYS

_HEAD = """\
# Settings

*For people who look up a setting.*

<!-- Generated from gitshadow/config.py by `make docs`; do not edit. -->

Settings are read in this order; the last value found is used:

1. the default in the table,
2. `git config agent-undo.<key>` (system, global, repository, worktree, as in Git itself),
3. the environment variable in the table; an empty variable counts as not set,
4. an option of the command, if it has one.

No settings are read from files of the working tree. The requirements of `.agent-undo.toml` in a
commit or in the index are added to the settings of `check` and never replace them. A value that is
not allowed is an error that names the setting and its source; there is no fallback to the default.

| key | environment | allowed values | default | meaning |
| --- | --- | --- | --- | --- |
"""

_TAIL = """
A variable may also be written without the inner underscores (`GITSHADOW_MAXFILESIZE`).
The suffixes `k`, `m` and `g` mean 1024, 1024² and 1024³ bytes, as in Git. `agent-undo.include` and
`agent-undo.check.protectedPaths` may be given several times (`git config --add agent-undo.include
.env`); a variable replaces the whole list.

`GITSHADOW_PLATFORM=portable` is only a variable: it makes gitshadow use nothing that only Linux has
([platforms.md](platforms.md)). Hooks, commands and the daemon of a repository must all have it.
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
