"""Fenced `console` blocks of the documentation, run in one shell per part of a page.

A block marked ```` ```console ```` is run; any other info string is not. A line that
begins with `$ ` is a command, one that begins with `> ` goes on with it, every other line
is expected output. A line `…` stands for any lines, `…` inside a line for any text. An
expected exit code other than 0 is the last line of the output: `[exit 4]`. Behind a line
`<!-- a new repository -->` a new part begins.
"""

import os
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ANYTHING = "…"
_NEW_PART = "<!-- a new repository -->\n"
# A page of fifty commands takes 20 s; on a machine with four times the work it can do, 80.
_HANGS_S = 560
_FENCE = re.compile(r"^( *)(```+)console *$")
_EXIT = re.compile(r"\[exit ([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a page, its line number, and its expected output."""

    line: int
    command: str
    output: tuple[str, ...]
    code: int


def parts(text: str) -> Iterator[str]:
    """Yield the parts of a page, each below as many empty lines as there are lines before it."""
    before = 0
    for part in text.split(_NEW_PART):
        yield "\n" * before + part
        before += part.count("\n") + 1


def count_fences(text: str) -> int:
    """Return how many blocks of a page are marked as runnable."""
    return sum(_FENCE.match(line) is not None for line in text.splitlines())


def parse(text: str) -> list[list[Step]]:
    """Return the runnable blocks of a page, each as its steps."""
    blocks: list[list[Step]] = []
    lines = list(enumerate(text.splitlines(), start=1))
    while lines:
        _, line = lines.pop(0)
        fence = _FENCE.match(line)
        if fence is None:
            continue
        body: list[tuple[int, str]] = []
        while lines and lines[0][1].strip() != fence[2]:
            number, inner = lines.pop(0)
            body.append((number, inner.removeprefix(fence[1])))
        blocks.append(_steps(body))
    return blocks


def _steps(body: Sequence[tuple[int, str]]) -> list[Step]:
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in body:
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif not found:
            raise ValueError(f"line {number}: output before the first command")
        elif line.startswith("> ") and not found[-1][2]:
            found[-1][1].append(line[2:])
        else:
            found[-1][2].append(line.rstrip())
    return [_step(*parts) for parts in found]


def _step(line: int, command: list[str], output: list[str]) -> Step:
    code = 0
    if output and (match := _EXIT.fullmatch(output[-1])):
        code = int(match[1])
        output = output[:-1]
    return Step(line, "\n".join(command), tuple(output), code)


def matches(expected: Sequence[str], actual: Sequence[str]) -> bool:
    """Return whether output is what a page shows; `…` matches anything."""
    if not expected:
        return not actual
    if expected[0] == ANYTHING:
        return any(
            matches(expected[1:], actual[skip:]) for skip in range(len(actual) + 1)
        )
    if not actual:
        return False
    pattern = ".*".join(map(re.escape, expected[0].split(ANYTHING)))
    fits = re.fullmatch(pattern, actual[0]) is not None
    return fits and matches(expected[1:], actual[1:])


def run(
    steps: Sequence[Step],
    cwd: Path,
    env: Mapping[str, str],
    *,
    inherit: bool = True,
    shell: Sequence[str] = ("bash", "-c"),
) -> list[str]:
    """Run the steps of a page in one shell; return a description of each difference.

    Args:
        steps: In their order.
        cwd: Where the shell begins.
        env: Variables of the shell; with `inherit` in addition to those of the test.
        inherit: Whether the test's own variables count.
        shell: What runs a script that is its last word, in `cwd`.
    """
    mark = uuid.uuid4().hex
    script = "".join(
        f"{{ {step.command}\n}} </dev/null 2>&1\nprintf '\\n%s %d\\n' {mark} $?\n"
        for step in steps
    )
    done = subprocess.run(
        [*shell, script],
        cwd=cwd,
        env={**(os.environ if inherit else {}), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_HANGS_S,
        check=False,
    )
    text = done.stdout.decode(errors="backslashreplace")
    parts = re.split(rf"\n{mark} ([0-9]+)\n", text)
    outputs, codes = parts[0:-1:2], parts[1::2]
    if len(codes) != len(steps):
        error = done.stderr.decode(errors="backslashreplace")
        return [f"the shell ended after {len(codes)} of {len(steps)} commands: {error}"]
    differences = []
    for step, output, code in zip(steps, outputs, codes, strict=True):
        lines = [line.rstrip() for line in output.splitlines()]
        if int(code) != step.code or not matches(step.output, lines):
            shown = "\n".join((f"$ {step.command}", *lines, f"[exit {code}]"))
            differences.append(f"line {step.line}:\n{shown}")
    return differences
