"""Sessions go over a real Git server and are looked at by a colleague, as commands."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.http_git import served
from tests.support.repo import Repo
from tests.support.shadow import Shadow


@pytest.fixture
def bare(tmp_path: Path, make_repo: Callable[..., Repo]) -> Path:
    place = tmp_path / "srv" / "team.git"
    place.parent.mkdir()
    Repo(tmp_path).git("init", "-q", "--bare", "-b", "main", str(place))
    Repo(place).git("config", "http.receivepack", "true")
    return place


def round_trip(
    url: str, repo: Repo, make_repo: Callable[..., Repo], shadow: Shadow
) -> None:
    agent = Claude(shadow)
    agent.prompt("add a module")
    agent.write("module.py", "answer = 42\n")
    agent.stop()
    repo.commit("second")
    repo.git("push", "-q", url, "HEAD:refs/heads/main")
    assert shadow.ok("push", url).out.splitlines()[0].endswith(f"sent to {url}")
    clone = make_repo("colleague", files=())
    clone.git("pull", "-q", url, "main")
    theirs = Shadow(clone, daemon=False)
    theirs.ok("init")
    assert "to see one:" in theirs.ok("fetch", url).out
    (session,) = [
        str(row["id"]) for row in theirs.ok("sessions", "--json").rows() if row["agent"]
    ]
    log = theirs.ok("log", "--session", session).out
    assert "module.py" in log
    number = log.split()[0]
    assert ":" in number
    assert "+answer = 42" in theirs.ok("show", number).out
    assert "answer = 42" in theirs.ok("diff", "--session", session).out
    (line,) = theirs.ok("blame", "--json", "module.py").rows()
    assert (line["agent"], line["session"]) == ("claude-code", session)
    assert theirs.oops()["status"] == "nothing_to_do"
    assert clone.read("module.py") == b"answer = 42\n"


def test_sessions_go_over_a_repository_of_this_machine(
    bare: Path, repo: Repo, make_repo: Callable[..., Repo], shadow: Shadow
) -> None:
    round_trip(f"file://{bare}", repo, make_repo, shadow)


def test_sessions_go_over_http(
    bare: Path, repo: Repo, make_repo: Callable[..., Repo], shadow_d: Shadow
) -> None:
    with served(bare.parent) as url:
        round_trip(f"{url}/team.git", repo, make_repo, shadow_d)
