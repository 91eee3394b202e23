"""Authors of short lines survive every way in which Git rewrites commits.

Each way is played twice: recorded after each command, as at a person's pace, and only at the end,
as in a script. Almost no line is distinctive: `}`, `return x` and `else:` are what programs are
made of.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests.support.blaming import Scene, text
from tests.support.repo import Repo
from tests.support.shadow import Shadow

BODY = [
    line
    for n in range(8)
    for line in (f"def f{n}():", "    if x:", "        return x", "    else:", "}")
]
SEQUENCE = "GIT_SEQUENCE_EDITOR"
KEEP = {"GIT_EDITOR": "true"}


@dataclass
class Branches:
    """`side` has two commits with lines of S1 and S2; a person's commit moved `main`."""

    scene: Scene
    is_seen: bool
    seconds: int = 1_700_000_000

    def git(
        self, *words: str, check: bool = True, env: Mapping[str, str] | None = None
    ) -> str:
        """Run git a minute later; at a person's pace, what it did is recorded at once."""
        self.seconds += 60
        when = f"{self.seconds} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        said = self.scene.shadow.repo.git(
            *words, check=check, env={**dates, **(env or {})}
        )
        self.seen()
        return said

    def seen(self) -> None:
        if self.is_seen:
            self.scene.shadow.ok("flush")

    def lines(self) -> list[str]:
        return self.scene.shadow.repo.read("f").decode().splitlines()

    def edit(self, **changes: str) -> None:
        """Change lines by hand, by their numbers: `_3="new"`; 0 inserts above the first."""
        lines = self.lines()
        for name, new in sorted(changes.items(), reverse=True):
            at = int(name[1:])
            lines[max(at - 1, 0) : at] = [new]
        self.scene.shadow.repo.write("f", text(*lines))
        self.seen()

    def rebase(self, script: str, message: str = "true") -> None:
        """Rebase `side` onto `main` with a list of commands that sed changes."""
        self.git("switch", "-q", "side")
        editors = {SEQUENCE: f"sed -i '{script}'", "GIT_EDITOR": message}
        self.git("rebase", "-q", "-i", "main", env=editors)

    def resolve(self) -> None:
        """Keep the lines of both sides of each conflict."""
        kept = [one for one in self.lines() if one[:7] not in MARKERS]
        self.scene.shadow.repo.write("f", text(*kept))
        self.seen()

    def owned(self) -> list[tuple[str, str]]:
        """Return all lines, in order, with their owners."""
        self.scene.shadow.ok("flush")
        owners = self.scene.owners("f").split()
        return [
            (line.strip(), who) for line, who in zip(self.lines(), owners, strict=True)
        ]

    def agents(self) -> list[tuple[str, str]]:
        """Return the lines that agents wrote, in order, with their sessions."""
        return [one for one in self.owned() if one[1] not in ("H", "unk")]


MARKERS = ("<<<<<<<", "=======", ">>>>>>>", "|||||||")


REST = [f"line {number}" for number in range(40)]


@pytest.fixture(params=["each command is seen", "only the end is seen"])
def on_side(
    request: pytest.FixtureRequest,
    make_repo: Callable[..., Repo],
    make_shadow: Callable[..., Shadow],
) -> Callable[[Sequence[str]], Branches]:
    """Return how to begin with a file of given lines, on a new branch `side`."""

    def begun(lines: Sequence[str]) -> Branches:
        repo = make_repo(files=())
        repo.write("f", text(*lines))
        repo.write("k", "k\n")
        repo.commit("first")
        shadow = make_shadow(repo, daemon=False)
        shadow.init()
        b = Branches(Scene(shadow), request.param.startswith("each"))
        b.git("switch", "-q", "-c", "side")
        return b

    return begun


@pytest.fixture
def branches(on_side: Callable[[Sequence[str]], Branches]) -> Branches:
    b = on_side(BODY)
    lines = [*BODY]
    lines[10], lines[20] = "}", "else:"
    b.scene.write("S1", "f", *lines)
    b.git("commit", "-qam", "one")
    lines[30:30] = ["return x", "}"]
    b.scene.write("S2", "f", *lines)
    b.git("commit", "-qam", "two")
    b.git("switch", "-q", "main")
    b.edit(_0="zero")
    b.git("commit", "-qam", "main")
    return b


ONE = [("}", "S1"), ("else:", "S1")]
TWO = [("return x", "S2"), ("}", "S2")]
Way = Callable[[Branches], None]


def merge(b: Branches) -> None:
    b.git("merge", "-q", "side", "-m", "merged")


def rebase(b: Branches) -> None:
    b.git("switch", "-q", "side")
    b.git("rebase", "-q", "main")


def rebase_onto(b: Branches) -> None:
    b.git("switch", "-q", "side")
    b.git("rebase", "-q", "--onto", "main", "main~1")


def rebase_again_with_new_dates(b: Branches) -> None:
    rebase(b)
    b.git("rebase", "-q", "--ignore-date", "HEAD~2")


def reword(b: Branches) -> None:
    b.rebase("s/^pick/reword/", "sed -i '1s/^/new /'")


def fixup(b: Branches) -> None:
    b.rebase("2s/^pick/fixup/")


def squash_interactively(b: Branches) -> None:
    b.rebase("2s/^pick/squash/")


def reorder(b: Branches) -> None:
    b.rebase("1{h;d};2{G}")


def edit(b: Branches) -> None:
    b.rebase("1s/^pick/edit/")
    b.edit(_6="by hand")
    b.git("commit", "-qa", "--amend", "--no-edit")
    b.git("rebase", "--continue", env=KEEP)


def merge_squash(b: Branches) -> None:
    b.git("merge", "-q", "--squash", "side")
    b.git("commit", "-qm", "squashed")


def squash_by_a_reset(b: Branches) -> None:
    rebase(b)
    b.git("reset", "-q", "--soft", "main")
    b.git("commit", "-qm", "all in one")


def pick(b: Branches) -> None:
    b.git("cherry-pick", "main..side")


def pick_with_a_note(b: Branches) -> None:
    b.git("cherry-pick", "-x", "main..side")


def amend_a_pick(b: Branches) -> None:
    pick(b)
    b.scene.shadow.repo.write("k", "more\n")
    b.git("commit", "-qa", "--amend", "-m", "other")


def amend_as_somebody_else(b: Branches) -> None:
    pick(b)
    b.edit(_3="mine")
    b.git("commit", "-qa", "--amend", "--reset-author", "--no-edit")


def mail(b: Branches) -> None:
    b.git("format-patch", "-q", "main..side", "-o", "../patches")
    root = b.scene.shadow.repo.root.parent
    b.git("am", "-q", *sorted(str(one) for one in (root / "patches").iterdir()))


def split_a_commit(b: Branches) -> None:
    b.git("switch", "-q", "side")
    whole = b.scene.shadow.repo.read("f")
    b.git("reset", "-q", "HEAD~2")
    half = whole.decode().splitlines()
    half[20] = BODY[20]
    b.scene.shadow.repo.write("half", text(*half))
    blob = b.scene.shadow.repo.git("hash-object", "-w", "half")
    (b.scene.shadow.repo.root / "half").unlink()
    b.scene.shadow.repo.git("update-index", "--cacheinfo", f"100644,{blob},f")
    b.git("commit", "-qm", "a part")
    b.git("commit", "-qam", "the rest")
    b.git("rebase", "-q", "main")


def revert_twice(b: Branches) -> None:
    pick(b)
    b.git("revert", "--no-edit", "HEAD", "HEAD~1")
    b.edit(_0="above")
    b.git("commit", "-qam", "above")
    b.git("revert", "--no-edit", "HEAD~1", "HEAD~2")


def plumbing(b: Branches) -> None:
    """As jj and GUIs do it: no command of Git's moves HEAD, and no reflog says anything."""
    repo = b.scene.shadow.repo
    b.git("merge", "-q", "--squash", "side")
    tree = repo.git("write-tree")
    repo.git("reset", "-q", "--hard")
    b.git("config", "core.logAllRefUpdates", "false")
    made = b.git("commit-tree", tree, "-p", "main", "-m", "one and two")
    repo.git("update-ref", "refs/heads/main", made)
    b.git("reset", "-q", "--hard")


def squash_on_a_server(b: Branches) -> None:
    server = b.scene.shadow.repo.root.parent / "server"
    b.git("clone", "-q", ".", str(server))
    b.git("-C", str(server), "merge", "-q", "--squash", "origin/side")
    b.git("-C", str(server), "commit", "-qm", "one (#1)", "--author=Server <s@x>")
    b.git("pull", "-q", str(server), "main")


@pytest.mark.parametrize(
    "way",
    [
        *(merge, rebase, rebase_onto, rebase_again_with_new_dates, reword, fixup),
        *(squash_interactively, squash_by_a_reset, edit, merge_squash),
        *(pick, pick_with_a_note),
        *(amend_a_pick, amend_as_somebody_else, mail, split_a_commit, revert_twice),
        *(reorder, plumbing, squash_on_a_server),
    ],
)
@pytest.mark.sampled
def test_short_lines_keep_their_agents(branches: Branches, way: Way) -> None:
    """BLAME-13, BLAME-14, BLAME-15."""
    way(branches)
    top, *below = branches.owned()
    assert top in (("zero", "unk"), ("above", "unk"))
    assert [one for one in below if one[1] not in ("H", "unk")] == ONE + TWO
    hand = [line for line, who in below if who == "unk"]
    assert set(hand) <= {"zero", "by hand", "mine"}


def test_stash_popped_onto_a_changed_base_keeps_its_agents(branches: Branches) -> None:
    """BLAME-15."""
    b = branches
    lines = b.lines()
    lines[11], lines[31:31] = "}", ["return x", "}"]
    b.scene.write("S2", "f", *lines)
    b.git("stash", "-q")
    b.edit(_0="above")
    b.git("commit", "-qam", "above")
    b.git("stash", "pop", "-q")
    assert b.agents() == [("}", "S2"), *TWO]


def test_dropped_commit_leaves_the_lines_of_the_others(branches: Branches) -> None:
    branches.rebase("1s/^pick/drop/")
    assert branches.agents() == TWO


def test_fixup_of_an_earlier_commit_keeps_its_own_author(branches: Branches) -> None:
    b = branches
    b.git("switch", "-q", "side")
    lines = b.lines()
    lines[20] = "elif:"
    b.scene.write("S2", "f", *lines)
    b.git("commit", "-qa", "--fixup", "HEAD~1")
    b.git("rebase", "-q", "-i", "--autosquash", "main", env={SEQUENCE: "true"})
    assert b.agents() == [("}", "S1"), ("elif:", "S2"), *TWO]


def test_conflict_resolved_by_hand_keeps_the_lines_of_both_sides(
    branches: Branches,
) -> None:
    """BLAME-13."""
    b = branches
    b.edit(_12="a person's", _22="a person's, too")
    b.git("commit", "-qam", "in the way")
    b.git("switch", "-q", "side")
    b.git("rebase", "-q", "main", check=False)
    b.resolve()
    b.edit(_5="new while resolving")
    b.git("add", "f")
    b.git("rebase", "--continue", env=KEEP)
    assert b.agents() == ONE + TWO


@pytest.mark.parametrize("way", [rebase, merge_squash, pick])
@pytest.mark.sampled
def test_short_lines_keep_their_agents_without_a_reflog(
    branches: Branches, way: Way
) -> None:
    """BLAME-13: as jj and GUIs leave a repository."""
    b = branches
    b.git("config", "core.logAllRefUpdates", "false")
    # Git goes on writing a log that exists. Its command is of 2.51, which reads reftables.
    if b.scene.shadow.repo.has_reftables:
        b.git("reflog", "drop", "--all")
    else:
        shutil.rmtree(b.scene.shadow.repo.root / ".git" / "logs")
    way(b)
    assert b.agents() == ONE + TWO


@pytest.mark.parametrize("forged", ["message", "author and date", "all"])
@pytest.mark.sampled
def test_commit_with_another_change_hands_on_nothing(
    branches: Branches, forged: str
) -> None:
    b = branches
    said, when = b.git("log", "-1", "--format=%B|%ad", "side").split("|")
    env = {"GIT_AUTHOR_DATE": when} if forged != "message" else {}
    message = said if forged != "author and date" else "mine"
    lines = b.lines()
    lines[8:8] = ["return x", "}"]
    b.scene.shadow.repo.write("f", text(*lines))
    b.git("commit", "-qam", message, env=env)
    assert b.agents() == []


def autosquash(b: Branches) -> None:
    """Rebase `side` onto a commit of a person, with its fixups."""
    b.git("switch", "-q", "main")
    b.edit(_40="by hand")
    b.git("commit", "-qam", "main")
    b.git("switch", "-q", "side")
    b.git("rebase", "-q", "-i", "--autosquash", "main", env={SEQUENCE: "true"})


def test_line_beside_an_equal_older_one_keeps_its_author(
    on_side: Callable[[Sequence[str]], Branches],
) -> None:
    """The diff of a whole branch has the older one for new, those of its commits the other one."""
    lines = ["first", "second", "", "old", "third", "fourth", "", "x = 1", *REST]
    b = on_side(lines)
    lines[2:2] = ["x = 1"]
    b.scene.write("S1", "f", *lines)
    b.git("commit", "-qam", "one")
    lines[4:5] = ["", "y = 2", "z = 3"]
    b.scene.write("S2", "f", *lines)
    b.git("commit", "-qam", "two")
    b.git("switch", "-q", "main")
    b.edit(_40="by hand")
    b.git("commit", "-qam", "main")
    merge_squash(b)
    assert b.agents() == [("x = 1", "S1"), ("", "S2"), ("y = 2", "S2"), ("z = 3", "S2")]
    assert b.scene.owners("f").startswith("H H S1 H S2 S2 S2 H ")


def test_line_that_a_person_writes_elsewhere_is_not_the_agents(
    branches: Branches,
) -> None:
    """An equal change is one that Git restored only beside a line that it was beside, too."""
    b, same = branches, "the_line_of_an_agent_is_long_enough = True"
    b.git("switch", "-q", "side")
    lines = b.lines()
    lines[12:12] = [same]
    b.scene.write("S1", "f", *lines)
    b.git("commit", "-qam", "three")
    b.git("switch", "-q", "main")
    b.edit(_0=same)
    b.git("commit", "-qam", "mine")
    assert b.lines()[0] == same
    assert b.agents() == []


def test_fixup_beside_an_equal_older_line_keeps_its_author(
    on_side: Callable[[Sequence[str]], Branches],
) -> None:
    """The diff of the write has the older one for new, that of the folded commit the other one."""
    lines = ["first", "i += 1", "", "def", *REST]
    b = on_side(lines)
    lines[1:2] = ["one"]
    b.scene.write("S1", "f", *lines)
    b.git("commit", "-qam", "one")
    lines[2:2] = ["", "after"]
    b.scene.write("S2", "f", *lines)
    b.git("commit", "-qa", "--fixup", "HEAD")
    autosquash(b)
    assert b.scene.owners("f").startswith("H S1 S2 S2 H H ")


def test_fixup_above_an_equal_line_of_a_commit_between_keeps_its_author(
    on_side: Callable[[Sequence[str]], Branches],
) -> None:
    """The commits up to the one between have the equal line at nearly the same place."""
    lines = ["first", "second", "write", "after", "last", *REST]
    b = on_side(lines)
    b.scene.write("S1", "f", "one", *lines)
    b.git("commit", "-qam", "one")
    lines[4:4] = ["},", "return x", "pass", ""]
    b.scene.write("S2", "f", "one", *lines)
    b.git("commit", "-qam", "two")
    lines[2] = "return x"
    b.scene.write("S1", "f", "one", *lines)
    b.git("commit", "-qa", "--fixup", "HEAD~1")
    autosquash(b)
    assert b.scene.owners("f").startswith("S1 H H S1 H S2 S2 S2 S2 H ")


def test_squash_message_of_another_change_hands_on_nothing(branches: Branches) -> None:
    b = branches
    listed = b.git("log", "main..side")
    b.edit(_9="}")
    b.git("commit", "-qam", f"Squashed commit of the following:\n\n{listed}")
    assert b.agents() == []


def test_equal_line_of_a_person_at_another_place_is_not_the_agents(
    branches: Branches,
) -> None:
    b = branches
    b.git("cherry-pick", "side~1")
    b.git("revert", "--no-edit", "HEAD")
    b.edit(_17="}", _27="else:")
    b.git("commit", "-qam", "a person's")
    assert b.agents() == []
