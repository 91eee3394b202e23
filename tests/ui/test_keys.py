"""The keys: one table, of which bindings, help and documentation are made."""

from pathlib import Path

from gitshadow.ui import keys
from gitshadow.ui.main import MainScreen

PAGE = Path(__file__).parents[2] / "docs" / "view.md"
_BEGIN = "<!-- keys: made from gitshadow/ui/keys.py -->\n"
_END = "<!-- end of keys -->\n"


def write() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    table = "\n".join(keys.table())
    PAGE.write_text(f"{before}{_BEGIN}\n{table}\n\n{_END}{after}")


def test_page_has_the_table_of_keys() -> None:
    """`make docs` writes it."""
    assert "\n".join(keys.table()) in PAGE.read_text()


def test_every_key_has_its_action() -> None:
    for key in (*keys.LOOKING, *keys.CHANGING, *keys.OTHER):
        name = key.action.partition("(")[0]
        assert callable(getattr(MainScreen, f"action_{name}")), key


def test_no_key_means_two_things() -> None:
    groups = (keys.MOVING, keys.LOOKING, keys.CHANGING, keys.OTHER)
    every = [one for group in groups for key in group for one in key.keys.split(",")]
    assert len(every) == len(set(every))


def test_help_and_hints_name_only_keys_that_there_are() -> None:
    known = {
        name
        for group in keys.GROUPS.values()
        for key in group
        for name in keys.spelled(key.keys).split()
    }
    shown = [*keys.HELP_LEFT.values(), *keys.HELP_RIGHT.values()]
    assert {name for group in shown for line in group for name in line.split()} <= known
    hints = [hint for group in keys.HINTS.values() for hint in group]
    assert {hint.split()[0] for hint in (*hints, *keys.ALWAYS)} <= known


def test_help_has_every_action() -> None:
    shown = [*keys.HELP_LEFT.values(), *keys.HELP_RIGHT.values()]
    named = {name for group in shown for line in group for name in line.split()}
    for group in keys.GROUPS.values():
        for key in group:
            assert named & set(keys.spelled(key.keys).split()), key


if __name__ == "__main__":
    write()
