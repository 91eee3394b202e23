"""The site is whole: built without a warning, nothing from elsewhere, search works."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from gitshadow.commands import GROUPS
from tests.support import site
from tests.support.browser import browsing
from tests.support.tools import need
from tests.support.waiting import HANGS_S, until

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "mkdocs.yml"
pytestmark = [pytest.mark.uncounted, pytest.mark.release]
_STRUCTURE = re.compile(
    "h[1-4]|[ou]l|li|table|tr|pre|p|img|a|blockquote|strong|em|code"
)
_LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "object": "data",
}
_LINKED_ONLY = frozenset({"canonical", "prev", "next", "alternate"})


def build(config: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "mkdocs", "build", "--strict"),
            *("--config-file", str(config), "--site-dir", str(target)),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the whole site, once."""
    target = tmp_path_factory.mktemp("site")
    done = build(CONFIG, target)
    assert "WARNING" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return target


class Tags(HTMLParser):
    """Collect the tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, Mapping[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_every_page_of_the_repository_is_one_of_the_site(built: Path) -> None:
    inside = {
        page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for page in ROOT.glob("docs/**/*.md")
    }
    outside = {uri.replace(".md", ".html") for uri in site.OUTSIDE.values()}
    pages = {page.relative_to(built).as_posix() for page in built.glob("**/*.html")}
    assert pages == inside | outside | {"commands.html", "404.html"}


def test_commands_page_has_every_verb_in_the_groups_of_the_help(built: Path) -> None:
    page = (built / "commands.html").read_text("utf-8")
    verbs = re.findall(r'<h3 id="([a-z-]+)">', page)
    assert verbs == [verb for group in GROUPS.values() for verb in group]
    assert '<h4 id="session-start">' in page


def test_build_fails_for_what_leads_nowhere_and_what_nobody_finds(
    tmp_path: Path,
) -> None:
    """A link, an anchor, and a page that is not in `nav`."""
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "a.md").write_text("# A\n\n[x](b.md#no-such-place) [y](nowhere.md)\n")
    (pages / "b.md").write_text("# B\n")
    text = CONFIG.read_text("utf-8")
    text = re.sub(r"(?s)^nav:.*", "nav:\n  - a.md\n", text, flags=re.MULTILINE)
    text = re.sub(r"(?m)^hooks:\n.*\n", "", text)
    (tmp_path / "mkdocs.yml").write_text(text)
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert len(warnings) == 3
    assert "  - b.md" in done.stderr
    assert "'nowhere.md'" in done.stderr
    assert "'b.md#no-such-place'" in done.stderr


def test_no_page_loads_anything_from_elsewhere(built: Path) -> None:
    foreign = [
        (page.name, tag, address)
        for page in built.glob("**/*.html")
        for tag, attributes in Tags(page.read_text("utf-8")).found
        if tag in _LOADED and attributes.get("rel") not in _LINKED_ONLY
        if (address := attributes.get(_LOADED[tag]) or "").startswith(("http", "//"))
    ]
    assert foreign == []
    imports = re.compile(r"(@import|url\()\s*['\"]?(https?:)?//")
    assert [
        sheet.name
        for sheet in built.glob("**/*.css")
        if imports.search(sheet.read_text("utf-8"))
    ] == []


def test_pages_have_the_same_structure_as_in_the_repository(built: Path) -> None:
    """What is a list, a table or a block to a reader of the files is one on the site."""
    sources = {
        **{page: page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")},
        **{ROOT / source: Path(uri) for source, uri in site.OUTSIDE.items()},
    }
    commonmark = MarkdownIt("commonmark").enable("table")
    for source, uri in sources.items():
        html = (built / uri.with_suffix(".html")).read_text("utf-8")
        article = html[html.index("<article") : html.index("</article>")]
        article = re.sub(r'<a class="headerlink".*?</a>', "", article)
        expected = _structure(commonmark.render(source.read_text("utf-8")))
        assert _structure(article) == expected, source.name


def _structure(html: str) -> Counter[str]:
    return Counter(tag for tag, _ in Tags(html).found if _STRUCTURE.fullmatch(tag))


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serve a directory on this machine; yield its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


def test_search_finds_a_page_and_asks_nobody_else(built: Path, tmp_path: Path) -> None:
    need("chromium")
    result = (
        "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    )
    with served(built) as address, browsing(tmp_path) as browser:
        browser.reach_the_network()
        browser.look_at(1280)
        browser.open(f"{address}index.html?q=idleGap")
        until(lambda: f"{address}config.html" in str(browser.run(result)))
        foreign = [
            url for url in browser.asked if not url.startswith((address, "data:"))
        ]
        assert foreign == []
        assert browser.said == []
