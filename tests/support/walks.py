"""Four walks through the code, traced: a hook, an `oops`, a blame line, the undo of an SDK turn.

    python -m tests.support.walks            write the module lists into docs/internals.md
    python -m tests.support.walks numbers    print what each walk costs a reader

Each walk runs in a process of its own on a new repository, so that no cache of another walk
makes it shorter. Of the thread that does the work, every entry into a function of gitshadow
counts as a call, also into a lambda or a property. These are no calls: the bodies of modules and
classes, what runs while a module is imported, comprehensions, generated methods (of a dataclass
or a `NamedTuple`), and a generator that goes on: it counts when it starts. A change is a
call into another module than the call before it. `BEGIN` and `COMMIT` are statements; a batch is
one statement for many rows.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import gitshadow
from gitshadow.model import RepoPath
from gitshadow.platform.stamps import RACY_NS
from gitshadow.platform.watching import EventSink, Hints
from gitshadow.store.layout import Layout, discover

PAGE = Path(__file__).parents[2] / "docs" / "internals.md"
TITLES = {
    "hook": "A hook after an edit, in the daemon",
    "oops": "`oops` of one file, without a daemon",
    "blame": "`blame` of one line, without a daemon",
    "turn": "Undo of an SDK turn with one effect and one file",
}
_BEGIN, _END = "<!-- walks: made by `make walks` -->\n", "<!-- end of walks -->\n"
_SHARED = "**What the next three share**: they open the worktree and record the present"
_OPENING = ("oops", "blame", "turn")
_SHOWN = 25
_PACKAGE = os.path.dirname(gitshadow.__file__) + os.sep
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_CO_NEWLOCALS = 0x2
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GITSHADOW_DAEMON": "off",
    "LC_ALL": "C",
    "NO_COLOR": "1",
    "TZ": "UTC",
}


@dataclass(slots=True)
class Walk:
    """Count what one walk enters."""

    modules: list[str] = field(default_factory=list)
    changes: int = 0
    calls: int = 0
    functions: int = 0
    statements: int = 0
    batches: int = 0
    edges: dict[str, int] = field(default_factory=dict)


class Tracer:
    """Follow one thread through gitshadow; `walk` has the numbers."""

    def __init__(self) -> None:
        self.walk = Walk()
        self._codes: set[CodeType] = set()
        self._here = ""
        self._importing = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and _is_entry(frame):
            self._enter(code)

    def _enter(self, code: CodeType) -> None:
        walk = self.walk
        walk.calls += 1
        self._codes.add(code)
        walk.functions = len(self._codes)
        module = _module(code.co_filename)
        if module != self._here:
            edge = f"{self._here} > {module}"
            walk.edges[edge] = walk.edges.get(edge, 0) + 1
            walk.changes += 1
            self._here = module
        if module not in walk.modules:
            walk.modules.append(module)


def _is_entry(frame: FrameType) -> bool:
    code = frame.f_code
    if not code.co_filename.startswith(_PACKAGE):
        return False
    if not code.co_flags & _CO_NEWLOCALS or code.co_name in _COMPREHENSIONS:
        return False
    # A generator is entered again after each `yield`; only at its start is this argument 0.
    return code.co_code[frame.f_lasti + 1] & 3 == 0


def _module(path: str) -> str:
    name = path.removeprefix(_PACKAGE).removesuffix(".py").replace(os.sep, ".")
    return name.removesuffix(".__init__")


@contextmanager
def traced() -> Iterator[Walk]:
    """Trace a block on this thread."""
    tracer = Tracer()
    before = _Connection.statements, _Connection.batches
    sys.setprofile(tracer)
    try:
        yield tracer.walk
    finally:
        sys.setprofile(None)
        tracer.walk.statements = _Connection.statements - before[0]
        tracer.walk.batches = _Connection.batches - before[1]


class _Connection(sqlite3.Connection):
    """Count the statements of all connections."""

    statements = batches = 0

    def execute(self, *args: Any) -> sqlite3.Cursor:
        _Connection.statements += 1
        return super().execute(*args)

    def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
        rows = list(rows)
        _Connection.batches += bool(rows)
        return super().executemany(sql, rows)


class _Silent:
    """Watch nothing: the hook comes before the hint of the write that it reports."""

    def add(self, directories: Iterable[RepoPath]) -> None: ...

    def replace(self, directories: Iterable[RepoPath]) -> None: ...

    def enter(self, directories: Mapping[RepoPath, int]) -> None:
        return

    def barrier(self) -> Hints:
        return Hints()

    def watching(self, paths: Collection[RepoPath]) -> set[RepoPath]:
        return set(paths)

    def unwatched(self, directories: Iterable[RepoPath]) -> set[RepoPath]:
        return set()

    def degraded(self) -> str | None:
        return None

    def follow(self, order: EventSink) -> None:
        return


def _hook(root: Path) -> Walk:
    from gitshadow.daemon.listener import SocketRequest
    from gitshadow.daemon.server import Server, Service
    from gitshadow.ipc import hook, wire

    layout = _layout(root)
    service = Service.open(layout, os.environ, lock_timeout_s=1.0)
    service.start(_Silent())
    server = Server(layout, service)
    seen = Walk()

    def send(payload: dict[str, object]) -> None:
        nonlocal seen
        body = hook.make_body("claude-code", json.dumps(payload).encode(), [])
        job = SocketRequest(wire.VERSION, b"hook", body)
        with traced() as seen:
            server._answer(job)
        assert job.wait(0) == (wire.OK, b""), job

    try:
        # The second edit is the one: by then everything is open and imported.
        for payload in _edits(root, "two", "three"):
            send(payload)
        return seen
    finally:
        service.close()


def _oops(root: Path) -> Walk:
    _agent_edits(root)
    with traced() as walk:
        _command("oops", "--yes")
    assert (root / "a.txt").read_text() == "one\n"
    return walk


def _blame(root: Path) -> Walk:
    _agent_edits(root)
    with traced() as walk:
        _command("blame", "-L", "1,1", "a.txt")
    return walk


def _turn(root: Path) -> Walk:
    from gitshadow import AgentUndo, Inverse, Reversibility, ToolRegistry

    drafts: dict[int, str] = {}
    tools = ToolRegistry()

    @tools.tool(
        "draft.create",
        reversibility=Reversibility.REVERSIBLE,
        inverse=lambda arguments, captured, result: Inverse.tool(
            "draft.delete", id=result
        ),
    )
    def create(title: str) -> int:
        drafts[1] = title
        return 1

    @tools.handler("draft.delete", idempotent=True)
    def delete(id: int) -> None:
        del drafts[id]

    with AgentUndo.open(root, session="s", agent="walk", tools=tools) as au:
        with au.turn("one draft, one file") as turn:
            turn.call("draft.create", title="Hello")
            _write(root / "a.txt", "two\n")
        with traced() as walk:
            report = au.undo(turn.id)
    assert (report.status, drafts) == ("reversed", {}), report
    assert (root / "a.txt").read_text() == "one\n"
    return walk


_WALKS = {"hook": _hook, "oops": _oops, "blame": _blame, "turn": _turn}


def _layout(root: Path) -> Layout:
    found = discover(str(root))
    assert found is not None
    return found


def _edits(root: Path, *texts: str) -> Iterator[dict[str, object]]:
    """Yield the hooks of an agent that writes a file once for each text, written on the way."""
    common: dict[str, object] = {"session_id": "s", "cwd": str(root), "prompt_id": "p"}
    yield {**common, "hook_event_name": "SessionStart", "source": "startup"}
    yield {**common, "hook_event_name": "UserPromptSubmit", "prompt": "write"}
    for number, text in enumerate(texts):
        asked = {"file_path": str(root / "a.txt"), "content": f"{text}\n"}
        call = {"tool_name": "Write", "tool_input": asked, "tool_use_id": f"c{number}"}
        yield {**common, **call, "hook_event_name": "PreToolUse"}
        _write(root / "a.txt", f"{text}\n")
        done = {"hook_event_name": "PostToolUse", "tool_response": {"success": True}}
        yield {**common, **call, **done}


def _write(path: Path, text: str) -> None:
    """Write a file, and wait until its stat proves its content.

    A file that is read sooner is read again by what comes later, so a walk would depend on the
    load of the machine.
    """
    path.write_text(text)
    time.sleep(2 * RACY_NS / 1e9)


def _agent_edits(root: Path) -> None:
    """Let an agent write one file in one turn, in a separate process."""
    from gitshadow.ipc import hook
    from gitshadow.service import in_process

    if os.fork() == 0:
        for payload in _edits(root, "two"):
            body = hook.make_body("claude-code", json.dumps(payload).encode(), [])
            in_process.deliver(_layout(root), body)
        os._exit(0)
    assert os.wait()[1] == 0


def _command(*args: str) -> None:
    """Run a command as the console script does, which ends the process after it."""
    from gitshadow import cli

    sys.argv = ["git-agent-undo", *args]
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        assert cli.main() == 0


def _make(root: Path) -> None:
    """Make a repository with one committed file that is recorded from now on."""
    from gitshadow.maintenance import setup

    root.mkdir()
    _write(root / "a.txt", "one\n")
    name = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    for args in (("init", "-q"), ("add", "."), (*name, "commit", "-qm", "start")):
        subprocess.run(["git", *args], cwd=root, check=True)
    # The end of a command counts this directory to see whether packing is due. A repository of some
    # hundred objects has it, a new one only by chance.
    sampled = root / ".git/objects/17"
    sampled.mkdir(exist_ok=True)
    (sampled / ("0" * 38)).touch()
    if os.fork() == 0:
        setup.initialise(_layout(root), os.environ, force=True)
        os._exit(0)
    assert os.wait()[1] == 0


def traced_walk(name: str) -> Walk:
    """Trace one walk in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, name, f"{home}/repo"],
            env={**kept, **_ENVIRONMENT, "HOME": home},
            cwd=PAGE.parent,
            stdout=subprocess.PIPE,
            check=True,
        )
    return Walk(**json.loads(done.stdout))


def section() -> str:
    """Return the lists of modules, as docs/internals.md has them."""
    walks = {name: traced_walk(name).modules for name in TITLES}
    opening = [one for one in walks["oops"] if all(one in walks[n] for n in _OPENING)]
    lines = [f"- {_SHARED} ({len(opening)}): {outline(opening)}."]
    for name, title in TITLES.items():
        rest = [one for one in walks[name] if name == "hook" or one not in opening]
        more = "" if rest == walks[name] else f"; of these {len(rest)} not listed above"
        lines.append(f"- **{title}** ({len(walks[name])}{more}): {outline(rest)}.")
    return "\n".join([*lines[1:2], lines[0], *lines[2:]]) + "\n"


def outline(modules: Iterable[str]) -> str:
    """Return modules in their order, neighbours of one package together."""
    split = [module.rpartition(".") for module in modules]
    parts = []
    for package, group in groupby(split, key=lambda one: one[0]):
        names = [name for _, _, name in group]
        inner = names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
        parts.append(f"{package}.{inner}" if package else ", ".join(names))
    return " → ".join(parts)


def published() -> str:
    """Return the lists of modules that docs/internals.md has."""
    return PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0]


def _publish() -> None:
    before, begin, rest = PAGE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert end, f"{PAGE.name} has no place for the walks"
    PAGE.write_text(before + begin + section() + end + after)


def _print_numbers() -> None:
    for name in TITLES:
        walk = traced_walk(name)
        print(
            f"{name}: {len(walk.modules)} modules, {walk.changes} changes,"
            f" {walk.calls} calls of {walk.functions} functions,"
            f" {walk.statements} SQL statements and {walk.batches} batches"
        )
        often = sorted(walk.edges.items(), key=lambda edge: -edge[1])[:_SHOWN]
        for edge, times in often:
            print(f"  {times:4} {edge}")


def main() -> None:
    """Run what the command line names."""
    match sys.argv[1:]:
        case []:
            _publish()
        case ["numbers"]:
            _print_numbers()
        case [name, root]:
            counted = partial(sqlite3.connect, factory=_Connection)
            setattr(sqlite3, "connect", counted)  # noqa: B010 - mypy refuses the assignment
            _make(Path(root))
            os.chdir(root)
            print(json.dumps(asdict(_WALKS[name](Path(root)))))


if __name__ == "__main__":
    main()
