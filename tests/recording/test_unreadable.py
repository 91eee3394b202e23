"""A change of mode needs no reading: also one that forbids it is recorded and undone."""

import os

import pytest

from gitshadow.model import RepoPath
from gitshadow.recording import pipeline
from gitshadow.store.journal import events
from tests.support.repo import Repo, ten_lines
from tests.support.studio import studio_of


def test_file_that_nobody_may_read_gets_its_mode_back(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As everybody but root sees it: what has no read bit cannot be opened."""
    real = os.open

    def opened(
        path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        handle = real(path, flags, mode, dir_fd=dir_fd)
        if (
            path == b"a"
            and not flags & os.O_PATH
            and not os.fstat(handle).st_mode & 0o400
        ):
            os.close(handle)
            raise PermissionError(13, "Permission denied", path)
        return handle

    monkeypatch.setattr(os, "open", opened)
    told = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "x"}}
    with studio_of(repo) as studio:
        studio.start("S1")
        studio.prompt("S1", "lock it")
        studio.hook("S1", "PreToolUse", **told)
        repo.chmod("a", 0o000)
        studio.hook("S1", "PostToolUse", **told, tool_response={"success": True})
        studio.stop("S1")
        report = studio.run("undo", verb="oops", yes=True)
        assert (report["status"], report["not_covered"]) == ("reversed", [])
        assert (repo.mode("a"), repo.read("a")) == (0o644, ten_lines("a").encode())


def test_files_with_ever_new_names_take_no_more_memory(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is one gap for as long as it looks the same, also after it was forgotten."""
    monkeypatch.setattr(pipeline, "_MOST_GAPS", 3)
    names = [RepoPath(b"n%d" % number) for number in range(9)]
    with studio_of(repo) as studio:
        context = studio.context
        for name in names:
            repo.write(name, "x\n")
            context.pipeline.gap("could not read it", name)
        assert len(context.pipeline._gaps) <= 3
        for name in names:
            context.pipeline.gap("could not read it", name)
        assert events.count_gaps(context.workspace.db) == 9
