"""Fixtures for tests of agent programs; pytest loads this module wherever gitshadow is installed.

Invariant: the module itself imports only pytest, so that an unused fixture costs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gitshadow.sdk.testing.proof import Proof
    from gitshadow.sdk.turns.async_session import AsyncAgentUndo
    from gitshadow.sdk.turns.host import Host
    from gitshadow.sdk.turns.policy import Policy
    from gitshadow.sdk.turns.registry import ToolRegistry
    from gitshadow.sdk.turns.session import AgentUndo

_KITS = ("saga_kit", "store_kit", "provider_kit", "engine_kit")
pytest.register_assert_rewrite(*(f"gitshadow.sdk.testing.{kit}" for kit in _KITS))

# gitrepository-layout(5): what a directory needs for Git to take it for a repository.
_DIRECTORIES = ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info")
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
[user]
\tname = Test
\temail = test@example.com
[agent-undo]
\tdaemon = off
"""


@pytest.fixture
def undo_tools() -> ToolRegistry:
    """The tools of `undo_session`: override it with those of your program; none by default."""
    from gitshadow.sdk.turns.registry import ToolRegistry

    return ToolRegistry()


@pytest.fixture
def undo_policy() -> Policy | None:
    """The policy of `undo_session`: override it; the default policy by default."""
    return None


@pytest.fixture
def undo_host() -> Host | None:
    """What is plugged into `undo_session`: override it; nothing by default."""
    return None


@pytest.fixture
def undo_session(
    undo_tools: ToolRegistry, undo_policy: Policy | None, undo_host: Host | None
) -> Iterator[AgentUndo]:
    """A session in memory, named `test`, without any repository."""
    from gitshadow.sdk.testing.memory_store import MemoryStore
    from gitshadow.sdk.turns.session import AgentUndo

    with AgentUndo.with_store(
        MemoryStore(),
        session="test",
        tools=undo_tools,
        policy=undo_policy,
        host=undo_host,
    ) as opened:
        yield opened


@pytest.fixture
def async_undo_session(
    undo_tools: ToolRegistry, undo_policy: Policy | None, undo_host: Host | None
) -> Iterator[AsyncAgentUndo]:
    """As `undo_session`, for programs with an event loop."""
    from gitshadow.sdk.testing.memory_store import MemoryStore
    from gitshadow.sdk.turns.async_session import AsyncAgentUndo

    opened = AsyncAgentUndo.with_store(
        MemoryStore(),
        session="test",
        tools=undo_tools,
        policy=undo_policy,
        host=undo_host,
    )
    yield opened
    opened.close()


@pytest.fixture
def undo_repo(tmp_path: Path) -> Path:
    """The root of a new repository in which `git agent-undo init` was run, without a daemon.

    Its branch `main` has no commit yet; an identity for commits is set.
    """
    from gitshadow.errors import UnsupportedError
    from gitshadow.service import in_process
    from gitshadow.store.layout import discover

    # `git init` would copy the user's template.
    root = tmp_path / "undo_repo"
    git = root / ".git"
    for name in _DIRECTORIES:
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (git / "config").write_text(_CONFIG, encoding="utf-8")
    layout = discover(str(root))
    if layout is None:
        raise UnsupportedError(f"cannot make a repository in {root}")
    in_process.run(layout, "init", {"force": True})
    return Path(layout.root)


@pytest.fixture
def proves_rollback() -> Callable[..., Proof]:
    """`prove_rollback` that fails the test where the proof has a flaw."""
    from gitshadow.sdk.testing.rollback import prove_rollback

    def prove(*args: object, **options: object) -> Proof:
        proof = prove_rollback(*args, **options)  # type: ignore[arg-type]
        if not proof.ok:
            pytest.fail(str(proof), pytrace=False)
        return proof

    return prove
