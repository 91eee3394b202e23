"""Hooks of mkdocs: what lies outside docs/ becomes pages, and links between all of them hold.

In the repository a page links to files (`../ARCHITECTURE.md`, `docs/blame.md`), which is what a
reader there follows; on the site each of them is a page, and the link becomes that page's.
Source: mkdocs 1.6, "Plugins", events `on_files` and `on_page_markdown`.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from gitshadow.commands import GROUPS
from tests.support.help_texts import HELP_DIR, commands

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "hooks/README.md": "hook-files.md",
}
"""Files of the repository that are pages of the site, by the name that they have there."""

_DOCS = "docs"
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_COMMANDS_HEAD = """\
# Commands

The output of `git agent-undo VERB -h` for each verb, in the groups of `git agent-undo help
--all`. The manual page contains the same texts: `git agent-undo --help`.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside docs/."""
    for source, uri in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Lead the links of a page to where their targets are on the site."""
    names = {uri: source for source, uri in OUTSIDE.items()}
    uri = page.file.src_uri
    source = names.get(uri, f"{_DOCS}/{uri}")

    def led(link: re.Match[str]) -> str:
        target = posixpath.join(posixpath.dirname(source), link["target"])
        there = _on_site(posixpath.normpath(target))
        if there is None:
            return link[0]
        start = posixpath.dirname(uri) or "."
        return posixpath.relpath(there, start) + (link["anchor"] or "")

    return _LINK.sub(led, markdown)


def _on_site(path: str) -> str | None:
    """Return what a file of the repository is called on the site; None where it is not."""
    inside = path.removeprefix(f"{_DOCS}/")
    return OUTSIDE.get(path) if inside == path else inside


def commands_page() -> str:
    """Return the page of all commands, in the groups of the program's own help."""
    parts, known = [_COMMANDS_HEAD], commands()
    for group, verbs in GROUPS.items():
        anchor = f"group-{group.replace(' ', '-')}"  # a verb may have the group's name
        parts.append(f"## {group.capitalize()} {{#{anchor}}}\n")
        for verb in verbs:
            for words in known:
                if words[0] == verb:
                    parts += _command(words)
    return "\n".join(parts)


def _command(words: tuple[str, ...]) -> Iterator[str]:
    text = (HELP_DIR / ("-".join(("git-agent-undo", *words)) + ".txt")).read_text(
        encoding="utf-8"
    )
    level = "#" * (2 + len(words))
    yield f"{level} {' '.join(words)}\n"
    yield f"```text\n{text.rstrip()}\n```\n"
