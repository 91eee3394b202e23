"""The shell text of an entry: harmless without us, and known again in every form."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.hookfiles import invocation
from gitshadow.hookfiles.catalog import AGENTS
from tests.support.waiting import HANGS_S

_PATHS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12
)


@given(_PATHS, st.sampled_from(sorted(AGENTS)))
def test_program_and_agent_are_known_again(directory: str, agent: str) -> None:
    program = f"/{directory}/git-agent-undo"
    text = invocation.for_user(agent, program)
    assert invocation.agent_of(text) == agent
    assert invocation.program_of(text) == program


@pytest.mark.parametrize(
    "text",
    [
        "git-agent-undo hook codex",
        "/usr/bin/git-agent-undo hook codex",
        "'/a b/git-agent-undo' hook codex || true",
        "if ! command -v git-agent-undo >/dev/null 2>&1; then exit 0; fi; "
        "exec git-agent-undo hook codex",
        invocation.for_project("codex"),
        invocation.for_project("codex").removesuffix(" || true"),
    ],
)
def test_earlier_forms_are_ours(text: str) -> None:
    assert invocation.agent_of(text) == "codex"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "git-agent-undo",
        "git-agent-undo log",
        "my-git-agent-undo hook codex",
        "tee /tmp/x | git-agent-undo hook codex",
        "echo git-agent-undo hook codex",
        "git-agent-undo hook codex; say done",
        "sh -c 'unbalanced",
        "entire hooks codex stop",
    ],
)
def test_what_is_somebody_elses_stays_theirs(text: str) -> None:
    assert invocation.agent_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "timeout 5 git-agent-undo hook codex",
        "git-agent-undo hook codex --verbose",
        "tee /tmp/x | git-agent-undo hook codex",
        "git-agent-undo hook codex; say done",
        invocation.for_project("codex") + " 2>>/tmp/log",
        invocation.for_user("codex", "/a b/git-agent-undo") + "; say done",
    ],
)
def test_a_changed_form_is_known_by_its_agent(text: str) -> None:
    assert invocation.is_changed(text, "codex")
    assert not invocation.is_changed(text, "claude-code")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "git-agent-undo log",
        "git-agent-undo hook codex",
        invocation.for_project("codex"),
        "my-git-agent-undo hook codex",
        "echo git-agent-undo hook codex",
        "say 'git-agent-undo hook' codex",
        "# git-agent-undo hook codex",
        "sh -c 'unbalanced git-agent-undo hook codex",
        "entire hooks codex stop",
    ],
)
def test_what_calls_nothing_of_ours_is_no_changed_form(text: str) -> None:
    assert not invocation.is_changed(text, "codex")


@pytest.mark.parametrize("where", ["project", "user"])
def test_text_is_harmless_where_the_program_is_missing(where: str) -> None:
    text = (
        invocation.for_project("codex")
        if where == "project"
        else invocation.for_user("codex", "/no where/git-agent-undo")
    )
    done = subprocess.run(
        ["/bin/sh", "-c", text],
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        input=b"{}",
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_odd_path_is_run_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / 'it\'s $HOME "here" \\'
    directory.mkdir()
    program = directory / "git-agent-undo"
    program.write_text('#!/bin/sh\nprintf "%s" "$*"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", invocation.for_user("codex", str(program))],
        capture_output=True,
        timeout=HANGS_S,
        check=True,
    )
    assert done.stdout == b"hook codex"


@pytest.mark.parametrize("path", ["", "{0}", "{0}:/usr/bin:/bin"])
@pytest.mark.parametrize("where", ["project", "user"])
@pytest.mark.parametrize("script", ["#!/nowhere/python\n", "#!/bin/sh\nexit 2\n"])
def test_text_succeeds_where_the_program_is_broken(
    tmp_path: Path, script: str, where: str, path: str
) -> None:
    """2 blocks the tool in most agents, and any code but 0 in some."""
    program = tmp_path / "git-agent-undo"
    program.write_text(script)
    program.chmod(0o755)
    text = (
        invocation.for_project("claude-code")
        if where == "project"
        else invocation.for_user("claude-code", str(program))
    )
    done = subprocess.run(
        ["/bin/sh", "-c", text],
        env={**os.environ, "PATH": path.format(tmp_path)},
        input=b"{}",
        capture_output=True,
        timeout=HANGS_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
