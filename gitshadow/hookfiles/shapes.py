"""Which events of each agent are registered, and what an entry of ours looks like there.

The facts are those of docs/agents.md: each agent's own hook page as read in autumn 2026. The
events are the ones that open and close sessions, turns and calls, with the catch-all matcher:
names of tools change, so the filter is in our adapters.
Invariant: every handler is synchronous and, where the unit is known, has a timeout.
"""

from dataclasses import replace

from gitshadow.hookfiles.placement import EntryShape, EventRegistration


def _events(
    names: str, *, tools: str = "", matcher: str | None = "*", timeout: int | None = 5
) -> tuple[EventRegistration, ...]:
    plain = tuple(
        EventRegistration(name=name, timeout=timeout) for name in names.split()
    )
    matched = tuple(
        EventRegistration(name=name, matcher=matcher, timeout=timeout)
        for name in tools.split()
    )
    return plain + matched


def _timed(
    events: tuple[EventRegistration, ...], **timeouts: int
) -> tuple[EventRegistration, ...]:
    return tuple(
        EventRegistration(
            name=event.name,
            matcher=event.matcher,
            timeout=timeouts.get(event.name, event.timeout),
            flat=event.flat,
        )
        for event in events
    )


def _flat(
    names: str, timeout: int | None, matcher: str | None = None
) -> tuple[EventRegistration, ...]:
    return tuple(
        EventRegistration(name=name, matcher=matcher, timeout=timeout, flat=True)
        for name in names.split()
    )


CLAUDE = EntryShape(
    events=_timed(
        _events(
            "SessionStart UserPromptSubmit SubagentStart SubagentStop Notification Stop"
            " SessionEnd",
            tools="PreToolUse PostToolUse PostToolUseFailure",
        ),
        PostToolUse=10,
        PostToolUseFailure=10,
        SessionEnd=3,
    ),
    extra={},
    top={},
)
# Codex ends what its SessionEnd runs after 3 s at most.
CODEX = EntryShape(
    events=_timed(
        _events(
            "SessionStart UserPromptSubmit SubagentStart SubagentStop Stop SessionEnd",
            tools="PreToolUse PostToolUse",
        ),
        PostToolUse=10,
        SessionEnd=3,
    ),
    extra={},
    top={},
)
CURSOR = EntryShape(
    events=_flat(
        "sessionStart beforeSubmitPrompt preToolUse postToolUse postToolUseFailure"
        " afterFileEdit afterTabFileEdit subagentStart subagentStop stop sessionEnd",
        timeout=5,
    ),
    typed=False,
    extra={},
    top={"version": 1},
)
GEMINI = EntryShape(
    events=_timed(
        _events(
            "SessionStart BeforeAgent AfterAgent SessionEnd",
            tools="BeforeTool AfterTool",
            timeout=5000,
        ),
        SessionEnd=3000,
    ),
    named=True,
    extra={},
    top={},
    milliseconds=True,
)
QWEN = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit SubagentStart SubagentStop Stop SessionEnd",
        tools="PreToolUse PostToolUse PostToolUseFailure",
        timeout=5000,
    ),
    extra={},
    top={},
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
    top={},
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
    extra={},
    top={},
)
# In hooks.json the events are at the top level, as Droid 0.215 wants them: it ignores others.
DROID = EntryShape(
    events=_events(
        "SessionStart UserPromptSubmit SubagentStop Stop SessionEnd",
        tools="PreToolUse PostToolUse",
    ),
    base=(),
    former=(("hooks",),),
    extra={},
    top={},
)
DROID_SETTINGS = replace(DROID, base=("hooks",), former=())
CRUSH = EntryShape(
    events=_flat("PreToolUse", timeout=5, matcher=".*"), typed=False, extra={}, top={}
)
ANTIGRAVITY = EntryShape(
    events=(
        *_events("", tools="PreToolUse PostToolUse", timeout=None),
        *_flat("PreInvocation Stop", timeout=None),
    ),
    base=("gitshadow",),
    extra={},
    top={},
)
OPENHANDS = EntryShape(
    events=_events(
        "session_start user_prompt_submit stop session_end",
        tools="pre_tool_use post_tool_use",
    ),
    base=(),
    keep_base=True,
    extra={},
    top={},
)
