"""Authors as Markdown: what anybody wrote is shown as text."""

from gitshadow.messages.blame import OwnerRow
from gitshadow.render.owner import escaped, fenced, title


def test_prompt_cannot_end_its_block() -> None:
    shown = fenced("```\n</pre> [x](command:y)\x1b[0m")
    assert shown.startswith("````text\n```\n")
    assert shown.endswith("\n````")
    assert "\x1b" not in shown


def test_name_with_marks_of_markdown_is_shown_as_it_is() -> None:
    assert escaped("[a](command:b) <i>") == r"\[a\]\(command\:b\) \<i\>"


def test_title_has_a_prompt_of_several_lines_in_one() -> None:
    owner = OwnerRow("agent", "certain", "", agent="codex", prompt="Do it\n\nwell\x1b")
    assert title(owner) == r"codex, Do it well\x1b"
