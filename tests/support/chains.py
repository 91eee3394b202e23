"""The pictures of docs/how.md, drawn from chains that gitshadow has just recorded: `make pictures`.

Each story is played in a repository of its own; what is drawn is read back from its refs by Git.
Invariant: nothing that differs between two runs (ids, times, names) is in a picture.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from tests.support.repo import SHADOW_REFS, Repo
from tests.support.studio import Studio, studio_of

IMAGES = Path(__file__).parents[2] / "docs" / "img"
# Okabe and Ito's colours, which people with any colour vision tell apart; each lane also has
# its place, each kind of commit its shape. In the dark: lighter tones of the same.
_LANES = ("grey", "orange", "blue", "green")
_STYLE = """\
text{font:14px system-ui,sans-serif;fill:var(--ink)}
.code{font:13px ui-monospace,monospace}.faint{fill:var(--faint)}.head{font-weight:600}
.paper{fill:var(--paper);stroke:var(--line)}.box{fill:none;stroke:var(--line)}
.grey{--c:#5b6270}.orange{--c:#b35900}.blue{--c:#0072b2}.green{--c:#00785a}
.edge{stroke:var(--c);stroke-width:2;fill:none}.node{stroke:var(--c);stroke-width:2;fill:var(--c)}
.hollow{fill:var(--paper)}.own{fill:var(--c);font-weight:600}
svg{--paper:#fff;--ink:#1f2430;--faint:#5b6270;--line:#c9ced8}
@media(prefers-color-scheme:dark){svg{--paper:#1b1f27;--ink:#e3e7ee;--faint:#9aa3b2;--line:#3b4250}
.grey{--c:#9aa3b2}.orange{--c:#f0a03c}.blue{--c:#5cb5f0}.green{--c:#35c79b}}
"""
_ROW, _COLUMN, _TOP, _EDGE, _WIDTH = 30, 30, 34, 24, 760
_FIRST, _ROOT = "Start", "root"
_NOTES = {
    _ROOT: "your first commit",
    "baseline": "the whole working tree",
    "head": "HEAD moved; no files changed",
}
SHOP = "tea = 3\npot = 9\ncup = 5\nbag = 1\n"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit as it is drawn."""

    oid: str
    parent: str | None
    lane: int
    kind: str
    subject: str
    changed: str


@dataclass(slots=True)
class Story:
    """A repository, and the commits in the order of their making."""

    studio: Studio
    seen: list[tuple[str, str]] = field(default_factory=list)

    @property
    def repo(self) -> Repo:
        """Return the repository."""
        return self.studio.repo

    def begin(self) -> None:
        """Start a session of the person, so that their writes are theirs."""
        self.studio.run("session_start", human=True, native="you")
        self.note()

    def agent(self, who: str, path: str, data: str) -> None:
        """Let an agent write."""
        self.studio.write(who, path, data)
        self.note()

    def you(self, path: str, data: str) -> None:
        """Let the person write."""
        self.studio.hand(path, data)
        self.note()

    def commit(self, message: str) -> None:
        """Let the person commit everything."""
        self.studio.commit(message)
        self.note()

    def run(self, verb: str) -> None:
        """Undo or redo something."""
        self.studio.run("undo", verb=verb, yes=True)
        self.note()

    def note(self) -> None:
        """Remember which commits are new, each with its ref, parents first."""
        known = {oid for oid, _ in self.seen}
        refs = self.repo.git("for-each-ref", "--format=%(refname)", "refs/heads")
        for ref in (*refs.split(), *sorted(self.repo.shadow_refs())):
            new = self.repo.git("rev-list", "--reverse", ref).split()
            self.seen += [(oid, ref) for oid in new if oid not in known]
            known.update(new)


def chain(story: Story) -> None:
    """Record one session and a person."""
    story.agent("A", "shop.py", SHOP.replace("3", "4"))
    story.agent("A", "test.py", "assert tea == 4\n")
    story.you("README.md", "# Shop\n\nTea.\n")
    story.agent("A", "test.py", "assert tea == 4 < pot\n")


def sessions(story: Story) -> None:
    """Record two sessions whose writes alternate."""
    story.agent("A", "shop.py", SHOP.replace("3", "4"))
    story.agent("B", "docs.md", "# Prices\n")
    story.agent("A", "test.py", "assert tea == 4\n")
    story.agent("B", "docs.md", "# Prices\n\nTea: 4\n")


def committed(story: Story) -> None:
    """Record a commit by the person between two writes of a session."""
    story.agent("A", "shop.py", SHOP.replace("3", "4"))
    story.commit("Dearer tea")
    story.agent("A", "test.py", "assert tea == 4\n")


def undone(story: Story) -> None:
    """Record an undo and a redo."""
    story.agent("A", "shop.py", SHOP.replace("3", "4"))
    story.agent("A", "test.py", "assert tea == 4\n")
    story.you("shop.py", SHOP.replace("3", "4").replace("bag = 1", "bag = 2"))
    story.run("oops")
    story.run("redo")


def played(story: Callable[[Story], None], repo: Repo) -> Story:
    """Record a story in the repository of a small shop."""
    repo.write("shop.py", SHOP)
    repo.write("README.md", "# Shop\n")
    repo.commit(_FIRST)
    with studio_of(repo) as studio:
        told = Story(studio)
        told.begin()
        story(told)
    return told


def graph(told: Story) -> str:
    """Draw every commit of a story, a row each, a lane per ref."""
    commits, lanes = _commits(told)
    height = _TOP + _ROW * (len(lanes) + len(commits))
    parts = [*_legend(lanes)]
    top = _TOP + _ROW * len(lanes)
    places = {
        commit.oid: (_EDGE + _COLUMN * commit.lane, top + _ROW * row)
        for row, commit in enumerate(commits)
    }
    parts += [
        _edge(places[commit.parent], places[commit.oid], commit.lane)
        for commit in commits
        if commit.parent is not None
    ]
    left = _EDGE + _COLUMN * len(lanes)
    for commit in commits:
        x, y = places[commit.oid]
        parts.append(_node(commit, x, y))
        parts.append(_text(left, y + 5, commit.subject, f"own {_LANES[commit.lane]}"))
        parts.append(_text(left + 300, y + 5, commit.changed, "code faint"))
    return _picture(parts, height)


def _commits(told: Story) -> tuple[list[Commit], list[str]]:
    """Return the commits in the order in which they came, and the names of their lanes.

    A chain that holds its baseline alone is skipped: nobody wrote there.
    """
    refs = [ref for _, ref in told.seen]
    kept = list(
        dict.fromkeys(ref for ref in refs if refs.count(ref) > 1 or "heads" in ref)
    )
    kept.sort(key=lambda ref: ("human" in ref, refs.index(ref)))
    drawn = [
        _commit(told.repo, oid, kept.index(ref))
        for oid, ref in told.seen
        if ref in kept
    ]
    return drawn, [_lane(told.repo, ref) for ref in kept]


def _commit(repo: Repo, oid: str, lane: int) -> Commit:
    kind = "%(trailers:key=Agent-Undo-Kind,valueonly,separator=%x20)"
    subject, what, parents = repo.git(
        "log", "-1", f"--format=%s%n{kind}%n%P", oid
    ).split("\n")
    changed = _NOTES.get(what if parents else _ROOT) or "  ".join(
        f"{path} +{more} -{less}"
        for more, less, path in (
            line.split("\t")
            for line in repo.git(
                "diff-tree", "--numstat", "--no-commit-id", oid
            ).splitlines()
        )
    )
    return Commit(oid, parents or None, lane, what, subject, changed)


def _lane(repo: Repo, ref: str) -> str:
    name = ref.removeprefix("refs/heads/")
    if not ref.startswith(SHADOW_REFS):
        return f"{name}: your branch"
    root = repo.git(
        "log", "--format=%B", "--grep=^Agent-Undo-Kind: baseline", "-1", ref
    )
    native = re.search(r"^Agent-Undo-Native: (.+)$", root, re.MULTILINE)
    assert native is not None
    who = "you" if native[1] == "you" else f"session {native[1]}"
    return f"{re.sub('-[0-9]{8}-.*', '-…', ref)}: {who}"


def _legend(lanes: Sequence[str]) -> Iterator[str]:
    """Name each lane, with a line from its name down to it."""
    for lane, name in enumerate(lanes):
        x, y = _EDGE + _COLUMN * lane, _TOP + _ROW * lane - 6
        yield _edge((x, y), (x, _TOP + _ROW * len(lanes) - _ROW // 2), lane)
        yield _text(
            _EDGE + _COLUMN * len(lanes), y + 5, name, f"code {_LANES[lane]} own"
        )
        run = f"M{x} {y}H{_EDGE + _COLUMN * len(lanes) - 8}"
        yield f'<path class="edge {_LANES[lane]}" stroke-dasharray="2 4" d="{run}"/>'


def _edge(start: tuple[int, int], end: tuple[int, int], lane: int) -> str:
    (x, y), (to_x, to_y) = start, end
    bend = f"M{x} {y}C{x} {y + _ROW} {to_x} {y} {to_x} {y + _ROW}V{to_y}"
    way = f"M{x} {y}V{to_y}" if x == to_x else bend
    return f'<path class="edge {_LANES[lane]}" d="{way}"/>'


def _node(commit: Commit, x: int, y: int) -> str:
    """Draw a commit in the shape of its kind."""
    colour = _LANES[commit.lane]
    if commit.kind == "baseline":
        return f'<circle class="node hollow {colour}" cx="{x}" cy="{y}" r="6"/>'
    if commit.kind in ("sync", "head"):
        diamond = f"M{x} {y - 7}l7 7-7 7-7-7z"
        return f'<path class="node hollow {colour}" d="{diamond}"/>'
    if commit.kind == "restore":
        return f'<path class="node {colour}" d="M{x + 6} {y - 7}v14l-13-7z"/>'
    if commit.kind == "write":
        return f'<circle class="node {colour}" cx="{x}" cy="{y}" r="6"/>'
    return (
        f'<rect class="node {colour}" x="{x - 6}" y="{y - 6}" width="12" height="12"/>'
    )


def merge(told: Story) -> str:
    """Draw the three versions of a file that an undo merges, and what becomes of them."""
    commits, _ = _commits(told)
    edit = next(one for one in commits if one.subject == "Edit shop.py")
    restore = next(one for one in commits if one.kind == "restore")
    shown = {
        "before the agent": f"{edit.oid}^",
        "after the agent": edit.oid,
        "on disk now": f"{restore.oid}^",
        "after oops": restore.oid,
    }
    texts = [
        told.repo.git("show", f"{rev}:shop.py").splitlines() for rev in shown.values()
    ]
    before, left, now, _ = texts
    step, wide = 184, 160
    parts: list[str] = []
    for column, (title, lines) in enumerate(zip(shown, texts, strict=True)):
        x = _EDGE + column * step
        parts.append(_text(x, _TOP, title, "head"))
        box = f'x="{x}" y="{_TOP + 12}" width="{wide}" height="{26 * len(lines) + 12}"'
        parts.append(f'<rect class="box" rx="4" {box}/>')
        for row, line in enumerate(lines):
            mark, style = _whose(line, before[row], left[row], now[row])
            y = _TOP + 36 + 26 * row
            parts.append(_text(x + 12, y, line, f"code {style}"))
            parts.append(_text(x + 92, y, mark, f"code {style}"))
    signs = ("side", "base", "side", "result")
    below = _TOP + 12 + 26 * len(before) + 34
    for column, sign in enumerate(signs):
        parts.append(_text(_EDGE + column * step, below, sign, "faint"))
    return _picture(parts, below + _EDGE)


def _whose(line: str, before: str, left: str, now: str) -> tuple[str, str]:
    """Return who wrote a line, in a word and a style."""
    if line == left != before:
        return "agent", "own orange"
    if line == now != left:
        return "you", "own blue"
    return "", ""


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f'<text class="{style}" x="{x}" y="{y}" xml:space="preserve">{escape(text)}</text>'


def _picture(parts: Sequence[str], height: int) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    paper = f'x=".5" y=".5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" {paper}/>',
            *parts,
            "</svg>\n",
        )
    )


DRAWN: Mapping[str, tuple[Callable[[Story], None], Callable[[Story], str]]] = {
    "chain.svg": (chain, graph),
    "sessions.svg": (sessions, graph),
    "commit.svg": (committed, graph),
    "undo.svg": (undone, graph),
    "merge.svg": (undone, merge),
}
"""Every picture: what happens in it, and how it is drawn."""


def draw(name: str, repo: Repo) -> str:
    """Return a picture, of what happens in an empty repository."""
    story, drawing = DRAWN[name]
    return drawing(played(story, repo))


def main(names: Sequence[str]) -> None:
    """Make the named pictures, or all."""
    for name in names or DRAWN:
        with tempfile.TemporaryDirectory() as scratch:
            home = Path(scratch)
            os.environ |= {"HOME": scratch, "TZ": "UTC"}
            os.environ.pop("XDG_CONFIG_HOME", None)
            config = "[user]\n\tname = You\n\temail = you@example.com\n"
            (home / ".gitconfig").write_text(config)
            repo = Repo.create(home / "shop", files=())
            (IMAGES / name).write_text(draw(name, repo), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
