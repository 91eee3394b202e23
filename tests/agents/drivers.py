"""How each agent runs without a person, a key or a network: the one table of the real programs.

What an agent needs was found by running it; nothing here is secret or leaves this machine.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Files = Mapping[str, str]
Variables = Mapping[str, str]


@dataclass(frozen=True)
class Surroundings:
    """What a driver may use: the model's address, and the agent's home, repository, program."""

    url: str
    home: str
    repo: str
    program: str


@dataclass(frozen=True)
class Driver:
    """One agent: what it finds at home, in its environment, and how a turn is started.

    `turn` and `again` have the arguments before and after the prompt: a session's first turn, and
    one that continues it. None for `again` means that it cannot be continued without a person.
    `prepare` are arguments of runs before the first turn. `subagents` are more arguments of a turn
    that starts one, None without such a tool; `subagents_apart`: they have sessions of their own;
    `subagents_silent`: their calls are not reported, and are a part of the one that started them.
    `tools`: names of tools that hooks have other names for. `parallel`: it makes calls side by
    side. `told`: after an undo it tells the model, by a hook of ours. `turns`: its hooks report
    prompts; `quotes`: in quotation marks. `ends_hooks`: with a turn it ends the hooks that still
    run. `wrapped`: it has no hooks and runs inside `git agent-undo exec`. `by_text`: it has no
    tools, the model writes its changes as text.
    """

    name: str
    turn: tuple[Sequence[str], Sequence[str]]
    again: tuple[Sequence[str], Sequence[str]] | None
    variables: Callable[[Surroundings], Variables] = lambda _: {}
    files: Callable[[Surroundings], Files] = lambda _: {}
    prepare: Callable[[Surroundings], Sequence[Sequence[str]]] = lambda _: ()
    subagents: Sequence[str] | None = ()
    subagents_apart: bool = True
    subagents_silent: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)
    parallel: bool = True
    told: bool = False
    turns: bool = True
    quotes: bool = False
    ends_hooks: bool = False
    wrapped: bool = False
    by_text: bool = False
    project: Sequence[str] | None = ()
    """More arguments of a run with hooks in project scope; None where it cannot run them so."""
    project_files: Files = field(default_factory=dict)
    """What is in a repository with hooks in project scope before them."""
    leftovers: Sequence[str] = field(default=())
    """What it makes in a repository itself, as patterns for `.git/info/exclude`."""


def _claude(at: Surroundings) -> Variables:
    return {
        "ANTHROPIC_BASE_URL": at.url,
        "ANTHROPIC_API_KEY": "sk-dummy",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex_files(at: Surroundings) -> Files:
    text = f"""\
model = "gpt-5.5"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "{at.url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"

[projects."{at.repo}"]
trust_level = "trusted"
"""
    return {".codex/config.toml": text}


def _copilot(at: Surroundings) -> Variables:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{at.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_MODEL": "fake-model",
        "COPILOT_ALLOW_ALL": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }


def _gemini_files(_: Surroundings) -> Files:
    security = {
        "auth": {"selectedType": "gemini-api-key"},
        "folderTrust": {"enabled": False},
    }
    return {".gemini/settings.json": json.dumps({"security": security}, indent=2)}


def _qwen_files(_: Surroundings) -> Files:
    settings = {"security": {"auth": {"selectedType": "openai"}}, "$version": 4}
    return {".qwen/settings.json": json.dumps(settings, indent=2)}


def _grok_files(at: Surroundings) -> Files:
    text = f"""\
[models]
default = "fake"

[model.fake]
model = "fake-model"
base_url = "{at.url}/v1"
api_key = "dummy"
api_backend = "chat_completions"
"""
    return {".grok/config.toml": text}


def _droid_files(at: Surroundings) -> Files:
    model = {
        "model": "fake-model",
        "displayName": "fake",
        "baseUrl": f"{at.url}/v1",
        "apiKey": "dummy",
        "provider": "generic-chat-completion-api",
    }
    return {".factory/settings.json": json.dumps({"customModels": [model]}, indent=2)}


def _pi_files(at: Surroundings) -> Files:
    provider = {
        "baseUrl": f"{at.url}/v1",
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{"id": "fake-model"}],
    }
    return {".pi/agent/models.json": json.dumps({"providers": {"fake": provider}})}


def _opencode_files(at: Surroundings) -> Files:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"{at.url}/v1", "apiKey": "dummy"},
        "models": {"fake-model": {"name": "fake-model", "tool_call": True}},
    }
    allowed = dict.fromkeys(("edit", "bash", "webfetch", "external_directory"), "allow")
    settings = {
        "model": "fake/fake-model",
        "provider": {"fake": provider},
        "permission": allowed,
    }
    return {".config/opencode/opencode.json": json.dumps(settings)}


def _continue_files(at: Surroundings) -> Files:
    # JSON is YAML, too.
    model = {
        "name": "fake",
        "provider": "openai",
        "model": "fake-model",
        "apiBase": f"{at.url}/v1",
        "apiKey": "dummy",
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    config = {"name": "fake", "version": "1.0.0", "schema": "v1", "models": [model]}
    return {".continue/config.yaml": json.dumps(config)}


def _kimi_files(at: Surroundings) -> Files:
    text = f"""\
default_model = "fake"

[providers.fake]
type = "openai"
base_url = "{at.url}/v1"
api_key = "dummy"

[models.fake]
provider = "fake"
model = "fake-model"
max_context_size = 200000
capabilities = ["tool_use"]
"""
    return {".kimi-code/config.toml": text}


def _vibe_files(at: Surroundings) -> Files:
    text = f"""\
active_model = "fake"
enable_telemetry = false
enable_update_checks = false

[[providers]]
name = "fake"
api_base = "{at.url}/v1"
api_key_env_var = "FAKE_KEY"

[[models]]
name = "fake-model"
provider = "fake"
alias = "fake"
"""
    return {".vibe/config.toml": text}


_OPENAI_COMPATIBLE = ("-P", "openai-compatible", "-m", "fake-model")

DRIVERS: dict[str, Driver] = {
    driver.name: driver
    for driver in (
        Driver(
            "claude-code",
            (
                ("-p",),
                (
                    "--dangerously-skip-permissions",
                    "--output-format=stream-json",
                    "--verbose",
                ),
            ),
            (
                ("--continue", "-p"),
                (
                    "--dangerously-skip-permissions",
                    "--output-format=stream-json",
                    "--verbose",
                ),
            ),
            variables=_claude,
            told=True,
        ),
        Driver(
            "codex",
            (
                (
                    "exec",
                    "--dangerously-bypass-approvals-and-sandbox",
                    "--dangerously-bypass-hook-trust",
                    "--json",
                ),
                (),
            ),
            (
                (
                    "exec",
                    "resume",
                    "--last",
                    "--dangerously-bypass-approvals-and-sandbox",
                    "--dangerously-bypass-hook-trust",
                    "--json",
                ),
                (),
            ),
            variables=lambda at: {
                "CODEX_HOME": f"{at.home}/.codex",
                "FAKE_KEY": "dummy",
            },
            files=_codex_files,
            told=True,
            # A model that it knows has no tool for subagents.
            subagents=("-c", 'model="gpt-5-codex"'),
            tools={"exec_command": "Bash", "shell": "Bash", "shell_command": "Bash"},
        ),
        Driver(
            "gemini",
            (("--yolo", "-m", "gemini-2.5-pro", "-o", "json", "-p"), ()),
            (
                *(
                    (
                        "--resume",
                        "latest",
                        "--yolo",
                        "-m",
                        "gemini-2.5-pro",
                        "-o",
                        "json",
                        "-p",
                    ),
                    (),
                ),
            ),
            variables=lambda at: {
                "GEMINI_API_KEY": "dummy",
                "GOOGLE_GEMINI_BASE_URL": at.url,
            },
            files=_gemini_files,
            told=True,
            subagents_apart=False,
        ),
        Driver(
            "copilot",
            (("-p",), ("--allow-all-tools", "--allow-all-paths", "--no-color")),
            (
                ("-p",),
                ("--allow-all-tools", "--allow-all-paths", "--no-color", "--continue"),
            ),
            variables=_copilot,
        ),
        Driver(
            "grok",
            (
                ("-p",),
                ("--always-approve", "-m", "fake", "--output-format=streaming-json"),
            ),
            (
                ("-p",),
                (
                    "--always-approve",
                    "-m",
                    "fake",
                    "--output-format=streaming-json",
                    "--continue",
                ),
            ),
            variables=lambda _: {
                "XAI_API_KEY": "dummy",
                "GROK_DISABLE_AUTOUPDATER": "1",
            },
            files=_grok_files,
            project=("--trust",),
        ),
        Driver(
            "pi",
            (
                (
                    "--provider",
                    "fake",
                    "--model",
                    "fake-model",
                    "--mode",
                    "json",
                    "-p",
                ),
                (),
            ),
            (
                (
                    "--provider",
                    "fake",
                    "--model",
                    "fake-model",
                    "--mode",
                    "json",
                    "--continue",
                    "-p",
                ),
                (),
            ),
            variables=lambda _: {"PI_OFFLINE": "1"},
            files=_pi_files,
            subagents=None,
            project=("--approve",),
        ),
        Driver(
            "droid",
            (("exec", "-m", "custom:fake-0", "--skip-permissions-unsafe"), ()),
            None,
            variables=lambda _: {
                "FACTORY_API_KEY": "fk-dummy",
                "FACTORY_AIRGAP_ENABLED": "true",
            },
            files=_droid_files,
            # `droid exec` sends no prompt event.
            turns=False,
        ),
        Driver(
            "cline",
            (("--json", *_OPENAI_COMPATIBLE, "--auto-approve", "true"), ()),
            None,
            prepare=lambda at: (
                (
                    "auth",
                    "-p",
                    "openai-compatible",
                    "-k",
                    "dummy",
                    "-m",
                    "fake-model",
                    "-b",
                    f"{at.url}/v1",
                ),
            ),
            # The CLI sends no prompt event.
            turns=False,
        ),
        Driver(
            "opencode",
            (("run", "--model", "fake/fake-model", "--format", "json"), ()),
            (
                ("run", "--model", "fake/fake-model", "--format", "json", "--continue"),
                (),
            ),
            variables=lambda _: {
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
            },
            files=_opencode_files,
            quotes=True,
        ),
        Driver(
            "qwen",
            (("--yolo", "-p"), ()),
            (("--yolo", "--continue", "-p"), ()),
            variables=lambda at: {
                "OPENAI_API_KEY": "dummy",
                "OPENAI_BASE_URL": f"{at.url}/v1",
                "OPENAI_MODEL": "fake-model",
            },
            files=_qwen_files,
            told=True,
            # It adds the version to a file without one, which then is no longer as installed.
            project_files={".qwen/settings.json": '{\n  "$version": 4\n}\n'},
        ),
        Driver(
            "openhands",
            (
                (
                    "--headless",
                    "--json",
                    "--override-with-envs",
                    "--always-approve",
                    "-t",
                ),
                (),
            ),
            (
                (
                    "--headless",
                    "--json",
                    "--override-with-envs",
                    "--always-approve",
                    "--resume",
                    "--last",
                    "-t",
                ),
                (),
            ),
            variables=lambda at: {
                "LLM_BASE_URL": f"{at.url}/v1",
                "LLM_API_KEY": "dummy",
                "LLM_MODEL": "openai/fake-model",
            },
            subagents_apart=False,
            subagents_silent=True,
        ),
        Driver(
            "kimi",
            (("-p",), ("--output-format=stream-json",)),
            (("--continue", "-p"), ("--output-format=stream-json",)),
            variables=lambda _: {
                "KIMI_DISABLE_TELEMETRY": "1",
                "KIMI_CODE_NO_AUTO_UPDATE": "1",
                "KIMI_CODE_MODEL_CATALOG_REFRESH_ON_START": "0",
            },
            files=_kimi_files,
            told=True,
            # What they do is reported in the session that started them.
            subagents_apart=False,
            ends_hooks=True,
            # Its hooks are the user's alone.
            project=None,
        ),
        Driver(
            "vibe",
            (("--auto-approve", "--output=streaming", "-p"), ()),
            None,
            variables=lambda _: {"FAKE_KEY": "dummy"},
            files=_vibe_files,
            tools={"edit": "search_replace"},
            # It starts them in code that the model writes, by no tool of their own.
            subagents=None,
            turns=False,
            project=("--trust",),
        ),
        Driver(
            "continue",
            (("--auto", "-p"), ()),
            None,
            variables=lambda _: {"CONTINUE_CLI_ENABLE_TELEMETRY": "0"},
            files=_continue_files,
            subagents=None,
            wrapped=True,
            project=None,
        ),
        Driver(
            "aider",
            (
                (
                    "--model",
                    "openai/fake-model",
                    "--edit-format",
                    "diff",
                    "--yes-always",
                    "--no-auto-commits",
                    "--no-stream",
                    "--no-check-update",
                    "--message",
                ),
                ("src/app.py",),
            ),
            None,
            variables=lambda at: {
                "OPENAI_API_BASE": f"{at.url}/v1",
                "OPENAI_API_KEY": "dummy",
            },
            subagents=None,
            parallel=False,
            wrapped=True,
            by_text=True,
            project=None,
            leftovers=(".aider*",),
        ),
        Driver(
            "mini-swe-agent",
            (("--yolo", "--exit-immediately", "-m", "openai/fake-model", "-t"), ()),
            None,
            variables=lambda at: {
                "OPENAI_API_BASE": f"{at.url}/v1",
                "OPENAI_API_KEY": "dummy",
                "MSWEA_CONFIGURED": "true",
                "MSWEA_COST_TRACKING": "ignore_errors",
                # Its model library asks a server for prices otherwise.
                "LITELLM_LOCAL_MODEL_COST_MAP": "true",
            },
            subagents=None,
            wrapped=True,
            project=None,
        ),
        Driver(
            "gptme",
            (
                (
                    "--non-interactive",
                    "--model",
                    "local/fake-model",
                    "--tool-format",
                    "tool",
                ),
                (),
            ),
            None,
            variables=lambda at: {
                "OPENAI_BASE_URL": f"{at.url}/v1",
                "OPENAI_API_KEY": "dummy",
                # It loads a tokenizer from a server otherwise.
                "GPTME_TIKTOKEN_TIMEOUT": "0",
            },
            subagents=None,
            # It takes the first call of an answer and asks again.
            parallel=False,
            wrapped=True,
            project=None,
        ),
    )
}
