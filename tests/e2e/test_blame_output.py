"""What blame prints: Git's own format, rows, text; and what it does with odd files."""

from collections.abc import Callable

import pytest

from gitshadow.model import RepoPath
from gitshadow.store.refs import display_path
from tests.support import porcelain
from tests.support.blaming import Scene
from tests.support.repo import Repo
from tests.support.shadow import Shadow


def git_blame(repo: Repo, *args: str) -> bytes:
    return repo.git("blame", *args).encode("utf-8", "surrogateescape") + b"\n"


@pytest.fixture
def scene(shadow_n: Shadow) -> Scene:
    """Return R, recorded without a daemon."""
    return Scene(shadow_n)


@pytest.mark.parametrize("option", ["--porcelain", "--line-porcelain"])
def test_porcelain_is_gits_where_nobody_wrote(scene: Scene, option: str) -> None:
    """The parser reads git's own output; ours is the same byte for byte."""
    repo = scene.shadow.repo
    elsewhere = Repo(repo.root.parent / "elsewhere")
    repo.git("clone", "-q", ".", str(elsewhere.root))
    elsewhere.write("a", "new\n" + repo.read("a").decode() + "end\n")
    elsewhere.git("mv", "b", 'b \u00e9"\\')
    elsewhere.commit("second")
    repo.git("pull", "-q", "--ff-only", str(elsewhere.root), "main")
    for path in ("a", 'b \u00e9"\\', "c"):
        theirs = git_blame(repo, option, "--", path)
        every = option == "--line-porcelain"
        assert porcelain.parse(theirs, every_line=every)
        assert (
            scene.shadow.ok("blame", option, "--commit", "HEAD", "--", path).raw
            == theirs
        )


@pytest.mark.parametrize("option", ["--porcelain", "--line-porcelain"])
def test_porcelain_of_recorded_lines_is_read_by_a_parser(
    scene: Scene, option: str
) -> None:
    repo = scene.shadow.repo
    lines = repo.read("a").decode().splitlines()
    scene.write("S1", "a", *lines[:2], "one", "", *lines[2:5], "two", *lines[5:])
    repo.append("a", b"\xff no newline")
    out = scene.shadow.ok("blame", option, "a").raw
    entries = porcelain.parse(out, every_line=option == "--line-porcelain")
    assert b"\n".join(entry.text for entry in entries) == repo.read("a")
    assert [entry.line for entry in entries] == list(range(1, 15))
    rows = scene.rows("a")
    assert [entry.commit for entry in entries] == [row["commit"] for row in rows]
    assert [entry.source_line for entry in entries] == [
        row["orig_line"] for row in rows
    ]
    mine = entries[2]
    assert mine.facts[b"author"] == b"claude-code"
    assert mine.facts[b"filename"] == b"a"
    assert repo.git("cat-file", "-t", mine.commit) == "commit"
    commit, _, name = mine.facts[b"previous"].partition(b" ")
    assert name == b"a"
    assert repo.git("cat-file", "-p", f"{commit.decode()}:a").splitlines() == lines


def test_porcelain_agrees_with_git_blame_along_the_chain(scene: Scene) -> None:
    """Property ii: replay is git blame on the session's chain."""
    repo = scene.shadow.repo
    lines = repo.read("a").decode().splitlines()
    for step in range(6):
        lines[step * 3 % len(lines)] = f"changed {step}"
        lines.insert(step * 5 % len(lines), f"added {step}")
        del lines[step * 7 % len(lines)]
        scene.write("S1", "a", *lines)
    sessions = scene.shadow.ok("sessions", "--json").rows()
    ref = next(str(row["ref"]) for row in sessions if row["agent"])
    theirs = porcelain.parse(git_blame(repo, "--porcelain", ref, "--", "a"))
    ours = porcelain.parse(scene.shadow.ok("blame", "--porcelain", "a").raw)
    assert [(e.commit, e.source_line, e.text) for e in ours] == [
        (e.commit, e.source_line, e.text) for e in theirs
    ]


def test_rows_have_the_fields_of_the_contract(scene: Scene) -> None:
    lines = scene.shadow.repo.read("a").decode().splitlines()
    call = scene.write("S1", "a", "new", *lines)
    row, other = scene.rows("a", "-L", "1,2")
    assert (row["line"], row["text"], row["agent"]) == (1, "new", "claude-code")
    assert (row["call"], row["confidence"]) == (call, "certain")
    assert row["prompt"] == "prompt of S1"
    event = scene.shadow.log("a")[0]
    for field in ("session", "turn", "commit", "ts", "reason", "tool", "seq"):
        assert row[field] == event[field] is not None
    assert other["author"] == "Test User"
    assert other["commit"] == scene.shadow.repo.git("rev-parse", "HEAD")
    assert (other["agent"], other["session"], other["prompt"]) == (None, None, None)


def test_text_names_writers_prompts_and_reasons(scene: Scene) -> None:
    lines = scene.shadow.repo.read("a").decode().splitlines()
    scene.write("S1", "a", "new \x1b[31m", *lines)
    out = scene.shadow.ok("blame", "--prompt", "--why", "-L", "1,2", "a").out
    assert "# prompt of S1" in out
    assert "claude-code" in out
    assert "1) new \\x1b[31m" in out
    assert "Test User, line 2: from before recording" in out


def test_colour_tells_agents_apart(scene: Scene) -> None:
    scene.write("S1", "n", "one")
    scene.write("S2", "n", "one", "two")
    scene.shadow.repo.git("config", "color.ui", "always")
    env = {"TERM": "xterm"}
    out = scene.shadow.ok("blame", "n", env=env).out.splitlines()
    assert out[0].startswith("\x1b[36m")
    assert out[1].startswith("\x1b[35m")


def test_copies_are_followed_with_c(scene: Scene) -> None:
    scene.agent("S1").shell("(echo new; sed -n 2,10p a) >to; sed -i 2,10d a")
    assert scene.owners("to") == " ".join(["S1"] * 10)
    assert scene.owners("to", "-C") == " ".join(["S1", *["H"] * 9])


def test_moved_within_a_file_is_followed_with_c(scene: Scene) -> None:
    lines = scene.shadow.repo.read("a").decode().splitlines()
    scene.write("S1", "a", *lines[5:], *lines[:5])
    assert scene.owners("a").count("S1") == 5
    assert scene.owners("a", "-C") == " ".join(["H"] * 10)


def test_at_and_commit_say_who_wrote_what_was_there(scene: Scene) -> None:
    lines = scene.shadow.repo.read("a").decode().splitlines()
    scene.write("S1", "a", "one", *lines)
    then = str(scene.shadow.log("a")[0]["seq"])
    scene.shadow.ok("pin", "here")
    head = scene.commit("second")
    scene.write("S2", "a", "two", *lines)
    assert scene.owners("a", "-L", "1,2") == "S2 H"
    assert scene.owners("a", "-L", "1,2", "--at", then) == "S1 H"
    assert scene.owners("a", "-L", "1,2", "--at", "here") == "S1 H"
    assert scene.owners("a", "-L", "1,2", "--commit", head) == "S1 H"
    assert scene.owners("a", "-L", "1,1", "--commit", f"{head}~") == "H"


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b'"q"', b"new\nline", b"-dash", b" blank "]
)
def test_odd_names_are_blamed(scene: Scene, name: bytes) -> None:
    repo = scene.shadow.repo
    repo.write(name, "x\n")
    repo.commit("odd")
    repo.write(name, "x\ny\n")
    typed = display_path(RepoPath(name))
    assert len(scene.rows(typed)) == 2
    porcelain.parse(scene.shadow.ok("blame", "--porcelain", "--", typed).raw)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"no newline", 1),
        (b"a\r\nb\r\nc", 3),
        (b"\0\1\2\n\xff\0", 2),
        (b"one line of a megabyte " * 50_000, 1),
        (b"same\n" * 10_000, 10_000),
    ],
    ids=["empty", "newline", "bare", "crlf", "binary", "huge", "equal"],
)
def test_odd_content_has_an_owner_for_each_line(
    scene: Scene, data: bytes, lines: int
) -> None:
    scene.shadow.repo.write("odd", b"before\n")
    scene.shadow.ok("flush")
    scene.shadow.repo.write("odd", data)
    found = porcelain.parse(scene.shadow.ok("blame", "--porcelain", "odd").raw)
    assert len(found) == lines
    assert b"\n".join(entry.text for entry in found) == data.removesuffix(b"\n")


def test_link_is_blamed_as_what_it_says(scene: Scene) -> None:
    scene.shadow.repo.symlink("link", "a")
    assert [row["text"] for row in scene.rows("link")] == ["a"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("missing",), "cannot find file missing"),
        (("a", "--at", "1999-01-01"), "the history begins later"),
        (("a", "--commit", "nonsense"), "cannot find commit nonsense"),
        (("missing", "--commit", "HEAD"), "cannot find missing in commit"),
        (("a", "-L", "99"), "has only 10 lines"),
        (("a", "b"), "expected exactly one FILE"),
        ((".",), "cannot blame"),
        (("../elsewhere",), "outside"),
    ],
)
def test_what_cannot_be_blamed_is_said(
    scene: Scene, args: tuple[str, ...], said: str
) -> None:
    result = scene.shadow("blame", *args)
    assert (result.code, result.raw) == (2, b"")
    assert said in result.err


def test_uncovered_file_is_said_or_left_to_git(scene: Scene) -> None:
    repo = scene.shadow.repo
    repo.write(".agent-undoignore", "b\nlog\n")
    repo.write("log", "x\n")
    repo.append("b", "more\n")
    assert scene.owners("b") == " ".join(["H"] * 10 + ["unk"])
    result = scene.shadow("blame", "log")
    assert result.code == 2
    assert "not recorded" in result.err


def test_lines_before_a_shallow_history_are_gits_boundary(
    scene: Scene, make_repo: Callable[..., Repo], make_shadow: Callable[..., Shadow]
) -> None:
    repo = scene.shadow.repo
    repo.append("a", "later\n")
    repo.commit("second")
    shallow = make_repo("shallow", files=())
    shallow.git("fetch", "-q", "--depth=1", f"file://{repo.root}", "main")
    shallow.git("reset", "-q", "--hard", "FETCH_HEAD")
    other = Scene(make_shadow(shallow, daemon=False))
    other.shadow.init()
    other.write("S1", "a", "one")
    other.shadow.oops()
    assert other.owners("a") == " ".join(["H"] * 11)


def test_configured_blame_runs_nothing_and_changes_nothing(scene: Scene) -> None:
    repo = scene.shadow.repo
    ran = repo.root.parent / "ran"
    repo.write(".gitattributes", "a diff=evil\n")
    repo.git("config", "diff.evil.textconv", f"touch {ran}; cat")
    repo.write("ignored", repo.git("rev-parse", "HEAD") + "\n")
    repo.append("a", "later\n")
    repo.git("config", "blame.ignoreRevsFile", "ignored")
    repo.git("config", "blame.showEmail", "true")
    repo.commit("second")
    scene.shadow.ok("flush")
    assert scene.owners("a") == " ".join(["H"] * 10 + ["unk"])
    plain = {row["commit"] for row in scene.rows("a", "--commit", "HEAD")}
    assert len(plain) == 2
    assert not ran.exists()
