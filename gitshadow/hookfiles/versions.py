"""Which version of an agent is installed, and whether it knows the events of its hooks.

The version is read from the files beside the program; only where they do not say it, the program
is asked with `--version`. Hook programs never come here: an agent must not wait for this.
Invariant: nothing here reaches the network, and a program that hangs is ended.
"""

import json
import mmap
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape, glob
from pathlib import Path

from gitshadow.errors import ShadowError
from gitshadow.hookfiles import packaged
from gitshadow.hookfiles.detect import InstallEnvironment
from gitshadow.hookfiles.health import HealthFinding, HealthState
from gitshadow.hookfiles.placement import Agent, Shared

ASK_LIMIT_S = 3.0
"""How long a program may take to print its version; Node programs need a second."""
_SEARCH_LIMIT_S = 5.0
_MOST_OUTPUT_BYTES = 4096
_VERSION = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)*(?:-[0-9A-Za-z.]+)?)(?![\w.])")
_NOT_CODE = (".map", ".d.ts", ".md", ".json", ".txt", ".wasm", ".pyc")
_NO_PROXY = "http://127.0.0.1:9"
"""Nothing answers on the discard port, so a program that uses a proxy reaches nothing."""
_QUIET: Mapping[str, str] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NO_PROXY),
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _NO_PROXY),
    "NO_UPDATE_NOTIFIER": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CI": "1",
}


@dataclass(frozen=True, slots=True)
class HostVersion:
    """What is known of an installed agent program.

    Attributes:
        program: The path under which it was found.
        version: None if neither its files nor the program itself say it.
        verified: The version with which the hooks were last tested, None if they never were.
        unknown_events: Events that gitshadow registers and the program does not contain; empty
            too if its files cannot be searched, because they are compressed, say.
    """

    program: str
    version: str | None
    verified: str | None = None
    unknown_events: tuple[str, ...] = ()


def find(agent: Agent, around: InstallEnvironment) -> HostVersion | None:
    """Return what is known of an agent's program; None if none is on `PATH`."""
    program = around.first_of(*agent.programs)
    if program is None:
        return None
    real = os.path.realpath(program)
    owner = _package_of(real)
    version = owner.version if owner is not None else _in_path(real)
    return HostVersion(
        program,
        version or _asked(program),
        verified().get(agent.name),
        _unknown_events(agent, real, owner),
    )


def findings(agent: Agent, found: HostVersion) -> Iterator[HealthFinding]:
    """Yield why a version cannot run all hooks; being newer than the tested one is no reason."""
    version, oldest = found.version, agent.oldest
    if version and oldest and _key(version) < _key(oldest):
        problem = f"{agent.name} {version} is too old: its hooks need {oldest} or later"
        yield HealthFinding(HealthState.OUTDATED, problem, f"update {agent.name}")
    elif found.unknown_events:
        named = ", ".join(found.unknown_events)
        problem = f"{agent.name} {version or ''}".rstrip() + f" has no event {named}"
        fix = f"update {agent.name}; if it is the newest version, update gitshadow"
        yield HealthFinding(HealthState.OUTDATED, problem, fix)


def is_newer(version: str, other: str) -> bool:
    """Return whether a version comes after another one; pre-releases count as their release."""
    return _key(version) > _key(other)


def verified() -> Mapping[str, str]:
    """Return the version of each agent with which `make agents` last passed."""
    path = Path(__file__).with_name("verified.json")
    found: Mapping[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return found


def events(agent: Agent) -> list[str]:
    """Return the events that are registered with an agent; empty for a plug-in's source."""
    placement = next(iter(agent.placements.values()))
    if isinstance(placement, Shared):
        return [event.name for event in placement.shape.events]
    found: list[str] = []
    for piece in placement.pieces:
        if piece.source.endswith(".json"):
            found += _events_in(packaged.content(piece, agent.name, None))
        elif piece.executable:
            found.append(os.path.basename(piece.source))
    return found


def _events_in(data: bytes) -> list[str]:
    hooks = json.loads(data).get("hooks")
    if isinstance(hooks, dict):
        return list(hooks)
    return [one["trigger"] for one in hooks or ()]


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.partition("-")[0].split(".")))


def _version_in(text: str) -> str | None:
    match = _VERSION.search(text)
    return match[1] if match else None


# What the files say


@dataclass(frozen=True, slots=True)
class _Package:
    """A package that contains a program, and the directories of its code."""

    version: str | None
    directories: tuple[str, ...]


def _package_of(real: str) -> _Package | None:
    """Return the npm or Python package of a program; None for one that stands alone."""
    above = os.path.dirname(real)
    while above != os.path.dirname(above):
        document = _json(os.path.join(above, "package.json"))
        if isinstance(document.get("name"), str) and document.get("version"):
            return _npm_package(above, document)
        above = os.path.dirname(above)
    return _python_package(real)


def _npm_package(directory: str, document: Mapping[str, object]) -> _Package:
    # The program itself is often in a package per platform beside it.
    name, others = str(document["name"]), document.get("optionalDependencies")
    top = directory.removesuffix(f"/{name}")
    names = others if isinstance(others, dict) else {}
    beside = (os.path.join(top, one) for one in names)
    found = tuple(one for one in beside if os.path.isdir(one))
    return _Package(_version_in(str(document["version"])), (directory, *found))


def _python_package(real: str) -> _Package | None:
    """Return the package whose script a program is, in the environment that has the script."""
    name = os.path.basename(real)
    top = os.path.dirname(os.path.dirname(real))
    pattern = f"{escape(top)}/lib/python3*/site-packages/*.dist-info/entry_points.txt"
    for path in glob(pattern):
        match = re.search(rf"(?m)^{re.escape(name)} *= *(\w+)", _text(path))
        if match is not None:
            info = os.path.dirname(path)
            version = os.path.basename(info).removesuffix(".dist-info").rpartition("-")
            # A program may be split: `openhands_cli` beside `openhands`.
            stem = match[1].partition("_")[0]
            code = glob(os.path.join(os.path.dirname(info), f"*{stem}*"))
            return _Package(version[2], tuple(filter(os.path.isdir, code)))
    return None


def _in_path(real: str) -> str | None:
    """Return the version in the name of a file or directory: installers have one per version."""
    for part in reversed(real.split(os.sep)):
        match = _VERSION.fullmatch(part)
        if match is not None:
            return match[1]
    return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return ""


def _json(path: str) -> Mapping[str, object]:
    try:
        document = json.loads(_text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


# What the program says


def _asked(program: str) -> str | None:
    """Return the version that a program prints; None if it prints none in time, or fails."""
    until = time.monotonic() + ASK_LIMIT_S
    try:
        child = subprocess.Popen(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_QUIET},
            start_new_session=True,
        )
    except OSError:
        return None
    with child:
        printed = _printed(child, until)
        try:
            code = child.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            # It is not reaped yet, so the number is still that of its group.
            os.killpg(child.pid, signal.SIGKILL)
            return None
    return _version_in(printed) if code == 0 else None


def _printed(child: subprocess.Popen[bytes], until: float) -> str:
    """Return the beginning of what a child prints, until it closes its output or the time is up."""
    found = b""
    pipe = child.stdout.fileno() if child.stdout is not None else -1
    printed = select.poll()
    printed.register(pipe, select.POLLIN)
    while len(found) < _MOST_OUTPUT_BYTES:
        ready = printed.poll(max(0.0, until - time.monotonic()) * 1000)
        part = os.read(pipe, _MOST_OUTPUT_BYTES) if ready else b""
        if not part:
            break
        found += part
    return found.decode("utf-8", "replace")


# Which events its code has


def _unknown_events(
    agent: Agent, real: str, package: _Package | None
) -> tuple[str, ...]:
    """Return the registered events that a program's code does not contain.

    Code that contains less than half of them cannot be searched: it is compressed, or elsewhere,
    and a script that starts it may have the word `Stop`.
    """
    try:
        names = events(agent)
    except ShadowError:
        return ()
    left = {name.encode() for name in names}
    until = time.monotonic() + _SEARCH_LIMIT_S
    for path in _code(real, package):
        if not left or time.monotonic() > until:
            break
        left -= _contained(path, left)
    if time.monotonic() > until or 2 * len(left) > len(names):
        return ()
    return tuple(name for name in names if name.encode() in left)


def _code(real: str, package: _Package | None) -> Iterator[str]:
    yield real
    for top in () if package is None else package.directories:
        for directory, inner, names in os.walk(top):
            # The packages that it depends on are other programs' code.
            inner[:] = sorted(one for one in inner if one != "node_modules")
            for name in sorted(names):
                if not name.endswith(_NOT_CODE):
                    yield os.path.join(directory, name)


def _contained(path: str, names: set[bytes]) -> set[bytes]:
    try:
        with open(path, "rb") as stream:
            if not os.fstat(stream.fileno()).st_size:
                return set()
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as code:
                return {name for name in names if code.find(name) >= 0}
    except (OSError, ValueError):
        return set()
