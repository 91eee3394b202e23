"""Which file of which agent takes our entries, or is wholly ours.

The facts are those of docs/agents.md: each agent's own hook page as read in autumn 2026.
Invariant: an agent that is listed has a place for at least one scope.
"""

from collections.abc import Mapping

from gitshadow.hookfiles.placement import (
    Agent,
    EntryShape,
    FileLocation,
    InstallScope,
    Owned,
    PackagedPiece,
    Placement,
    Root,
    Shared,
)
from gitshadow.hookfiles.shapes import (
    ANTIGRAVITY,
    CLAUDE,
    CODEX,
    CRUSH,
    CURSOR,
    DEVIN,
    DROID,
    DROID_SETTINGS,
    GEMINI,
    OPENHANDS,
    QWEN,
    WINDSURF,
)


def _home(path: str) -> FileLocation:
    return FileLocation(Root.HOME, path)


def _tree(path: str) -> FileLocation:
    return FileLocation(Root.WORKTREE, path)


def _config(path: str) -> FileLocation:
    return FileLocation(Root.CONFIG, path)


def _shared(
    shape: EntryShape, user: FileLocation | None, project: FileLocation
) -> Mapping[InstallScope, Placement]:
    found: dict[InstallScope, Placement] = {
        InstallScope.PROJECT: Shared((project,), shape)
    }
    if user is not None:
        found[InstallScope.USER] = Shared((user,), shape)
    return found


def _owned(
    source: str,
    user: FileLocation,
    project: FileLocation,
    *names: str,
    executable: bool = False,
) -> Mapping[InstallScope, Placement]:
    """Place packaged files below a directory per scope."""

    def pieces(top: FileLocation) -> Owned:
        return Owned(
            tuple(
                PackagedPiece(
                    f"{source}/{name}",
                    FileLocation(top.root, f"{top.path}/{name}"),
                    executable,
                )
                for name in names
            )
        )

    return {InstallScope.USER: pieces(user), InstallScope.PROJECT: pieces(project)}


_RESTART = "restart it: its hooks are read when it starts"
_CLINE_EVENTS = (
    "TaskStart",
    "TaskResume",
    "TaskCancel",
    "TaskComplete",
    "TaskError",
    "SessionShutdown",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
)
_PI = "pi/gitshadow.ts"

_ALL = (
    Agent(
        name="claude-code",
        placements=_shared(
            CLAUDE,
            FileLocation(Root.CLAUDE, "settings.json"),
            _tree(".claude/settings.json"),
        ),
        signs=(FileLocation(Root.CLAUDE, ""),),
        programs=("claude",),
    ),
    Agent(
        name="codex",
        placements={
            InstallScope.USER: Shared(
                (FileLocation(Root.CODEX, "hooks.json"),),
                CODEX,
                toml=FileLocation(Root.CODEX, "config.toml"),
            ),
            InstallScope.PROJECT: Shared(
                (_tree(".codex/hooks.json"),), CODEX, toml=_tree(".codex/config.toml")
            ),
        },
        signs=(FileLocation(Root.CODEX, ""),),
        programs=("codex",),
        notes=("approve the hooks in Codex with /hooks; it skips them until then",),
    ),
    Agent(
        name="cursor",
        placements=_shared(
            CURSOR, _home(".cursor/hooks.json"), _tree(".cursor/hooks.json")
        ),
        signs=(_home(".cursor"),),
        programs=("cursor", "cursor-agent"),
    ),
    Agent(
        name="gemini",
        placements=_shared(
            GEMINI, _home(".gemini/settings.json"), _tree(".gemini/settings.json")
        ),
        signs=(_home(".gemini/settings.json"),),
        programs=("gemini",),
        project_notes=("Gemini runs a project's hooks only in trusted folders",),
    ),
    Agent(
        name="copilot",
        placements=_owned(
            "copilot",
            FileLocation(Root.COPILOT, "hooks"),
            _tree(".github/hooks"),
            "gitshadow.json",
        ),
        signs=(FileLocation(Root.COPILOT, ""),),
        programs=("copilot",),
        notes=("Visual Studio Code's Copilot reads the same file",),
    ),
    Agent(
        name="windsurf",
        placements=_shared(
            WINDSURF,
            _home(".codeium/windsurf/hooks.json"),
            _tree(".windsurf/hooks.json"),
        ),
        signs=(_home(".codeium/windsurf"),),
        programs=("windsurf",),
    ),
    Agent(
        name="devin",
        placements=_shared(DEVIN, None, _tree(".devin/hooks.v1.json")),
        signs=(_home(".local/share/devin"),),
        programs=("devin",),
    ),
    Agent(
        name="droid",
        placements={
            scope: Shared(
                (FileLocation(root, ".factory/hooks.json"),),
                DROID,
                fallback=FileLocation(root, ".factory/settings.json"),
                fallback_shape=DROID_SETTINGS,
            )
            for scope, root in (
                (InstallScope.USER, Root.HOME),
                (InstallScope.PROJECT, Root.WORKTREE),
            )
        },
        signs=(_home(".factory"),),
        programs=("droid",),
        notes=(_RESTART,),
    ),
    Agent(
        name="goose",
        placements=_owned(
            "goose",
            _home(".agents/plugins/gitshadow"),
            _tree(".agents/plugins/gitshadow"),
            "plugin.json",
            "hooks/hooks.json",
        ),
        signs=(_config("goose"), _home(".local/share/goose")),
        programs=("goose",),
        notes=(_RESTART,),
    ),
    Agent(
        name="crush",
        placements={
            InstallScope.USER: Shared((_config("crush/crush.json"),), CRUSH),
            InstallScope.PROJECT: Shared(
                (_tree("crush.json"), _tree(".crush.json")), CRUSH
            ),
        },
        signs=(_config("crush"),),
        programs=("crush",),
    ),
    Agent(
        name="qwen",
        placements=_shared(
            QWEN, _home(".qwen/settings.json"), _tree(".qwen/settings.json")
        ),
        signs=(_home(".qwen"),),
        programs=("qwen",),
        project_notes=("Qwen Code runs a project's hooks only in trusted folders",),
    ),
    Agent(
        name="kiro",
        placements=_owned(
            "kiro", _home(".kiro/hooks"), _tree(".kiro/hooks"), "gitshadow.json"
        ),
        signs=(_home(".kiro"),),
        programs=("kiro", "kiro-cli"),
    ),
    Agent(
        name="cline",
        placements=_owned(
            "cline",
            _home("Documents/Cline/Hooks"),
            _tree(".clinerules/hooks"),
            *_CLINE_EVENTS,
            executable=True,
        ),
        signs=(_home("Documents/Cline"), _home(".cline")),
        programs=("cline",),
        notes=('the extension runs hooks only with its setting "Enable Hooks"',),
    ),
    Agent(
        name="opencode",
        placements=_owned(
            "opencode",
            _config("opencode/plugins"),
            _tree(".opencode/plugins"),
            "gitshadow.ts",
        ),
        signs=(_config("opencode"),),
        programs=("opencode",),
        notes=(_RESTART,),
    ),
    Agent(
        name="amp",
        placements=_owned(
            "amp", _config("amp/plugins"), _tree(".amp/plugins"), "gitshadow.ts"
        ),
        signs=(_config("amp"),),
        programs=("amp",),
        notes=(_RESTART,),
    ),
    Agent(
        name="pi",
        placements={
            InstallScope.USER: Owned(
                (PackagedPiece(_PI, _home(".pi/agent/extensions/gitshadow.ts")),)
            ),
            InstallScope.PROJECT: Owned(
                (PackagedPiece(_PI, _tree(".pi/extensions/gitshadow/index.ts")),)
            ),
        },
        signs=(_home(".pi/agent"),),
        programs=("pi",),
        notes=(_RESTART,),
        project_notes=(
            "Pi loads it only in trusted projects: /trust, or pi --approve",
        ),
    ),
    Agent(
        name="grok",
        placements=_owned(
            "grok", _home(".grok/hooks"), _tree(".grok/hooks"), "gitshadow.json"
        ),
        signs=(_home(".grok"),),
        programs=("grok",),
        project_notes=("Grok needs trust for a project's hooks: /hooks-trust",),
    ),
    Agent(
        name="antigravity",
        placements=_shared(ANTIGRAVITY, None, _tree(".agents/hooks.json")),
        signs=(_home(".gemini/antigravity-cli"),),
        programs=("agy",),
    ),
    Agent(
        name="openhands",
        placements=_shared(
            OPENHANDS, _home(".openhands/hooks.json"), _tree(".openhands/hooks.json")
        ),
        signs=(_home(".openhands"),),
        programs=("openhands",),
    ),
)
AGENTS: Mapping[str, Agent] = {agent.name: agent for agent in _ALL}
"""Every agent whose hooks can be installed, in the order in which they are listed."""

SERVED_BY: Mapping[str, str] = {"vscode-copilot": "copilot"}
"""Agents that read another one's file."""
