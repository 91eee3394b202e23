"""push and fetch as text: numbers with their nouns, and nothing said that is not so."""

from gitshadow.messages.codec import decode
from gitshadow.messages.sharing import BringBackAnswer, FetchAnswer, PushAnswer
from gitshadow.render.sharing import fetch_lines, push_lines, returned_lines
from gitshadow.render.style import View

VIEW = View()
S1, S2 = "claude-code-20261122-aaaaaa1111", "claude-code-20261122-bbbbbb1111"
MARK = "review-20261122-0123456789"


def push(changed: list[str], **more: object) -> list[str]:
    document = {"remote": "origin", "sessions": [S1], "marks": [], **more}
    answer = decode(PushAnswer, {**document, "changed": changed})
    return list(push_lines(answer, VIEW))


def test_push_counts_and_names_what_went() -> None:
    assert push(["x"], sessions=[S1, S2], marks=[MARK]) == [
        "2 sessions and 1 review mark sent to origin",
        f"  {S1}",
        f"  {S2}",
        f"  {MARK}",
    ]


def test_push_shows_no_name_raw() -> None:
    assert push(["x"], remote="there\n")[0] == "1 session sent to there\\n"


def test_push_says_where_branches_lie() -> None:
    lines = push(["x"], **{"as": "refs/heads/agent-undo/"})
    assert lines[0] == "1 session sent to origin, as branches below agent-undo/"


def test_push_of_nothing_new_says_that_it_is_there() -> None:
    assert push([]) == ["already up to date: origin has 1 session"]


def test_fetch_names_marks_with_their_authors() -> None:
    mark = {"id": MARK, "who": "Bob <b@x>", "target": S1}
    document = {"remote": "origin", "sessions": [], "marks": [mark], "broken": []}
    assert list(fetch_lines(decode(FetchAnswer, document), VIEW)) == [
        "1 review mark from origin",
        f"  {MARK}: review of {S1} by Bob <b@x>",
    ]


def test_fetch_of_nothing_says_so() -> None:
    document = {"remote": "origin", "sessions": [], "marks": [], "broken": []}
    assert list(fetch_lines(decode(FetchAnswer, document), VIEW)) == [
        "nothing new in origin"
    ]


def test_mirror_of_which_all_is_here_brought_nothing_back() -> None:
    lines = list(returned_lines(BringBackAnswer("/m/x.git", 0, (), None), VIEW))
    assert lines == ["nothing to restore: all history in /m/x.git is already here"]
