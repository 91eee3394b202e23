"""A real source tree: the Linux kernel, as the distribution packs it for its users.

Made trees have files of one size, twenty to a directory; this one has what people wrote: 79,000
files, of any size, 5,000 directories, links and deep paths.
Invariant: the package comes by the system's own package manager; where it does not, a line says so.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.budgets import QUIET_S, start
from bench.measure import Journal, Row, cpu_s, memory_mib, ms, timed
from bench.places import Place, empty
from bench.undo import undone

_PACKAGES = ("linux-source-6.1", "linux-source-6.12")
_PART = "fs"
_WRITES = 60
_CHANGED = 1_000


def real(scale: float) -> Iterator[Row]:
    """Set up, writes, looks, undo, a branch of 1,000 files, and the disk in the kernel's tree."""
    with tempfile.TemporaryDirectory(prefix="gitshadow-source-") as top:
        found = _fetched(Path(top))
        if found is None:
            print("no apt-get, or no kernel source there: real is left out", flush=True)
            return
        with empty() as place:
            added = _unpacked(place, found, whole=scale >= 0.5)
            shutil.rmtree(top, ignore_errors=True)
            yield from _measured(place, found.name.split("_")[0], added)


def _fetched(top: Path) -> Path | None:
    """Return the package with the source, None where there is none."""
    for name in _PACKAGES:
        command = ["apt-get", "-qq", "download", name]
        try:
            done = subprocess.run(command, cwd=top, capture_output=True, timeout=900)
        except (OSError, subprocess.TimeoutExpired):
            return None
        packages = sorted(top.glob("*.deb"))
        if done.returncode == 0 and packages:
            return packages[0]
    return None


def _unpacked(place: Place, package: Path, *, whole: bool) -> float:
    """Commit the tree, or a part of it; return the seconds that `git add` took."""
    parts = package.parent / "parts"
    subprocess.run(["dpkg-deb", "-x", str(package), str(parts)], check=True)
    (archive,) = parts.glob("usr/src/*.tar.xz")
    only = [] if whole else ["--wildcards", f"*/{_PART}/*"]
    unpack = ["tar", "-xf", str(archive), "-C", str(place.root), "--strip-components=1"]
    subprocess.run([*unpack, *only], check=True)
    _drop_own_rules(place.root / ".gitignore")
    took = timed(lambda: place.git("add", "-A"))
    place.git("commit", "-q", "-m", "source")
    return took


def _drop_own_rules(rules: Path) -> None:
    """Take out what the distribution appends: it ignores everything that is not its own."""
    if rules.exists():
        kernel, _, _ = rules.read_text(encoding="utf-8").partition("\n/*\n")
        rules.write_text(kernel + "\n", encoding="utf-8")


def _measured(place: Place, name: str, added: float) -> Iterator[Row]:
    files = place.git("ls-files").splitlines()
    said = f"{name}, {len(files):,} files"
    yield Row(f"`git add -A`, {said}", "yardstick", [added], "s")
    yield Row(f"`init`, {said}", "–", [timed(lambda: place.shadow("init"))], "s")
    pid = start(place)
    sources = [one for one in files if one.endswith(".c")]
    yield from _writes(place, pid, sources[:: max(1, len(sources) // _WRITES)])
    yield Row("… memory of the daemon", "–", [memory_mib(pid)], "MiB")
    place.git("commit", "-q", "-a", "-m", "edited")
    for words in (("status",), ("log", "-n", "50"), ("blame", sources[0])):
        values = [timed(partial(place.shadow, *words)) for _ in range(5)]
        yield Row(f"… `{' '.join(words[:1])}`", "–", ms(values), "ms")
    undos = [undone(place, sources[1:3]) for _ in range(7)]
    yield Row("… `oops --yes`, 2 files", "≤ 45 ms", ms(undos), "ms")
    yield from _branch(place, sources[-_CHANGED:])
    yield from _disk(place)


def _writes(place: Place, pid: int, paths: Sequence[str]) -> Iterator[Row]:
    """Append a line to files all over the tree, one after the other."""
    journal, waits, before = Journal(place.journal), [], cpu_s(pid)
    for path in paths:
        time.sleep(QUIET_S)
        with (place.root / path).open("ab", buffering=0) as file:
            began = time.perf_counter()
            file.write(b"/* one more line */\n")
        waits.append((journal.await_row(path, 1) - began) * 1000)
    cpu = (cpu_s(pid) - before) / len(paths) * 1000
    sizes = statistics.median((place.root / one).stat().st_size for one in paths)
    note = f"{len(paths)} files, median {sizes / 1024:.0f} KiB"
    yield Row(
        "… write → journal row", "≤ 2.5 ms median, ≤ 10 ms p99", waits, "ms", note
    )
    yield Row("… CPU per write", "–", [cpu], "ms")


def _branch(place: Place, paths: Sequence[str]) -> Iterator[Row]:
    """Switch to a branch on which so many files are others, and back."""
    place.git("checkout", "-q", "-b", "other")
    for path in paths:
        with (place.root / path).open("ab") as file:
            file.write(b"/* on the branch */\n")
    place.git("commit", "-q", "-a", "-m", "other")
    place.shadow("flush")
    journal, values, plain = Journal(place.journal), [], []
    for turn in range(4):
        before, began = journal.count(), time.perf_counter()
        place.git("checkout", "-q", "other" if turn % 2 else "main")
        plain.append(time.perf_counter() - began)
        values.append(journal.await_count(before + 1) - began)
    what = f"… branch switch of {len(paths):,} files until it is recorded"
    yield Row(what, "–", values, "s")
    yield Row("… of it Git itself", "–", plain, "s")


def _disk(place: Place) -> Iterator[Row]:
    """What the history takes once it is packed, and the journal with it."""
    place.shadow("pack")
    found = json.loads(place.shadow("du", "--json"))
    history, rows = found["total"]["bytes"] / 2**20, Journal(place.journal).count()
    note = f"{rows:,} events"
    yield Row("… history after packing", "–", [history], "MiB", note)
    yield Row("… journal and other files", "–", [found["bytes"] / 2**20], "MiB", note)
