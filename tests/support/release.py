"""Make what is uploaded: an sdist, a native wheel and one of Python alone; `make release`.

    python -m tests.support.release DIRECTORY

Each is built twice from the last commit, in two directories, and has to be the same to the byte;
the extension for VS Code, which npm builds, is built once. Then the licences of what an
installation brings with it are shown.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from tests.support import extension

_ROOT = Path(__file__).parents[2]
_BUILD = (sys.executable, "-m", "build", "--no-isolation", "--outdir")


def main(target: Path) -> int:
    """Fill a directory; return 1 if the two builds differ, or if a licence is unknown."""
    if dirty := _run("git", "status", "--porcelain"):
        print(f"not committed:\n{dirty}", file=sys.stderr)
        return 1
    added = extension.build()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second = _built(Path(one), added), _built(Path(other), added)
    if first != second:
        names = sorted(name for name, _ in first.items() ^ second.items())
        print(f"differ from build to build: {', '.join(names)}", file=sys.stderr)
        return 1
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for name, content in first.items():
        (target / name).write_bytes(content)
        print(f"{len(content):>9,} bytes  {name}")
    _run(
        sys.executable, "-m", "twine", "check", "--strict", *map(str, target.iterdir())
    )
    licences = {one.name: licence(one) for one in brought()}
    for name, said in sorted(licences.items()):
        print(f"{name:<20} {said or 'unknown'}")
    return 0 if all(licences.values()) else 1


def _built(work: Path, added: bytes) -> dict[str, bytes]:
    """Return what is built from the last commit and the extension, by its name."""
    tree, out = work / "tree", work / "out"
    tree.mkdir()
    packed = subprocess.run(
        ["git", "archive", "HEAD"], cwd=_ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
    (tree / "hooks/vscode" / extension.NAME).write_bytes(added)
    _run(*_BUILD, str(out), str(tree))
    _run(*_BUILD, str(out), "--wheel", str(tree), GITSHADOW_NATIVE="off")
    return {path.name: path.read_bytes() for path in out.iterdir()}


def _run(*words: str, **more: str) -> str:
    done = subprocess.run(
        words,
        cwd=_ROOT,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def brought() -> Iterator[Distribution]:
    """Yield every distribution that an installation without extras brings with it."""
    waiting, seen = ["gitshadow"], {"gitshadow"}
    while waiting:
        for wanted in distribution(waiting.pop()).requires or []:
            found = re.match(r"[\w.-]+", wanted)
            # An extra, or what another system needs.
            if found is None or ";" in wanted or found[0] in seen:
                continue
            seen.add(found[0])
            waiting.append(found[0])
            yield distribution(found[0])


def licence(of: Distribution) -> str | None:
    """Return the licence that a distribution names; None: it names none."""
    about = of.metadata
    kinds = [
        one.rsplit(" :: ", 1)[1]
        for one in about.get_all("Classifier") or []
        if one.startswith("License :: ")
    ]
    return about["License-Expression"] or about["License"] or ", ".join(kinds) or None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
