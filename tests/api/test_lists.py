"""Looking at a long history piece by piece: pages of `log`, parts of `show`, texts in both."""

import base64
import shutil

import pytest

from gitshadow.errors import UsageError
from gitshadow.messages.codec import decode
from gitshadow.messages.states import ShowAnswer
from gitshadow.render.style import View
from gitshadow.render.text import show_lines
from tests.support.studio import Document, Studio


def rows(document: Document, key: str = "rows") -> list[Document]:
    """Return the rows of a document."""
    found = document[key]
    assert isinstance(found, list)
    return found


def seqs(document: Document) -> list[object]:
    """Return the numbers of a document's rows."""
    return [row["seq"] for row in rows(document)]


@pytest.fixture
def paged(studio: Studio) -> Studio:
    """Return a history of five writes of one turn, and then one of another."""
    studio.start("S1")
    studio.prompt("S1", "\n  Make 100% of it strict\nand more")
    for number in range(5):
        studio.write("S1", f"src/f{number}", f"{number}\n")
    studio.stop("S1")
    studio.prompt("S1", "Tidy up")
    studio.write("S1", "docs/Guide", "x\n")
    return studio


def test_pages_downwards_follow_on_each_other(paged: Studio) -> None:
    every = seqs(paged.run("log"))
    first = seqs(paged.run("log", limit=2))
    second = seqs(paged.run("log", limit=2, below=first[-1]))
    assert first + second == every[:4]


def test_page_upwards_is_the_next_one_newest_first(paged: Studio) -> None:
    every = seqs(paged.run("log"))
    assert seqs(paged.run("log", limit=2, above=every[4])) == every[2:4]


def test_page_upwards_of_one_path_is_the_next_one(paged: Studio) -> None:
    every = seqs(paged.run("log", paths=["src"]))
    found = paged.run("log", limit=2, above=every[4], paths=["src"])
    assert seqs(found) == every[2:4]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("guide", ["docs/Guide"]),
        ("F3", ["src/f3"]),
        ("tidy", ["docs/Guide"]),
        ("100%", [f"src/f{number}" for number in (4, 3, 2, 1, 0)]),
        ("1_0", []),
        ("src\\f", []),
    ],
)
def test_text_is_found_in_paths_and_prompts(
    paged: Studio, text: str, paths: list[str]
) -> None:
    found = rows(paged.run("log", text=text))
    assert [row["path"] for row in found] == paths


def test_rows_carry_the_beginning_of_their_prompt_where_wanted(paged: Studio) -> None:
    paged.stop("S1")
    paged.hand("mine", "x\n")
    found = rows(paged.run("log", limit=3, prompts=True))
    assert [row["prompt"] for row in found] == [
        None,
        "Tidy up",
        "Make 100% of it strict",
    ]
    assert "prompt" not in rows(paged.run("log"))[0]


def test_show_of_some_paths_is_limited_to_them(paged: Studio) -> None:
    burst = rows(paged.run("log", text="strict"))[0]["burst"]
    shown = paged.run("show", id=burst, paths=["src/f3"])
    assert [row["path"] for row in rows(shown, "events")] == ["src/f3"]
    assert str(shown["diff"]).count("diff --git") == 1


def test_show_of_more_events_than_the_limit_says_that_it_is_cut(paged: Studio) -> None:
    burst = rows(paged.run("log", text="strict"))[0]["burst"]
    whole = paged.run("show", id=burst, limit=5)
    assert (len(rows(whole, "events")), "cut" in whole) == (5, False)
    cut = paged.run("show", id=burst, limit=4)
    assert rows(cut, "events") == rows(whole, "events")[1:]
    assert cut["cut"] is True
    session = paged.session("S1")
    cut = paged.run("show", id=session, limit=4)
    said = list(show_lines(decode(ShowAnswer, cut), View()))
    told = "only the newest 4 events are shown; for the others: PATHS, or git agent-undo log"
    assert told in said


def test_show_without_a_patch_has_its_events_alone(paged: Studio) -> None:
    burst = rows(paged.run("log", text="strict"))[0]["burst"]
    shown = paged.run("show", id=burst, patch=False)
    assert "diff" not in shown
    assert len(rows(shown, "events")) == 5


def test_diff_of_a_turn_is_whole_even_if_its_events_are_cut(paged: Studio) -> None:
    turn = rows(paged.run("history"))[1]["id"]
    shown = paged.run("show", id=turn, limit=2, stat=True)
    assert (len(rows(shown, "events")), shown["cut"]) == (2, True)
    assert str(shown["diff"]).count("diff --git") == 5
    assert [row["path"] for row in rows(shown, "stat")] == [
        f"src/f{number}" for number in range(5)
    ]
    assert (shown["agent"], shown["short"]) == ("claude-code", turn)
    one = paged.run("show", id=turn, paths=["src/f3"], patch=False, stat=True)
    assert [row["path"] for row in rows(one, "stat")] == ["src/f3"]
    assert "stat" not in paged.run("show", id=turn)


def test_turns_and_ops_count_lines_where_wanted(paged: Studio) -> None:
    paged.stop("S1")
    paged.run("undo", verb="oops", yes=True)
    turns = rows(paged.run("turns", lines=True))
    assert [(row["added"], row["removed"]) for row in turns] == [(1, 0), (5, 0)]
    (op,) = rows(paged.run("ops", lines=True))
    assert (op["files"], op["added"], op["removed"]) == (1, 0, 1)
    assert op["undid"] == [turns[0]["short"]]
    for verb in ("turns", "ops"):
        assert "added" not in rows(paged.run(verb))[0]


def test_file_is_found_at_each_moment_within_a_storm(studio: Studio) -> None:
    for number in range(70):
        studio.repo.write(f"many/{number}", f"{number}\n")
    studio.run("log")
    shutil.rmtree(studio.repo.root / "many")
    gone = rows(studio.run("log", kinds=["delete"]))
    assert (len(gone), len({row["commit"] for row in gone})) == (70, 1)
    newest, middle = gone[0], gone[35]

    def content(row: Document, at: str) -> bytes:
        found = studio.run("cat", path=row["path"], at=at)
        return base64.b64decode(str(found["data_base64"]))

    said = str(middle["path"]).removeprefix("many/") + "\n"
    assert content(middle, f"{middle['seq']}^") == said.encode()
    assert content(newest, str(middle["seq"])) != b""
    with pytest.raises(UsageError) as caught:
        content(middle, str(middle["seq"]))
    assert caught.value.hint == f"for the moment before: --at '{middle['seq']}^'"


def test_hint_can_be_typed_when_a_path_has_spaces(studio: Studio) -> None:
    studio.hand("a", "written\n")
    (newest, *_) = seqs(studio.run("log"))
    for verb in ("cat", "blame"):
        with pytest.raises(UsageError) as caught:
            studio.run(verb, path="my notes", at=str(newest))
        assert caught.value.hint == "git agent-undo log -- 'my notes'"
