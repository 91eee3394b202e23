"""What every verb says, looked at as a whole: helps, hints and plurals."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from gitshadow import commands
from gitshadow.cli import group
from gitshadow.messages.codec import JsonObject, decode
from gitshadow.messages.programs import ProgramTurnRow
from gitshadow.messages.rows import SessionRow, TurnRow
from gitshadow.messages.sharing import BringBackAnswer, PushAnswer
from gitshadow.messages.status import (
    DoctorAnswer,
    InitAnswer,
    Protection,
    StatusAnswer,
)
from gitshadow.messages.storage import (
    DuAnswer,
    PackAnswer,
    PruneAnswer,
    PurgeAnswer,
    ReindexAnswer,
)
from gitshadow.render import effects, sharing, storage, text
from gitshadow.render.status import doctor_lines, init_lines, status_lines
from gitshadow.render.style import View

PACKAGE = Path(commands.__file__).parent.parent
HINTED = ("UsageError", "RefusedError", "UnsupportedError", "NotInitialisedError")
BARE: Mapping[str, int] = {"client.py": 1, "usage_errors.py": 1}
"""A cause that came over the wire, and an error of click's that has no words to add."""
ONE_OF_MANY = re.compile(
    r"\b1 (files|events|entries|paths|lines|sessions|turns|objects|commits|refs|gaps"
    r"|checks|calls|packs|marks|writes|branches|contents|rows)\b"
)


def verbs() -> Iterator[tuple[str, click.Command]]:
    yield from _below(group, "")


def _below(top: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(top)
    for name in top.list_commands(context):
        command = top.get_command(context, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from _below(command, f"{path}{name} ")


def _errors(path: Path, names: tuple[str, ...]) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in names:
            yield node


def bare(source: Path, names: tuple[str, ...]) -> list[str]:
    """Return the errors made in a file that say nothing of what to do next."""
    return [
        f"{source.name}:{call.lineno}"
        for call in _errors(source, names)
        if not any(keyword.arg == "hint" for keyword in call.keywords)
    ]


def test_every_help_begins_with_a_sentence() -> None:
    first = {name: (verb.help or "").split("\n\n")[0].strip() for name, verb in verbs()}
    assert len(first) > 50
    assert [name for name, said in first.items() if not said.endswith(".")] == []


def test_every_line_of_the_table_fits_a_screen_of_sixty_columns() -> None:
    long = [
        name
        for verbs_of in commands.GROUPS.values()
        for name, verb in verbs_of.items()
        if len(f"  {name:<9}  {verb.help}") > 60
    ]
    assert long == []


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{name} {parameter.opts[-1]}"
        for name, verb in verbs()
        for parameter in verb.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert silent == []


@pytest.mark.parametrize(
    "source", sorted((PACKAGE / "commands").glob("*.py")), ids=lambda path: path.name
)
def test_every_error_of_a_verb_has_a_hint(source: Path) -> None:
    """UX-05: the fix stands beside the error."""
    found = bare(source, (*HINTED, "ShadowError"))
    assert len(found) == BARE.get(source.name, 0), found


def test_an_error_without_a_hint_is_found(tmp_path: Path) -> None:
    source = tmp_path / "verb.py"
    source.write_text('raise UsageError("x")\nraise UsageError("y", hint="z")\n')
    assert bare(source, HINTED) == ["verb.py:1"]


def lines_of_one() -> Iterator[str]:
    """Yield what is printed where there is one of everything."""
    one: dict[str, object] = {"id": "x", "started": "", "ts": ""}
    counts = dict.fromkeys(
        ("events", "sessions", "turns", "files", "gaps", "entries", "refs", "packs"), 1
    )
    many: JsonObject = {
        **one,
        **counts,
        "coverage": {"tracked": 1, "excluded": [{"path": "a", "count": 1}]},
        "disk": {"loose": 1, "packed": 1, "bytes": 1},
        "total": {"objects": 1, "bytes": 1},
        "loose": 1,
        "packed": 1,
        "merged": 1,
        "salvaged": 1,
        "excluded": 1,
        "checks": [{"name": "x", "ok": False}],
        "dropped": [one],
        "names": ["a"],
        "contents": 1,
        "rewritten": ["r"],
        "remains": {"objects": 1},
        "pushed": ["refs/x"],
        "sessions": 1,
    }
    view = View()
    verdict = decode(Protection, many)
    yield from status_lines(decode(StatusAnswer, many), verdict, view)
    yield from init_lines(decode(InitAnswer, many), view)
    yield from doctor_lines(decode(DoctorAnswer, many), view)
    yield from storage.pack_lines(decode(PackAnswer, many), view)
    yield from storage.prune_lines(decode(PruneAnswer, many), view)
    yield from storage.purge_lines(decode(PurgeAnswer, many), view)
    yield from storage.reindex_lines(decode(ReindexAnswer, many), view)
    yield from sharing.returned_lines(decode(BringBackAnswer, many), view)
    yield from storage.du_lines(
        decode(DuAnswer, {**many, "packs": {"count": 1, "bytes": 1}}), view
    )
    yield from sharing.push_lines(decode(PushAnswer, many), view)
    rows = [{**one, **counts}]
    yield from text.session_lines([decode(SessionRow, row) for row in rows], view)
    yield from text.turn_lines([decode(TurnRow, row) for row in rows], view)
    yield from effects.turn_lines([decode(ProgramTurnRow, row) for row in rows], view)


def test_one_thing_is_never_said_as_several() -> None:
    said = list(lines_of_one())
    assert len(said) > 25
    assert [line for line in said if ONE_OF_MANY.search(line)] == []
