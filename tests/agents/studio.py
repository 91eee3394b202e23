"""One agent at work in one repository: started, judged by what the tool answers afterwards."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.agents.drivers import DRIVERS, Driver, Surroundings
from tests.agents.install import NODE, packages
from tests.agents.model_server import ModelServer
from tests.agents.scripts import Edit, Write
from tests.agents.tool_calls import SHELLS
from tests.support import kinds
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Document, Shadow

_LIMIT_S = 240.0
_FILES = {
    "src/app.py": "def f():\n    return 1\n",
    "list.txt": "alpha\nbeta\ngamma\n",
    "old.txt": "old\n",
    "name1.txt": "a name\nof some\nlines\n",
    "person.txt": "a person's file\n",
}
# `hooks install` installs the name by which it was called.
_CALLED_BY_NAME = """\
import sys
from gitshadow.entry import main
del sys.argv[0]
sys.exit(main())
"""
_RECORDER = """\
#!/bin/sh
# Runs the real command and keeps what went in and came out, one directory per call.
trap '[ -d "$dir" ] && echo ended by the host > "$dir/code"; exit' TERM
dir=$(mktemp -d {records}/$(date +%s%N).XXXXXX)
printf '%s\\n' "$*" > "$dir/args"
cat > "$dir/in"
begun=$(date +%s%N)
{command} "$@" < "$dir/in" > "$dir/out" 2> "$dir/err"
code=$?
echo $((($(date +%s%N) - begun) / 1000)) > "$dir/us"
echo $code > "$dir/code"
cat "$dir/out"
cat "$dir/err" >&2
exit $code
"""


@dataclass(frozen=True)
class Turn:
    """The end of one run of an agent: exit code, everything it printed, seconds it took."""

    code: int
    printed: str
    seconds: float


@dataclass
class AgentStudio:
    """An agent with its own home and a repository with ours installed.

    `recorded` puts a recorder between the agent and the command: `hook_calls` then says what each
    hook got, printed and took.
    """

    name: str
    top: Path
    model: ModelServer
    shadow: Shadow
    home: Path
    program: str = ""
    """What is run in the place of the agent's program, where that is not the real one."""
    turns: list[Turn] = field(default_factory=list)
    installed: Mapping[Path, bytes | None] = field(default_factory=dict)
    """The files that `hooks install` wrote, with what was in them before."""

    @classmethod
    def create(cls, name: str, top: Path, model: ModelServer) -> "AgentStudio":
        """Make home and repository, commit the first files and begin recording."""
        home = top / "home"
        home.mkdir(parents=True)
        (home / ".gitconfig").write_text((Path.home() / ".gitconfig").read_text())
        repo = Repo.create(top / "repo", ())
        for path, text in _FILES.items():
            repo.write(path, text)
        repo.commit("first")
        exclude = repo.root / ".git" / "info" / "exclude"
        with exclude.open("a") as file:
            file.writelines(f"{one}\n" for one in DRIVERS[name].leftovers)
        return cls.at(name, top, model, repo)

    @classmethod
    def at(cls, name: str, top: Path, model: ModelServer, repo: Repo) -> "AgentStudio":
        """Return an agent with a home below `top` in a repository that is there."""
        home = top / "home"
        home.mkdir(parents=True, exist_ok=True)
        (home / ".gitconfig").write_text((Path.home() / ".gitconfig").read_text())
        studio = cls(name, top, model, Shadow(repo, daemon=True), home)
        studio.shadow.env.update(studio.variables())
        studio.shadow.executes = True
        for path, text in studio.driver.files(studio.surroundings()).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        return studio

    @property
    def driver(self) -> Driver:
        """Return how this agent is driven."""
        return DRIVERS[self.name]

    @property
    def has_file_tools(self) -> bool:
        """Return whether no file had to be written by a shell, of all that were so far."""
        return not any(
            isinstance(action, Write | Edit) and tool in SHELLS
            for action, tool in self.model.played
        )

    @property
    def repo(self) -> Repo:
        """Return the repository it works in."""
        return self.shadow.repo

    def surroundings(self) -> Surroundings:
        """Return what its driver needs to know."""
        return Surroundings(
            self.model.url,
            str(self.home),
            str(self.repo.root),
            self.program or str(packages()[self.name].executable),
        )

    def variables(self) -> dict[str, str]:
        """Return the variables that its environment has besides those of any program."""
        bin_ = self.top / "bin"
        path = [str(bin_), str(NODE.parent), str(Path(COMMAND).parent)]
        path += kinds.beginning(kinds.KIND) or ()
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([*path, "/usr/local/bin", "/usr/bin", "/bin"]),
            "TERM": "dumb",
            "SHELL": "/bin/bash",
            "USER": "dev",
            # tmux, in which OpenHands runs its shells, garbles names otherwise.
            "LC_ALL": "C.UTF-8",
            "NO_PROXY": "127.0.0.1,localhost",
            **self.driver.variables(self.surroundings()),
        }

    def environment(self) -> dict[str, str]:
        """Return the whole environment of the agent: its home is where HOME is."""
        kept = self.shadow.environment(self.variables())
        named = {
            name: value
            for name, value in kept.items()
            if not name.startswith("XDG_") or name == "XDG_RUNTIME_DIR"
        }
        # opencode works where PWD says, wherever it is started.
        return {**named, "PWD": str(self.repo.root)}

    def record_hooks(self) -> None:
        """Put the recorder in the way: hooks then call it by the name that is installed."""
        (self.top / "records").mkdir()
        bin_ = self.top / "bin"
        bin_.mkdir()
        script = bin_ / "git-agent-undo"
        records = shlex.quote(str(self.top / "records"))
        script.write_text(
            _RECORDER.format(records=records, command=shlex.quote(COMMAND))
        )
        script.chmod(0o755)

    def prepare(self, scope: str = "--user") -> None:
        """Install the hooks, begin recording, and do what the agent needs before its first turn.

        Hooks of the project are committed first, as those of a team are.
        """
        if scope == "--project":
            for path, text in self.driver.project_files.items():
                self.repo.write(path, text)
                self.repo.commit("settings")
        if not self.driver.wrapped:
            before = self._files()
            self.command("hooks", "install", scope, self.name, "--yes")
            self.installed = {
                path: before.get(path)
                for path, content in self._files().items()
                if content != before.get(path)
            }
        if scope == "--project":
            self.repo.commit("hooks")
        if self.shadow.executes:
            self.command("init")
        else:
            self.shadow.init()
        for arguments in self.driver.prepare(self.surroundings()):
            self.run([self.surroundings().program, *arguments])

    def _program(self) -> list[str]:
        """Return what runs our command: by the recorder's name where hooks run that."""
        recorder = self.top / "bin" / "git-agent-undo"
        if not recorder.exists():
            return [COMMAND]
        return [sys.executable, "-c", _CALLED_BY_NAME, str(recorder)]

    def _files(self) -> dict[Path, bytes]:
        """Return every file at home and in the repository, Git's own left out."""
        return {
            path: path.read_bytes()
            for top in (self.home, self.repo.root)
            for path in top.rglob("*")
            if path.is_file() and not path.is_relative_to(self.repo.root / ".git")
        }

    def changes(self) -> set[str]:
        """Return how files differ from HEAD, a line each; an agent may stage some (Aider)."""
        index = self.top / "index-of-head"
        self.repo.git("read-tree", f"--index-output={index}", "HEAD")
        words = ("git", "status", "--porcelain", "--untracked-files=all")
        return set(self.run(words, GIT_INDEX_FILE=str(index)).stdout.splitlines())

    def command(self, *arguments: str, ends: tuple[int, ...] = (0,)) -> str:
        """Run our command in the agent's environment and return what it printed."""
        if not self.shadow.executes:
            forked = self.shadow.run_in(self.environment(), *arguments)
            assert forked.code in ends, forked
            return forked.out
        done = self.run([*self._program(), *arguments])
        assert done.returncode in ends, (arguments, done.stdout)
        return done.stdout

    def rows(self, *arguments: str) -> list[Document]:
        """Run our command and return its lines of JSON."""
        return [json.loads(line) for line in self.command(*arguments).splitlines()]

    def turn(self, script: str, *, more: Sequence[str] = ()) -> Turn:
        """Let the agent follow a script in a first turn, or in a later one of that session."""
        parts = self.driver.again if self.turns else self.driver.turn
        assert parts is not None, f"{self.name} cannot continue a session"
        before, after = parts
        return self.start(script, before, [*after, *more])

    def start(
        self, script: str, before: Sequence[str], after: Sequence[str] = ()
    ) -> Turn:
        """Run the agent once."""
        begun = time.monotonic()
        done = self.run(self.words(script, before, after))
        turn = Turn(done.returncode, done.stdout, time.monotonic() - begun)
        self.turns.append(turn)
        (self.top / f"printed-{len(self.turns)}.txt").write_text(turn.printed)
        return turn

    def prompt(self, script: str) -> str:
        """Return the prompt that has the model follow a script."""
        return f"[[{script} cwd={self.repo.root}]] Please do it."

    def reported(self, script: str) -> str:
        """Return that prompt as hooks report it; inside `exec` it is in the command line."""
        if self.driver.wrapped:
            return " ".join(self._words(script, *self.driver.turn))
        prompt = self.prompt(script)
        return f'"{prompt}"' if self.driver.quotes else prompt

    def words(
        self, script: str, before: Sequence[str], after: Sequence[str] = ()
    ) -> list[str]:
        """Return the command line of a turn."""
        program = self._words(script, before, after)
        if self.driver.wrapped:
            program = [COMMAND, "exec", "--agent", self.name, "--", *program]
        return program

    def _words(
        self, script: str, before: Sequence[str], after: Sequence[str]
    ) -> list[str]:
        return [self.surroundings().program, *before, self.prompt(script), *after]

    def run(
        self, words: Sequence[str], **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in the agent's environment, whatever comes of it."""
        return subprocess.run(
            words,
            cwd=self.repo.root,
            env={**self.environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )

    def close(self) -> None:
        """End what the agent left running (some leave a server), then check the repository."""
        self.end_processes()
        self.shadow.close()

    def end_processes(self) -> None:
        """End every process with this agent's home, but not our daemon."""
        mine = f"HOME={self.home}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                variables = (process / "environ").read_bytes().split(b"\0")
                ours = b"gitshadow.daemon" in (process / "cmdline").read_bytes()
                if mine in variables and not ours:
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue  # it has ended, or is another user's

    # What the tool says afterwards

    def writes(self) -> dict[str, list[Document]]:
        """Return the recorded changes by path, oldest first."""
        found: dict[str, list[Document]] = {}
        for row in sorted(
            self.rows("log", "--json"), key=lambda one: int(str(one["seq"]))
        ):
            if row["kind"] != "baseline":
                found.setdefault(str(row["path"]), []).append(row)
        return found

    def hook_calls(self) -> list[Mapping[str, str]]:
        """Return what each hook call got, printed and took, in the order of their starts."""
        records = self.top / "records"
        calls = [
            {one.name: one.read_text() for one in directory.iterdir()}
            for directory in (sorted(records.iterdir()) if records.exists() else ())
        ]
        # The host may end a hook before anything of it was recorded.
        begun = (one for one in calls if "args" in one or not self.driver.ends_hooks)
        return [one for one in begun if one["args"].startswith("hook ")]
