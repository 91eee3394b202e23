"""Which agent variables and program names tell of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.adapters.registry import KNOWN_AGENTS
from gitshadow.attribution.markers import (
    NATIVE_MARKERS,
    PID_MARKERS,
    VARIABLES,
    AgentMark,
    ProgramName,
    detect,
    program_of,
    read_variables,
    runs_hook_alone,
)

CLAUDE = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "c1"}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"CLAUDECODE": "1"}, AgentMark("claude-code")),
        (CLAUDE, AgentMark("claude-code", "c1")),
        ({"CLAUDE_CODE_CHILD_SESSION": "1"}, AgentMark("claude-code")),
        ({"CODEX_THREAD_ID": "t"}, AgentMark("codex", "t")),
        (
            {"CODEX_THREAD_ID": "t", "CODEX_SESSION_ID": "root"},
            AgentMark("codex", "root"),
        ),
        ({"CODEX_SANDBOX": "seatbelt"}, AgentMark("codex")),
        (
            {"CURSOR_AGENT": "1", "CURSOR_CONVERSATION_ID": "x"},
            AgentMark("cursor", "x"),
        ),
        ({"COPILOT_AGENT_SESSION_ID": "x"}, AgentMark("copilot", "x")),
        ({"AI_AGENT": "github_copilot_vscode_agent"}, AgentMark("vscode-copilot")),
        ({"OPENCODE": "1", "OPENCODE_PID": "7"}, AgentMark("opencode")),
        (
            {"OPENCODE": "1", "GITSHADOW_OPENCODE_SESSION": "ses_1"},
            AgentMark("opencode", "ses_1"),
        ),
        ({"GOOSE_TERMINAL": "1"}, AgentMark("goose")),
        ({"AGENT": "goose"}, AgentMark("goose")),
        ({"CRUSH": "1"}, AgentMark("crush")),
        ({"GEMINI_CLI": "1"}, AgentMark("gemini")),
        ({"CLINE_ACTIVE": "true"}, AgentMark("cline")),
        ({"OR_APP_NAME": "Aider"}, AgentMark("aider")),
        ({"VIBE_APP_SERVER_BIN": "/x/vibe-app-server"}, AgentMark("vibe")),
        ({"PI_SESSION_ID": "p"}, AgentMark("pi", "p")),
        ({"GROK_SESSION_ID": "g"}, AgentMark("grok", "g")),
        ({"OPENHANDS_SESSION_ID": "o"}, AgentMark("openhands", "o")),
    ],
)
def test_agent_is_named_by_its_variables(
    env: dict[str, str], expected: AgentMark | None
) -> None:
    assert detect(env) == expected


@pytest.mark.parametrize(
    ("env", "agent"),
    [
        ({"GITSHADOW_AGENT": "mine", "AI_AGENT": "codex", **CLAUDE}, "mine"),
        ({"GITSHADOW_SESSION": "s1", **CLAUDE}, "generic"),
        ({"AI_AGENT": "codex@1.2", "AGENT": "amp"}, "codex"),
        ({"AGENT": "amp", "CLAUDECODE": "1"}, "amp"),
        ({"AMP_CURRENT_THREAD_ID": "T-1", "CLAUDECODE": "1"}, "amp"),
        ({"QWEN_CODE": "1", "GEMINI_CLI": "1"}, "qwen"),
        ({"CODEX_CI": "1", "CURSOR_AGENT": "1"}, "codex"),
        ({"GEMINI_CLI": "1", **CLAUDE}, "gemini"),
        ({"OPENCODE": "1", "GOOSE_TERMINAL": "1"}, "opencode"),
        ({"CRUSH": "1", "GEMINI_CLI": "1"}, "crush"),
        ({"AGENT": "devin", **CLAUDE}, "devin"),
    ],
)
def test_order_decides_when_several_agents_are_named(
    env: dict[str, str], agent: str
) -> None:
    found = detect(env)
    assert found is not None
    assert found.agent == agent


@pytest.mark.parametrize(
    "env",
    [
        {"AI_AGENT": "my-claude-helper"},
        {"AGENT": "smith"},
        {"CURSOR_TRACE_ID": "x", "TERM_PROGRAM": "kiro"},
        {"CLAUDECODE": ""},
        {"QWEN_CODE": "0"},
    ],
)
def test_nobody_is_named_when_a_variable_is_unknown_or_a_persons_too(
    env: dict[str, str],
) -> None:
    assert detect(env) is None


def test_agent_is_opencode_when_agent_is_1() -> None:
    """It is opencode that sets `AGENT=1`; every other unknown value is nobody's."""
    assert detect({"AGENT": "1"}) == AgentMark("opencode")


def test_session_is_ours_when_it_was_declared() -> None:
    env = {"GITSHADOW_SESSION": "s1", "GITSHADOW_AGENT": "codex"}
    assert detect(env) == AgentMark("codex", session="s1")


def test_variables_are_read_from_the_bytes_of_an_environment() -> None:
    raw = b"PATH=/bin\0CODEX_THREAD_ID=a=\xff\0CODEX_THREAD_ID=b\0AGENT\0"
    assert read_variables(raw) == {"CODEX_THREAD_ID": "a=\ufffd"}


@given(st.dictionaries(st.sampled_from(sorted(VARIABLES)), st.binary(max_size=4)))
def test_any_environment_is_read(env: dict[bytes, bytes]) -> None:
    raw = b"\0".join(name + b"=" + value for name, value in env.items())
    found = detect(read_variables(raw))
    assert found is None or found.agent


def test_markers_name_known_agents() -> None:
    assert {*NATIVE_MARKERS.values(), *PID_MARKERS} <= set(KNOWN_AGENTS)


@pytest.mark.parametrize(
    ("executable", "arguments", "agent"),
    [
        ("/usr/bin/claude", ["claude", "-p", "x"], "claude-code"),
        ("/home/u/.local/share/claude/versions/2.1.0", ["claude"], "claude-code"),
        ("/usr/bin/node", ["node", "/usr/bin/codex", "resume"], "codex"),
        ("/usr/bin/node", ["/usr/bin/node", "--no-warnings", "/x/gemini"], "gemini"),
        ("/usr/bin/python3.11", ["python3", "/home/u/bin/aider"], "aider"),
        ("/usr/bin/python3.11", ["python3.11", "-m", "aider", "x"], "aider"),
        ("/opt/bun", ["bun", "/x/opencode"], "opencode"),
        ("/x/goosed", ["goosed", "agent"], "goose"),
        ("/usr/bin/node", ["kimi-code", "", ""], "kimi"),
        ("/x/vibe-rs", ["/x/vibe-rs", "-p", "x"], "vibe"),
        ("/usr/bin/python3.12", ["vibe-app-server", ""], "vibe"),
    ],
)
def test_program_is_an_agent_by_its_whole_name(
    executable: str, arguments: list[str], agent: str
) -> None:
    assert program_of(executable, arguments) == ProgramName(agent)


@pytest.mark.parametrize(
    ("executable", "arguments"),
    [
        ("/usr/bin/grep", ["grep", "claude"]),
        ("/usr/bin/node", ["node", "server.js", "claude"]),
        ("/usr/bin/node", ["node", "-e", "claude"]),
        ("/usr/bin/python3", ["python3", "pi.py"]),
        ("/usr/bin/python3", ["python3", "-c", "aider", "aider"]),
        ("/usr/bin/claude-sync", ["claude-sync"]),
        ("", []),
        ("", [""]),
        ("/usr/bin/sleep", ["sleep", "/x/claude"]),
    ],
)
def test_program_is_nobodys_when_the_name_is_a_part_or_an_argument(
    executable: str, arguments: list[str]
) -> None:
    assert program_of(executable, arguments) == ProgramName()


@pytest.mark.parametrize("name", ["agent", "code", "Cursor", "cursor", "vim", "zed"])
def test_program_is_unsure_when_people_type_in_it_or_share_its_name(name: str) -> None:
    assert program_of(f"/usr/bin/{name}", [name]) == ProgramName(unsure=True)


HOOK = "git-agent-undo hook codex"


@pytest.mark.parametrize(
    "text",
    [
        HOOK,
        f"{HOOK} --mine 'two words'",
        f'exec /opt/x/{HOOK} 2>> "$HOME/my log" >&2',
        f"{HOOK} &> /dev/null || :",
        f"{HOOK} < in > out 2>&1; code=$?; exit $code",
        f"{HOOK} || {{ echo 'no hook' >> log; exit 0; }}",
        f"{HOOK} || notify-send 'it failed'",
        f"{HOOK} | jq -c . | tee -a log",
        f"{HOOK} |\n  jq .",
        f"{HOOK} &",
        f"{HOOK} # that is ours; sleep 1",
        f"{HOOK} \\\n  --mine",
        f"FOO=1 time {HOOK}; date >> log",
        f'said=$({HOOK}); echo "$said"',
        f"[ -d x ] && {{ cd x; }}; if true; then {HOOK}; else cat; fi",
        f"sh -c '{HOOK}' || true",
        f"sh -c 'if ! test -x '\"'\"'/a b/c'\"'\"'; then exit; fi; {HOOK} --x 2>/y' || :",
        f"eval 'sh -c \"{HOOK}\" 2>/dev/null' < /dev/null && true",
        f"cat > in; {HOOK} < in; rm -f in",
        f"{HOOK}\ncat <<'end'\nsleep 1\nend\n",
        f'{HOOK} <<< "$given"',
    ],
)
def test_a_text_runs_the_hook_alone_whatever_people_add_to_it(text: str) -> None:
    assert runs_hook_alone(text.encode())
    assert not runs_hook_alone(text.replace("hook codex", "codex").encode())
    assert not runs_hook_alone(f"{text}\nmake".encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hook codex",
        "# git-agent-undo hook codex",
        "git-agent-undo hook",
        "git-agent-undo log --session hook",
        f"{HOOK}; sleep 1",
        f"{HOOK} && make",
        f"{HOOK} | jq .; make",
        f"tell() {{ {HOOK}; }}\ntell\nsleep 0",
        f"sh -c '{HOOK}; make'",
    ],
)
def test_a_text_does_more_than_the_hook(text: str) -> None:
    assert not runs_hook_alone(text.encode())


@given(st.binary(max_size=60))
def test_any_bytes_are_a_text(some: bytes) -> None:
    assert not runs_hook_alone(some)
    runs_hook_alone(b"x hook y" + some)
