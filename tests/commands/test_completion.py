"""Completion: what is offered for a word that is being typed, and by which shell."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from gitshadow.cli import group
from gitshadow.commands import completion, names
from gitshadow.store.paths import c_quoted
from tests.support.repo import Repo
from tests.support.shadow import Shadow
from tests.support.shells import Shell, shell
from tests.support.tools import need

SCRIPTS = Path(completion.__file__).parent / "scripts"
# What is typed there is new, or nobody's to list.
FREE = {
    ("program artifacts", "name"),
    ("exec", "argv"),
    ("git-hook", "args"),
    ("git-hook", "event"),
    ("hook", "rest"),
    ("mcp proxy", "argv"),
    ("ui", "words"),
}


def _parameters() -> Iterator[tuple[str, click.Parameter]]:
    def below(
        command: click.Command, path: str
    ) -> Iterator[tuple[str, click.Parameter]]:
        for parameter in command.params:
            yield path, parameter
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                if not inner.hidden:
                    yield from below(inner, f"{path} {name}")

    for verb in names():
        command = group.get_command(click.Context(group), verb)
        assert command is not None
        yield from below(command, verb)


@pytest.fixture
def recorded(
    repo: Repo, make_shadow: Callable[..., Shadow], monkeypatch: pytest.MonkeyPatch
) -> Shadow:
    """Return a repository with an agent's session, a pin and an undone burst, and be in it."""
    repo.write("two words", "x\n")
    repo.write("src/deep/x.py", "x\n")
    repo.commit("more")
    shadow = make_shadow(repo, daemon=False)
    shadow.init()
    script = "echo y >>'two words'; echo n >src/new.py; rm src/deep/x.py"
    shadow.ok("exec", "--agent", "helper", "--", "sh", "-c", script)
    shadow.ok("pin", "good")
    monkeypatch.chdir(repo.root)
    return shadow


def offered(*typed: str, quoted: bool = False) -> list[str]:
    return [word.value for word in completion.offer(group, typed, quoted=quoted)]


def session_of(shadow: Shadow) -> str:
    (one,) = [
        str(row["id"]) for row in shadow.ok("sessions", "--json").rows() if row["agent"]
    ]
    return one


def test_every_argument_is_offered_for_or_free() -> None:
    arguments = {
        (verb, parameter.name)
        for verb, parameter in _parameters()
        if isinstance(parameter, click.Argument)
        and not isinstance(parameter.type, click.Choice)
    }
    assert arguments == completion.ARGUMENTS.keys() | FREE


def test_every_option_of_the_table_is_one() -> None:
    options = {name for _, one in _parameters() for name in one.opts}
    assert completion.OPTIONS.keys() <= options


def test_verbs_are_offered_without_loading_one() -> None:
    assert offered("un") == ["uninstall", "undo"]
    assert offered("help", "un") == ["uninstall", "undo"]
    assert offered("--v") == ["--version"]


def test_verbs_for_scripts_are_offered_only_where_no_other_fits() -> None:
    assert offered("re") == ["redo", "restore", "review", "report"]
    assert offered("rei") == ["reindex"]
    assert offered("git-") == ["git-hook"]


def test_options_and_their_choices_are_offered() -> None:
    assert offered("undo", "--on-c") == ["--on-conflict"]
    assert offered("undo", "--on-conflict", "") == ["skip", "overwrite", "markers"]
    assert offered("hooks", "un") == ["uninstall"]
    assert offered("hooks", "install", "claude") == ["claude-code"]


def test_ids_are_offered_by_their_beginning(recorded: Shadow) -> None:
    session = session_of(recorded)
    assert offered("report", "help") == [session]
    assert offered("log", "--session", "help") == [session]
    assert offered("log", "--session=help") == [f"--session={session}"]
    burst = str(recorded.log()[0]["burst"])
    assert offered("undo", burst[:5]) == [burst]
    assert offered("show", "turn-") == [str(recorded.log()[0]["turn"])]
    assert offered("unpin", "") == ["good"]
    assert offered("pin", "-d", "") == ["good"]
    assert offered("restore", "--pin", "g") == ["good"]
    done = recorded.oops()
    assert offered("redo", "") == [done["op_id"]]


def test_paths_are_offered_step_by_step_also_those_that_are_gone(
    recorded: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered("blame", "") == ["a", "b", "c", "src/", "two words"]
    assert offered("blame", "s") == ["src/"]
    assert offered("cat", "src/") == ["src/deep/", "src/new.py"]
    assert offered("undo", "--", "") == ["a", "b", "c", "src/", "two words"]
    monkeypatch.chdir(recorded.repo.root / "src")
    assert offered("cat", "d") == ["deep/"]
    assert offered("cat", "../tw") == ["../two words"]
    assert offered("cat", "../../") == []


def test_odd_names_are_offered_as_commands_take_them(recorded: Shadow) -> None:
    recorded.repo.write(b"odd\n\xff", "x\n")
    recorded.settle()
    assert offered("cat", "odd") == [c_quoted(b"odd\n\xff")]


@pytest.mark.parametrize(
    "typed",
    ["two\\ w", "'two w", '"two w', '"two w"', "two' 'w", 'tw"o w'],
)
def test_what_is_quoted_for_bash_is_understood(recorded: Shadow, typed: str) -> None:
    assert offered("cat", typed, quoted=True) == ["two words"]


def test_option_that_bash_splits_is_understood(recorded: Shadow) -> None:
    session = session_of(recorded)
    assert offered("log", "--session", "=", "help", quoted=True) == [session]
    assert offered("log", "--session", "=", quoted=True)[0] == session
    assert offered("log", "--session=help", quoted=True) == [session]


def test_branches_and_remotes_are_offered(recorded: Shadow) -> None:
    recorded.repo.git("remote", "add", "origin", "nowhere")
    assert offered("push", "") == ["origin"]
    assert offered("check", "--range", "main..m") == ["main..main"]


def test_nothing_is_offered_and_made_where_nothing_is_recorded(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(repo.root)
    assert offered("undo", "") == []
    assert not repo.state_dir.exists()
    monkeypatch.chdir(tmp_path)
    assert offered("undo", "") == []


def test_completion_starts_no_daemon_and_loads_no_engine(
    repo: Repo, make_shadow: Callable[..., Shadow]
) -> None:
    """A key that is pressed must not wait: libgit2 alone would take 50 ms."""
    shadow = make_shadow(repo)
    shadow.init()
    shadow.ok("stop")
    code = (
        "import sys; from gitshadow import cli; "
        "cli.main(['completion', 'words', 'bash', '--', 'undo', '']); "
        "print(*sorted({'pygit2', 'gitshadow.recording.context'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repo.root,
        env=shadow.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "path\ta\t\n" in done.stdout
    assert done.stdout.splitlines()[-1] == ""
    assert shadow.daemons() == []


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bash", "git-agent-undo.bash"),
        ("zsh", "_git-agent-undo"),
        ("fish", "git-agent-undo.fish"),
    ],
)
def test_completion_prints_the_script_that_is_installed(
    name: str, file: str, make_shadow: Callable[..., Shadow], repo: Repo
) -> None:
    printed = make_shadow(repo, daemon=False).ok("completion", name).raw
    assert printed == (SCRIPTS / file).read_bytes()


def _bash(shadow: Shadow, start: str) -> "Iterator[Shell]":
    words = [need("bash"), "--norc", "--noprofile", "-i"]
    plain = "bind 'set bell-style none'; bind 'set enable-bracketed-paste off'"
    env = shadow.environment()
    with shell(words, f"{plain}; {start}", shadow.repo.root, env) as made:
        yield made


@pytest.fixture
def bash(recorded: Shadow) -> Iterator[Shell]:
    yield from _bash(recorded, f". {SCRIPTS}/git-agent-undo.bash")


@pytest.fixture
def bash_with_git(recorded: Shadow, tmp_path: Path) -> Iterator[Shell]:
    """Give Bash what a login gives it, and our script at the user's place for such scripts."""
    need("dh_bash-completion")
    place = Path(os.environ["XDG_DATA_HOME"]) / "bash-completion" / "completions"
    place.mkdir(parents=True)
    (place / "git-agent-undo").symlink_to(SCRIPTS / "git-agent-undo.bash")
    yield from _bash(recorded, ". /usr/share/bash-completion/bash_completion")


def _presses(shell: Shell, recorded: Shadow, program: str) -> None:
    """Complete a session, a path with a blank and a pin, and carry one of the lines out."""
    session = session_of(recorded)
    shell.press(f"{program} report help\t", until=f"report {session} ")
    shell.run("\x15true")
    shell.press(f"{program} unpin g\t", until="unpin good ")
    shell.run("\x15true")
    shell.press(f"{program} cat tw\t", until="cat two\\ words ")
    assert "y\r\n" in shell.run("")


def test_bash_completes_the_program(bash: Shell, recorded: Shadow) -> None:
    _presses(bash, recorded, "git-agent-undo")


def test_bash_completes_it_through_git(bash_with_git: Shell, recorded: Shadow) -> None:
    _presses(bash_with_git, recorded, "git agent-undo")


@pytest.mark.parametrize("program", ["git-agent-undo", "git agent-undo"])
def test_zsh_completes(recorded: Shadow, program: str) -> None:
    words = [need("zsh"), "-f", "-i"]
    start = (
        f"fpath=({SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D; "
        "unsetopt zle_bracketed_paste 2>/dev/null; setopt no_list_beep no_prompt_sp"
    )
    with shell(words, start, recorded.repo.root, recorded.environment()) as zsh:
        _presses(zsh, recorded, program)


@pytest.mark.parametrize("program", ["git-agent-undo", "git agent-undo"])
def test_fish_completes(recorded: Shadow, program: str) -> None:
    fish, session = need("fish"), session_of(recorded)

    def asked(typed: str) -> list[str]:
        script = (
            f"source {SCRIPTS}/git-agent-undo.fish; complete -C '{program} {typed}'"
        )
        done = subprocess.run(
            [fish, "--no-config", "-c", script],
            cwd=recorded.repo.root,
            env=recorded.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert asked("report help") == [session]
    assert asked("unpin g") == ["good"]
    assert asked("cat tw") == ["two words"]
    assert asked("cat two\\ w") == ["two words"]
    assert "undo" in asked("und")


def test_scripts_say_nothing_where_the_program_is_broken(
    recorded: Shadow, tmp_path: Path
) -> None:
    broken = tmp_path / "git-agent-undo"
    broken.write_text("#!/bin/sh\necho trouble >&2; exit 1\n")
    broken.chmod(0o755)
    script = (
        f". {SCRIPTS}/git-agent-undo.bash; COMP_WORDS=(git-agent-undo undo ''); "
        "COMP_CWORD=2; __git_agent_undo_alone; echo ${#COMPREPLY[@]}"
    )
    env = recorded.environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    done = subprocess.run(
        [need("bash"), "-c", script], env=env, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"0\n", b"")
