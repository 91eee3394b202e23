"""A repository for one test: made by hand, because `git init` would bring the user's template.

Invariant: nothing outside its directory is read or written but Git's own settings.
"""

from pathlib import Path

from gitshadow.errors import UnsupportedError
from gitshadow.service import in_process
from gitshadow.store.layout import discover

# gitrepository-layout(5): what a directory needs for Git to take it for a repository.
_DIRECTORIES = ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info")
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
[user]
\tname = Test
\temail = test@example.com
[agent-undo]
\tdaemon = off
"""


def recorded_repository(root: Path) -> Path:
    """Make a repository that is recorded, without a daemon, and return its root.

    Raises:
        ShadowError: the place cannot be recorded.
    """
    git = root / ".git"
    for name in _DIRECTORIES:
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "config").write_text(_CONFIG, encoding="utf-8")
    layout = discover(str(root))
    if layout is None:
        raise UnsupportedError(f"cannot make a repository in {root}")
    in_process.run(layout, "init", {"force": True})
    return Path(layout.root)
