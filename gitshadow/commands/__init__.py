"""The verbs: one module with one click command each, and the table that finds them.

Invariant: importing this package imports no verb; `-h` prints the table alone.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Verb(NamedTuple):
    """Say where a verb lives and what it does, in one line."""

    module: str
    help: str


GROUPS: Mapping[str, Mapping[str, Verb]] = {
    "set up": {
        "init": Verb("init", "Start recording this repository."),
        "hooks": Verb("hooks", "Install or remove agent hooks."),
        "start": Verb("start", "Start the daemon of this worktree."),
        "stop": Verb("stop", "Stop the daemon of this worktree."),
        "watch": Verb("watch", "Record in the foreground until interrupted."),
        "status": Verb("status", "Show whether you are protected right now."),
        "prompt": Verb("prompt", "Print one short line for a shell prompt."),
        "doctor": Verb("doctor", "Diagnose problems and suggest fixes."),
        "completion": Verb("completion", "Print a shell completion script."),
        "uninstall": Verb("uninstall", "Remove gitshadow from a repository."),
    },
    "undo": {
        "oops": Verb("oops", "Undo the latest changes of an agent."),
        "undo": Verb("undo", "Undo a tool call, turn, session or file."),
        "redo": Verb("redo", "Redo: reverse the last undo."),
        "restore": Verb("restore", "Restore files to an earlier state."),
        "pin": Verb("pin", "Save the current state under a name."),
        "pins": Verb("pins", "List the pins."),
        "unpin": Verb("unpin", "Delete a pin; files are not changed."),
        "ops": Verb("ops", "List undos, redos and restores."),
    },
    "inspect": {
        "ui": Verb("ui", "Browse and undo in a terminal UI."),
        "log": Verb("log", "List recorded changes, newest first."),
        "sessions": Verb("sessions", "List agent sessions and your own work."),
        "turns": Verb("turns", "List the turns and their prompts."),
        "show": Verb("show", "Show one thing in full, by its id."),
        "diff": Verb("diff", "Compare recorded states, or one with the disk."),
        "cat": Verb("cat", "Print an earlier version of a file."),
        "blame": Verb("blame", "Show who wrote each line of a file."),
        "stats": Verb("stats", "Count lines by author."),
        "check": Verb("check", "Check a commit against policies."),
        "review": Verb("review", "Mark agent lines as reviewed."),
        "report": Verb("report", "Write an HTML report of a session."),
        "expose": Verb("expose", "Make a session visible to Git tools."),
        "unexpose": Verb("unexpose", "Hide it from Git tools again."),
    },
    "record": {
        "exec": Verb("exec", "Run a command and record its changes."),
        "record": Verb("record", "Record some paths now."),
        "session": Verb("session", "Open or close a session by hand."),
        "flush": Verb("flush", "Wait for pending changes to be recorded."),
        "hook": Verb("hook", "(internal) Entry point for agent hooks."),
        "git-hook": Verb("git_hook", "(internal) Entry point for Git hooks."),
    },
    "effects": {
        "saga": Verb("saga", "List side effects of agent programs."),
        "tools": Verb("tools", "List a program's tools and how they are undone."),
        "events": Verb("events", "List the conversation of a program."),
        "state": Verb("state", "Show the state of a program."),
        "artifacts": Verb("artifacts", "List a program's artifacts, or print one."),
        "rewind": Verb("rewind", "Rewind a program to before a turn."),
        "recover": Verb("recover", "Finish work that a crash interrupted."),
        "attention": Verb("attention", "List what needs attention."),
        "resolve": Verb("resolve", "Mark a call as settled by hand."),
        "verify": Verb("verify", "Check that the saga log is unchanged."),
        "mcp": Verb("mcp", "Run an MCP server, or record one."),
    },
    "maintain": {
        "du": Verb("du", "Show how much disk the history uses."),
        "pack": Verb("pack", "Pack the history, to save disk."),
        "prune": Verb("prune", "Delete old sessions."),
        "purge": Verb("purge", "Erase content from the recorded history."),
        "push": Verb("push", "Send sessions to a remote."),
        "fetch": Verb("fetch", "Fetch sessions of others from a remote."),
        "mirror": Verb("mirror", "Update the mirror outside the project."),
        "export": Verb("export", "Export attribution for other tools."),
        "import": Verb("import_", "Import attribution from other tools."),
        "reindex": Verb("reindex", "Rebuild the journal from the refs."),
    },
}
"""The verbs in the order of the help text."""


def find(name: str) -> Verb | None:
    """Return a verb by its name."""
    for verbs in GROUPS.values():
        if name in verbs:
            return verbs[name]
    return None


def names() -> list[str]:
    """Return the names of all verbs, sorted."""
    return sorted(name for verbs in GROUPS.values() for name in verbs)
