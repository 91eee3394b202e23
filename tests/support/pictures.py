"""Make the pictures of the documentation: `make pictures`.

What they show really happens (`tests.support.scenery`); each is a shot of the program itself.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from gitshadow.render.page import page
from tests.support.browser import browsing
from tests.support.repo import Repo
from tests.support.scenery import shop
from tests.support.studio import studio_of

IMAGES = Path(__file__).parents[2] / "docs" / "img"
_CONFIG = (
    "[user]\n\tname = You\n\temail = you@example.com\n[init]\n\tdefaultBranch = main\n"
)


def report(repo: Repo, scratch: Path) -> bytes:
    """Return the top of a report's page, one turn open."""
    with studio_of(repo) as studio:
        text = page(studio.run("report", session="main"))
    target = scratch / "report.html"
    target.write_text(text, encoding="utf-8")
    with browsing(scratch) as browser:
        browser.look_at(960, 1180)
        browser.open(target.as_uri())
        opened = "document.querySelector('#turn-4').open = true; 0"
        browser.run(opened)
        return browser.picture()


PICTURES: Mapping[str, Callable[[Repo, Path], bytes]] = {"report.png": report}


def main(names: list[str]) -> None:
    """Make the named pictures, or all."""
    for name in names or PICTURES:
        with tempfile.TemporaryDirectory() as scratch:
            home = Path(scratch)
            (home / ".gitconfig").write_text(_CONFIG)
            os.environ |= {"HOME": scratch, "TZ": "UTC"}
            repo = shop(home / "shop")
            (IMAGES / name).write_bytes(PICTURES[name](repo, home))


if __name__ == "__main__":
    main(sys.argv[1:])
