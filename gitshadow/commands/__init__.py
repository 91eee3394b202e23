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
        "init": Verb("init", "Record this repository from now on."),
        "hooks": Verb("hooks", "Put hooks into agents, or take them out."),
        "start": Verb("start", "Start the daemon of this worktree."),
        "stop": Verb("stop", "Stop the daemon of this worktree."),
        "watch": Verb("watch", "Record in the foreground until interrupted."),
        "status": Verb("status", "Say whether you are protected right now."),
        "prompt": Verb("prompt", "Print one short line for a shell's prompt."),
        "doctor": Verb("doctor", "Look for what is wrong, and name the remedy."),
        "completion": Verb("completion", "Print what completes verbs in a shell."),
        "uninstall": Verb("uninstall", "Take all of ours out of a repository."),
    },
    "undo": {
        "oops": Verb("oops", "Take back what an agent did last."),
        "undo": Verb("undo", "Take back a call, turn, session or file."),
        "redo": Verb("redo", "Take the newest undo back."),
        "restore": Verb("restore", "Bring files back as they were at a moment."),
        "pin": Verb("pin", "Name the present state, to come back to it."),
        "pins": Verb("pins", "List the pins."),
        "unpin": Verb("unpin", "Delete a pin; no file changes."),
        "ops": Verb("ops", "List what was undone, redone and restored."),
    },
    "look": {
        "ui": Verb("ui", "Look, undo and pin in a view of the terminal."),
        "log": Verb("log", "List what was written, newest first."),
        "sessions": Verb("sessions", "List the runs of agents, and your own work."),
        "turns": Verb("turns", "List the turns and their prompts."),
        "show": Verb("show", "Show one thing in full, by its id."),
        "diff": Verb("diff", "Compare recorded states, or one with the disk."),
        "cat": Verb("cat", "Print a file as it was."),
        "blame": Verb("blame", "Say who wrote each line of a file."),
        "stats": Verb("stats", "Count how many lines are whose."),
        "check": Verb("check", "Say what speaks against a commit."),
        "review": Verb("review", "Mark lines of agents as looked at."),
        "report": Verb("report", "Write what a session did as a page."),
        "expose": Verb("expose", "Show a session to Git programs."),
        "unexpose": Verb("unexpose", "No longer show it to Git programs."),
    },
    "record": {
        "exec": Verb("exec", "Run a command as an agent, and record it."),
        "record": Verb("record", "Record some paths now."),
        "session": Verb("session", "Open or close a session by hand."),
        "flush": Verb("flush", "Wait until all is recorded."),
        "hook": Verb("hook", "Called by agents: take what they tell."),
        "git-hook": Verb("git_hook", "Called by Git: take what its hooks tell."),
    },
    "effects": {
        "saga": Verb("saga", "List what agent programs did beside files."),
        "tools": Verb("tools", "List what of a program can be taken back."),
        "events": Verb("events", "List the conversation of a program."),
        "state": Verb("state", "Show the state of a program."),
        "artifacts": Verb("artifacts", "List what a program made, or read it."),
        "rewind": Verb("rewind", "Take a program back to before a turn."),
        "recover": Verb("recover", "Finish what a crash interrupted."),
        "attention": Verb("attention", "List what needs you."),
        "resolve": Verb("resolve", "Say that you settled a call by hand."),
        "verify": Verb("verify", "Check that nobody changed the saga log."),
        "mcp": Verb("mcp", "Serve agents, or guard MCP servers."),
    },
    "keep": {
        "du": Verb("du", "Say how much disk the history takes."),
        "pack": Verb("pack", "Pack the history, to save disk."),
        "prune": Verb("prune", "Drop old sessions."),
        "purge": Verb("purge", "Drop a content from the whole history."),
        "push": Verb("push", "Send sessions to a remote."),
        "fetch": Verb("fetch", "Bring sessions of others from a remote."),
        "mirror": Verb("mirror", "Bring the copy outside up to date."),
        "export": Verb("export", "Write who wrote what, for other programs."),
        "import": Verb("import_", "Take in who wrote what from elsewhere."),
        "reindex": Verb("reindex", "Build the journal anew from the refs."),
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
