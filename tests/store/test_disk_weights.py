"""What refs keep, found in one walk, is what Git lists for each of them alone."""

import os

from gitshadow.model import Oid
from gitshadow.store.disk import Weights
from gitshadow.store.git import Git
from tests.support.repo import Repo
from tests.support.studio import Studio, layout_of, studio_of


def truth(repo: Repo, *refs: str) -> set[str]:
    """Return what refs reach and the user does not, both listed whole."""
    how = ("rev-list", "--objects", "--no-object-names")
    ours, users = repo.git(*how, *refs), repo.git(*how, "HEAD", "--branches")
    return set(ours.split()) - set(users.split())


def listed(repo: Repo, *refs: str) -> set[str]:
    """Return what Git lists of refs: it may not look for all that is in old commits of the user."""
    without = ("--not", "HEAD", "--branches", "HEAD^{tree}")
    return set(
        repo.git("rev-list", "--objects", "--no-object-names", *refs, *without).split()
    )


def tips_of(repo: Repo, pattern: str) -> dict[str, Oid]:
    how = "--format=%(refname) %(objectname)"
    rows = repo.git("for-each-ref", how, pattern).splitlines()
    return {ref: Oid(oid) for ref, oid in (row.split() for row in rows)}


def weights_of(repo: Repo) -> Weights:
    users = {*tips_of(repo, "refs/heads").values(), Oid(repo.git("rev-parse", "HEAD"))}
    git = Git(layout_of(repo), dict(os.environ))
    return Weights(git, tips_of(repo, "refs/agent-undo"), users)


def check(repo: Repo) -> None:
    """Compare every ref, and all of them, with Git's own lists."""
    weights, found = weights_of(repo), tips_of(repo, "refs/agent-undo")
    assert len(found) > 2
    for ref in found:
        kept = len(weights.kept_by([ref]))
        assert len(truth(repo, ref)) <= kept <= len(listed(repo, ref))
    assert (
        len(weights.kept_by(found)) == len(weights.sizes) == len(listed(repo, *found))
    )


def recorded(studio: Studio) -> None:
    """Have two agents write, also over what the other wrote, and the user commit in between."""
    studio.repo.write("deep/er/one", "1\n")
    for number in range(3):
        studio.write("S1", "deep/er/one", f"one {number}\n")
        studio.write("S2", "deep/two", f"two {number}\n")
        studio.write("S2", "deep/er/one", f"of both {number}\n")
        studio.commit(f"after {number}")
        studio.write("S1", f"n{number}", "of nobody else\n" * 20)
    studio.repo.delete("deep/two")
    studio.context.observer.settle()


def test_each_ref_keeps_what_git_says_beside_the_users_history(repo: Repo) -> None:
    """KEEP-12: versions that lie in old commits of the user cost nothing."""
    with studio_of(repo) as studio:
        recorded(studio)
        check(repo)


def test_sessions_on_which_no_commit_of_the_user_stands_are_counted_exactly(
    repo: Repo,
) -> None:
    with studio_of(repo) as studio:
        for number in range(4):
            studio.write("S1", "deep/er/one", f"one {number}\n")
            studio.write("S2", "two", f"two {number}\n")
        weights, found = weights_of(repo), tips_of(repo, "refs/agent-undo")
        counts = {ref: len(weights.kept_by([ref])) for ref in found}
        assert counts == {ref: len(truth(repo, ref)) for ref in found}


def test_commits_that_the_user_rewrote_are_kept_by_whoever_stands_on_them(
    repo: Repo,
) -> None:
    with studio_of(repo) as studio:
        repo.git("checkout", "-q", "-b", "side")
        repo.write("of-side", "s\n")
        repo.commit("side")
        repo.git("checkout", "-q", "main")
        repo.write("of-main", "m\n")
        repo.commit("main")
        repo.git("merge", "-q", "--no-edit", "side")
        recorded(studio)
        repo.git("branch", "-q", "-D", "side")
        repo.git("reset", "-q", "--soft", "HEAD~4")
        repo.git("commit", "-q", "--amend", "-m", "all in one")
        check(repo)


def test_ref_that_is_gone_keeps_nothing(repo: Repo) -> None:
    with studio_of(repo) as studio:
        recorded(studio)
        assert weights_of(repo).kept_by(["refs/agent-undo/nobody"]) == set()
