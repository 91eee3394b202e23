"""Random histories of lines that are tokens, with the model that blame is compared with.

In half of the histories the tokens are so short that no line is distinctive by itself.

No line is ever written twice by hand, so who wrote it is known without a diff: `author` never reads
what blame reads. Git is a model, too, with commits on branches: blame asks it (`MemoryGit`) for
answers that it gives from tokens, not from diffs.
"""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gitshadow.blame.git_history import Facts, GitLine, GitPast
from gitshadow.model import Actor, Attribution, Confidence, Oid, PathChange, RepoPath
from gitshadow.store.objects import CommitInfo
from gitshadow.store.trees import Entry as TreeEntry
from gitshadow.store.trees import TreeChange
from gitshadow.undo.merge import merge
from gitshadow.undo.targets import Unit, is_undoable
from tests.support.values import Entry, Values

PATHS = tuple(RepoPath(b"%c" % name) for name in b"abcd")
MODE = 0o100644
BASE, HAND = "H", "hand"
_CLAIMS = {
    "S1": (Actor.AGENT, Confidence.CERTAIN),
    "S2": (Actor.AGENT, Confidence.CERTAIN),
    "shell": (Actor.AGENT, Confidence.HIGH),
    HAND: (Actor.UNKNOWN, Confidence.UNKNOWN),
}
WRITERS = ("S1", "S1", "S2", "S2", "shell", HAND, HAND)

_VERBS = (
    *("edit", "edit", "edit", "edit", "create", "delete", "rename"),
    *("undo", "redo", "commit", "commit", "amend", "branch", "switch"),
    *("pick", "pick", "rebase", "rebase", "squash", "revert"),
    *("stash", "pop", "checkout", "diverge", "diverge"),
)

Tree = dict[RepoPath, Oid]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a line of history."""

    oid: Oid
    parent: "Commit | None"
    tree: Tree
    authored: int = 0


@dataclass(slots=True)
class Tokens(Values):
    """Make random moves; `author` is the first author of each line."""

    lines: int = 0
    is_short: bool = False
    rng: random.Random = field(default_factory=random.Random)
    author: dict[bytes, str] = field(default_factory=dict)
    branches: dict[str, Commit] = field(default_factory=dict)
    branch: str = "main"
    heads: list[Commit] = field(default_factory=list)
    stash: tuple[Tree, Tree] | None = None
    plain: set[Oid] = field(default_factory=set)
    commits: dict[Oid, Commit] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.is_short = self.rng.random() < 0.5
        for path in PATHS[:2]:
            lines = [self.token(BASE) for _ in range(self.rng.randint(1, 8))]
            self.files[path] = self.state((MODE, b"".join(lines)))
        self.move_head(self.commit_of(None, self.oids()))

    def token(self, who: str) -> bytes:
        self.lines += 1
        line = b"%s %d, %024x\n" % (who.encode(), self.lines, self.rng.getrandbits(96))
        if self.is_short:
            line = b"%06d\n" % self.lines
        self.author[line] = who
        return line

    def claim(self, who: str, turn: str | None) -> Attribution:
        """Return the attribution of what somebody writes."""
        actor, confidence = _CLAIMS.get(who, (Actor.HUMAN, Confidence.CERTAIN))
        return Attribution(
            actor=actor, session=who, confidence=confidence, reason="the test says so"
        )

    def play_one(self) -> None:
        """Make one random move, if it is possible."""
        getattr(self, "do_" + self.rng.choice(_VERBS))()

    def do_edit(self) -> None:
        who = self.rng.choice(WRITERS)
        if not self.files:
            return
        path = self.rng.choice(sorted(self.files))
        lines = self.blobs.lines(self.files[path].version.oid)
        for _ in range(self.rng.randint(1, 3)):
            at = self.rng.randint(0, len(lines))
            if self.rng.random() < 0.4:
                del lines[at : at + self.rng.randint(1, 3)]
            else:
                new = [self.token(who) for _ in range(self.rng.randint(1, 3))]
                lines[at : at + self.rng.randint(0, 1)] = new
        self.write(who, "put", path, (MODE, b"".join(lines)))

    def do_create(self) -> None:
        who, path = self.rng.choice(WRITERS), self.rng.choice(PATHS)
        if path not in self.files:
            lines = [self.token(who) for _ in range(self.rng.randint(1, 4))]
            self.write(who, "put", path, (MODE, b"".join(lines)))

    def do_delete(self) -> None:
        if len(self.files) > 1:
            path = self.rng.choice(sorted(self.files))
            self.write(self.rng.choice(WRITERS), "drop", path, None)

    def do_rename(self) -> None:
        free = [path for path in PATHS if path not in self.files]
        if self.files and free:
            old, new = self.rng.choice(sorted(self.files)), self.rng.choice(free)
            self.done["rename"] += 1
            self.write(self.rng.choice(WRITERS), "move", old, new)

    def write(
        self, who: str, verb: str, path: RepoPath, what: Entry | bytes | None
    ) -> None:
        """Make one change and give it its row."""
        before = dict(self.files)
        self.change(verb, path, what)
        self.record(before, who)

    def do_undo(self) -> None:
        rows = [event for event in self.events if is_undoable(event)]
        if rows:
            chosen = self.rng.choice(rows)
            session = chosen.attribution.session
            whole = self.rng.random() < 0.3 and chosen.op is None
            self.take_back(
                [e.seq for e in rows if whole and self.is_by(e, session)]
                or [chosen.seq]
            )

    def is_by(self, event: PathChange, session: str) -> bool:
        return event.op is None and event.attribution.session == session

    def do_redo(self) -> None:
        ops = [event.op for event in self.events if event.op is not None]
        if ops:
            self.take_back([e.seq for e in self.events if e.op == ops[-1]])

    def take_back(self, seqs: Collection[int]) -> None:
        """Plan an undo and apply the plan."""
        plan = self.plan(seqs)
        self.done["undo"] += bool(plan.steps)
        self.apply(plan, Unit(seqs=frozenset(seqs)), "person")

    @property
    def head(self) -> Commit:
        return self.heads[-1]

    def oids(self) -> Tree:
        return {path: state.version.oid for path, state in self.files.items()}

    def is_clean(self) -> bool:
        """Return whether nothing is uncommitted; mostly commit first, so that Git can continue."""
        if self.rng.random() < 0.7:
            self.do_commit()
        return self.oids() == self.head.tree

    def commit_of(
        self, parent: Commit | None, tree: Tree, again: Commit | None = None
    ) -> Commit:
        """Return a new commit, with the author date of the one that it repeats."""
        number = len(self.commits) + 1
        authored = number if again is None else again.authored
        oid = Oid(f"{number:040x}")
        self.commits[oid] = Commit(oid, parent, dict(tree), authored)
        return self.commits[oid]

    def move_head(self, commit: Commit) -> None:
        self.heads.append(commit)
        self.branches[self.branch] = commit

    def switch_to(self, tree: Tree, *, switched: bool) -> None:
        """Let Git write a tree: as a move of HEAD, or as plain writes of the caller."""
        who, before = self.rng.choice((HAND, "shell")), dict(self.files)
        # A short file that a shell call creates is the call's: it may be equal by chance.
        if any(
            len(self.blobs[tree[path]]) < 28 for path in tree.keys() - before.keys()
        ):
            who = HAND
        for path in self.files.keys() - tree.keys():
            del self.files[path]
        for path, oid in tree.items():
            known = self.version(path)
            if known is None or known.oid != oid:
                self.change("put", path, (MODE, self.blobs[oid]))
        self.record(before, who, switched=switched)

    def do_commit(self) -> None:
        if self.oids() != self.head.tree:
            self.move_head(self.commit_of(self.head, self.oids()))
            self.plain.add(self.head.oid)

    def do_amend(self) -> None:
        if self.head.parent is not None:
            made = self.commit_of(self.head.parent, self.oids(), self.head)
            self.move_head(made)
            self.done["amend"] += 1

    def do_squash(self) -> None:
        parent = self.head.parent
        if self.is_clean() and parent is not None and parent.parent is not None:
            self.move_head(self.commit_of(parent.parent, self.oids(), parent))
            self.done["squash"] += 1

    def do_branch(self) -> None:
        name = f"b{len(self.branches)}"
        if len(self.branches) < 3:
            back = self.head.parent or self.head
            self.branches[name] = self.rng.choice([self.head, back])

    def do_switch(self) -> None:
        other = self.rng.choice(sorted(self.branches))
        if self.is_clean() and other != self.branch:
            target = self.branches[other]
            self.branch = other
            self.move_head(target)
            self.switch_to(target.tree, switched=True)
            self.done["switch"] += 1

    def do_diverge(self) -> None:
        """Go back on another branch, commit something there, and return."""
        home, mine = self.branch, self.line(self.head)
        if not self.is_clean() or len(mine) < 2:
            return
        base = self.rng.choice(mine[1:4])
        for name in ("side", home):
            if name != home:
                self.branches[name] = base
            self.branch = name
            self.move_head(self.branches[name])
            self.switch_to(self.head.tree, switched=True)
            if name != home:
                self.do_edit()
                self.do_commit()

    def do_pick(self) -> None:
        mine = self.line(self.head)
        tips = self.branches.values()
        others = [c for tip in tips for c in self.line(tip)[:3] if c not in mine]
        other = self.rng.choice(others) if others else self.head
        if self.is_clean() and other.parent is not None:
            self.done["pick"] += self.replay_on(self.head, [other])

    def do_rebase(self) -> None:
        """Replay the commits of this branch on the tip of another."""
        mine = self.line(self.head)
        ontos = [b for b in sorted(self.branches) if self.branches[b] not in mine]
        onto = self.branches[self.rng.choice(ontos)] if ontos else self.head
        common = [c for c in self.line(onto) if c in mine]
        if self.is_clean() and common and onto not in mine:
            commits = mine[: mine.index(common[0])][::-1]
            self.done["rebase"] += self.replay_on(onto, commits)

    def line(self, commit: Commit) -> list[Commit]:
        found = [commit]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found

    def replay_on(self, onto: Commit, commits: Sequence[Commit]) -> bool:
        """Make each commit's change anew; HEAD is seen at each step, or only at the end."""
        at, steps = onto, []
        for commit in commits:
            tree = self.changed(commit.parent, commit, at.tree)
            if tree is None or tree == at.tree:
                return False
            at = self.commit_of(at, tree, commit)
            steps.append(at)
        each = self.rng.random() < 0.5
        if each and onto is not self.head:
            self.heads.append(onto)
            self.switch_to(onto.tree, switched=True)
        for step in steps:
            self.move_head(step)
            if each or step is steps[-1]:
                self.switch_to(step.tree, switched=True)
        return bool(steps)

    def changed(
        self, old: Commit | None, new: Commit, tree: Tree, *, back: bool = False
    ) -> Tree | None:
        """Return a tree with the change between two commits made in it, None on conflict."""
        before = dict(old.tree) if old is not None else {}
        after = dict(new.tree)
        if back:
            before, after = after, before
        made = dict(tree)
        for path in sorted({*before, *after}):
            a, b, now = before.get(path), after.get(path), tree.get(path)
            if a == b:
                continue
            if now == a:
                made.pop(path, None)
                if b is not None:
                    made[path] = b
                continue
            if a is None or b is None or now is None:
                return None
            merged = merge(self.blobs[a], self.blobs[b], self.blobs[now])
            if merged is None:
                return None
            made[path] = self.blobs.store(merged)
        return made

    def do_revert(self) -> None:
        if self.is_clean() and self.head.parent is not None:
            commit = self.rng.choice(self.line(self.head)[:-1])
            tree = self.changed(commit.parent, commit, self.head.tree, back=True)
            if tree is not None and tree != self.head.tree:
                self.move_head(self.commit_of(self.head, tree))
                self.switch_to(tree, switched=True)
                self.done["revert"] += 1

    def do_stash(self) -> None:
        if self.oids() != self.head.tree and self.stash is None:
            self.stash = self.head.tree, self.oids()
            self.switch_to(self.head.tree, switched=False)
            self.done["stash"] += 1

    def do_pop(self) -> None:
        if self.stash is None or not self.is_clean():
            return
        old, new = (Commit(Oid(""), None, tree) for tree in self.stash)
        tree = self.changed(old, new, self.head.tree)
        if tree is not None:
            self.stash = None
            self.switch_to(tree, switched=False)
            self.done["pop"] += 1

    def do_checkout(self) -> None:
        """Let Git restore one path from HEAD."""
        tree = self.oids()
        dirty = sorted(p for p, oid in self.head.tree.items() if tree.get(p) != oid)
        if dirty:
            path = self.rng.choice(dirty)
            self.switch_to({**tree, path: self.head.tree[path]}, switched=False)
            self.done["checkout"] += 1


class MemoryGit(GitPast):
    """Answer blame's questions about Git, by tokens instead of diffs."""

    def __init__(self, world: Tokens) -> None:
        self.world = world

    def committed(self, path: RepoPath) -> frozenset[Oid]:
        return frozenset(c.tree[path] for c in self.world.heads if path in c.tree)

    def recorded_since(self) -> Oid | None:
        return self.world.heads[0].oid

    def began(self, event: PathChange | None) -> Oid | None:
        return self.world.head.oid if event is None else self.world.heads[0].oid

    def holding(self, path: RepoPath, blob: Oid) -> Oid | None:
        for commit in reversed(self.world.heads):
            if commit.tree.get(path) == blob:
                return commit.oid
        return None

    def oldest(self, path: RepoPath, blob: Oid | None) -> Oid | None:
        for commit in self.world.heads:
            if commit.tree.get(path) == blob:
                return commit.oid
        return None

    def blob(self, commit: Oid, path: RepoPath) -> Oid | None:
        return self.world.commits[commit].tree.get(path)

    def newer(self, commits: Sequence[Oid], base: Oid) -> set[Oid]:
        older = {c.oid for c in self.world.line(self.world.commits[base])}
        return set(commits) - older

    def bringing(self, path: RepoPath, blob: Oid) -> Oid | None:
        for commit in self.world.heads:
            above = commit.parent.tree if commit.parent else {}
            if commit.tree.get(path) == blob != above.get(path):
                return commit.oid
        return None

    def known(self) -> Mapping[Oid, CommitInfo]:
        return {c.oid: _info(c) for c in reversed(self.world.commits.values())}

    def tips(self) -> Sequence[Oid]:
        return [commit.oid for commit in reversed(self.world.heads)]

    def commit(self, oid: Oid) -> CommitInfo | None:
        commit = self.world.commits.get(oid)
        return None if commit is None else _info(commit)

    def differences(self, old: Oid | None, new: Oid) -> Sequence[TreeChange]:
        before = {} if old is None else self.world.commits[old].tree
        after = self.world.commits[new].tree
        return [
            TreeChange(path, *(_entry(tree.get(path)) for tree in (before, after)))
            for path in sorted({*before, *after})
            if before.get(path) != after.get(path)
        ]

    def is_older(self, one: CommitInfo, other: CommitInfo) -> bool:
        return one.oid < other.oid

    def amended(self, commit: Oid) -> Oid | None:
        return None

    def is_repeated(self, commit: Oid) -> bool:
        return self.made_here(commit) and not self.plainly_made(commit)

    def merge_base(self, one: Oid, other: Oid) -> Oid | None:
        theirs = self.world.line(self.world.commits[other])
        mine = self.world.line(self.world.commits[one])
        return next((commit.oid for commit in mine if commit in theirs), None)

    def made_here(self, commit: Oid) -> bool:
        return any(commit == made.oid for made in self.world.heads[1:])

    def plainly_made(self, commit: Oid) -> bool:
        return commit in self.world.plain

    def blame(self, commit: Oid, path: RepoPath) -> list[GitLine]:
        at = self.world.commits[commit]
        return [self._line(at, path, text) for text in self._lines(at, path)]

    def _lines(self, commit: Commit, path: RepoPath) -> list[bytes]:
        return self.world.blobs[commit.tree[path]].splitlines(keepends=True)

    def _line(self, commit: Commit, path: RepoPath, text: bytes) -> GitLine:
        """Go down as long as the parent has the token, in the same file or a renamed one."""
        while commit.parent is not None:
            parent = commit.parent
            name = path if path in parent.tree else self._renamed(commit, path)
            if name is None or text not in self._lines(parent, name):
                previous = None if name is None else (parent.oid, name)
                return self._said(commit, path, text, previous)
            commit, path = parent, name
        return self._said(commit, path, text, None)

    def _renamed(self, commit: Commit, path: RepoPath) -> RepoPath | None:
        assert commit.parent is not None
        mine = set(self._lines(commit, path))
        gone = [p for p in commit.parent.tree if p not in commit.tree]
        likes = [(len(mine & set(self._lines(commit.parent, p))), p) for p in gone]
        found, name = max(likes, default=(0, path))
        return name if found else None

    def _said(
        self,
        commit: Commit,
        path: RepoPath,
        text: bytes,
        previous: tuple[Oid, RepoPath] | None,
    ) -> GitLine:
        line = self._lines(commit, path).index(text) + 1
        return GitLine(commit.oid, path, line, previous, Facts(path=path))


def _info(commit: Commit) -> CommitInfo:
    parents = (commit.parent.oid,) if commit.parent is not None else ()
    when, tree = commit.authored, Oid("0" * 40)
    made = int(commit.oid, 16)
    return CommitInfo(commit.oid, tree, parents, b"P <p@x>", when, made, b"")


def _entry(oid: Oid | None) -> TreeEntry | None:
    return None if oid is None else (MODE, oid)
