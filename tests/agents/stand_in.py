#!/usr/bin/env python3
"""An agent's process as its hooks see it: it plays a recorded turn, and lives on meanwhile.

It is called by the agent's name and with the agent's arguments. Beside it is a plan per script,
of which its prompt names one; replay.py writes them. A plug-in runs in Node in its place.
Only the standard library: it is run as a program.
"""

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

_NAME = 15
"""PR_SET_NAME of prctl(2)."""


def main() -> None:
    """Play the script that the prompt names; without one there is nothing to do."""
    here = os.path.dirname(sys.argv[0])
    marked = re.search(r"\[\[(\w+) cwd=", " ".join(sys.argv))
    if marked is None:
        return
    path = os.path.join(here, f"{marked[1]}.json")
    with open(path, encoding="utf-8") as stream:
        plan = json.load(stream)
    if "node" in plan:
        os.dup2(os.open(path, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(plan["node"][0], plan["node"])
    ctypes.CDLL(None).prctl(_NAME, plan["host"].encode(), 0, 0, 0)
    ends: list[float] = []
    below: dict[int, _Child] = {}
    last = {step.get("process"): at for at, step in enumerate(plan["steps"])}
    for at, step in enumerate(plan["steps"]):
        number = step.get("process")
        if number is None:
            _play(step, ends, plan["records"])
        else:
            child = below.get(number) or below.setdefault(number, _Child())
            child.play(step, ends, plan["records"])
            if last[number] == at:
                child.end()
        ends.append(time.monotonic())


class _Child:
    """A process below this one that plays what a subagent with a process of its own did."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            here.close()
            stream = there.makefile("rw")
            for line in stream:
                _play(*json.loads(line))
                print(file=stream, flush=True)
            os._exit(0)
        there.close()
        self._stream = here.makefile("rw")
        here.close()

    def play(self, *given: object) -> None:
        print(json.dumps(given), file=self._stream, flush=True)
        assert self._stream.readline() == "\n"

    def end(self) -> None:
        self._stream.close()
        os.waitpid(self._pid, 0)


def _play(step: dict[str, object], ends: list[float], records: str) -> None:
    if "run" in step:
        _run(step, ends, records)
        return
    changes = step["changes"]
    assert isinstance(changes, list)
    for change in changes:
        _change(change)


def _change(change: dict[str, object]) -> None:
    for kind, given in change.items():
        if kind == "shell":
            subprocess.run(["/bin/sh", "-c", str(given)], check=True)
        else:
            assert isinstance(given, list)
            first, second = given
            if kind == "rename":
                os.rename(first, second)
            else:
                with open(first, "w", encoding="utf-8") as stream:
                    stream.write(second)


def _run(step: dict[str, object], ends: list[float], records: str) -> None:
    """Start a hook as the host does, and keep what it printed."""
    pid = str(os.getpid())
    given = step["environment"]
    words = step["run"]
    assert isinstance(given, dict)
    assert isinstance(words, list)
    variables = {name: value.replace("{pid}", pid) for name, value in given.items()}
    payload = json.loads(json.dumps(step["payload"]))
    since = step["since"]
    if isinstance(since, int):
        _set_duration(payload, int((time.monotonic() - ends[since]) * 1000))
    done = subprocess.run(
        words,
        input=json.dumps(payload),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    directory = tempfile.mkdtemp(prefix=f"{time.time_ns()}.", dir=records)
    texts = {
        "args": f"hook {step['event']}",
        "in": json.dumps(payload),
        "out": done.stdout,
        "err": done.stderr,
        "code": f"{done.returncode}\n",
    }
    for name, text in texts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as stream:
            stream.write(text)


def _set_duration(value: object, ran_ms: int) -> None:
    """Say how long a tool really ran here: a call's window reaches back as far."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if re.fullmatch(
                "(duration|executionTime)(_?ms)?", key, re.IGNORECASE
            ) and isinstance(inner, int):
                value[key] = ran_ms
            else:
                _set_duration(inner, ran_ms)


if __name__ == "__main__":
    main()
