"""The verbs: commands in a module per feature, and the table that finds them.

Invariant: importing this package imports no verb; `-h` prints the table alone.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

PROGRAM = "git agent-undo"


class Verb(NamedTuple):
    """A verb: its module, one line of help, and where it runs.

    A `direct` one never runs in the command server: it needs the session of the terminal, runs
    programs that may ask on it, or stays. One that `starts_daemon` runs there only for a caller in
    the server's control groups, because they are the daemon's, too.
    """

    module: str
    help: str
    direct: bool = False
    starts_daemon: bool = False


# In the order of the help text. It has the short helps itself, so that `-h` imports no verb.
GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "set up": {
        "init": Verb("init", "Start recording this repository.", starts_daemon=True),
        "hooks": Verb("hooks", "Install or remove agent hooks."),
        "status": Verb("status", "Show whether you are protected right now."),
        "daemon": Verb("daemon", "Start, stop or watch the daemon.", direct=True),
        "exec": Verb("exec", "Run a command and record its changes.", direct=True),
        "doctor": Verb(
            "doctor", "Diagnose problems and suggest fixes.", starts_daemon=True
        ),
        "witness": Verb(
            "witness", "Let the kernel report who wrote, as a service.", direct=True
        ),
        "uninstall": Verb("uninstall", "Remove gitshadow from a repository."),
    },
    "undo": {
        "oops": Verb("undo", "Undo the latest changes of an agent."),
        "undo": Verb("undo", "Undo a tool call, turn, session or file."),
        "redo": Verb("undo", "Redo: reverse the last undo."),
        "restore": Verb(
            "undo", "Restore files to an earlier state.", starts_daemon=True
        ),
        "pin": Verb("lists", "Name the current state; list pins."),
        "ops": Verb("lists", "List undos, redos and restores."),
    },
    "by turn into Git": {
        "stage": Verb("staging", "Stage what a turn changed."),
        "commit": Verb("staging", "Commit what turns changed.", direct=True),
        "split": Verb(
            "staging", "Make one commit per turn of a messy tree.", direct=True
        ),
        "apply": Verb("carry", "Apply a turn to a branch or worktree.", direct=True),
        "move": Verb("carry", "Move a turn to another worktree.", direct=True),
    },
    "inspect": {
        "ui": Verb("ui", "Browse and undo in a terminal UI.", direct=True),
        "log": Verb("log", "List turns, your changes and undos."),
        "turns": Verb("lists", "List the turns and their prompts."),
        "sessions": Verb("lists", "List agent sessions and your own work."),
        "show": Verb("lists", "Show a turn, or one thing by its id."),
        "diff": Verb("diff", "Show what a turn changed; compare states."),
        "cat": Verb("diff", "Print an earlier version of a file."),
        "blame": Verb("blame", "Show who wrote each line of a file."),
        "stats": Verb("blame", "Count lines by author."),
        "check": Verb("check", "Check a commit against policies."),
        "review": Verb("check", "Mark agent lines as reviewed."),
        "report": Verb("report", "Write an HTML report of a session."),
        "expose": Verb("sharing", "Show a session to Git tools, or hide it."),
    },
    "agent programs": {
        "program": Verb(
            "recover", "Inspect and repair programs of the SDK.", direct=True
        ),
        "mcp": Verb("mcp", "Run an MCP server, or record one.", direct=True),
    },
    "maintain": {
        "du": Verb("storage", "Show how much disk the history uses."),
        "prune": Verb("storage", "Delete old sessions."),
        "purge": Verb(
            "storage", "Erase content from the recorded history.", starts_daemon=True
        ),
        "push": Verb("sharing", "Send sessions to a remote.", direct=True),
        "fetch": Verb(
            "sharing", "Fetch sessions of others from a remote.", direct=True
        ),
        "mirror": Verb(
            "sharing", "Update the mirror outside the project.", direct=True
        ),
        "export": Verb("exchange", "Export attribution for other tools."),
        "import": Verb("exchange", "Import attribution from other tools."),
    },
    "for scripts and hooks": {
        "lsp": Verb("lsp", "Show authors and undo in your editor.", direct=True),
        "record": Verb("record", "Record some paths now."),
        "session": Verb("record", "Open or close a session by hand."),
        "flush": Verb("record", "Wait for pending changes to be recorded."),
        "prompt": Verb("status", "Print one short line for a shell prompt."),
        "completion": Verb("completion", "Print a shell completion script."),
        "pack": Verb("storage", "Pack the history, to save disk."),
        "reindex": Verb(
            "storage", "Rebuild the journal from the refs.", starts_daemon=True
        ),
        "hook": Verb("hook", "(internal) Entry point for agent hooks."),
        "git-hook": Verb("hook", "(internal) Entry point for Git hooks."),
    },
}

EVERYDAY = ("init", "status", "log", "show", "oops", "undo", "redo", "blame", "ui")
"""What `-h` shows; of the others it names the groups."""
MACHINE_GROUP = "for scripts and hooks"
"""The group that only `-h --all` shows."""

# Other names of verbs: the words that each of them stands for.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    # Names of earlier versions.
    "artifacts": ("program", "artifacts"),
    "attention": ("program", "attention"),
    "events": ("program", "events"),
    "pins": ("pin", "--list"),
    "recover": ("program", "recover"),
    "resolve": ("program", "resolve"),
    "rewind": ("program", "rewind"),
    "saga": ("program", "saga"),
    "start": ("daemon", "start"),
    "state": ("program", "state"),
    "stop": ("daemon", "stop"),
    "tools": ("program", "tools"),
    "unexpose": ("expose", "--off"),
    "unpin": ("pin", "--delete"),
    "verify": ("program", "verify"),
    "watch": ("daemon", "watch"),
    # What other programs call the same.
    "changes": ("show",),
    "checkpoint": ("pin",),
    "clean": ("prune",),
    "discard": ("undo",),
    "history": ("log",),
    "last": ("show",),
    "list": ("log",),
    "recover-file": ("restore",),
    "revert": ("undo",),
    "rollback": ("undo",),
    "save": ("pin",),
    "snapshot": ("pin",),
    "undelete": ("restore",),
    "who": ("blame",),
}


def spelled_out(words: list[str]) -> list[str]:
    """Return a command line with its verb's own name; `help VERB` is `VERB -h`."""
    if words[:1] == ["help"]:
        return [*spelled_out(words[1:]), "-h"]
    own = _ALIASES.get(words[0]) if words else None
    return list(words) if own is None else [*own, *words[1:]]


def find(name: str) -> Verb | None:
    """Return a verb by its name."""
    for verbs in GROUPS.values():
        if name in verbs:
            return verbs[name]
    return None


def load(name: str, verb: Verb) -> object:
    """Import a verb; return its command: `x_command`, or `command` in a module of one verb."""
    module = import_module(f"gitshadow.commands.{verb.module}")
    own = f"{name.replace('-', '_')}_command"
    return getattr(module, own if hasattr(module, own) else "command")


def names() -> list[str]:
    """Return the names of all verbs, sorted."""
    return sorted(name for verbs in GROUPS.values() for name in verbs)


def known_names() -> Mapping[str, str]:
    """Return every name of a verb, with the words that it stands for."""
    own = {name: name for name in names()}
    return own | {name: " ".join(words) for name, words in _ALIASES.items()}
