"""A turn of three steps whose inverses can be steered and watched from any process.

They note each call in a file, and misbehave as another file says: they fail, hang, or kill the
process that runs them.
"""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gitshadow.sdk.turns.bench import Bench, EngineProvider
from gitshadow.sdk.turns.host import Host
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.report import UndoReport
from gitshadow.sdk.turns.session import AgentUndo
from gitshadow.sdk.turns.session_runtime import Opening
from gitshadow.sdk.turns.values import Inverse, Retry, Reversibility
from gitshadow.store.journal.db import Db

STEPS = (1, 2, 3)
PATIENCE_S = 60.0
"""How long anything here waits before it gives up."""
_CUT_OFF_S = 0.2


@dataclass(slots=True)
class Steps:
    """Hold a directory in which inverses note what they do, and how they are to misbehave.

    `troubles` maps a step to what its next calls do: `fail`, `hang`, `wait` (until `go`), `kill`
    (before its effect) or `kill after`.
    """

    root: Path
    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def plan(self, **troubles: list[str]) -> None:
        """Say how steps misbehave: `_2=["fail"]`."""
        (self.root / "troubles.json").write_text(json.dumps(troubles))

    @property
    def calls(self) -> list[tuple[int, str]]:
        """Return the calls of inverses as step and key, oldest first."""
        return self._noted("calls")

    @property
    def undone(self) -> list[int]:
        """Return the steps whose inverses had their effect, in order."""
        return [step for step, _ in self._noted("effects")]

    def undo(self, step: int, *, idempotency_key: str) -> None:
        """Take a step back."""
        self._note("calls", step, idempotency_key)
        trouble = self._trouble(step)
        if trouble == "fail":
            raise OSError("no answer")
        if trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble == "hang":
            self.go.wait(PATIENCE_S)
        if trouble == "wait":
            self.begun.set()
            self.go.wait(PATIENCE_S)
        self._note("effects", step, idempotency_key)
        if trouble == "fail after":
            raise OSError("the answer was lost")
        if trouble == "kill after":
            os.kill(os.getpid(), signal.SIGKILL)

    def blind(self, step: int) -> None:
        """Take a step back, without a key: nobody may try it twice."""
        self.undo(step, idempotency_key="")

    async def later(self, step: int, *, idempotency_key: str) -> None:
        """Take a step back in a coroutine."""
        await asyncio.sleep(0)
        self.undo(step, idempotency_key=idempotency_key)

    def tools(self) -> ToolRegistry:
        """Return tools whose inverses are these."""
        tools = ToolRegistry()
        for name, handler in (
            ("step.do", self.undo),
            ("step.blind", self.blind),
            ("step.later", self.later),
        ):
            undo = f"{name}.undo"
            tools.compensator(undo)(handler)
            tools.tool(
                name,
                reversibility=Reversibility.REVERSIBLE,
                inverse=_inverse_of(undo),
                retry=Retry(
                    attempts=3,
                    backoff_s=0,
                    timeout_s=_CUT_OFF_S if name == "step.blind" else None,
                ),
            )(_nothing)
        return tools

    def _trouble(self, step: int) -> str | None:
        """Return how this call misbehaves; the next one does something else."""
        path = self.root / "troubles.json"
        if not path.exists():
            return None
        troubles: dict[str, list[str]] = json.loads(path.read_text())
        found = troubles.get(f"_{step}", [])
        trouble = found.pop(0) if found else None
        path.write_text(json.dumps(troubles))
        return trouble

    def _note(self, name: str, step: int, key: str) -> None:
        with (self.root / name).open("a") as stream:
            stream.write(json.dumps([step, key]) + "\n")

    def _noted(self, name: str) -> list[tuple[int, str]]:
        path = self.root / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [(step, key) for step, key in map(json.loads, lines)]


def recorded(root: Path, *, tool: str = "step.do", also: str | None = None) -> Steps:
    """Make a recorded working tree in which turn t-1 of session s did its steps."""
    git = root / ".git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    with closing(Db.open(str(git / "agent-undo" / "journal.db"), create=True)):
        steps = Steps(root)
    with opened(steps, None) as au, au.turn("steps") as turn:
        for step in STEPS:
            turn.call(tool, step=step)
        if also is not None:
            turn.call(also, step=0)
    return steps


@contextmanager
def opened(
    steps: Steps, engine: EngineProvider | None, tools: ToolRegistry | None = None
) -> Iterator[AgentUndo]:
    """Open session s with an engine."""
    host = Host(engine=engine)
    with AgentUndo.open(
        str(steps.root), session="s", tools=tools or steps.tools(), host=host
    ) as au:
        yield au


def bench_of(steps: Steps) -> Bench:
    """Return what an engine is bound to for session s."""
    return Opening("s", steps.tools()).bench(str(steps.root))


@contextmanager
def lock_of(steps: Steps) -> Iterator[None]:
    """Hold the lock of session s, so that no engine can begin."""
    with closing(bench_of(steps).runtime()) as runtime, runtime.locked():
        yield


def states(report: UndoReport) -> list[tuple[str, str]]:
    """Return call and state of each item, in the order of the undo."""
    return [(item.call_id, item.state.value) for item in report.items]


def forked(act: Callable[[], None]) -> int:
    """Do something in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return pid


def in_child(act: Callable[[], None]) -> int:
    """Do something in a process of its own; return its exit code, or minus its signal."""
    return os.waitstatus_to_exitcode(os.waitpid(forked(act), 0)[1])


def _nothing(step: int) -> None:
    """Do the step: only taking it back is of interest."""


def _inverse_of(
    undo: str,
) -> Callable[[object, object, object], Inverse]:
    def build(arguments: object, captured: object, result: object) -> Inverse:
        assert isinstance(arguments, dict)
        return Inverse.tool(undo, step=arguments["step"])

    return build
