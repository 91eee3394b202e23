"""The stored `--help` texts are those of the program, and every verb is documented."""

import re
from pathlib import Path

from tests.support import help_texts

ROOT = Path(__file__).parent.parent


def test_help_texts_are_the_stored_ones() -> None:
    stored = {
        path.name: path.read_text(encoding="utf-8")
        for path in help_texts.HELP_DIR.glob("*.txt")
    }
    assert help_texts.texts() == stored, "run `make docs`"


def test_every_verb_is_documented() -> None:
    pages = "\n".join(
        page.read_text(encoding="utf-8")
        for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    )
    verbs = [" ".join(words) for words in help_texts.commands()]
    assert "oops" in verbs
    unnamed = [
        verb
        for verb in verbs
        if not re.search(rf"(git agent-undo |`){re.escape(verb)}\b", pages)
    ]
    assert unnamed == []
