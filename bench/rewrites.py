"""Rewrite random histories in each way that Git has, and count the agents' lines that keep authors.

Each history has a twin: the same commands on the same lines, of which each has a text that no other
line has. So Git itself says where each line ends up, and who wrote it is known without a diff.
Invariant: a history is counted only if both repositories end with the same lines in the same order.
"""

import json
import os
import random
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gitshadow.blame.line_owners import Owning
from gitshadow.model import Actor, RepoPath
from gitshadow.store.journal import sessions
from tests.support.context import Near, desk_of
from tests.support.repo import Repo

FILE = "file"
_SOURCES = ("textwrap.py", "bisect.py", "docs", "json")
_SHORT = (
    "}",
    "return x",
    "else:",
    "",
    "pass",
    ")",
    "- item",
    "    },",
    "try:",
    "x = 1",
)
_BASE, _PERSON = "base", "person"
_AGENTS = ("s1", "s2")
_MOST_LINES = 240
_BLOCK = 24
"""Both sides edit in turns of so many lines, so that their changes can be merged."""
_NO_ENV: Mapping[str, str] = {}
_KEEP = {"GIT_EDITOR": "true"}
_MARKS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")


class DifferentError(Exception):
    """Report that Git merged the repeated lines otherwise than their twins."""


@dataclass
class Whogitit:
    """The same history in a repository of whogitit's: its hooks see each write of an agent."""

    root: Path

    def write(self, content: Path, *, by_agent: bool) -> None:
        """Write the file, as an agent's edit tool with the hooks before and after it."""
        if by_agent:
            self._capture("pre")
        shutil.copyfile(content, self.root / FILE)
        if by_agent:
            self._capture("post")

    def _capture(self, phase: str) -> None:
        path = str(self.root / FILE)
        call = {"tool_name": "Write", "tool_input": {"file_path": path, "content": ""}}
        subprocess.run(
            ["bash", os.path.expanduser("~/.claude/hooks/whogitit-capture.sh")],
            cwd=self.root,
            env={**os.environ, "WHOGITIT_HOOK_PHASE": phase},
            input=json.dumps(
                {"session_id": "s", "cwd": str(self.root), **call}
            ).encode(),
            capture_output=True,
            check=True,
        )

    def answers(self) -> list[bool]:
        """Return for each line whether an agent wrote it."""
        done = subprocess.run(
            ["whogitit", "blame", "--format", "json", FILE],
            cwd=self.root,
            capture_output=True,
            check=True,
        )
        return [line["flags"]["is_ai"] for line in json.loads(done.stdout)["lines"]]


@dataclass
class Twins:
    """One history in two repositories: `near` is recorded, `twin` has numbers for lines."""

    near: Near
    twin: Path
    other: Whogitit | None
    rng: random.Random
    is_seen: bool
    texts: dict[int, str] = field(default_factory=dict)
    authors: dict[int, str] = field(default_factory=dict)
    seconds: int = 1_700_000_000

    def line(self, text: str, author: str) -> int:
        """Return the number of a new line."""
        number = len(self.texts) + 1
        self.texts[number], self.authors[number] = text, author
        return number

    def numbers(self) -> list[int]:
        """Return the lines that the twin has now."""
        rows = (self.twin / FILE).read_text().splitlines()
        return [int(row) for row in rows if row[:7] not in _MARKS]

    def content(self, numbers: Sequence[int]) -> str:
        """Return the text of the recorded repository's file that has these lines."""
        return "".join(f"{self.texts[one]}\n" for one in numbers)

    def write(self, who: str, numbers: Sequence[int]) -> None:
        """Write the file in both repositories, as a person, an edit tool or a shell."""
        (self.twin / FILE).write_text("".join(f"{one}\n" for one in numbers))
        text = self.content(numbers)
        content = self.near.repo.root.parent / "content"
        content.write_text(text)
        if self.other is not None:
            self.other.write(content, by_agent=who != _PERSON)
        if who == _PERSON:
            self.near.repo.write(FILE, text)
            self.see()
            return
        agent = self.near.agent(who)
        agent.prompt("go")
        if self.rng.random() < 0.5:
            agent.write(FILE, text)
        else:
            agent.shell(f"cat {content} > {FILE}")
        agent.stop()

    def git(
        self, *words: str, check: bool = True, env: Mapping[str, str] = _NO_ENV
    ) -> None:
        """Run a git command in all repositories, a minute after the last one."""
        self.seconds += 60
        when = f"{self.seconds} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        roots = [self.twin, self.near.repo.root]
        roots += [self.other.root] if self.other is not None else []
        for root in roots:
            done = subprocess.run(
                ["git", *words],
                cwd=root,
                env={**os.environ, **dates, **env},
                capture_output=True,
                check=False,
            )
            if check and done.returncode:
                raise DifferentError
        self.see()

    def see(self) -> None:
        """Record what was done, at a person's pace after each command."""
        if self.is_seen:
            self.near.context.observer.settle()

    def edit(self, who: str, parity: int) -> None:
        """Change one to three places of the file, in the blocks of one side."""
        numbers = self.numbers()
        # Git may have merged a hunk into another place of the repository's file, which repeats
        # itself. Moving its lines to where the twin has them would be this author's own work.
        if (self.near.repo.root / FILE).read_text() != self.content(numbers):
            raise DifferentError
        for _ in range(self.rng.randint(1, 3)):
            self._edit_once(who, parity, numbers)
        self.write(who, numbers)

    def _edit_once(self, who: str, parity: int, numbers: list[int]) -> None:
        # The block of a line is that of the base line above it, wherever it is now.
        places = [
            at
            for at, one in enumerate(numbers)
            if self.authors[one] == _BASE
            and (one // _BLOCK) % 2 == parity
            and 3 <= one % _BLOCK <= _BLOCK - 4
        ]
        if not places:
            return
        at, kind = self.rng.choice(places), self.rng.random()
        new = [self.line(self._text(), who) for _ in range(self.rng.randint(1, 4))]
        if kind < 0.5:
            numbers[at:at] = new
        elif kind < 0.9:
            numbers[at : at + 1] = new
        else:
            del numbers[at]

    def _text(self) -> str:
        """Return a line: mostly a short one, or one that the file has elsewhere."""
        if self.rng.random() < 0.6:
            return self.rng.choice(_SHORT)
        return self.texts[self.rng.choice(sorted(self.texts))]

    def answers(self) -> dict[int, str]:
        """Return whom blame names for each line: a session of an agent, or nobody."""
        context = self.near.context
        context.observer.settle()
        numbers = self.numbers()
        owned = Owning(context).on_disk(RepoPath(FILE.encode()))
        if owned.data.decode() != self.content(numbers):
            raise DifferentError
        natives = {
            row.id: row.native_id or ""
            for row in sessions.all_sessions(context.workspace.db)
        }
        found: dict[int, str] = {}
        for number, credit in zip(numbers, owned.credits, strict=True):
            is_agents = credit.actor is Actor.AGENT and credit.session is not None
            found[number] = (
                natives[credit.session or ""]
                if is_agents
                else (_PERSON if credit.actor is Actor.HUMAN else "")
            )
        return found

    def older(self) -> set[int]:
        """Return the lines that `git blame` finds in the first commit: new ones may be equal."""
        first = self.near.repo.git("rev-list", "--max-parents=0", "HEAD")
        said = self.near.repo.git("blame", "-s", "-l", "--root", FILE)
        rows = zip(self.numbers(), said.splitlines(), strict=True)
        return {number for number, row in rows if row.startswith(first)}


Way = Callable[[Twins], None]


def _on_side(twins: Twins, *words: str, env: Mapping[str, str] = _NO_ENV) -> None:
    twins.git("switch", "-q", "side")
    twins.git("rebase", "-q", *words, env=env)


def _interactively(script: str, message: str = "true") -> Way:
    def run(twins: Twins) -> None:
        editors = {"GIT_SEQUENCE_EDITOR": f"sed -i '{script}'", "GIT_EDITOR": message}
        _on_side(twins, "-i", "main", env=editors)

    return run


def _merge_squash(twins: Twins) -> None:
    twins.git("merge", "-q", "--squash", "side")
    twins.git("commit", "-qm", "squashed")


def _pick(twins: Twins, *options: str) -> None:
    twins.git("cherry-pick", *options, "main..side")


def _edit(twins: Twins) -> None:
    _interactively("1s/^pick/edit/")(twins)
    twins.edit(_PERSON, 1)
    twins.git("commit", "-qa", "--amend", "--no-edit")
    twins.git("rebase", "--continue", env=_KEEP)


def _amend(twins: Twins) -> None:
    _pick(twins)
    twins.edit(_PERSON, 1)
    twins.git("commit", "-qa", "--amend", "--reset-author", "-m", "amended")


def _autosquash(twins: Twins) -> None:
    twins.git("switch", "-q", "side")
    twins.edit(twins.rng.choice(_AGENTS), 0)
    twins.git("commit", "-qa", "--fixup", "HEAD~1")
    editor = {"GIT_SEQUENCE_EDITOR": "true"}
    twins.git("rebase", "-q", "-i", "--autosquash", "main", env=editor)


def _mail(twins: Twins) -> None:
    twins.git("format-patch", "-q", "main..side", "-o", ".git/mails")
    twins.git("-c", "alias.mailed=!git am -q .git/mails/*", "mailed")


def _split(twins: Twins) -> None:
    """Take the last commit of the branch apart: a part of its lines first, then the rest."""
    twins.git("switch", "-q", "side")
    twins.git("reset", "-q", "HEAD~1")
    answers = "".join(twins.rng.choice("yn") + "\\n" for _ in range(8))
    adding = f"alias.part=!printf '{answers}' | git add -p >/dev/null"
    twins.git("-c", adding, "part", check=False)
    twins.git("commit", "-q", "--allow-empty", "-m", "a part")
    twins.git("commit", "-qa", "--allow-empty", "-m", "the rest")
    twins.git("rebase", "-q", "main")


def _revert_twice(twins: Twins) -> None:
    _pick(twins)
    twins.git("revert", "--no-edit", "HEAD")
    twins.edit(_PERSON, 1)
    twins.git("commit", "-qam", "between")
    twins.git("revert", "--no-edit", "HEAD~1")


def _plumbing(twins: Twins) -> None:
    """As jj and GUIs do it: new commits without a reflog."""
    twins.git("config", "core.logAllRefUpdates", "false")
    # Git goes on writing a log that exists.
    twins.git("-c", "alias.forget=!rm -r .git/logs", "forget")
    _on_side(twins, "main")


def _server(twins: Twins) -> None:
    """A server squashes the branch; the commit is fetched."""
    making = (
        "git clone -q . .git/server && cd .git/server && git config user.name Server"
        " && git config user.email s@example.com && git merge -q --squash origin/side"
        " && git commit -qm 'one (#1)'"
    )
    twins.git("-c", f"alias.server=!{making}", "server")
    twins.git("pull", "-q", "--no-rebase", ".git/server", "main")


def _stash(twins: Twins) -> None:
    twins.edit(twins.rng.choice(_AGENTS), 0)
    twins.git("stash", "-q")
    twins.edit(_PERSON, 1)
    twins.git("commit", "-qam", "above")
    twins.git("stash", "pop", "-q")
    # whogitit answers for commits alone.
    if twins.other is not None or twins.rng.random() < 0.5:
        twins.git("commit", "-qam", "popped")


def _conflict(twins: Twins) -> None:
    """A person changes lines that the branch changed, too, and keeps both when rebasing."""
    base = twins.numbers()
    twins.git("switch", "-q", "side")
    side = twins.numbers()
    twins.git("switch", "-q", "main")
    gone = [at for at, one in enumerate(base) if one not in side]
    if gone:
        at = twins.rng.choice(gone)
        base[at : at + 1] = [twins.line(twins.rng.choice(_SHORT), _PERSON)]
        twins.write(_PERSON, base)
        twins.git("commit", "-qam", "in the way")
    twins.git("switch", "-q", "side")
    twins.git("rebase", "-q", "main", check=False)
    while (twins.twin / ".git" / "rebase-merge").is_dir():
        rows = (twins.twin / FILE).read_text().splitlines()
        twins.write(_PERSON, [int(row) for row in rows if row[:7] not in _MARKS])
        twins.git("add", FILE)
        twins.git("rebase", "--continue", check=False, env=_KEEP)


WAYS: dict[str, Way] = {
    "true merge": lambda twins: twins.git("merge", "-q", "side", "-m", "merged"),
    "rebase": lambda twins: _on_side(twins, "main"),
    "rebase --onto": lambda twins: _on_side(twins, "--onto", "main", "main~1"),
    "rebase --ignore-date": lambda twins: _on_side(twins, "--ignore-date", "main"),
    "rebase -i, reword": _interactively("s/^pick/reword/", "sed -i 1s/^/new/"),
    "rebase -i, fixup": _interactively("2s/^pick/fixup/"),
    "rebase -i, squash": _interactively("2s/^pick/squash/"),
    "rebase -i, reorder": _interactively("1{h;d};2{G}"),
    "rebase -i, drop": _interactively("1s/^pick/drop/"),
    "rebase -i, edit": _edit,
    "rebase --update-refs": lambda twins: _on_side(twins, "--update-refs", "main"),
    "rebase --autosquash": _autosquash,
    "merge --squash": _merge_squash,
    "cherry-pick": _pick,
    "cherry-pick -x": lambda twins: _pick(twins, "-x"),
    "amend": _amend,
    "format-patch and am": _mail,
    "split": _split,
    "revert twice": _revert_twice,
    "no reflog": _plumbing,
    "squash by a server": _server,
    "stash and pop": _stash,
    "conflict": _conflict,
}


@contextmanager
def played(seed: int, way: str, *, beside: bool = False) -> Iterator[Twins]:
    """Play a history of two agents and a person, up to where it is rewritten."""
    rng = random.Random(f"{way} {seed}")
    with tempfile.TemporaryDirectory(prefix="gitshadow-bench-") as top:
        roots = [Path(top) / name for name in ("twin", "repo", "other")[: 2 + beside]]
        for root in roots:
            root.mkdir()
            for words in (
                ("init", "-q", "-b", "main"),
                ("config", "user.name", "Person"),
                ("config", "user.email", "person@example.com"),
                ("config", "gc.auto", "0"),
            ):
                subprocess.run(["git", *words], cwd=root, check=True)
        base = _base(rng)
        texts = dict(enumerate(base, 1))
        (roots[0] / FILE).write_text("".join(f"{one}\n" for one in texts))
        for root in roots[1:]:
            (root / FILE).write_text("".join(f"{one}\n" for one in base))
        for root in roots:
            subprocess.run(["git", "add", "-A"], cwd=root, check=True)
            subprocess.run(["git", "commit", "-qm", "base"], cwd=root, check=True)
        other = Whogitit(roots[2]) if beside else None
        if other is not None:
            subprocess.run(
                ["whogitit", "init"], cwd=other.root, check=True, capture_output=True
            )
        repo = Repo(roots[1])
        with desk_of(repo) as context:
            near = Near(repo, context)
            is_seen, authors = rng.random() < 0.5, dict.fromkeys(texts, _BASE)
            twins = Twins(near, roots[0], other, rng, is_seen, texts, authors)
            twins.git("switch", "-q", "-c", "side")
            for number in range(rng.randint(2, 4)):
                twins.edit(rng.choice((*_AGENTS, *_AGENTS, _PERSON)), 0)
                twins.git("commit", "-qa", "--allow-empty", "-m", f"side {number}")
            yield twins


def _base(rng: random.Random) -> list[str]:
    """Return the beginning of a real file: Python, Markdown or JSON."""
    which = rng.choice(_SOURCES)
    if which == "docs":
        path = Path(__file__).parent.parent / "docs" / "format.md"
    elif which == "json":
        path = next((Path(__file__).parent.parent / "tests/fixtures").rglob("*.json"))
    else:
        path = Path(sysconfig.get_path("stdlib")) / which
    lines = path.read_text(encoding="utf-8").splitlines()
    return (lines * (1 + _MOST_LINES // len(lines)))[:_MOST_LINES]


def verdict(seed: int, way: str, *, beside: bool = False) -> Counter[str]:
    """Play one history, rewrite it, and count lines by what became of their authors.

    Args:
        seed: Of the history.
        way: How it is rewritten.
        beside: Whether whogitit sees it, too.
    """
    with played(seed, way, beside=beside) as twins:
        try:
            before = twins.answers()
            twins.git("switch", "-q", "main")
            for number in range(twins.rng.randint(1, 2)):
                twins.edit(_PERSON, 1)
                twins.git("commit", "-qam", f"main {number}", check=False)
            WAYS[way](twins)
            return _counted(twins, before)
        except DifferentError:
            return Counter({"not comparable": 1})


def _counted(twins: Twins, before: Mapping[int, str]) -> Counter[str]:
    counts: Counter[str] = Counter({"histories": 1})
    after, older = twins.answers(), twins.older()
    other = twins.other.answers() if twins.other is not None else [False] * len(after)
    # An agent's line that Git takes for an equal older one, and the older one for it, are a pair.
    shifted: Counter[tuple[str, str]] = Counter()
    given: Counter[tuple[str, str]] = Counter()
    for (number, named), by_other in zip(after.items(), other, strict=True):
        truth, was = twins.authors[number], before.get(number)
        is_agents = truth in _AGENTS
        # Where lines are equal, the diff decides which is new: also before any rewriting.
        changed = was is not None and (was in _AGENTS) * was != is_agents * truth
        if changed or (is_agents and number in older):
            counts["equal lines"] += 1
            shifted[twins.texts[number], truth] += is_agents
            continue
        counts["lines"] += is_agents
        if is_agents:
            kept = "kept" if named == truth else "wrong" if named else "unknown"
            counts[kept] += 1
            counts["kept by whogitit"] += by_other
        else:
            given[twins.texts[number], named] += named in _AGENTS
            counts["given by whogitit"] += by_other
    counts["given to an agent"] = (given - shifted).total()
    return counts


def main(scale: float, write: Callable[[str], None]) -> int:
    """Play 500 histories, a fifth of them beside whogitit; 1 where a line got a wrong author."""
    each = max(round(500 * scale) // len(WAYS), 1) + 1
    has_other = shutil.which("whogitit") is not None
    rows: list[str] = []
    total: Counter[str] = Counter()
    side: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="gitshadow-bench-") as home:
        os.environ.update(HOME=home, XDG_STATE_HOME=home, GIT_CONFIG_NOSYSTEM="1")
        if has_other:
            subprocess.run(["whogitit", "setup"], check=True, capture_output=True)
        for way in WAYS:
            found = sum((verdict(seed, way) for seed in range(each)), Counter[str]())
            few = range(each, each + max(each // 5, 1)) if has_other else ()
            others = sum(
                (verdict(seed, way, beside=True) for seed in few), Counter[str]()
            )
            found += others
            total, side = total + found, side + others
            rows.append(_row(way, found, others))
            print(rows[-1], flush=True)
    rows.append(_row("**all**", total, side))
    write("\n".join((_TABLE_HEAD, *rows)))
    return int(total["wrong"] + total["given to an agent"] > 0)


_TABLE_HEAD = (
    "| rewritten by | histories | agents' lines | kept | unknown | wrong"
    " | persons' lines given to an agent | whogitit: kept of | its wrong |\n"
    "| --- | --: | --: | --: | --: | --: | --: | --: | --: |"
)


def _row(way: str, found: Counter[str], others: Counter[str]) -> str:
    names = ("histories", "lines", "kept", "unknown", "wrong", "given to an agent")
    cells = [str(found[name]) for name in names]
    beside = f"{others['kept by whogitit']} of {others['lines']}"
    cells += (
        [beside, str(others["given by whogitit"])] if others["lines"] else ["–"] * 2
    )
    return f"| {' | '.join((way, *cells))} |"
