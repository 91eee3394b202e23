"""Where commands run: the user's own variables and odd environments."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.store.object_format import SHA1
from tests.support.claude import Claude
from tests.support.repo import ten_lines
from tests.support.shadow import Shadow

pytestmark = pytest.mark.process

_GPG = """#!/bin/sh
cat >/dev/null
echo "[GNUPG:] SIG_CREATED D 1 8 00 1 A" >&2
echo "-----BEGIN PGP SIGNATURE-----"
echo "signed by the user's own program"
echo "-----END PGP SIGNATURE-----"
"""


@pytest.fixture
def private_umask() -> Iterator[None]:
    old = os.umask(0o077)
    yield
    os.umask(old)


def test_command_commits_as_the_user_and_signs(shadow: Shadow, tmp_path: Path) -> None:
    """ROB-14: the user's variables pass, none of ours is added; identity and signature too."""
    repo = shadow.repo
    program = tmp_path / "gpg"
    program.write_text(_GPG)
    program.chmod(0o755)
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", str(program))
    editor = f"sh -c 'echo edited >\"$1\"' {program}"
    mine = {
        "GIT_AUTHOR_NAME": "Somebody Else",
        "GIT_AUTHOR_EMAIL": "else@example.com",
        "GIT_EDITOR": editor,
    }
    script = "env; echo agent >a; git commit -qa"
    done = shadow.ok("exec", "--agent", "x", "--", "sh", "-c", script, env=mine)
    variables = dict(line.partition("=")[::2] for line in done.out.splitlines())
    given = {name for name in os.environ if name.startswith("GIT_")}
    assert {name for name in variables if name.startswith("GIT_")} == given | set(mine)
    assert {name: variables[name] for name in mine} == mine
    commit = repo.git("cat-file", "commit", "HEAD").splitlines()
    head, body = commit[: commit.index("")], commit[commit.index("") + 1 :]
    assert any(
        one.startswith("author Somebody Else <else@example.com>") for one in head
    )
    assert any(one.startswith("committer Test User <test@example.com>") for one in head)
    signed = "gpgsig" if repo.object_format == SHA1 else "gpgsig-sha256"
    assert f"{signed} -----BEGIN PGP SIGNATURE-----" in head
    assert " signed by the user's own program" in head
    assert body == ["edited"]
    report = shadow.oops()
    assert report["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()
    assert repo.git("cat-file", "commit", "HEAD").splitlines() == commit


@pytest.mark.parametrize("home", ["unset", "read-only"])
@pytest.mark.usefixtures("private_umask")
def test_odd_environment_changes_nothing(
    shadow_new: Shadow, sealed: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """ROB-15: HOME, LC_ALL=C, no TERM, umask 077, an odd TZ: the same bytes and modes."""
    shadow, repo = shadow_new, shadow_new.repo
    for name in ("TERM", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("TZ", "Nowhere/Odd-17:33")
    if home == "unset":
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", "/proc/self")
    repo.write("é ü\n", "mine\n", mode=0o640)
    repo.chmod("a", 0o664)
    shadow.init()
    agent = Claude(shadow)
    agent.prompt("go")
    agent.write("é ü\n", "agent\n", mode=0o600)
    agent.write("a", "agent\n", mode=0o755)
    agent.write("dir/new", "agent\n")
    agent.stop()
    shown = shadow.ok("log", "--events").out
    assert '"\\303\\251 \\303\\274\\n"' in shown or "é ü" in shown
    result = shadow.ok("oops", "--yes")
    assert result.out.splitlines()[0] == "restored 3 files"
    assert result.err == ""
    assert repo.read("é ü\n") == b"mine\n"
    assert repo.read("a") == ten_lines("a").encode()
    assert (repo.mode("é ü\n"), repo.mode("a")) == (0o640, 0o664)
    assert not repo.exists("dir")
    assert shadow.ok("redo", "--yes").err == ""
    assert repo.mode("a") == 0o755
    shadow.verify()
