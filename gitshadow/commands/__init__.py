"""The verbs: commands in a module per feature, and the table that finds them.

Invariant: importing this package imports no verb; `-h` prints the table alone.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

PROGRAM = "git agent-undo"


class Verb(NamedTuple):
    """A verb: its module, one line of help, and the name of its command there."""

    module: str
    help: str
    command: str = "command"


# In the order of the help text. It has the short helps itself, so that `-h` imports no verb.
GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "set up": {
        "init": Verb("init", "Start recording this repository."),
        "hooks": Verb("hooks", "Install or remove agent hooks."),
        "start": Verb("daemon", "Start the daemon of this worktree.", "start_command"),
        "stop": Verb("daemon", "Stop the daemon of this worktree.", "stop_command"),
        "watch": Verb(
            "daemon", "Record in the foreground until interrupted.", "watch_command"
        ),
        "status": Verb(
            "status", "Show whether you are protected right now.", "status_command"
        ),
        "prompt": Verb(
            "status", "Print one short line for a shell prompt.", "prompt_command"
        ),
        "doctor": Verb("doctor", "Diagnose problems and suggest fixes."),
        "completion": Verb(
            "completion", "Print a shell completion script.", "completion_command"
        ),
        "witness": Verb("witness", "Let the kernel report who wrote, as a service."),
        "uninstall": Verb("uninstall", "Remove gitshadow from a repository."),
    },
    "undo": {
        "oops": Verb("undo", "Undo the latest changes of an agent.", "oops_command"),
        "undo": Verb(
            "undo", "Undo a tool call, turn, session or file.", "undo_command"
        ),
        "redo": Verb("undo", "Redo: reverse the last undo.", "redo_command"),
        "restore": Verb("restore", "Restore files to an earlier state."),
        "pin": Verb("lists", "Save the current state under a name.", "pin_command"),
        "pins": Verb("lists", "List the pins.", "pins_command"),
        "unpin": Verb("lists", "Delete a pin; files are not changed.", "unpin_command"),
        "ops": Verb("lists", "List undos, redos and restores.", "ops_command"),
    },
    "by turn into Git": {
        "stage": Verb("staging", "Stage what a turn changed.", "stage_command"),
        "commit": Verb("staging", "Commit what turns changed.", "commit_command"),
        "split": Verb(
            "staging", "Make one commit per turn of a messy tree.", "split_command"
        ),
        "apply": Verb(
            "carry", "Apply a turn to a branch or worktree.", "apply_command"
        ),
        "move": Verb("carry", "Move a turn to another worktree.", "move_command"),
    },
    "inspect": {
        "ui": Verb("ui", "Browse and undo in a terminal UI."),
        "log": Verb("log", "List turns, your changes and undos.", "log_command"),
        "sessions": Verb(
            "lists", "List agent sessions and your own work.", "sessions_command"
        ),
        "turns": Verb("lists", "List the turns and their prompts.", "turns_command"),
        "show": Verb("lists", "Show one thing in full, by its id.", "show_command"),
        "diff": Verb(
            "diff", "Compare recorded states, or one with the disk.", "diff_command"
        ),
        "cat": Verb("diff", "Print an earlier version of a file.", "cat_command"),
        "blame": Verb("blame", "Show who wrote each line of a file.", "blame_command"),
        "stats": Verb("blame", "Count lines by author.", "stats_command"),
        "check": Verb("check", "Check a commit against policies.", "check_command"),
        "review": Verb("check", "Mark agent lines as reviewed.", "review_command"),
        "report": Verb("report", "Write an HTML report of a session."),
        "expose": Verb(
            "sharing", "Make a session visible to Git tools.", "expose_command"
        ),
        "unexpose": Verb(
            "sharing", "Hide it from Git tools again.", "unexpose_command"
        ),
    },
    "record": {
        "exec": Verb("exec", "Run a command and record its changes."),
        "record": Verb("record", "Record some paths now.", "record_command"),
        "session": Verb(
            "record", "Open or close a session by hand.", "session_command"
        ),
        "flush": Verb(
            "record", "Wait for pending changes to be recorded.", "flush_command"
        ),
        "hook": Verb("hook", "(internal) Entry point for agent hooks.", "hook_command"),
        "git-hook": Verb(
            "hook", "(internal) Entry point for Git hooks.", "git_hook_command"
        ),
    },
    "effects": {
        "saga": Verb("saga", "List side effects of agent programs.", "saga_command"),
        "tools": Verb(
            "saga", "List a program's tools and how they are undone.", "tools_command"
        ),
        "events": Verb("saga", "List the conversation of a program.", "events_command"),
        "state": Verb("saga", "Show the state of a program.", "state_command"),
        "artifacts": Verb(
            "saga", "List a program's artifacts, or print one.", "artifacts_command"
        ),
        "rewind": Verb(
            "recover", "Rewind a program to before a turn.", "rewind_command"
        ),
        "recover": Verb(
            "recover", "Finish work that a crash interrupted.", "recover_command"
        ),
        "attention": Verb("saga", "List what needs attention.", "attention_command"),
        "resolve": Verb(
            "recover", "Mark a call as settled by hand.", "resolve_command"
        ),
        "verify": Verb(
            "saga", "Check that the saga log is unchanged.", "verify_command"
        ),
        "mcp": Verb("mcp", "Run an MCP server, or record one."),
    },
    "maintain": {
        "du": Verb("storage", "Show how much disk the history uses.", "du_command"),
        "pack": Verb("storage", "Pack the history, to save disk.", "pack_command"),
        "prune": Verb("storage", "Delete old sessions.", "prune_command"),
        "purge": Verb(
            "storage", "Erase content from the recorded history.", "purge_command"
        ),
        "push": Verb("sharing", "Send sessions to a remote.", "push_command"),
        "fetch": Verb(
            "sharing", "Fetch sessions of others from a remote.", "fetch_command"
        ),
        "mirror": Verb(
            "sharing", "Update the mirror outside the project.", "mirror_command"
        ),
        "export": Verb(
            "exchange", "Export attribution for other tools.", "export_command"
        ),
        "import": Verb(
            "exchange", "Import attribution from other tools.", "import_command"
        ),
        "reindex": Verb(
            "storage", "Rebuild the journal from the refs.", "reindex_command"
        ),
    },
}


def find(name: str) -> Verb | None:
    """Return a verb by its name."""
    for verbs in GROUPS.values():
        if name in verbs:
            return verbs[name]
    return None


def load(verb: Verb) -> object:
    """Import a verb; return its command, a `DeclaredVerb` or one of click's."""
    return getattr(import_module(f"gitshadow.commands.{verb.module}"), verb.command)


def names() -> list[str]:
    """Return the names of all verbs, sorted."""
    return sorted(name for verbs in GROUPS.values() for name in verbs)
