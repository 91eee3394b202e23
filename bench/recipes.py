"""Ways of taking an agent's work back, each as the plain commands that it is made of.

Invariant: a recipe runs only what its text says, when its text says so.
"""

import json
import shutil
import subprocess
from pathlib import Path

from bench.places import Place


class Recipe:
    """Take part in one timeline: told of every step of the agent, asked to undo at its end.

    `name` heads a column; `saves` and `restores` say in a cell what is run; `source` names the
    public document that describes it, where one does.
    """

    name = ""
    saves = ""
    restores = ""
    source = "–"

    def __init__(self, place: Place) -> None:
        self.place = place
        self.spare = place.root.parent / "spare"

    def begin(self) -> None:
        """Prepare: the agent has its prompt and has written nothing."""

    def before(self, path: str) -> None:
        """Prepare for one tool call that is about to write a path."""

    def after(self, path: str) -> None:
        """Follow one tool call that has written a path."""

    def end(self) -> None:
        """Follow the end of the agent's turn."""

    def undo(self) -> None:
        """Take the agent's work back."""
        raise NotImplementedError

    def git(self, *args: str) -> str:
        """Run git in the user's repository."""
        return self.place.git(*args)


class Ours(Recipe):
    """Deliver the agent's hooks to the hook program, then `oops`."""

    name = "gitshadow"
    saves = "`git agent-undo init` once; the agent's hooks"
    restores = "`git agent-undo oops --yes`"
    source = "[recovery](recovery.md)"

    def begin(self) -> None:
        """Have the user set up, and the agent get a prompt."""
        self.place.shadow("init")
        self._hook("UserPromptSubmit", prompt="go")

    def before(self, path: str) -> None:
        """Announce a tool call."""
        self._call("PreToolUse", path)

    def after(self, path: str) -> None:
        """Report the call done."""
        self._call("PostToolUse", path)

    def end(self) -> None:
        """Report the end of the turn."""
        self._hook("Stop")

    def undo(self) -> None:
        """Press the panic button."""
        self.place.shadow("oops", "--yes")

    def _call(self, name: str, path: str) -> None:
        given = {"file_path": str(self.place.root / path)}
        self._hook(name, tool_name="Write", tool_input=given, tool_use_id=f"on {path}")

    def _hook(self, name: str, **extra: object) -> None:
        payload = {
            "session_id": "damage",
            "transcript_path": "/nowhere/.claude/projects/damage.jsonl",
            "cwd": str(self.place.root),
            "hook_event_name": name,
            **extra,
        }
        self.place.hook(json.dumps(payload))


class _Shadow(Recipe):
    """Keep a second repository with the user's directory as its working tree."""

    def begin(self) -> None:
        """Make the second repository and its first checkpoint."""
        subprocess.run(["git", "init", "-q", str(self.spare)], check=True)
        self._checkpoint()
        self.first = self._git("rev-parse", "HEAD").strip()

    def _checkpoint(self) -> None:
        self._git("add", "-A")
        self._git("commit", "-q", "--allow-empty", "-m", "checkpoint")

    def _git(self, *args: str) -> str:
        where = f"--git-dir={self.spare}/.git", f"--work-tree={self.place.root}"
        return self.place.git(*where, *args)


class ShadowReset(_Shadow):
    """Checkpoint after every tool call, reset the whole tree."""

    name = "A"
    saves = "second repository over the same files: `git add -A; git commit` after every tool call"
    restores = "`git reset --hard CHECKPOINT` there"
    source = "“Checkpoints”, documentation of Cline"

    def after(self, path: str) -> None:
        """Checkpoint."""
        self._checkpoint()

    def undo(self) -> None:
        """Reset the tree to the checkpoint before the agent's first call."""
        self._git("reset", "-q", "--hard", self.first)


class ShadowClean(_Shadow):
    """Checkpoint before every tool call, restore the whole tree and clean it."""

    name = "B"
    saves = "the same before every tool call"
    restores = "`git restore --source CHECKPOINT .; git clean -fd` there"
    source = "“Checkpointing”, documentation of Gemini CLI"

    def before(self, path: str) -> None:
        """Checkpoint."""
        self._checkpoint()

    def undo(self) -> None:
        """Restore every file of the first checkpoint, remove what came later."""
        self._git("restore", "--source", self.first, ".")
        self._git("clean", "-q", "-fd")


class Stash(Recipe):
    """Stash everything with untracked files at the beginning, and put it back for the agent."""

    name = "C"
    saves = "`git stash push -u; git stash apply --index` before the turn"
    restores = "`git reset --hard; git clean -fd; git stash apply --index`"
    source = "“Git Checkpoints”, documentation of fspec"

    def begin(self) -> None:
        """Stash, and go on with the same files."""
        self.git("stash", "push", "-q", "-u", "-m", "checkpoint")
        self.git("stash", "apply", "-q", "--index")

    def undo(self) -> None:
        """Clear the tree, apply the stash."""
        self.git("reset", "-q", "--hard")
        self.git("clean", "-q", "-fd")
        self.git("stash", "apply", "-q", "--index")


class Backup(Recipe):
    """Copy each file aside before the agent's edit tool writes it for the first time."""

    name = "D"
    saves = "`cp FILE BACKUP` before the first edit of each file"
    restores = "`cp BACKUP FILE`, `rm` if there was none"
    source = "“Checkpointing”, documentation of Claude Code"

    def begin(self) -> None:
        """Know no file yet."""
        self._known: dict[Path, Path | None] = {}
        self.spare.mkdir()

    def before(self, path: str) -> None:
        """Copy the file, or note that there is none."""
        full = self.place.root / path
        if full in self._known:
            return
        copy = self.spare / path
        self._known[full] = copy if full.exists() else None
        if full.exists():
            shutil.copyfile(full, copy)

    def undo(self) -> None:
        """Copy everything back."""
        for path, copy in self._known.items():
            if copy is None:
                path.unlink()
            else:
                shutil.copyfile(copy, path)


class HiddenCommit(Recipe):
    """Commit the whole tree by a temporary index, on no branch."""

    name = "E"
    saves = (
        "`git add -A; git write-tree; git commit-tree` with a temporary index, on no branch,"
        " before the turn"
    )
    restores = (
        "`git restore --source SNAPSHOT --staged --worktree .`; new untracked files"
        " (`git ls-files -o --exclude-standard`) removed"
    )
    source = "“Ghost commits”, README of codex-git-tooling"

    def begin(self) -> None:
        """Take the snapshot."""
        index = {"GIT_INDEX_FILE": f"{self.spare}.index"}
        aside = Place(self.place.root, self.place.env | index)
        aside.git("read-tree", "HEAD")
        aside.git("add", "-A")
        tree = aside.git("write-tree").strip()
        message = "-p", "HEAD", "-m", "snapshot"
        self.snapshot = aside.git("commit-tree", tree, *message).strip()
        self.untracked = self._untracked()

    def undo(self) -> None:
        """Restore the snapshot, remove the files that were not there."""
        new = self._untracked() - self.untracked
        where = "--staged", "--worktree", "."
        self.git("restore", "--source", self.snapshot, *where)
        for path in new:
            (self.place.root / path).unlink()

    def _untracked(self) -> set[str]:
        found = self.git("ls-files", "-z", "-o", "--exclude-standard")
        return set(found.split("\0")) - {""}


class Copy(Recipe):
    """Copy the working tree aside, and back."""

    name = "F"
    saves = "`cp -a` of the working tree without `.git` before the turn"
    restores = "everything but `.git` removed, `cp -a` back"

    def begin(self) -> None:
        """Copy."""
        shutil.copytree(
            self.place.root,
            self.spare,
            symlinks=True,
            ignore=lambda where, _: [".git"] if where == str(self.place.root) else [],
        )

    def undo(self) -> None:
        """Empty the working tree, copy back."""
        for path in self.place.root.iterdir():
            if path.name == ".git":
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(self.spare, self.place.root, symlinks=True, dirs_exist_ok=True)


RECIPES: tuple[type[Recipe], ...] = (
    Ours,
    ShadowReset,
    ShadowClean,
    Stash,
    Backup,
    HiddenCommit,
    Copy,
)
