"""Shell calls of scripted agents: each works until a person has saved what there is to save."""

import json
import os
import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from bench.agents import Agent, start, tell, truth_of, truth_until
from bench.places import Place
from bench.scoring import Wrote

_BEGUN_S = 0.1
_PYTHON = shlex.quote(os.path.realpath(sys.executable))
# `$STOP` ends a call, `$OUT` is where it may write.
_COMMANDS: Mapping[str, str] = {
    "sleep": "until [ -e $STOP ]; do sleep 0.05; done",
    "print": """\
until [ -e $STOP ]; do
    echo "checked module $((number += 1)) of the project"
    sleep 0.02
done""",
    "test": f"""\
mkdir -p $OUT
until [ -e $STOP ]; do
    cat > $OUT/test_it.py <<END
import unittest
class Test(unittest.TestCase):
    def test_it(self):
        self.assertTrue("$RANDOM-$RANDOM")
END
    {_PYTHON} -m unittest discover -q -s $OUT -t $OUT
done""",
    "build": """\
mkdir -p $OUT
until [ -e $STOP ]; do
    make -s -r -B -f project/Makefile OUT=$OUT STAMP=$RANDOM-$RANDOM
done""",
    "write": """\
mkdir -p $OUT
until [ -e $STOP ]; do
    if [ $((number += 1)) -le 3 ]; then
        echo "$RANDOM-$RANDOM" > $OUT/short-$number
        for line in $(seq 60); do
            echo "$RANDOM-$RANDOM is the text of line $line"
        done > $OUT/long-$number
    fi
    sleep 0.1
done""",
}
WORK = tuple(
    one for one in _COMMANDS if one != "build" or shutil.which("cc") is not None
)
"""What a shell does, the quietest first; a build needs a compiler."""

QUIET = ("sleep", "print")
"""Work that writes no file."""

_MAKEFILE = """\
OBJECTS = $(OUT)/main.o $(OUT)/table.o $(OUT)/words.o
$(OUT)/app: $(OBJECTS)
\tcc -o $@ $(OBJECTS)
$(OUT)/%.o: project/%.c
\tcc -DSTAMP='"$(STAMP)"' -c -o $@ $<
"""
_SOURCES: Mapping[str, str] = {
    "main.c": "int table(int); int words(void);\n"
    "int main(void) { return table(words()); }\n",
    "table.c": "const char *built = STAMP;\nint table(int n) { return n; }\n",
    "words.c": "const char *named = STAMP;\nint words(void) { return 0; }\n",
}


def prepare(place: Place) -> None:
    """Write the project that calls build."""
    top = place.root / "project"
    top.mkdir()
    for name, text in {"Makefile": _MAKEFILE, **_SOURCES}.items():
        (top / name).write_text(text, encoding="ascii")
    place.shadow("flush")


@contextmanager
def team(place: Place, number: int) -> Iterator[Sequence[Agent]]:
    """Start so many agents, each in a turn of its own, which ends with this context."""
    with ExitStack() as stack:
        agents = [stack.enter_context(start(place, "asked")) for _ in range(number)]
        for agent in agents:
            stack.callback(agent.kill)
        yield agents
        for agent in agents:
            truth_of(agent)


@contextmanager
def calls(
    place: Place, agents: Sequence[Agent], works: Sequence[str]
) -> Iterator[list[Wrote]]:
    """Keep a shell call of each agent open; yield what will have been written at its end."""
    stop = place.root.parent / f"stop-{uuid.uuid4().hex}"
    for agent, work in zip(agents, works, strict=True):
        out = f"made/{work}-{uuid.uuid4().hex}"
        words = f"STOP={shlex.quote(str(stop))} OUT={out}\n{_COMMANDS[work]}"
        tell(agent, json.dumps({"command": words, "out": out}))
    for agent in agents:
        truth_until(agent, "open")
    time.sleep(_BEGUN_S)
    wrote: list[Wrote] = []
    yield wrote
    stop.touch()
    for agent in agents:
        wrote += truth_until(agent, "closed")
