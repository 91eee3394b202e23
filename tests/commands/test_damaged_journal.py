"""One byte of the journal is another: every verb ends in plain words, and `doctor --fix` helps."""

import json
import random
import shutil
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gitshadow import AgentUndo, Inverse, Reversibility, ToolRegistry
from gitshadow.cli import main
from gitshadow.store.journal.db import Db
from tests.conftest import FULL
from tests.support.repo import Repo
from tests.support.studio import layout_of, studio_of

_FLIPS = 240 if FULL else 8
VERBS = (
    ("log", "--json"),
    ("status",),
    ("sessions",),
    ("turns",),
    ("show", "3"),
    ("ops",),
    ("pins",),
    ("blame", "kept"),
    ("diff", "3"),
    ("stats",),
    ("report", "--json"),
    ("saga", "log"),
    ("attention",),
    ("verify",),
    ("oops", "--dry-run"),
    ("undo", "S2", "--dry-run"),
    ("restore", "--at", "3", "--dry-run"),
    ("prune", "--all", "--dry-run"),
    ("prompt",),
    ("check",),
    ("du",),
    ("flush",),
    ("doctor",),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a row of nearly everything that a journal holds."""
    repo = Repo.create(tmp_path_factory.mktemp("whole") / "repo", ("a", "kept"))
    with studio_of(repo) as studio:
        studio.write("S1", "a", "agent\n")
        studio.write("S1", "new", "made\n")
        studio.hand("b", "by hand\n")
        studio.commit("all of it")
        studio.stop("S1")
        studio.run("undo", verb="oops", yes=True)
        studio.run("undo", verb="redo", yes=True)
        studio.run("pin", name="here")
        studio.write("S2", "new", "changed\n")
        studio.context.pipeline.gap("something was missed")
        studio.run("blame", path="a")
    tools = ToolRegistry()
    tools.tool("text.note", reversibility=Reversibility.REVERSIBLE, inverse=_inverse)(
        _note
    )
    tools.handler("text.forget", idempotent=True)(_note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITSHADOW_DAEMON", "off")
        _run_program(repo, tools)
    with closing(Db.open(layout_of(repo).journal, create=False)) as db:
        db.fold()
    return repo.root


def _run_program(repo: Repo, tools: ToolRegistry) -> None:
    with AgentUndo.open(repo.root, session="program", tools=tools) as au:
        with au.turn("kept") as turn:
            turn.call("text.note", text="kept")
        with suppress(RuntimeError), au.turn("undone") as turn:
            turn.call("text.note", text="undone")
            raise RuntimeError


def _note(text: str) -> str:
    return text


def _inverse(
    arguments: Mapping[str, object], captured: object, result: object
) -> Inverse:
    return Inverse.tool("text.forget", text=str(result))


def flipped(journal: Path, rng: random.Random) -> int:
    """Change one byte that is in use; return where."""
    data = bytearray(journal.read_bytes())
    at = 0
    while not data[at] or at < 100:
        at = rng.randrange(len(data))
    data[at] ^= rng.choice((1 << rng.randrange(8), rng.randrange(1, 256)))
    journal.write_bytes(bytes(data))
    return at


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(_FLIPS))
def test_no_flipped_byte_is_an_internal_error(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    seed: int,
) -> None:
    """Whatever the byte was of: pages, schema, or a cell that SQLite takes for good."""
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    monkeypatch.chdir(tmp_path)
    kept = whole.with_name("kept")
    if not kept.exists():
        shutil.copytree(whole, kept, symlinks=True)
    shutil.rmtree(whole)  # the same path again: elsewhere it would be another worktree
    shutil.copytree(kept, whole, symlinks=True)
    monkeypatch.chdir(whole)
    journal = whole / ".git" / "agent-undo" / "journal.db"
    where = flipped(journal, random.Random(seed))
    for verb in VERBS:
        main(list(verb))
        said = capfd.readouterr()
        assert "internal" not in said.out + said.err, (where, verb)
        assert "journal" not in said.err or "reindex" in said.err, (where, verb)
    main(["doctor", "--fix"])
    said = capfd.readouterr()
    if "reindex" in said.out + said.err:
        assert main(["reindex"]) == 0, where
        capfd.readouterr()
    for verb in VERBS:
        code = main(list(verb))
        said = capfd.readouterr()
        assert "error" not in said.err, (where, verb)
        # The log of effects says that a row of it is gone; so it must.
        assert verb in (("doctor",), ("verify",)) or code in (0, 3), (where, verb)
    checks = {one["name"]: one for one in json.loads(_doctor(capfd))["checks"]}
    assert checks["journal"]["ok"], where


def _doctor(capfd: pytest.CaptureFixture[str]) -> str:
    main(["doctor", "--json"])
    return capfd.readouterr().out
