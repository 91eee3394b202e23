"""Checkpoints of LangGraph on the disk; `turns.py` runs this in an environment of its own.

Nothing of ours is imported here.
"""

# mypy: ignore-errors

import json
import sys
import time
from importlib.metadata import version

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver


def main(path: str, number: int) -> None:
    """Write checkpoints of one thread; print the seconds that each took."""
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    seconds = []
    with SqliteSaver.from_conn_string(path) as saver:
        for _ in range(number):
            began = time.perf_counter()
            config = saver.put(config, empty_checkpoint(), {"source": "loop"}, {})
            seconds.append(time.perf_counter() - began)
        assert len(list(saver.list({"configurable": {"thread_id": "t"}}))) == number
    found = version("langgraph-checkpoint-sqlite")
    sys.stdout.write(json.dumps({"version": found, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
