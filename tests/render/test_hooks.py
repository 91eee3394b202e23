"""Installed hooks as text: the summary of a plan."""

from gitshadow.messages.hooks import InstallItem
from gitshadow.render.hooks import plan_lines
from gitshadow.render.style import View


def test_summary_counts_the_hooks_of_each_file() -> None:
    added = InstallItem(
        "codex", "user", "/h/hooks.json", "create", ("+a",) * 9, None, 8
    )
    removed = InstallItem("qwen", "project", "s.json", "change", ("-a", " b"), None, 1)
    plain = InstallItem("pi", "user", "/h/pi.ts", "create", ("+a",), None)
    unchanged = InstallItem("amp", "user", "/h/amp.ts", "none", (), None)
    items = (added, removed, plain, unchanged)
    assert list(plan_lines(items, View(), brief=True)) == [
        "codex: 8 hooks into /h/hooks.json  (+9 -0 lines)",
        "qwen (project): remove 1 hook from s.json  (+0 -1 lines)",
        "pi: create /h/pi.ts  (+1 -0 lines)",
    ]
