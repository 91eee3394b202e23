"""The documentation is true: its commands run, its texts are those of the program."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gitshadow.adapters.registry import KNOWN_AGENTS
from gitshadow.config import KEYS
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.tool import ToolOptions
from tests.agents.drivers import DRIVERS
from tests.support import agent_pages, chains, config_page, console, rooms, walks
from tests.support.repo import Repo
from tests.support.shadow import Shadow

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
RUNNABLE = [
    pytest.param(part, id=page.name)
    for page in PAGES
    for part in console.parts(page.read_text(encoding="utf-8"))
    if console.count_fences(part)
]

_MODULE = re.compile(r"`([a-z]+(?:\.[a-z_0-9]+)+)`")


@pytest.mark.uncounted
@pytest.mark.parametrize("text", RUNNABLE)
@pytest.mark.timeout(600)
def test_console_blocks_do_what_the_page_says(
    text: str, repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    blocks = console.parse(text)
    assert len(blocks) == console.count_fences(text)
    assert all(blocks), "a runnable block without a command"
    shadow = make_shadow(repo)
    steps = [step for block in blocks for step in block]
    # There is no terminal, so nobody could answer the question of an undo.
    env = {**shadow.environment(), "GITSHADOW_CONFIRM": "false"}
    differences = console.run(steps, repo.root, env)
    assert not differences, "\n\n".join(differences)


@pytest.mark.parametrize(
    ("page", "least"),
    [("sdk.md", 5), ("tutorial.md", 11), ("engines.md", 1)],
)
def test_python_blocks_of_a_page_run(
    page: str,
    least: int,
    repo: Repo,
    make_shadow: Callable[..., Shadow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a framework author pastes first works, and prints what the page shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= least
    make_shadow(repo, daemon=False).init()
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(repo.root)
    printed: list[str] = []
    names: dict[str, object] = {"print": lambda said: printed.append(str(said))}
    for block in blocks:
        exec(compile(block, f"docs/{page}", "exec"), names)
    shown = re.findall(r"^```text\n(.*?)\n```", text, re.MULTILINE | re.DOTALL)
    assert printed == shown


@pytest.mark.parametrize("declared", [ToolOptions, Policy])
def test_every_option_has_a_line_of_example(declared: type) -> None:
    text = (ROOT / "docs/sdk.md").read_text(encoding="utf-8")
    shown = text.partition("## Every option")[2].partition("\n## ")[0]
    missing = [name for name in declared.__annotations__ if f"{name}=" not in shown]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name
)
def test_each_page_says_first_for_whom_it_is(page: Path) -> None:
    assert re.match(r"# .+\n\n\*For [^*]+\*\n\n", page.read_text("utf-8"))


def test_code_map_names_only_what_is_there() -> None:
    text = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `([a-z_]+/)` \|(.*)$", text, re.MULTILINE)
    directories = {
        path.name for path in ROOT.glob("gitshadow/*/") if path.name[0] != "_"
    }
    assert {room.strip("/") for room, _ in rooms} == directories
    named = [
        ROOT / "gitshadow" / room / name
        for room, line in rooms
        for name in re.findall(r"`(\w+(?:\.py|/))`", line)
    ]
    assert len(named) > 60
    assert [path for path in named if not path.exists()] == []


@pytest.mark.uncounted
def test_each_walk_lists_the_modules_that_it_enters() -> None:
    assert walks.published() == walks.section(), "run `make walks`"


def test_the_code_is_described_in_one_sitting() -> None:
    """What it names is there, and its picture shows the rooms and imports of today."""
    page = ROOT / "ARCHITECTURE.md"
    assert page.stat().st_size <= 12 * 1024
    text = page.read_text("utf-8")
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text)
    named += [one.replace(".", "/") + ".py" for one in re.findall(_MODULE, text)]
    assert len(named) > 40
    assert [one for one in named if not (ROOT / "gitshadow" / one).exists()] == []
    assert rooms.PICTURE.read_text("utf-8") == rooms.draw(), "run `make docs`"


def test_config_page_is_made_from_the_table() -> None:
    stored = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    assert stored == config_page.page(), "run `make docs`"
    assert stored.count("| `agent-undo.") == len(KEYS)


def test_every_agent_has_a_page_with_the_facts_of_the_code() -> None:
    """`generic` has docs/hooks.md; what only runs in `exec` has a page but no adapter."""
    pages = {path.stem: path.read_text("utf-8") for path in agent_pages.PAGES.iterdir()}
    wrapped = {name for name, driver in DRIVERS.items() if driver.wrapped}
    assert set(pages) == (set(KNOWN_AGENTS) - {"generic"}) | wrapped
    old = [
        name for name in pages if agent_pages.renewed(name, pages[name]) != pages[name]
    ]
    assert old == [], "run `make docs`"


def test_what_real_agents_did_is_what_the_last_run_of_them_saw() -> None:
    stored = agent_pages.OVERVIEW.read_text("utf-8")
    assert stored == agent_pages.with_runs(stored), "run `make docs`"


@pytest.mark.parametrize("name", chains.DRAWN)
def test_pictures_of_chains_show_what_is_recorded_today(
    name: str, tmp_path: Path
) -> None:
    repo = Repo.create(tmp_path / "shop", files=())
    stored = (chains.IMAGES / name).read_text("utf-8")
    assert chains.draw(name, repo) == stored, "run `make pictures`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_say_in_words_what_they_show(page: Path) -> None:
    alts = re.findall(r"!\[([^\]]*)\]\(", page.read_text("utf-8"))
    assert [alt for alt in alts if len(alt) < 8] == []
