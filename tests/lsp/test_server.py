"""The language server as editors run it: a process that is asked over its streams."""

import asyncio
import os
import random
import subprocess
from collections.abc import Callable

import pytest

from tests.lsp.editor import Editor, edit, framed
from tests.support.repo import Repo
from tests.support.shadow import COMMAND, Shadow
from tests.support.studio import studio_of

OLD = "".join(f"line {number}\n" for number in range(1, 21))
# 200 in `make test-full`.
TRIALS = 200 if os.environ.get("GITSHADOW_TEST_FULL") == "1" else 10
NEW = OLD.replace("line 3\n", "third\nand more\n").replace("line 15\n", "fifteenth\n")


@pytest.fixture
def shadow(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return a repository in which an agent changed two places of a file and made another."""
    repo.write("a.txt", OLD)
    repo.commit("start")
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", "Say it in *words* <b>now</b> [x](command:y)")
        studio.write("S1", "a.txt", NEW)
        studio.write("S1", "b.txt", "new\n")
        studio.stop("S1")
    return make_shadow(repo, daemon=False)


def test_hover_shows_agent_prompt_reason_and_what_the_line_was(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        said = await on.hover("a.txt", 2)
        assert said.startswith("**claude-code** · t1 · just now")
        assert "*certain*: " in said
        # Nothing in a prompt is a tag, a link or a command.
        assert "```text\nSay it in *words* <b>now</b> [x](command:y)\n```" in said
        assert said.endswith("before:\n\n```text\nline 3\n```")
        assert "**Test User**" in await on.hover("a.txt", 0)
        assert await on.hover("a.txt", 400) == ""

    edit(shadow, steps)


def test_lens_stands_above_each_run_of_an_agent(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        assert await on.lenses("a.txt") == [2, 15]

    edit(shadow, steps)


@pytest.mark.parametrize(("lens", "lines"), [("off", []), ("all", [0, 2, 4, 15, 16])])
def test_setting_says_whose_lines_have_a_lens(
    shadow: Shadow, lens: str, lines: list[int]
) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        assert await on.lenses("a.txt") == lines

    edit(shadow, steps, options={"gitshadow": {"lens": lens}})


def test_lines_that_are_not_saved_are_the_persons(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        on.type("a.txt", "typed\n" + NEW)
        assert await on.hover("a.txt", 0) == "**yours, not saved yet**"
        assert "claude" in await on.hover("a.txt", 3)
        assert await on.lenses("a.txt") == [3, 16]

    edit(shadow, steps)


def test_undo_of_lines_leaves_the_rest_of_the_turn(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        await on.do("a.txt", 2, 3, "Undo these lines of claude-code")

    editor = edit(shadow, steps)
    expected = OLD.replace("line 15\n", "fifteenth\n")
    assert shadow.repo.read("a.txt").decode() == expected
    assert shadow.repo.exists("b.txt")
    assert "a.txt" in editor.asked[0]
    assert editor.said == ["partly restored 1 file"]


def test_undo_in_the_file_everywhere_and_redo(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        await on.do("a.txt", 2, 2, "Undo in this file: ")
        assert shadow.repo.read("a.txt").decode() == OLD
        assert shadow.repo.exists("b.txt")
        await on.do("a.txt", 2, 2, "Redo u1")
        assert shadow.repo.read("a.txt").decode() == NEW
        await on.do("a.txt", 2, 2, "Undo everywhere: ")
        assert not shadow.repo.exists("b.txt")

    edit(shadow, steps)
    assert shadow.repo.read("a.txt").decode() == OLD


def test_nothing_is_done_without_a_yes(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        on.answer = "Cancel"
        await on.do("a.txt", 2, 2, "Undo everywhere: ")
        on.answer = None
        await on.do("a.txt", 2, 2, "Undo everywhere: ")

    editor = edit(shadow, steps)
    assert len(editor.asked) == 2
    assert shadow.repo.read("a.txt").decode() == NEW


def test_buffer_that_is_not_saved_is_edited_and_its_file_is_not(shadow: Shadow) -> None:
    typed = NEW.replace("line 9\n", "typed by me\n") + "and at the end"

    async def steps(on: Editor) -> None:
        on.open("a.txt")
        on.type("a.txt", typed)
        await on.do("a.txt", 2, 2, "Undo everywhere: ")
        got = on.texts[on.uri("a.txt")]
        assert got == OLD.replace("line 9\n", "typed by me\n") + "and at the end"

    editor = edit(shadow, steps)
    assert shadow.repo.read("a.txt").decode() == NEW
    # The other file of the turn is not open.
    assert not shadow.repo.exists("b.txt")
    (asked,) = editor.asked
    assert "\nwill restore 1 file\n" in asked
    assert "delete    b.txt" in asked
    assert "--except" not in asked
    assert asked.endswith("will change in the editor, not saved: a.txt")


@pytest.mark.parametrize("what", ["file", "buffer"])
def test_refusal_leaves_files_and_buffers_as_they_were(
    shadow: Shadow, what: str
) -> None:
    typed = NEW.replace("line 9\n", "typed by me\n")
    later = typed + "later\n" if what == "buffer" else typed

    async def steps(on: Editor) -> None:
        def meanwhile() -> None:
            if what == "file":
                shadow.repo.write("b.txt", "later\n")
            else:
                on.type("a.txt", later)

        on.open("a.txt")
        on.type("a.txt", typed)
        on.meanwhile = meanwhile
        await on.do("a.txt", 2, 2, "Undo everywhere: ")
        assert on.texts[on.uri("a.txt")] == later

    editor = edit(shadow, steps)
    assert shadow.repo.exists("b.txt")
    assert shadow.repo.read("a.txt").decode() == NEW
    assert len(editor.said) == 1


def test_unsaved_change_of_the_same_lines_is_not_overwritten(shadow: Shadow) -> None:
    typed = NEW.replace("third\n", "third, as I say\n")

    async def steps(on: Editor) -> None:
        on.open("a.txt")
        on.type("a.txt", typed)
        await on.do("a.txt", 3, 3, "Undo in this file: ")
        assert on.texts[on.uri("a.txt")] == typed

    editor = edit(shadow, steps)
    assert "it has changes that are not saved there" in editor.said[0]
    assert shadow.repo.read("a.txt").decode() == NEW


def test_plan_is_shown_as_a_diff_where_the_editor_can(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        await on.do("a.txt", 2, 2, "Undo these lines of ")

    editor = edit(shadow, steps, window={"showDocument": {"support": True}})
    ((file, shown),) = editor.shown
    assert not file.parent.exists()
    assert shown == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,7 +1,6 @@\n line 1\n line 2\n"
        "-third\n-and more\n+line 3\n line 4\n line 5\n line 6\n"
    )
    assert len(editor.asked) == 1


def test_lines_without_a_review_are_marked_until_they_have_one(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        await on.until(lambda: on.marked)
        first, second = on.marked.pop(on.uri("a.txt"))
        assert first["range"]["start"]["line"] == 2
        assert first["range"]["end"]["line"] == 4
        assert second["range"]["start"]["line"] == 15
        assert first["severity"] == 4
        assert first["message"].startswith("not reviewed: claude-code")
        await on.do("a.txt", 2, 2, "Mark this file as reviewed")
        await on.until(lambda: on.marked)
        assert on.marked[on.uri("a.txt")] == []

    editor = edit(shadow, steps, options={"unreviewed": True})
    assert editor.said[0].startswith("reviewed 3 lines")
    assert "a.txt" in shadow("review", "--list").out


def test_marks_go_when_the_setting_is_turned_off(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        await on.until(lambda: on.marked.get(on.uri("a.txt")))
        off = {"gitshadow": {"unreviewed": False}}
        on.tell("workspace/didChangeConfiguration", settings=off)
        await on.until(lambda: on.marked[on.uri("a.txt")] == [])

    edit(shadow, steps, options={"unreviewed": True})


def test_nothing_is_marked_unless_a_setting_says_so(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        assert "claude" in await on.hover("a.txt", 2)
        on.type("a.txt", "typed\n" + NEW)
        # What is reviewed is what the editor shows.
        found = await on.actions("a.txt", 3, 3)
        assert not any(one.startswith("Mark") for one in found)

    assert edit(shadow, steps).marked == {}


def test_answer_that_takes_long_shows_its_progress(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        with studio_of(shadow.repo):
            hover = asyncio.create_task(on.hover("a.txt", 2))
            await on.until(lambda: on.worked)
        assert "claude" in await hover
        await on.until(lambda: len(on.worked) == 2)

    editor = edit(shadow, steps, window={"workDoneProgress": True})
    assert editor.worked == [("begin", "reading who wrote a.txt"), ("end", "")]


def test_untrusted_workspace_offers_nothing_that_writes(shadow: Shadow) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        assert await on.actions("a.txt", 2, 2) == {}
        assert "claude" in await on.hover("a.txt", 2)

    edit(shadow, steps, options={"trusted": False})


def test_folder_that_is_not_recorded_is_named_once_in_the_log(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    async def steps(on: Editor) -> None:
        on.open("a")
        assert await on.hover("a", 0) == ""
        assert await on.lenses("a") == []
        assert await on.actions("a", 0, 0) == {}

    editor = edit(make_shadow(repo, daemon=False), steps)
    (line,) = editor.logged
    assert line.startswith("gitshadow: no authors in ")
    assert editor.said == []


@pytest.mark.parametrize(
    ("encodings", "column"),
    [(["utf-16"], 8), (["utf-8", "utf-16"], 12), (["utf-32"], 6)],
)
def test_hint_stands_at_the_end_of_its_line_in_the_editors_units(
    repo: Repo, make_shadow: Callable[..., Shadow], encodings: list[str], column: int
) -> None:
    with studio_of(repo) as studio:
        studio.prompt("S1", "Smile")
        studio.write("S1", "smile.txt", "ok 😀😀 \n")
        studio.stop("S1")

    async def steps(on: Editor) -> None:
        on.open("smile.txt")
        (hint,) = await on.ask(
            "textDocument/inlayHint",
            textDocument={"uri": on.uri("smile.txt")},
            range={
                "start": {"line": 0, "character": 0},
                "end": {"line": 9, "character": 0},
            },
        )
        assert hint["position"] == {"line": 0, "character": column}
        assert hint["label"].startswith("claude-code")

    shadow = make_shadow(repo, daemon=False)
    edit(shadow, steps, options={"hints": "agents"}, encodings=encodings)


def test_link_binary_file_and_file_elsewhere_have_no_authors(shadow: Shadow) -> None:
    outside = shadow.repo.root.parent / "outside.txt"
    outside.write_text("secret\n")
    (shadow.repo.root / "link.txt").symlink_to(outside)
    (shadow.repo.root / "data.bin").write_bytes(b"a\0b\n")
    (shadow.repo.root / "latin.txt").write_bytes(b"caf\xe9\n")

    async def steps(on: Editor) -> None:
        for path in ("link.txt", "data.bin", "../outside.txt", "gone.txt"):
            on.open(path, "a\n")
            assert await on.hover(path, 0) == ""
            assert await on.lenses(path) == []
            assert await on.actions(path, 0, 9) == {}
        # Not open: the server would read them itself.
        for path in ("latin.txt", "never.txt"):
            assert await on.hover(path, 0) == ""
            assert await on.lenses(path) == []
        # What an editor sends by mistake does not end the server.
        on.send(id=0, method="textDocument/hover", params={"textDocument": 7})
        on.send(method="$/garbage", params=[])
        on.send(method="textDocument/didChange", params={})
        on.open("a.txt")
        assert "claude" in await on.hover("a.txt", 2)

    edit(shadow, steps)


def test_typing_behind_a_form_feed_is_not_overwritten(shadow: Shadow) -> None:
    """It is the end of a line in Python, and in no editor."""

    async def steps(on: Editor) -> None:
        on.open("a.txt", NEW.replace("line 5\n", "line\f\f5\n"))
        on.type_line("a.txt", 15, "mine")
        typed = on.texts[on.uri("a.txt")]
        await on.do("a.txt", 2, 2, "Undo in this file")
        assert on.texts[on.uri("a.txt")] == typed
        assert on.said[0].startswith("cannot undo a.txt: it has changes")

    edit(shadow, steps)


def test_buffer_with_lines_that_git_does_not_count_is_not_edited(
    shadow: Shadow,
) -> None:
    """An editor counts a carriage return as the end of a line."""
    typed = NEW.replace("line 5\n", "li\rne\r5\n")

    async def steps(on: Editor) -> None:
        on.open("a.txt")
        on.type("a.txt", typed)
        on.open("b.txt")
        await on.do("b.txt", 0, 0, "Undo everywhere")
        assert on.texts[on.uri("a.txt")] == typed
        assert on.said[0].startswith("cannot undo a.txt: it has changes")

    edit(shadow, steps)
    assert shadow.repo.read("b.txt") == b"new\n"


def test_buffer_in_another_directory_is_edited_and_its_file_is_not(
    shadow: Shadow,
) -> None:
    shadow.repo.write("..in/c.txt", OLD)
    with studio_of(shadow.repo) as studio:
        studio.write("S2", "b.txt", "newer\n")
        studio.write("S2", "..in/c.txt", NEW)
        studio.stop("S2")

    async def steps(on: Editor) -> None:
        on.open("..in/c.txt")
        on.type("..in/c.txt", "mine\n" + NEW)
        on.open("b.txt")
        await on.do("b.txt", 0, 0, "Undo everywhere")
        assert on.texts[on.uri("..in/c.txt")] == "mine\n" + OLD

    edit(shadow, steps)
    assert shadow.repo.read("..in/c.txt").decode() == NEW
    assert shadow.repo.read("b.txt") == b"new\n"


def test_requests_that_still_run_at_the_end_are_no_errors(
    shadow: Shadow, capfd: pytest.CaptureFixture[str]
) -> None:
    async def steps(on: Editor) -> None:
        on.open("a.txt")
        for number in range(8):
            on.send(
                id=1000 + number,
                method="textDocument/codeLens",
                params={"textDocument": {"uri": on.uri("a.txt")}},
            )

    edit(shadow, steps)
    assert capfd.readouterr().err == ""


def test_editor_that_reads_no_more_makes_no_errors(shadow: Shadow) -> None:
    uri = (shadow.repo.root / "a.txt").as_uri()
    asked = {"textDocument": {"uri": uri}}
    opening: dict[str, object] = {
        "processId": None,
        "rootUri": None,
        "capabilities": {},
    }
    with subprocess.Popen(
        [COMMAND, "lsp"],
        cwd=shadow.repo.root,
        env=shadow.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(framed(id=1, method="initialize", params=opening))
        server.stdin.flush()
        assert server.stdout.read(1) == b"C"
        server.stdout.close()
        for number in range(2, 6):
            server.stdin.write(
                framed(id=number, method="textDocument/codeLens", params=asked)
            )
        server.stdin.close()
        assert server.stderr is not None
        assert server.stderr.read() == b""
    assert server.returncode == 0


def test_no_random_typing_is_lost_by_an_undo(shadow: Shadow) -> None:
    """What was typed is in the buffer afterwards, whether lines were undone beside it or not."""
    rng = random.Random(3)

    async def steps(on: Editor) -> None:
        on.open("a.txt")
        lines = NEW.splitlines()
        for number in range(TRIALS):
            typed = list(lines)
            for _ in range(rng.randrange(1, 4)):
                typed.insert(rng.randrange(len(typed) + 1), f"typed {number}")
            on.type("a.txt", "\n".join(typed) + "\n")
            count = typed.count(f"typed {number}")
            found = await on.actions("a.txt", 0, 99)
            (command,) = (found[one] for one in found if one.startswith("Undo in this"))
            await on.ask("workspace/executeCommand", **command)
            got = on.texts[on.uri("a.txt")].splitlines()
            assert got.count(f"typed {number}") == count
            rest = [line for line in got if not line.startswith("typed")]
            assert rest in (lines, OLD.splitlines())
            assert shadow.repo.read("a.txt").decode() == NEW

    edit(shadow, steps)
