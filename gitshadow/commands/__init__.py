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
        "hooks": Verb("hooks", "Put hooks into agents' settings, and take them out."),
        "start": Verb("start", "Start the daemon of this worktree."),
        "stop": Verb("stop", "Stop the daemon of this worktree."),
        "watch": Verb("watch", "Record in the foreground until interrupted."),
        "status": Verb("status", "Say what is recorded and what is not."),
        "prompt": Verb("prompt", "Print one short line for a shell's prompt."),
        "doctor": Verb("doctor", "Check the installation and name a remedy."),
        "completion": Verb("completion", "Print what makes a shell complete all this."),
        "uninstall": Verb("uninstall", "Take everything of ours out of a repository."),
    },
    "undo": {
        "oops": Verb("oops", "Take the newest agent burst back."),
        "undo": Verb("undo", "Take a call, turn, session, event, op or file back."),
        "redo": Verb("redo", "Take the newest undo back."),
        "restore": Verb("restore", "Write an earlier state of the files."),
        "pin": Verb("pin", "Name the present state, to restore it later."),
        "pins": Verb("pins", "List the pins."),
        "unpin": Verb("unpin", "Delete a pin; no file changes."),
        "ops": Verb("ops", "List what was undone, redone and restored."),
    },
    "look": {
        "ui": Verb("ui", "Look at the history on a screen, and undo from there."),
        "log": Verb("log", "List what was written, newest first."),
        "sessions": Verb("sessions", "List the sessions."),
        "turns": Verb("turns", "List the turns and their prompts."),
        "show": Verb("show", "Show one event, call, turn, burst, session or op."),
        "diff": Verb("diff", "Compare two recorded states, or one with the disk."),
        "cat": Verb("cat", "Print a file as it was."),
        "blame": Verb("blame", "Say who wrote each line of a file."),
        "stats": Verb("stats", "Count whose lines there are."),
        "check": Verb(
            "check", "Say what speaks against a change, as a pre-commit check."
        ),
        "review": Verb("review", "Mark lines of agents as reviewed."),
        "report": Verb("report", "Write what a session did as a page to read."),
        "expose": Verb("expose", "Show a session to Git programs as a remote branch."),
        "unexpose": Verb("unexpose", "Take back what expose did."),
    },
    "record": {
        "hook": Verb("hook", "Take an agent's hook call (JSON on standard input)."),
        "git-hook": Verb("git_hook", "Take a Git hook's call."),
        "exec": Verb("exec", "Run a command and record what it writes."),
        "record": Verb("record", "Record paths now."),
        "session": Verb("session", "Open or close a session by hand."),
        "flush": Verb("flush", "Wait until every earlier write is recorded."),
    },
    "effects": {
        "saga": Verb("saga", "Look at what agent programs did outside the file tree."),
        "tools": Verb("tools", "List a program's tools and what can be taken back."),
        "events": Verb("events", "List the events of an agent program's session."),
        "state": Verb("state", "Show the state of an agent program's session."),
        "artifacts": Verb(
            "artifacts", "List an agent program's artifacts, or read one."
        ),
        "rewind": Verb("rewind", "Take a session's state and conversation back."),
        "recover": Verb("recover", "Finish undos of effects that a crash interrupted."),
        "attention": Verb("attention", "List what a person should look at."),
        "resolve": Verb("resolve", "Record that a person has settled a call."),
        "verify": Verb("verify", "Check that nobody changed the saga log."),
        "mcp": Verb(
            "mcp", "Serve agents their own work; put turns around MCP servers."
        ),
    },
    "keep": {
        "prune": Verb("prune", "Drop old sessions."),
        "purge": Verb("purge", "Drop a file's content from the whole history."),
        "reindex": Verb("reindex", "Rebuild the journal from the refs."),
        "push": Verb("push", "Send sessions to a remote."),
        "mirror": Verb("mirror", "Bring the copy outside the project up to date."),
        "fetch": Verb("fetch", "Bring sessions of others from a remote."),
        "export": Verb("export", "Write who wrote what in a form that others read."),
        "import": Verb("import_", "Take in what others wrote of who wrote what."),
        "pack": Verb("pack", "Pack what the history has as loose objects."),
        "du": Verb("du", "Say how much disk the history takes."),
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
