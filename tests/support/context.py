"""A worktree opened in the test's own process: hooks and verbs without starting one."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gitshadow.api import run
from gitshadow.config import WatchBackend
from gitshadow.maintenance import setup
from gitshadow.maintenance.startup_repair import mend
from gitshadow.platform import current
from gitshadow.recording.context import RecorderContext, open_context
from gitshadow.service import hook_intake
from gitshadow.store.layout import discover
from tests.support.claude import Claude
from tests.support.repo import PathLike, Repo
from tests.support.shadow import Result, Shadow


@contextmanager
def desk_of(repo: Repo) -> Iterator[RecorderContext]:
    """Open a worktree as a command does; a new one is initialised first."""
    layout = discover(str(repo.root))
    assert layout is not None
    if not layout.initialised:
        setup.initialise(layout, os.environ, force=True)
    context = open_context(layout, os.environ, lock_timeout_s=1.0)
    hook_intake.listen(context)
    mend(context)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def watched(context: RecorderContext, backend: WatchBackend | None) -> Iterator[None]:
    """Have a watcher hint at changes, as in the daemon; None: each barrier walks."""
    if backend is None:
        yield
        return
    watcher = current().open_watcher(backend, context.workspace.layout, lambda: None)
    try:
        context.observer.start(watcher)
        yield
    finally:
        watcher.close()


class Near(Shadow):
    """Run hooks and undo in this process, in place of the installed command."""

    def __init__(self, repo: Repo, context: RecorderContext) -> None:
        super().__init__(repo, daemon=False)
        self.context = context

    def __call__(
        self,
        *args: PathLike,
        stdin: bytes = b"",
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Deliver one hook."""
        assert (args[0], cwd, env) == ("hook", None, None)
        body = f"agent: {os.fsdecode(args[1])}\n\n".encode() + stdin
        answer = hook_intake.take_body(self.context, body)
        return Result(("hook",), 0, answer, "")

    def agent(self, session: str = "s1") -> Claude:
        """Return an agent's session."""
        return Claude(self, session)

    def undo(self, verb: str, *targets: str, **params: object) -> dict[str, object]:
        """Run `oops`, `undo`, `redo` or `restore` with `--yes`; return the report."""
        rows = [{"text": target, "path_only": False} for target in targets]
        asked = {"verb": verb, "targets": rows, "yes": True, **params}
        return run(self.context, "undo", {"cwd": str(self.repo.root), **asked})
