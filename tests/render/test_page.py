"""The page of a report: complete, well formed, and inert whatever the session holds."""

import base64
import hashlib
import html
import itertools
import re
import unicodedata
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gitshadow.messages.codec import decode
from gitshadow.messages.report import Omission, ReportAnswer
from gitshadow.render import page as page_module
from gitshadow.render.page import compare, compared_files, duration, page
from tests.support.hostile import TAG, hostile
from tests.support.repo import Repo
from tests.support.scenery import shop
from tests.support.studio import studio_of

TEMPLATES = Path(page_module.__file__).parent / "templates"
SECTIONS = ("time", "turns", "files", "undone", "not-covered", "sure", "about")
_VOID = frozenset({"meta", "br", "rect", "line", "input"})
_ALLOWED = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "header",
        "main",
        "footer",
        "nav",
        "section",
        "h1",
        "h2",
        "h3",
        "p",
        "a",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "div",
        "span",
        "strong",
        "em",
        "code",
        "time",
        "bdi",
        "input",
        "button",
        "details",
        "summary",
        "blockquote",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "svg",
        "g",
        "defs",
        "pattern",
        "rect",
        "line",
        "text",
    ]
)


class Reader(HTMLParser):
    """Collect what a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Mapping[str, str]]] = []
        self.depth: list[str] = []
        self.style = ""
        self.script = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self.depth.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.depth[-1:] == ["style"]:
            self.style += data
        elif self.depth[-1:] == ["script"]:
            self.script += data

    def all(self, name: str) -> list[str]:
        """Return the values of an attribute, wherever it stands."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def page_of(repo: Repo, session: str) -> str:
    with studio_of(repo) as studio:
        return page(decode(ReportAnswer, studio.run("report", session=session)))


@pytest.fixture
def fair(tmp_path: Path) -> str:
    return page_of(shop(tmp_path / "shop"), "main")


@pytest.fixture
def foul(tmp_path: Path) -> str:
    return page_of(hostile(tmp_path / "foul"), "S1")


def test_page_has_every_section_under_a_heading(fair: str) -> None:
    read = Reader(fair)
    assert read.depth == []
    headings = [attributes["id"] for tag, attributes in read.tags if tag == "h2"]
    assert headings == list(SECTIONS)
    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_page_tells_the_session(fair: str) -> None:
    for said in (
        "<title>claude-code in shop: session report</title>",
        "Make the order parser strict",
        "undone",
        "the daemon was killed; a walk followed",
        ".gitignore:1:build/",
        'oops</strong> of turn <a href="#turn-3">3</a>',
        "claude-sonnet-5",
        "no writes",
    ):
        assert said in fair


def test_references_lead_somewhere_and_ids_are_unique(fair: str) -> None:
    read = Reader(fair)
    ids = read.all("id")
    assert len(ids) == len(set(ids))
    assert {href[0] for href in read.all("href")} == {"#"}
    wanted = {href[1:] for href in read.all("href")} | set(read.all("aria-labelledby"))
    assert wanted - set(ids) == set()


def test_tables_have_headers_with_a_scope(fair: str) -> None:
    scopes = [
        attributes["scope"] for tag, attributes in Reader(fair).tags if tag == "th"
    ]
    assert {"col", "row"} == set(scopes)


def test_policy_allows_the_one_style_and_the_one_script_alone(fair: str) -> None:
    read = Reader(fair)
    (policy,) = (
        attributes["content"]
        for _, attributes in read.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    style, script = (
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        for one in (read.style, read.script)
    )
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}';"
        f" script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    )
    assert [tag for tag, _ in read.tags].count("script") == 1
    assert "@import" not in read.style
    assert not re.search(r"url\((?!#)", read.style)


def test_hostile_session_adds_no_tag_and_no_attribute(foul: str) -> None:
    read = Reader(foul)
    assert read.depth == []
    assert {tag for tag, _ in read.tags} <= _ALLOWED
    names = {name for _, attributes in read.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name == "style"]
    assert TAG not in foul
    assert Reader(foul).script == (TEMPLATES / "script.js").read_text(encoding="utf-8")
    assert html.escape(TAG, quote=False) in foul.replace("&#39;", "'")
    assert {href[0] for href in read.all("href")} == {"#"}


def test_hostile_session_leaves_no_control_character(foul: str) -> None:
    odd = {char for char in foul if unicodedata.category(char) in ("Cc", "Cf", "Cs")}
    assert odd == {"\n", "\t"}
    for escaped in (r"\x1b[31mred", r"\u202egnp.exe", r"\xff", r"\u2028"):
        assert escaped in foul
    assert foul.encode().decode() == foul


def test_half_a_character_is_shown_escaped(tmp_path: Path) -> None:
    with studio_of(shop(tmp_path / "shop")) as studio:
        document = studio.run("report", session="main")
    session = document["session"]
    assert isinstance(session, dict)
    session["agent"] = "half\ud800"
    assert "<h1>half\\ud800 " in page(decode(ReportAnswer, document)).encode().decode()


def test_hostile_session_is_no_template(foul: str) -> None:
    assert "{{ 7*7 }} {% raw %}" in foul
    assert "{{ self }}.txt" in foul


def test_page_of_a_large_session_stays_small(foul: str) -> None:
    """Prompts of 100,000 characters, lines of 50,000, and patches of 3,000 lines are in it."""
    assert len(foul) < 1_000_000
    assert "more lines are not shown" in foul
    assert "long lines are cut" in foul
    assert "… cut here" in foul
    assert "not in this report: parts of" in foul


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (61, "1 min 01 s"),
        (3_660, "1 h 01 min"),
        (90_000, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_duration_has_two_units(seconds: int, said: str) -> None:
    assert duration(seconds) == said


def one_turn(prompt: str, tmp_path: Path) -> str:
    repo = Repo.create(tmp_path / "one")
    with studio_of(repo) as studio:
        studio.prompt("S1", prompt)
        studio.write("S1", "new", "one\ntwo\n")
        studio.write("S1", "b", b"\x00\x01")
        studio.stop("S1")
    return page_of(repo, "S1")


def test_title_of_a_turn_is_cut_between_words_and_the_prompt_is_whole(
    tmp_path: Path,
) -> None:
    prompt = f"{'keep the promise of the parser ' * 6}please"
    text = one_turn(prompt, tmp_path)
    (title,) = re.findall('<span class="title">(.*?)</span>', text)
    assert title.endswith("…")
    assert f"{title.removesuffix('…')} " in prompt
    assert f"<blockquote>{prompt}</blockquote>" in text


def test_long_prompt_is_folded_and_whole(tmp_path: Path) -> None:
    prompt = "\n".join(f"point {n}" for n in range(40))
    text = one_turn(prompt, tmp_path)
    assert "<summary>Whole prompt, 40 lines</summary>" in text
    assert f"<blockquote>{prompt}</blockquote>" in text


def test_prompt_beyond_the_limit_is_cut_between_words(tmp_path: Path) -> None:
    text = one_turn("promise " * 5_000, tmp_path)
    assert 'promise promise<span class="faint"> … cut here</span></blockquote>' in text


def test_turn_has_its_lines_and_its_short_id(tmp_path: Path) -> None:
    text = one_turn("go", tmp_path)
    facts = (
        '<span class="plus">+2</span> <span class="minus">\u22120</span></span><time'
    )
    assert f'<span>2 files</span><span class="lines">{facts}' in text
    assert "git agent-undo undo t1</code>" in text


def two_attempts(tmp_path: Path) -> tuple[ReportAnswer, ReportAnswer]:
    """Return two sessions: of four files one is the same in both, one differs."""
    repo = Repo.create(tmp_path / "two", files=())
    with studio_of(repo) as studio:
        studio.prompt("S1", "first <attempt>")
        studio.write("S1", "same", "x\n")
        studio.write("S1", "differs", "1\n")
        studio.write("S1", "first", "1\n")
        studio.stop("S1")
        for name in ("same", "differs"):
            (repo.root / name).unlink()
        studio.run("flush")
        studio.prompt("S2", "second attempt")
        studio.write("S2", "same", "x\n")
        studio.write("S2", "differs", "2\n2\n")
        studio.write("S2", "second", "2\n")
        studio.stop("S2")
        first, second = (
            decode(ReportAnswer, studio.run("report", session=one))
            for one in ("S1", "S2")
        )
    return first, second


def test_two_sessions_are_compared_file_by_file(tmp_path: Path) -> None:
    first, second = two_attempts(tmp_path)
    found = compared_files(first, second)
    assert [(one.path, one.who) for one in found] == [
        ("differs", "both"),
        ("first", "only A"),
        ("same", "same change"),
        ("second", "only B"),
    ]
    text = compare(first, second)
    read = Reader(text)
    assert read.depth == []
    assert [attributes["id"] for tag, attributes in read.tags if tag == "h2"] == [
        *("totals", "turns", "files", "about")
    ]
    for said in ("first &lt;attempt&gt;", "second attempt", "4 files in all"):
        assert said in text
    assert text.count("The same change as in A.") == 1
    assert text.count("Not changed.") == 2


def test_change_whose_patch_is_cut_is_not_called_the_same(tmp_path: Path) -> None:
    first, _ = two_attempts(tmp_path)
    cut = tuple(
        one._replace(change=one.change._replace(note="2 more lines are not shown"))
        for one in first.files
    )
    part = first._replace(files=cut)
    assert {one.who for one in compared_files(part, part)} == {"both"}


def test_comparison_says_that_a_file_may_be_among_what_is_left_out(
    tmp_path: Path,
) -> None:
    first, second = two_attempts(tmp_path)
    assert "Parts are left out" not in compare(first, second)
    cut = second._replace(left_out=(Omission("3 files", "git agent-undo show S2"),))
    text = compare(first, cut)
    assert "Parts are left out" in text
    assert "Left out of B: 3 files" in text


def test_comparison_of_hostile_sessions_adds_no_tag_and_no_attribute(
    tmp_path: Path,
) -> None:
    with studio_of(hostile(tmp_path / "foul")) as studio:
        report = decode(ReportAnswer, studio.run("report", session="S1"))
    text = compare(report, report)
    read = Reader(text)
    assert read.depth == []
    assert {tag for tag, _ in read.tags} <= _ALLOWED
    assert TAG not in text
    names = {name for _, attributes in read.tags for name in attributes}
    assert not [name for name in names if name.startswith("on") or name == "style"]
    ids = read.all("id")
    assert len(ids) == len(set(ids))
