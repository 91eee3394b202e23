"""Authors as Markdown: what anybody wrote is shown as text."""

from gitshadow.render.owner import escaped, fenced


def test_prompt_cannot_end_its_block() -> None:
    shown = fenced("```\n</pre> [x](command:y)\x1b[0m")
    assert shown.startswith("````text\n```\n")
    assert shown.endswith("\n````")
    assert "\x1b" not in shown


def test_name_with_marks_of_markdown_is_shown_as_it_is() -> None:
    assert escaped("[a](command:b) <i>") == r"\[a\]\(command\:b\) \<i\>"
