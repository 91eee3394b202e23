"""The environment of a git child, and what is known of Git's settings without a git.

`read_settings` alone starts one.

Nothing but `os` is imported: `subprocess` and what else `store.git` needs take 15 ms, twice as
long as the rest of a command that prints what a daemon answered.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from gitshadow.store.layout import Layout

_SYSTEM = "/etc/gitconfig"
_USUAL_GIT = "/usr/bin/git"
"""The one of which is known that `_SYSTEM` is the file of the system (Git's Makefile)."""
_CHUNK = 1 << 16
_DEPTH = 10
"""Git follows no longer chain of files that include each other (config.c)."""
_HOOK = "hook."
_EVENTS = ("reference-transaction", "post-index-change", "pre-push")
"""Those of the commands that are run here."""
FileStamp = tuple[int, int, int] | None
"""What differs once a file was written or replaced: its inode, size and ctime; None without one."""
Stamps = Mapping[str, FileStamp]


def config_files(
    layout: Layout,
    environ: Mapping[str, str],
    entries: Iterable[tuple[str, str | None]] = (),
) -> tuple[str, ...]:
    """Return the files that Git's configuration of a worktree has, or may have one day.

    Args:
        layout: The worktree.
        environ: The environment of this process.
        entries: Names, the section and the key in lower case, with their values. What they include
            counts, whether its condition holds or not, and whichever file it was named in.
    """
    home = environ.get("HOME", "")
    usual = (
        f"{layout.common_dir}/config",
        f"{layout.git_dir}/config.worktree",
        f"{home}/.gitconfig",
        f"{own_directory(environ)}/config",
        _SYSTEM,
    )
    named = [
        home + value[1:] if value.startswith("~/") else value
        for name, value in entries
        if value
        and name.startswith(("include.", "includeif."))
        and name.endswith(".path")
    ]
    found = dict.fromkeys(usual)
    for _ in range(_DEPTH if named else 0):
        places = {os.path.dirname(one) for one in found if os.path.exists(one)}
        found |= {os.path.join(one, path): None for one in places for path in named}
    return tuple(found)


def stamps_before(
    layout: Layout,
    environ: Mapping[str, str],
    read: Callable[[], Iterable[tuple[str, str | None]]],
) -> Stamps:
    """Read the configuration of a worktree; return how its files looked before that."""
    # Which files are included is known only afterwards, so then it is read once more.
    names = config_files(layout, environ)
    while True:
        stamps = stamps_of(names)
        more = config_files(layout, environ, read())
        if set(more) <= stamps.keys():
            return stamps
        names += more


def stamps_of(files: Iterable[str]) -> Stamps:
    """Return how files look now."""
    return {name: stamp_of(name) for name in files}


def own_directory(environ: Mapping[str, str]) -> str:
    """Return the directory of the user's own files for Git (git-config(1), `XDG_CONFIG_HOME`)."""
    xdg = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    return f"{xdg}/git"


def stamp_of(path: str) -> FileStamp:
    """Return how a file looks now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


def scrubbed_environment(environ: dict[str, str]) -> dict[str, str]:
    """Return an environment in which a git child sees only the repository that we name."""
    # Hooks of Git run with GIT_DIR and GIT_INDEX_FILE of their own repository, which may be another
    # one. GITSHADOW_INTERNAL shows our hooks that the command is ours.
    kept = {key: value for key, value in environ.items() if not key.startswith("GIT_")}
    kept |= {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GITSHADOW_INTERNAL": "1",
        "LC_ALL": "C",
    }
    return kept


def without_hooks(settings: Iterable[str]) -> dict[str, str]:
    """Return variables for a git child that has it run no hook of the configuration.

    `core.hooksPath` has no effect on these (git-config(1), `hook.<friendly-name>`; git 2.54).

    Args:
        settings: The names of all settings that there are.
    """
    # An event can be turned off as a whole, unless a hook has the name of that event. So each hook
    # is turned off, too. A name may have any character, which `-c` would not take.
    hooks = (one.removeprefix(_HOOK) for one in settings if one.startswith(_HOOK))
    names = [*_EVENTS, *(one.rpartition(".")[0] for one in hooks)]
    found = {"GIT_CONFIG_COUNT": "0"}
    for name in dict.fromkeys(filter(None, names)):
        at = found["GIT_CONFIG_COUNT"]
        found[f"GIT_CONFIG_KEY_{at}"] = f"{_HOOK}{name}.enabled"
        found[f"GIT_CONFIG_VALUE_{at}"] = "false"
        found["GIT_CONFIG_COUNT"] = str(int(at) + 1)
    return found


def read_settings(
    layout: Layout, environ: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """Return settings of the user and of a worktree's repository.

    Args:
        layout: The worktree.
        environ: The environment of this process.
        names: Their names, in lower case.

    Returns:
        The last value of each name. Nothing where git gives no answer.
    """
    git = _git(environ)
    if git is None:
        return {}
    files = config_files(layout, environ)
    # To read them takes a fiftieth of the time that git takes.
    if os.path.realpath(git) == _USUAL_GIT and not any(
        _may_have(file, names) for file in files
    ):
        return {}
    place = (f"--git-dir={layout.git_dir}", f"--work-tree={layout.root}")
    pattern = f"^({'|'.join(names)})$".replace(".", r"\.")
    words = [git, *place, "config", "-z", "--get-regexp", pattern]
    found: dict[str, str] = {}
    for entry in _output(words, scrubbed_environment(dict(environ))).split(b"\0"):
        name, _, value = entry.partition(b"\n")
        if name:
            found[name.decode("utf-8", "replace").lower()] = os.fsdecode(value)
    return found


def _git(environ: Mapping[str, str]) -> str | None:
    """Return the path of git."""
    for directory in os.get_exec_path(environ):
        path = os.path.join(directory, "git")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _may_have(file: str, names: Sequence[str]) -> bool:
    """Return whether a file may have a setting, itself or in a file that it includes."""
    try:
        with open(file, "rb", buffering=0) as stream:
            text = stream.readall().lower()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if b"include" in text:
        return True
    return any(all(part.encode() in text for part in n.split(".")) for n in names)


def _output(words: list[str], environ: Mapping[str, str]) -> bytes:
    """Return what a program prints; nothing if it cannot be run or fails."""
    reader, writer = os.pipe()
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    parts = []
    try:
        try:
            actions = [(os.POSIX_SPAWN_DUP2, nowhere, 0)]
            actions += [(os.POSIX_SPAWN_DUP2, writer, 1)]
            actions += [(os.POSIX_SPAWN_DUP2, nowhere, 2)]
            pid = os.posix_spawn(words[0], words, environ, file_actions=actions)
        except OSError:
            return b""
        finally:
            os.close(writer)
            os.close(nowhere)
        while part := os.read(reader, _CHUNK):
            parts.append(part)
        return b"".join(parts) if os.waitpid(pid, 0)[1] == 0 else b""
    finally:
        os.close(reader)
