"""Which file of which agent takes our entries, their form there, and which files are wholly ours.

The facts are those of docs/agents.md: each agent's own hook page as read in autumn 2026. The
events are the ones that open and close sessions, turns and calls.
Invariant: an agent that is listed has a place for at least one scope; every handler is
synchronous and, if the unit is known, has a timeout.
"""

from collections.abc import Mapping

from gitshadow.hookfiles.placement import (
    Agent,
    EntryShape,
    EventRegistration,
    Extra,
    FileLocation,
    InstallScope,
    Owned,
    PackagedPiece,
    Placement,
    Root,
    Shared,
)


# The matcher is the one for all tools. Their names change with the versions of an agent, so our
# adapters decide which of them count.
def _events(
    names: str,
    *,
    tools: str = "",
    matcher: str | None = "*",
    timeout: int | None = 5,
    **timeouts: int,
) -> tuple[EventRegistration, ...]:
    """Return the events of some names, and those of tools with the matcher.

    `timeouts` are those of single events, by their names.
    """
    matchers = dict.fromkeys(names.split()) | dict.fromkeys(tools.split(), matcher)
    return tuple(
        EventRegistration(name, found, timeouts.get(name, timeout))
        for name, found in matchers.items()
    )


def _flat(
    names: str, timeout: int | None, matcher: str | None = None
) -> tuple[EventRegistration, ...]:
    return tuple(
        EventRegistration(name=name, matcher=matcher, timeout=timeout, flat=True)
        for name in names.split()
    )


CLAUDE = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit SubagentStart SubagentStop Notification Stop"
        " SessionEnd",
        tools="PreToolUse PostToolUse PostToolUseFailure",
        PostToolUse=10,
        PostToolUseFailure=10,
        SessionEnd=3,
    ),
    line="statusLine",
)
# Codex ends what its SessionEnd runs after 3 s at most.
CODEX = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit SubagentStart SubagentStop Stop SessionEnd",
        tools="PreToolUse PostToolUse",
        PostToolUse=10,
        SessionEnd=3,
    ),
)
CURSOR = EntryShape(
    events=_flat(
        "sessionStart beforeSubmitPrompt preToolUse postToolUse postToolUseFailure"
        " afterFileEdit afterTabFileEdit subagentStart subagentStop stop sessionEnd",
        timeout=5,
    ),
    typed=False,
    top={"version": 1},
)
GEMINI = EntryShape(
    events=_events(
        "SessionStart BeforeAgent AfterAgent SessionEnd",
        tools="BeforeTool AfterTool",
        timeout=5000,
        SessionEnd=3000,
    ),
    named=True,
    milliseconds=True,
)
QWEN = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit SubagentStart SubagentStop Stop SessionEnd",
        tools="PreToolUse PostToolUse PostToolUseFailure",
        timeout=5000,
    ),
    milliseconds=True,
)
WINDSURF = EntryShape(
    events=_flat(
        "pre_user_prompt pre_write_code post_write_code pre_run_command post_run_command"
        " pre_mcp_tool_use post_mcp_tool_use post_cascade_response post_setup_worktree",
        timeout=None,
    ),
    typed=False,
    extra={"show_output": False},
)
# The matcher is a regular expression there, and its later groups may get no input.
DEVIN = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit Stop SessionEnd",
        tools="PreToolUse PostToolUse",
        matcher="",
        timeout=None,
    ),
    base=(),
    join=True,
)
# In hooks.json the events are at the top level, as Droid 0.215 wants them: it ignores others.
DROID = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit SubagentStop Stop SessionEnd",
        tools="PreToolUse PostToolUse",
    ),
    base=(),
)
DROID_SETTINGS = DROID._replace(base=("hooks",))
CRUSH = EntryShape(events=_flat("PreToolUse", timeout=5, matcher=".*"), typed=False)
ANTIGRAVITY = EntryShape(
    events=(
        *_events("", tools="PreToolUse PostToolUse", timeout=None),
        *_flat("PreInvocation Stop", timeout=None),
    ),
    base=("gitshadow",),
)
OPENHANDS = EntryShape(
    events=_events(
        "session_start user_prompt_submit stop session_end",
        tools="pre_tool_use post_tool_use",
    ),
    base=(),
    keep_base=True,
)
# One key too many, or an event that it does not know, makes Kimi Code refuse its whole file.
KIMI = EntryShape(
    events=_flat(
        "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure"
        " Stop StopFailure Interrupt SessionEnd",
        timeout=10,
    ),
    event_key="event",
    typed=False,
)
VIBE = EntryShape(
    events=_flat("pre_tool post_tool post_agent", timeout=10),
    event_key="type",
    typed=False,
    named=True,
)


def _home(path: str) -> FileLocation:
    return FileLocation(Root.HOME, path)


def _tree(path: str) -> FileLocation:
    return FileLocation(Root.WORKTREE, path)


def _both(path: str) -> tuple[FileLocation, FileLocation]:
    """Return the same path of the user's home and of a project."""
    return _home(path), _tree(path)


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
    files = {name: f"{source}/{name}" for name in names}
    return _below(user, project, files, executable=executable)


def _below(
    user: FileLocation,
    project: FileLocation,
    sources: Mapping[str, str],
    *,
    executable: bool = False,
) -> Mapping[InstallScope, Owned]:
    """Place files, by their paths below a directory per scope."""
    return {
        scope: Owned(
            tuple(
                PackagedPiece(
                    source, FileLocation(top.root, f"{top.path}/{name}"), executable
                )
                for name, source in sources.items()
            )
        )
        for scope, top in ((InstallScope.USER, user), (InstallScope.PROJECT, project))
    }


_COMMANDS = ("oops", "who")
_PLUGIN = "claude-code/plugin"


def _commands(
    user: FileLocation, project: FileLocation, source: str = f"{_PLUGIN}/commands/*.md"
) -> Mapping[Extra, Mapping[InstallScope, Owned]]:
    """Place one file per command into a directory that an agent reads commands from."""
    suffix = source.rpartition(".")[2]
    files = {f"{name}.{suffix}": source.replace("*", name) for name in _COMMANDS}
    return {Extra.COMMANDS: _below(user, project, files)}


def _skills(
    user: FileLocation, project: FileLocation
) -> Mapping[Extra, Mapping[InstallScope, Owned]]:
    """Place the skill below a directory of skills."""
    sources = {"agent-undo/SKILL.md": f"{_PLUGIN}/skills/agent-undo/SKILL.md"}
    return {Extra.SKILL: _below(user, project, sources)}


# Codex has no commands of a user's own any more; a skill that only a person starts, by `$oops`, is
# one ("Agent Skills" of its documentation, and 0.169).
_CODEX_COMMANDS = {
    path: source
    for name in _COMMANDS
    for path, source in (
        (f"{name}/SKILL.md", f"{_PLUGIN}/commands/{name}.md"),
        (f"{name}/agents/openai.yaml", "codex/openai.yaml"),
    )
}
_CODEX_EXTRAS: Mapping[Extra, Mapping[InstallScope, Owned]] = {
    Extra.COMMANDS: _below(*_both(".agents/skills"), _CODEX_COMMANDS),
    **_skills(*_both(".agents/skills")),
}

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
        # Its changelog: prompts are reported since then.
        oldest="1.0.54",
        extras={
            **_commands(
                FileLocation(Root.CLAUDE, "commands"), _tree(".claude/commands")
            ),
            **_skills(FileLocation(Root.CLAUDE, "skills"), _tree(".claude/skills")),
        },
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
        extras=_CODEX_EXTRAS,
    ),
    Agent(
        name="cursor",
        placements=_shared(CURSOR, *_both(".cursor/hooks.json")),
        signs=(_home(".cursor"),),
        programs=("cursor", "cursor-agent"),
        extras=_commands(*_both(".cursor/commands")),
    ),
    Agent(
        name="gemini",
        placements=_shared(GEMINI, *_both(".gemini/settings.json")),
        signs=(_home(".gemini/settings.json"),),
        programs=("gemini",),
        # "Tailor Gemini CLI to your workflow with hooks", 2026-01-28: on by default since then.
        oldest="0.26.0",
        project_notes=("Gemini runs a project's hooks only in trusted folders",),
        extras=_commands(
            *_both(".gemini/commands"),
            "gemini/commands/*.toml",
        ),
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
        extras=_commands(*_both(".factory/commands")),
    ),
    Agent(
        name="goose",
        placements=_owned(
            "goose",
            *_both(".agents/plugins/gitshadow"),
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
        placements=_shared(QWEN, *_both(".qwen/settings.json")),
        signs=(_home(".qwen"),),
        programs=("qwen",),
        project_notes=("Qwen Code runs a project's hooks only in trusted folders",),
    ),
    Agent(
        name="kiro",
        placements=_owned("kiro", *_both(".kiro/hooks"), "gitshadow.json"),
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
        extras=_commands(_config("opencode/commands"), _tree(".opencode/commands")),
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
        extras=_commands(_home(".pi/agent/prompts"), _tree(".pi/prompts")),
    ),
    Agent(
        name="grok",
        placements=_owned("grok", *_both(".grok/hooks"), "gitshadow.json"),
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
        placements=_shared(OPENHANDS, *_both(".openhands/hooks.json")),
        signs=(_home(".openhands"),),
        programs=("openhands",),
    ),
    Agent(
        name="kimi",
        placements={
            InstallScope.USER: Shared((FileLocation(Root.KIMI, "config.toml"),), KIMI)
        },
        signs=(FileLocation(Root.KIMI, ""),),
        programs=("kimi",),
    ),
    Agent(
        name="vibe",
        placements=_shared(
            VIBE, FileLocation(Root.VIBE, "hooks.toml"), _tree(".vibe/hooks.toml")
        ),
        signs=(FileLocation(Root.VIBE, ""),),
        programs=("vibe",),
        notes=(_RESTART,),
        project_notes=("Vibe runs a project's hooks only in trusted folders",),
    ),
)
AGENTS: Mapping[str, Agent] = {agent.name: agent for agent in _ALL}
"""Every agent whose hooks can be installed, in the order in which they are listed."""

SERVED_BY: Mapping[str, str] = {"vscode-copilot": "copilot"}
"""Agents that read another one's file."""
