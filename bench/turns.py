"""What turns of agent programs cost: a call, an undo of a thousand, a rewind of a long session.

Engines and Google's ADK stand beside them in the same run, DBOS's own steps beside its engine.
Invariant: what is timed did its work, and is asked for it afterwards.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

from dbos import DBOS

from bench.measure import Row, ms, timed
from bench.places import Place, empty
from gitshadow.sdk.integrations.dbos import DbosEngine
from gitshadow.sdk.turns.bench import EngineProvider
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.journal_store import JournalStore
from gitshadow.sdk.turns.policy import Limits, Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.values import Inverse, Reversibility
from gitshadow.store.journal.db import Db
from gitshadow.store.journal.saga_rows import NewEvent
from tests.support.postgres import cluster

_ENDLESS = Policy(limits=Limits(tool_calls=None))
_ARTIFACT = b"a page of a report\n" * 50
_ADK = Path(__file__).with_name("adk.py")
_LANGGRAPH = Path(__file__).with_name("langgraph_put.py")
_names = count()


def calls(scale: float) -> Iterator[Row]:
    """One call in a turn, on the disk before and after, and what the disk has to do with it."""
    number = max(20, int(1_000 * scale))
    with empty() as place:
        made: list[int] = []
        for synchronous in ("FULL", "NORMAL"):
            with _session(place, None, made) as au:
                _store(au).db.run(f"PRAGMA synchronous = {synchronous}")
                with au.turn("calls") as turn:
                    values = [
                        timed(lambda: turn.call("step.do", n=1)) for _ in range(number)
                    ]
            what = f"a call in a turn, synchronous = {synchronous}"
            yield Row(what, "–", ms(values), "ms")
        assert len(made) == 2 * number
        bare = [timed(lambda: made.append(1)) for _ in range(number)]
        yield Row("… only the function", "yardstick", ms(bare), "ms")


def effects(scale: float) -> Iterator[Row]:
    """A call that writes a file, without a daemon, and what a large argument leaves on the disk.

    A checkpoint of LangGraph and a step of DBOS, each on the disk, stand beside them.
    """
    number, size = max(5, int(200 * scale)), max(100_000, int(50_000_000 * scale))
    with empty({"GITSHADOW_DAEMON": "off"}) as place:
        place.shadow("init")
        written = count()
        tools = ToolRegistry()
        tools.add(
            "file.write",
            lambda: (place.root / "one").write_text(str(next(written))),
            reversibility=Reversibility.REVERSIBLE,
            files_only=True,
        )
        with closing(
            AgentUndo.open(str(place.root), session="s", tools=tools, policy=_ENDLESS)
        ) as au:
            turns = [timed(lambda: _one_call(au)) for _ in range(number)]
            with au.turn("calls") as turn:
                values = [timed(lambda: turn.call("file.write")) for _ in range(number)]
        assert next(written) == 2 * number
    yield Row("a call that writes a file, no daemon", "–", ms(values), "ms")
    yield Row("a turn of one such call", "–", ms(turns), "ms")
    yield from _yardsticks(number)
    with empty() as place, _session(place, None, []) as au:
        before = _bytes_of(place.journal)
        with au.turn("large") as turn:
            turn.call("step.do", n="x" * size)
        grown = _bytes_of(place.journal) - before
    what = f"journal of {size / 1e6:g} MB in an argument, and in its inverse"
    yield Row(what, "≤ 2 ×", [grown / (2 * size)], "×")


def _one_call(au: AgentUndo) -> None:
    with au.turn("one") as turn:
        turn.call("file.write")


def _yardsticks(number: int) -> Iterator[Row]:
    """Measure what others write per step; LangGraph has an environment of its own."""
    with empty() as place:
        with DbosEngine(f"sqlite:///{place.root}.db") as engine:
            # The engine opens its database with the first undo.
            _undos(place, engine, 1, 1)

            @DBOS.workflow(name="bench.step")
            def step() -> int:
                return DBOS.run_step({"name": "one"}, int)

            steps = [
                timed(lambda: DBOS.start_workflow(step).get_result())
                for _ in range(number)
            ]
        yield Row(
            "… DBOS in SQLite: a workflow of one step", "yardstick", ms(steps), "ms"
        )
        home = place.root.parent / "langgraph"
        python = _environment(home, ["langgraph-checkpoint-sqlite"])
        done = subprocess.run(
            [python, str(_LANGGRAPH), str(home / "checkpoints.db"), str(number)],
            check=True,
            capture_output=True,
            env=place.env,
        )
        found = json.loads(done.stdout)
        what = f"… langgraph-checkpoint-sqlite {found['version']}: put"
        yield Row(what, "yardstick", ms(found["seconds"]), "ms")


def _environment(home: Path, wanted: Sequence[str]) -> str:
    """Make an environment with packages; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    python = str(home / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)
    return python


def _bytes_of(journal: Path) -> int:
    """Return the bytes of a journal and of the files beside it."""
    return sum(one.stat().st_size for one in journal.parent.glob(f"{journal.name}*"))


def engines(scale: float) -> Iterator[Row]:
    """An undo of a thousand calls: in place, and by DBOS in SQLite and in Postgres."""
    number, times = max(10, int(1_000 * scale)), max(3, int(5 * scale))
    with empty() as place:
        built_in = _undos(place, None, number, times)
        yield Row(f"undo of {number:,} calls, in place", "≤ 0.4 s", built_in, "s")
        yield from _on_dbos(
            place, f"sqlite:///{place.root}.db", "SQLite", (number, built_in)
        )
        if shutil.which("initdb") is not None:
            with cluster() as url:
                yield from _on_dbos(place, url, "Postgres", (number, built_in))


def _on_dbos(
    place: Place, url: str, name: str, beside: tuple[int, list[float]]
) -> Iterator[Row]:
    """Take the same calls back as workflows, beside as many steps that do nothing."""
    number, built_in = beside
    with DbosEngine(url) as engine:
        values = _undos(place, engine, number, len(built_in))
        ratios = [ours / theirs for ours, theirs in zip(values, built_in, strict=True)]

        @DBOS.workflow(name=f"bench.steps.{name}")
        def steps() -> int:
            return sum(DBOS.run_step({"name": "one"}, int) for _ in range(number))

        bare = [
            timed(lambda: DBOS.start_workflow(steps).get_result())
            for _ in range(len(built_in))
        ]
    yield Row(f"undo of {number:,} calls, DBOS on {name}", "–", values, "s")
    yield Row("… ratio to in place", "–", ratios, "×")
    yield Row(f"… {number:,} steps of DBOS only", "yardstick", bare, "s")


def rewinds(scale: float) -> Iterator[Row]:
    """Back over half of 10,000 events and 500 artifacts; ADK's own in the same run."""
    events, artifacts = max(100, int(10_000 * scale)), max(10, int(500 * scale))
    times = max(3, int(5 * scale))
    size = f"{events:,} events, {artifacts} artifacts"
    with empty() as place:
        values = []
        for _ in range(times):
            with _session(place, None, []) as au:
                _live(au, events, artifacts)
                values.append(timed(lambda: au.rewind(f"i-{events // 20}")))
                assert "late" not in au.state
        yield Row(f"rewind, {size}", "≤ 0.1 s", values, "s")
    yield from _adk(size, events, artifacts, times)


def _adk(size: str, events: int, artifacts: int, times: int) -> Iterator[Row]:
    """Measure ADK in an environment of its own, which is made here."""
    with empty() as place:
        home = place.root.parent / "adk"
        python = _environment(home, ["google-adk[db]", "aiosqlite"])
        # Its events take it 9 ms each in SQLite, so that one is filled less often.
        for service, often in (("memory", times), ("sqlite", 2)):
            told = [service, str(home), *map(str, (events, artifacts, often))]
            done = subprocess.run(
                [python, str(_ADK), *told],
                check=True,
                capture_output=True,
                env=place.env,
                cwd=home,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            of = f"google-adk {found['version']}, sessions in {service}"
            yield Row(f"… {of}: {size}", "yardstick", found["rewind"], "s")
            yield Row(f"… {of}: one more event", "yardstick", found["append"], "ms")


def _undos(
    place: Place, engine: EngineProvider | None, number: int, times: int
) -> list[float]:
    """Take so many calls back, each time those of a new turn."""
    values = []
    with ExitStack() as opened:
        undone: list[int] = []
        au = opened.enter_context(_session(place, engine, [], undone))
        for turn in range(times + 1):
            with au.turn("many") as at_work:
                for n in range(number):
                    at_work.call("step.do", n=n)
            values.append(timed(lambda: au.undo(au.turns()[-1].id)))
            assert len(undone) == number * (turn + 1)
    return values[1:]  # the first one opens the engine


def _live(au: AgentUndo, events: int, artifacts: int) -> None:
    """Fill a session; what is to be undone wrote one key, and a version of each artifact."""
    session = au.runtime.session
    half = events // 2
    first = [_event(session, number, f"k{number % 50}") for number in range(half)]
    au.runtime.store.save(first[:1])
    for number in range(artifacts):
        with au.turn("first") as turn:
            turn.save_artifact(f"a{number}", _ARTIFACT)
    au.runtime.store.save(first[1:])
    au.runtime.store.save(
        [_event(session, number, "late") for number in range(half, events)]
    )
    for number in range(artifacts):
        with au.turn("second") as turn:
            turn.save_artifact(f"a{number}", _ARTIFACT + b"more")


def _event(session: str, number: int, key: str) -> NewEvent:
    return NewEvent(
        session=session,
        invocation=f"i-{number // 10}",
        author="user",
        kind="user",
        ts_ns=number,
        text="x" * 100,
        delta={key: str(number)},
    )


def _session(
    place: Place,
    engine: EngineProvider | None,
    made: list[int],
    undone: list[int] | None = None,
) -> closing[AgentUndo]:
    """Open a new session with a tool that does next to nothing, and its inverse."""
    if not place.journal.exists():
        Db.open(str(place.journal), create=True).close()
    tools = ToolRegistry()
    tools.add(
        "step.do",
        _note(made),
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda a, c, r: Inverse.tool("step.undo", n=a["n"]),
    )
    tools.handler("step.undo", idempotent=True)(
        _note(undone if undone is not None else made)
    )
    host = Host(engine=engine, files=False)
    name = f"bench-{next(_names)}"
    return closing(
        AgentUndo.open(
            str(place.root), session=name, tools=tools, policy=_ENDLESS, host=host
        )
    )


def _note(into: list[int]) -> Callable[[int], None]:
    def note(n: int) -> None:
        into.append(n)

    return note


def _store(au: AgentUndo) -> JournalStore:
    store = au.runtime.store
    assert isinstance(store, JournalStore)
    return store
