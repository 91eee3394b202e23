"""The sealed environment of every test, and the fixtures that all of them share."""

import gc
import itertools
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import TypeVar, cast

import pygit2
import pytest
from hypothesis import settings
from pygit2.enums import ConfigLevel

# What the package reads when it is first imported, in this process and all that it starts.
PLATFORM = os.environ.get("GITSHADOW_TEST_PLATFORM")
if PLATFORM:
    os.environ["GITSHADOW_PLATFORM"] = PLATFORM

pytest.register_assert_rewrite("tests.support")
pytest_plugins = ["tests.support.studio_fixtures"]

from gitshadow.config import WatchBackend  # noqa: E402
from gitshadow.ipc import command_client  # noqa: E402
from tests.support import kinds, served  # noqa: E402
from tests.support.claude import Claude  # noqa: E402
from tests.support.examples import NEVER_TOO_SLOW  # noqa: E402
from tests.support.kinds import Kind  # noqa: E402
from tests.support.repo import Repo  # noqa: E402
from tests.support.shadow import TEST_MARK, Shadow, end_daemons  # noqa: E402

FULL = os.environ.get("GITSHADOW_TEST_FULL") == "1"
_END_TO_END = Path(__file__).parent / "e2e"

# Everything else is dropped: GIT_*, GITSHADOW_*, editors, pagers, an agent's own marks.
_KEPT = frozenset({"PATH", "TMPDIR", "LD_LIBRARY_PATH", "USER", "LOGNAME"})
_KEPT_PREFIXES = ("COV_", "COVERAGE_", "HYPOTHESIS_", "PYTEST_", "PYTHON")
# Every command would compile the whole package anew.
_SLOW = "PYTHONDONTWRITEBYTECODE"
_NUMBERS = itertools.count()
_GIT_CONFIG = """\
[user]
\tname = Test User
\temail = test@example.com
[init]
\tdefaultBranch = main
"""
_Test = TypeVar("_Test", bound=Callable[..., None])

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=NEVER_TOO_SLOW,
)
settings.register_profile(
    "full",
    max_examples=1000,
    deadline=None,
    suppress_health_check=NEVER_TOO_SLOW,
)
settings.load_profile("full" if FULL else "ci")


def on_both(
    name: str | None = None, cases: Iterable[object] = (), *, few: int = 1
) -> Callable[[_Test], _Test]:
    """Run a test with both watchers: with the portable one in some cases, or all in a full run.

    Args:
        name: The parameter, None where there is none.
        cases: Its values.
        few: How many of them a short run takes with the portable watcher.
    """
    backends = [WatchBackend.INOTIFY, WatchBackend.WATCHFILES]
    if PLATFORM:  # which has one watcher alone
        del backends[0]
    if name is None:
        chosen = pytest.mark.parametrize("watch_backend", backends, indirect=True)
    else:
        every = list(cases)
        some = every if FULL else every[:few]
        rows = [*product(backends[:1], every), *product(backends[1:], some)]
        names = ("watch_backend", name)
        chosen = pytest.mark.parametrize(names, rows, indirect=names[:1])

    def mark(test: _Test) -> _Test:
        # Before the daemon of the test is started, which reads the setting.
        first = pytest.mark.usefixtures("watch_backend")
        marked: _Test = pytest.mark.both_watchers(first(chosen(test)))
        return marked

    return mark


def pytest_configure() -> None:
    """Handle Ctrl-C again if a shell started the run with `&`, which ignores it.

    Every child would ignore it too, and so would those that a test means to interrupt.

    Raises:
        pytest.UsageError: no git here makes the kind of repository that the run is to be about.
    """
    if trouble := kinds.trouble():
        raise pytest.UsageError(trouble)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does nohup(1) with SIGHUP.
    for number in (signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out long runs, and begin with the longest tests: one begun last is awaited alone."""
    skip = pytest.mark.skip(reason="a long run: GITSHADOW_TEST_FULL=1")
    if not FULL:
        items[:] = sampled(items)
    items.sort(key=lambda item: "uncounted" not in item.keywords)
    for item in items:
        if item.path.is_relative_to(_END_TO_END):
            item.add_marker("uncounted")
            item.add_marker("end_to_end")
        if "full" in item.keywords and not FULL:
            item.add_marker(skip)


def sampled(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield all tests; of those that say so as many cases as show each value of each parameter.

    Source: "each choice", the weakest coverage of combinations (Ammann and Offutt, 2008).
    """
    tests = itertools.groupby(items, lambda item: item.nodeid.partition("[")[0])
    for cases in (list(group) for _, group in tests):
        if cases[0].get_closest_marker("sampled") is None:
            yield from cases
            continue
        shown = {case: _values(case) for case in cases}
        missing = set[tuple[str, str]]().union(*shown.values())
        while missing:
            best = max(cases, key=lambda case: len(missing & shown[case]))
            missing -= shown[best]
            yield best


def _values(case: pytest.Item) -> set[tuple[str, str]]:
    params = cast("pytest.Function", case).callspec.params
    return {(name, repr(value)) for name, value in params.items()}


def pytest_collection_finish() -> None:
    """Leave modules and tests out of every later collection of garbage: they live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def repo_kind(request: pytest.FixtureRequest) -> Kind:
    """Return the kind of repository that every `git init` of a test makes."""
    return kinds.needed(getattr(request, "param", kinds.KIND))


@pytest.fixture(autouse=True)
def sealed(
    repo_kind: Kind,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Path]:
    """Give every test an empty home and a git that nobody configured; yield that home.

    A daemon that the test leaves behind, whoever started it, is ended and fails the test.
    """
    # `mktemp` would read the names of all homes before this one, thousands at the end.
    # In a directory of their own, because `tmp_path` reads the names of its neighbours too.
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_NUMBERS))
    home.mkdir(mode=0o700, parents=True)
    (home / ".gitconfig").write_text(_GIT_CONFIG)
    for name in list(os.environ):
        kept = name in _KEPT or name.startswith(_KEPT_PREFIXES)
        if name == _SLOW or not kept:
            monkeypatch.delenv(name)
    runtime = home / "run"
    runtime.mkdir(mode=0o700)
    scripts = str(Path(sys.executable).parent)
    first = (scripts, *(kinds.beginning(repo_kind) or ()))
    for name, value in {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_RUNTIME_DIR": str(runtime),
        "GIT_CONFIG_NOSYSTEM": "1",
        command_client.OFF: served.switch(runtime),
        "TZ": "UTC",
        "LC_ALL": "C",
        "PATH": os.pathsep.join([*first, os.environ.get("PATH", os.defpath)]),
        **kinds.environment(repo_kind),
    }.items():
        monkeypatch.setenv(name, value)
    if PLATFORM:
        monkeypatch.setenv("GITSHADOW_PLATFORM", PLATFORM)
    time.tzset()
    _point_libgit2_at(home)
    mark = uuid.uuid4().hex
    monkeypatch.setenv(TEST_MARK, mark)
    yield home
    end_daemons(mark)


@pytest.fixture
def watch_backend(sealed: Path, request: pytest.FixtureRequest) -> WatchBackend:
    """Have the daemons of a test watch as its parameter says; return that."""
    with (sealed / ".gitconfig").open("a") as stream:
        stream.write(f"[agent-undo]\n\twatcher = {request.param}\n")
    backend: WatchBackend = request.param
    return backend


def _point_libgit2_at(home: Path) -> None:
    """libgit2 looks up HOME once, when it is loaded, so it must be told."""
    paths = pygit2.settings.search_path
    paths[ConfigLevel.GLOBAL] = str(home)
    paths[ConfigLevel.XDG] = str(home / "config" / "git")
    paths[ConfigLevel.SYSTEM] = str(home / "none")


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Repo]:
    """Return a function that makes one more repository: `make_repo("other", files=())`."""

    def make(name: str = "repo", files: tuple[str, ...] = ("a", "b", "c")) -> Repo:
        return Repo.create(tmp_path / name, files)

    return make


@pytest.fixture
def repo(make_repo: Callable[..., Repo]) -> Repo:
    """Return R without `init`: `a`, `b` and `c`, ten distinct lines each, committed."""
    return make_repo()


@pytest.fixture
def make_shadow(request: pytest.FixtureRequest) -> Iterator[Callable[..., Shadow]]:
    """Return a function that gives a repository its command; `init` is not done."""
    with ExitStack() as stack:

        def make(repo: Repo, *, daemon: bool = True) -> Shadow:
            made = Shadow(repo, daemon)
            made.executes |= request.node.get_closest_marker("process") is not None
            stack.callback(made.close)
            return made

        yield make


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the modes: with the daemon; without it too where the mode matters, or in a full run.

    Capture, hooks and the atomicity of an undo depend on it. Elsewhere the same code runs in
    another process. Then the kinds of repository, for a test that is about all of them or some.
    """
    if mark := metafunc.definition.get_closest_marker("kinds"):
        some = kinds.to_run(mark.args)
        metafunc.parametrize("repo_kind", some, indirect=True, ids=str)
    if "shadow_new" in metafunc.fixturenames:
        both = FULL or metafunc.definition.get_closest_marker("both_modes")
        modes = ["daemon", "nodaemon"] if both else ["daemon"]
        metafunc.parametrize("shadow_new", modes, indirect=True)


@pytest.fixture
def shadow_new(
    request: pytest.FixtureRequest, repo: Repo, make_shadow: Callable[..., Shadow]
) -> Shadow:
    """Return the command before `init`, in each mode of the test."""
    return make_shadow(repo, daemon=request.param == "daemon")


@pytest.fixture
def shadow(shadow_new: Shadow) -> Shadow:
    """Return the command in R, in each mode of the test."""
    shadow_new.init()
    return shadow_new


@pytest.fixture
def shadow_d(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command in R, for a row that needs the daemon (D)."""
    made = make_shadow(repo, daemon=True)
    made.init()
    return made


@pytest.fixture
def shadow_n(repo: Repo, make_shadow: Callable[..., Shadow]) -> Shadow:
    """Return the command in R, for a row that needs the daemon's absence (N)."""
    made = make_shadow(repo, daemon=False)
    made.init()
    return made


@pytest.fixture
def agent(shadow: Shadow) -> Claude:
    """Return an agent session in R, in each mode of the test."""
    return Claude(shadow)
