"""Ann and Bob share a server: what both need to send and bring."""

from tests.support.studio import Document, Studio


def rows_of(document: Document) -> list[dict[str, object]]:
    rows = document["rows"]
    assert isinstance(rows, list)
    return rows


def shared(ann: Studio, bob: Studio) -> str:
    """Let Ann's agent write, commit and push, and Bob pull and fetch; return the session."""
    ann.write("S1", "a", "one\ntwo\n")
    ann.commit("second")
    ann.repo.git("push", "--quiet", "origin", "HEAD:refs/heads/main")
    ann.run("push", remote="origin")
    bob.repo.git("pull", "--quiet", "--ff-only", "origin", "main")
    bob.run("fetch", remote="origin")
    return ann.session("S1")
