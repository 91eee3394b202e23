"""Diffstats, from literal rows."""

from gitshadow.messages.states import StatRow
from gitshadow.render.diffstat import stat_lines
from gitshadow.render.style import View


def test_stat_lines_count_lines_per_path() -> None:
    stat: list[StatRow] = [
        StatRow("a", kind="modify", added=1, removed=2),
        StatRow("long/name", kind="modify"),
        StatRow("new", kind="modify", old_path="old", added=0, removed=0),
    ]
    assert list(stat_lines(stat, View())) == [
        " a          |   3 +--",
        " long/name  | Bin",
        " old => new |   0",
        " 3 files changed, 1 insertion(+), 2 deletions(-)",
    ]


def test_stat_lines_scale_the_graph_to_the_line() -> None:
    stat: list[StatRow] = [
        StatRow("a", kind="modify", added=900, removed=100),
        StatRow("b", kind="modify", added=1, removed=0),
    ]
    big, small, total = stat_lines(stat, View())
    assert (len(big), big.count("-")) == (80, 7)
    assert small == " b |    1 +"
    assert total == " 2 files changed, 901 insertions(+), 100 deletions(-)"


def test_stat_lines_are_none_where_nothing_differs() -> None:
    assert list(stat_lines([], View())) == []
