"""Every commit of a chain has one committer date, so that fetch never offers ours first."""

from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


def later_commit(repo: Repo, at_s: int) -> str:
    """Store a commit like that of HEAD, but with another committer date."""
    old = repo.git("cat-file", "commit", "HEAD").splitlines()
    new = [
        f"committer x <x@example.invalid> {at_s} +0000"
        if line.startswith("committer ")
        else line
        for line in old
    ]
    text = "\n".join([*new, ""]).encode()
    return repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=text)


def dates(studio: Studio) -> set[str]:
    """Return the committer dates of the shadow commits on the chain of people."""
    (ref,) = studio.repo.git(
        "for-each-ref", "--format=%(refname)", "refs/agent-undo"
    ).split()
    ours = studio.repo.git("log", "--format=%ct %cn", ref).splitlines()
    return {line.split()[0] for line in ours if line.endswith("gitshadow")}


def test_new_chain_of_a_session_has_a_date_of_its_own(repo: Repo) -> None:
    with studio_of(repo) as studio:
        for number in range(3):
            studio.hand("a", f"{number}\n")
        (before,) = dates(studio)
        ref = repo.git("for-each-ref", "--format=%(refname)", "refs/agent-undo")
        repo.git("update-ref", "-d", ref)
        repo.git("update-ref", "HEAD", later_commit(repo, int(before) + 1_000_000))
        for number in range(3, 6):
            studio.hand("a", f"{number}\n")
        (after,) = dates(studio)
        assert after != before
