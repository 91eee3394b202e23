"""`git agent-undo lsp`: a language server on the standard streams, for editors."""

import io
from contextlib import suppress
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import click

from gitshadow.commands.check import agent_here
from gitshadow.commands.client import recorded_layout
from gitshadow.commands.here import HereEngine
from gitshadow.errors import UnsupportedError


@click.command("lsp")
def command() -> None:
    """Run a language server: authors of lines, and undo, in any editor.

    Editors start it, one for all folders. It shows who wrote a line and for which prompt, and
    undoes lines, a turn in a file, or a whole turn.
    """
    if find_spec("pygls") is None:
        raise UnsupportedError(
            "cannot run a language server: the package pygls is not installed",
            hint="pip install 'gitshadow[lsp]', or: pipx inject gitshadow pygls",
        )
    # pygls is an optional dependency (the extra `lsp`).
    from gitshadow.lsp.server import make

    # The end of a command runs no finalizers, so the directory needs its block.
    with TemporaryDirectory(prefix="gitshadow-", ignore_cleanup_errors=True) as diffs:
        answers = _Answers(io.FileIO(1, "wb", closefd=False))
        make(_opened, agent_here(), diffs).start_io(stdout=answers)


class _Answers(io.BufferedWriter):
    """The standard output, in which each answer is whole although several threads write.

    What an editor no longer reads is dropped; the end of our input ends the server.
    """

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        with suppress(BrokenPipeError):
            super().write(data)
        return len(data)

    def flush(self) -> None:
        with suppress(BrokenPipeError):
            super().flush()

    def close(self) -> None:
        """Stay open: pygls closes it at `exit`, before the last threads have answered.

        It reports an answer that cannot be written in another message, and so on (2.1).
        """


def _opened(directory: str) -> tuple[str, HereEngine]:
    """Return the top of the worktree of a directory, and who answers about it.

    Raises:
        ShadowError: there is none, or nothing is recorded there.
    """
    layout = recorded_layout(directory)
    return layout.root, HereEngine(layout, lambda said: None)
