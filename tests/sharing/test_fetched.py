"""A clone whose refs were fetched begins to record: what it takes over, and what it does not."""

from collections.abc import Callable

from gitshadow.store.journal import sessions
from tests.support.repo import Repo
from tests.support.studio import Studio

Open = Callable[[Repo], Studio]


def cloned(repo: Repo, make_repo: Callable[..., Repo]) -> Repo:
    other = make_repo("other", files=())
    other.git("fetch", "--quiet", str(repo.root), "main")
    other.git("reset", "--quiet", "--hard", "FETCH_HEAD")
    refs = "refs/agent-undo/*:refs/agent-undo/*"
    other.git("fetch", "--quiet", str(repo.root), refs)
    return other


def test_lines_keep_their_owners_in_a_clone(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open
) -> None:
    studio = open_studio(repo)
    studio.write("S1", "a", "one\n")
    studio.commit("second")
    session = studio.session("S1")
    other = open_studio(cloned(repo, make_repo))
    owners = other.run("blame", path="a")["owners"]
    assert isinstance(owners, list)
    assert [row["session"] for row in owners] == [session]


def test_session_that_is_open_elsewhere_claims_nothing_here(
    repo: Repo, make_repo: Callable[..., Repo], open_studio: Open
) -> None:
    studio = open_studio(repo)
    studio.write("S1", "a", "one\n")
    studio.commit("second")
    other = open_studio(cloned(repo, make_repo))
    live = sessions.live(other.context.workspace.db)
    assert [session.agent for session in live if session.agent] == []
    other.hand("a", "one\nby hand here\n")
    owners = other.run("blame", path="a")["owners"]
    assert isinstance(owners, list)
    assert [row["actor"] for row in owners] == ["agent", "unknown"]
    assert "candidates" not in owners[1]
