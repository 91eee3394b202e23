"""The page of a report in a real browser, with the network off."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.messages.codec import decode
from gitshadow.messages.report import ReportAnswer
from gitshadow.render.page import compare, page
from tests.support.browser import Browser, browsing
from tests.support.hostile import hostile
from tests.support.repo import Repo
from tests.support.scenery import shop
from tests.support.studio import studio_of
from tests.support.waiting import until

# The contrast of every text with what it stands on (WCAG 2.2, 1.4.3); what is drawn on a bar is
# large and repeated below.
_CONTRAST = """
(() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const channel = byte => {
    const c = byte / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const found = parse(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    if (node.closest("svg") || node.checkVisibility && !node.checkVisibility()) continue;
    if (![...node.childNodes].some(c => c.nodeType === 3 && c.data.trim())) continue;
    const a = light(parse(getComputedStyle(node).color)), b = light(ground(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([node.tagName, node.className, ratio.toFixed(2)].join(" "));
  }
  return [...new Set(poor)];
})()
"""
_OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"
_WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with browsing(tmp_path) as made:
        yield made


def written(repo: Repo, session: str) -> str:
    """Return the URL of a session's page."""
    with studio_of(repo) as studio:
        text = page(decode(ReportAnswer, studio.run("report", session=session)))
    target = repo.root.parent / f"{session}.html"
    target.write_text(text, encoding="utf-8")
    return target.as_uri()


def test_page_loads_alone_reads_well_and_fits_a_phone(
    browser: Browser, tmp_path: Path
) -> None:
    url = written(shop(tmp_path / "shop"), "main")
    browser.look_at(1100)
    browser.open(url)
    assert (browser.said, browser.asked) == ([], [url])
    headings = "[...document.querySelectorAll('h2')].map(one => one.innerText)"
    assert browser.run(headings) == [
        *("Timeline", "Turns", "Files", "Undone", "Not recorded", "Confidence"),
        "About this report",
    ]
    own = "document.querySelectorAll('.bar.session, .bar.undone, .bar.idle').length"
    assert browser.run(own) == 5
    browser.run(_OPEN_ALL)
    for dark in (False, True):
        browser.look_at(1100, dark=dark)
        assert browser.run(_CONTRAST) == []
    browser.look_at(390)
    assert browser.run(_WIDTH) == 390
    assert len(browser.picture()) > 10_000


def test_link_to_a_file_opens_its_change(browser: Browser, tmp_path: Path) -> None:
    url = written(shop(tmp_path / "shop"), "main")
    browser.open(url)
    closed = "document.querySelector('#file-4').closest('details').open"
    assert browser.run(closed) is False
    browser.run("document.querySelector('a[href=\"#file-4\"]').click()")
    until(lambda: browser.run(closed) is True)


def typed(words: str) -> str:
    return f"search.value = {words!r}; search.dispatchEvent(new Event('input')); 0"


def test_search_shows_and_opens_what_matches_and_brings_back_the_rest(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(written(shop(tmp_path / "shop"), "main"))
    opened = "document.querySelectorAll('main details[open]').length"
    shown = (
        "[...document.querySelectorAll('.step.unit')].filter(one => !one.hidden)"
        ".map(one => one.id)"
    )
    before = browser.run(opened)
    browser.run(typed("No Amount in"))
    until(lambda: browser.run("matches.hidden") is False)
    assert browser.run(shown) == ["turn-1"]
    assert browser.run("count.innerText") == "2"
    assert browser.run("CSS.highlights.get('found').size") == 2
    inside = "document.querySelector('#turn-1 .file').open"
    assert browser.run(inside) is True
    key = "search.dispatchEvent(new KeyboardEvent('keydown', {key: %r})); 0"
    browser.run(key % "Enter")
    assert browser.run("CSS.highlights.get('current').size") == 1
    browser.run(typed("no such words"))
    until(lambda: browser.run("count.innerText") == "0")
    assert browser.run(shown) == []
    browser.run(key % "Escape")
    assert browser.run("matches.hidden") is True
    assert browser.run(f"{shown}.length") == 5
    assert browser.run(opened) == before


def test_all_parts_open_and_close_at_once(browser: Browser, tmp_path: Path) -> None:
    browser.open(written(shop(tmp_path / "shop"), "main"))
    open_ones = "document.querySelectorAll('main details[open]').length"
    every = browser.run("document.querySelectorAll('main details').length")
    browser.run("expand.click()")
    assert browser.run(open_ones) == every
    browser.run("collapse.click()")
    assert browser.run(open_ones) == 0


def test_bar_of_the_timeline_leads_to_its_turn(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(written(shop(tmp_path / "shop"), "main"))
    click = "new MouseEvent('click', {bubbles: true, cancelable: true})"
    browser.run(f"document.querySelector('.bar.session').dispatchEvent({click})")
    until(lambda: browser.run("document.querySelector('#turn-1').open") is True)


def test_page_without_its_script_is_complete_and_has_no_dead_controls(
    browser: Browser, tmp_path: Path
) -> None:
    url = written(shop(tmp_path / "shop"), "main")
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("tools.checkVisibility()") is False
    assert browser.run("document.querySelectorAll('.step.unit').length") == 5


def test_two_sessions_are_side_by_side_and_fold_on_a_phone(
    browser: Browser, tmp_path: Path
) -> None:
    with studio_of(shop(tmp_path / "shop")) as studio:
        first, second = (
            decode(ReportAnswer, studio.run("report", session=one))
            for one in ("main", "other")
        )
    target = tmp_path / "two.html"
    target.write_text(compare(first, second), encoding="utf-8")
    columns = (
        "[...new Set([...document.querySelectorAll('.file .pair')].map(one =>"
        " new Set([...one.children].map(c => c.getBoundingClientRect().left)).size))]"
    )
    for width, count in ((1400, 2), (500, 1)):
        browser.look_at(width)
        browser.open(target.as_uri())
        browser.run("expand.click()")
        assert browser.run(_WIDTH) == width
        assert browser.run(columns) == [count]
    assert browser.said == []
    for dark in (False, True):
        browser.look_at(1400, dark=dark)
        assert browser.run(_CONTRAST) == []


def test_hostile_session_runs_nothing_and_breaks_no_layout(
    browser: Browser, tmp_path: Path
) -> None:
    url = written(hostile(tmp_path / "foul"), "S1")
    browser.open(url)
    browser.run(_OPEN_ALL)
    assert browser.run("document.title") == "claude-code in foul: session report"
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.images.length") == 0
    assert (browser.said, browser.asked) == ([], [url])
    for width in (390, 1100):
        browser.look_at(width)
        assert browser.run(_WIDTH) == width


def test_policy_stops_what_would_be_put_into_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    """The second wall, tried: a script, a style and a picture are put into a finished page."""
    url = written(shop(tmp_path / "shop"), "main")
    target = tmp_path / "main.html"
    text = target.read_text(encoding="utf-8")
    bad = (
        "<script>document.title='owned'</script><img src='http://example.com/x.png'>"
        "<p id='p' style='position:fixed'>"
    )
    target.write_text(text.replace("<main>", f"<main>{bad}"), encoding="utf-8")
    browser.open(url)
    assert browser.run("document.title") == "claude-code in shop: session report"
    assert browser.run("getComputedStyle(p).position") == "static"
    until(lambda: browser.run("1") == 1 and len(browser.said) >= 3)
