"""Git's ignore rules, by `git check-ignore`; gitignore(5)."""

from collections.abc import Sequence

from gitshadow.errors import StoreError
from gitshadow.model import RepoPath
from gitshadow.store.git import Git

_COMMAND = ("check-ignore", "--no-index", "--stdin", "-z", "-v")
# It takes a `:` at the beginning for pathspec magic, and no option turns that off for it.
_HERE = b"./"
_BEYOND_LINK = "beyond a symbolic link"


def rules_of(git: Git, paths: Sequence[RepoPath]) -> dict[RepoPath, str]:
    """Return for each ignored path the rule that ignores it, as `file:line:pattern`.

    Raises:
        StoreError: git gives no answer, as for several paths of which one is beyond a link.
    """
    if not paths:
        return {}
    asked = b"".join(_HERE + path + b"\0" for path in paths)
    try:
        out = git.run(*_COMMAND, stdin=asked, ok=(0, 1))
    except StoreError as error:
        if len(paths) == 1 and _BEYOND_LINK in error.message:
            return {}
        raise
    cells = iter(out.split(b"\0"))
    return {
        RepoPath(path.removeprefix(_HERE)): b":".join((source, line, pattern)).decode(
            "utf-8", "backslashreplace"
        )
        for source, line, pattern, path in zip(*[cells] * 4, strict=False)
        # The pattern that decides is empty if there is none.
        if pattern and not pattern.startswith(b"!")
    }
