"""Files of a program that was killed in a call: all of them are named by the report of its turn."""

import os
import signal
import traceback
from pathlib import Path

import pytest

from gitshadow.sdk.turns.session import AgentUndo
from tests.sdk.turns.recorded import Recorded, with_files
from tests.sdk.turns.world import World, registry
from tests.support.repo import Repo


@pytest.mark.parametrize("left", [b"x\n", b""])
@pytest.mark.parametrize("tool", ["file.write", "shell.run"])
def test_a_file_that_was_written_right_before_a_kill_is_named(
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    left: bytes,
) -> None:
    """Without a daemon nobody knows when the program died, so the file is uncertain.

    What was emptied to be written has the time of the last sign of life.
    """
    monkeypatch.setenv("GITSHADOW_DAEMON", "off")
    recorded = Recorded.make(repo, tmp_path / "world")
    root = str(repo.root)

    def opened() -> AgentUndo:
        tools = registry(World(tmp_path / "world"))
        with_files(tools, repo.root, coroutines=False)
        return AgentUndo.open(root, session="s", tools=tools)

    pid = os.fork()
    if pid == 0:
        write = Path.write_text

        def last(path: Path, *args: str, **named: str) -> int:
            if left:
                write(path, *args, **named)
            else:
                path.open("w")
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        try:
            with opened().turn("go") as turn:
                turn.call(tool, {"path": f"{root}/first", "text": "x\n"})
                Path.write_text = last  # type: ignore[assignment,method-assign]
                turn.call(tool, {"path": f"{root}/second", "text": "x\n"})
        finally:
            traceback.print_exc()
            os._exit(1)
    os.waitpid(pid, 0)
    assert repo.read("second") == left
    repo.write("third", "a person's\n")
    au = opened()
    report = au.undo("t-1")
    told = {item.path: item.reason for item in report.items if item.path}
    assert told["first"] is None
    assert told["second"] == "ambiguous"
    assert ("third" in told) is (tool == "shell.run")
    assert repo.read("second") == left
    au.close()
    recorded.front.close()
