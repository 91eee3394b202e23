"""What the scripted model asks an agent to do, in words that every agent has a tool for.

A prompt names its script: `[[basic cwd=/repo]] Please.` A script is a row of rounds; a round is
what one answer of the model asks for, side by side if it has more than one action.
"""

from dataclasses import dataclass

from tests.support.shadow import COMMAND


@dataclass(frozen=True)
class Write:
    """Create or replace a file."""

    path: str
    content: str


@dataclass(frozen=True)
class Read:
    """Read a file: some agents edit none that they have not read."""

    path: str


@dataclass(frozen=True)
class Edit:
    """Replace one piece of text in a file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Shell:
    """Run a command; `{cwd}` in it is the repository."""

    command: str
    background: bool = False


@dataclass(frozen=True)
class Task:
    """Start a subagent with another script."""

    script: str
    background: bool = False


@dataclass(frozen=True)
class Wait:
    """Wait for a subagent or a command; left out for an agent without a tool for that."""


@dataclass(frozen=True)
class Search:
    """Look for a tool that is not declared yet; left out for an agent that declares all."""

    words: str


@dataclass(frozen=True)
class Note:
    """Write a file by the tool `write_note` of an MCP server."""

    path: str
    content: str


@dataclass(frozen=True)
class Person:
    """A person writes a file while the agent waits for the model: no tool does it.

    With `during`, it is written while the shell command of its round runs, which waits for that;
    with `editor`, by an editor that has its swap file beside it; with `atomic`, by way of a new
    file that is renamed.
    """

    path: str
    content: str
    during: bool = False
    editor: bool = False
    atomic: bool = False


@dataclass(frozen=True)
class Say:
    """Answer in words, which ends the turn."""

    text: str


ToolAction = Read | Write | Edit | Shell | Task | Wait | Search | Note
Action = ToolAction | Person | Say
Round = tuple[Action, ...]
Script = tuple[Round, ...]

_WORK = (
    "cd {cwd} && printf 'x\\n' > sh.txt && rm old.txt && mv name1.txt name2.txt"
    " && mkdir -p deep/er && echo y > deep/er/f.txt && sleep 0.3"
)

_LATER = "sleep 3; echo late > late.txt"
SHELL_RUNS = ".git/shell-runs"
PERSON_WROTE = ".git/person-wrote"
# Gemini refuses commands with substitutions.
_WATCHED = (
    f"cd {{cwd}} && echo s > shell.txt && touch {SHELL_RUNS}"
    f" && timeout 20 sh -c 'until test -e {PERSON_WROTE}; do sleep 0.05; done'"
)
_PRINTS = _WATCHED.replace(
    "echo s > shell.txt", "echo made > shell.txt && echo building"
)
SAVED = "a line by a person\n" * 20

INNER_AGENT = "../inner"

SCRIPTS: dict[str, Script] = {
    "basic": (
        (Write("made.txt", "one\ntwo\nthree\n"),),
        (Edit("made.txt", "two", "TWO"),),
        (Read("src/app.py"),),
        (Edit("src/app.py", "    return 1", "    return 2"),),
        (Shell(_WORK),),
        (Say("All done."),),
    ),
    "second": (
        (Write("second.txt", "of the second turn\n"),),
        (Shell("cd {cwd} && echo more >> list.txt && sleep 0.3"),),
        (Say("The second turn is done."),),
    ),
    "person": (
        (Write("mine.txt", "by the agent\n"),),
        (Person("between.txt", "by a person\n"),),
        (Read("list.txt"),),
        (Edit("list.txt", "beta", "BETA"),),
        (
            Shell(_WATCHED),
            Person("saved.txt", "by a person\n", during=True),
            Person("edited.txt", "by a person\n", during=True, editor=True),
        ),
        (Say("Done, and somebody else was here."),),
    ),
    "quiet": (
        (
            Shell(_PRINTS),
            Person("saved.txt", SAVED, during=True),
            Person("person.txt", SAVED, during=True),
            Person("list.txt", SAVED, during=True, atomic=True),
        ),
        (Shell("cd {cwd} && echo later > later.txt && sleep 0.3"),),
        (Say("Done, and somebody saved files."),),
    ),
    "task": (
        (Task("sub"),),
        (Wait(),),
        (Write("parent.txt", "by the parent\n"),),
        (Say("The task is done."),),
    ),
    "sub": (
        (Write("sub.txt", "by the subagent\n"),),
        (Shell("cd {cwd} && echo s > subsh.txt && sleep 0.3"),),
        (Say("The subagent is done."),),
    ),
    "behind": (
        (Task("late_sub", background=True),),
        (Write("parent.txt", "by the parent\n"),),
        (Say("The subagent goes on."),),
    ),
    "late_sub": (
        (Shell("cd {cwd} && sleep 3 && echo s > subsh.txt"),),
        (Write("sub.txt", "by the subagent\n"),),
        (Say("The subagent is done."),),
    ),
    "parallel": (
        (
            Write("p1.txt", "first\n"),
            Write("p2.txt", "second\n"),
            Shell("cd {cwd} && echo third > p3.txt && sleep 0.3"),
        ),
        (Say("All three are done."),),
    ),
    "fail": (
        (Read("list.txt"),),
        (Edit("list.txt", "not in the file", "never written"),),
        (Shell("cd {cwd} && echo partly > partly.txt && exit 3"),),
        (Write("after.txt", "after the failures\n"),),
        (Say("Two of three failed."),),
    ),
    "first_of_two": (
        (Shell("cd {cwd} && for i in 1 2 3 4; do echo a > a$i.txt; sleep 0.2; done"),),
        (Say("The first agent is done."),),
    ),
    "second_of_two": (
        (Shell("cd {cwd} && for i in 1 2 3 4; do echo b > b$i.txt; sleep 0.2; done"),),
        (Say("The second agent is done."),),
    ),
    "outer": (
        (Shell(f"cd {{cwd}} && {INNER_AGENT} && echo after > after.txt"),),
        (Say("The other agent is done."),),
    ),
    "oops": (
        # By its path, as the installed command names it: Codex's login shell has a short PATH.
        (Shell(f"cd {{cwd}} && {COMMAND} oops --own --dry-run --json > .git/plan"),),
        (
            Shell(
                # Gemini runs no command that has another one in `$()`.
                'cd {cwd} && grep -o \'"token": *"[^"]*\' .git/plan | cut -d \'"\' -f 4'
                f" | xargs {COMMAND} oops --own --token"
            ),
        ),
        (Say("It is undone."),),
    ),
    "look": ((Say("I see."),),),
    "background": (
        (Shell("cd {cwd} && sleep 2 && echo late > late.txt", background=True),),
        (Write("early.txt", "before the background command ends\n"),),
        (Say("It still runs."),),
    ),
    "detached": (
        (Shell("cd {cwd} && setsid sh -c '" + _LATER + "' > /dev/null 2>&1 &"),),
        (Say("It runs by itself."),),
    ),
    "note": (
        (Search("write_note"),),
        (Note("note.txt", "by the server\n"),),
        (Write("own.txt", "by the agent\n"),),
        (Say("It is noted."),),
    ),
    "refused": (
        (Write("refused.txt", "by the agent\n"),),
        (Person("refused.txt", "by a person\n"),),
        (Read("list.txt"),),
        (Say("I was refused."),),
    ),
    "asked": (
        (Shell("cd {cwd} && echo by the command >> asked.txt && echo new > made.txt"),),
        (Say("I was allowed to."),),
    ),
    "long": (
        (Write("begun.txt", "begun\n"),),
        (
            Shell(
                "cd {cwd} && echo half > half.txt && sleep 60 && echo whole > half.txt"
            ),
        ),
        (Say("Nobody stopped me."),),
    ),
}
