"""What the history costs is what Git says it is."""

import os
from random import Random

from gitshadow.maintenance.upkeep import pack_now, usage
from gitshadow.messages.codec import encode
from tests.support.packed import Shelf
from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of


def by_git(repo: Repo, *refs: str) -> dict[str, int]:
    """Count as a person would: what these refs reach and no branch does."""
    without = ("--not", "HEAD", "--branches", "HEAD^{tree}")
    listed = repo.git("rev-list", "--objects", *refs, *without)
    oids = "".join(f"{line.split()[0]}\n" for line in listed.splitlines())
    asked = ("cat-file", "--batch-check=%(objectsize:disk)")
    sizes = repo.git(*asked, stdin=oids.encode()).split()
    return {"objects": len(sizes), "bytes": sum(map(int, sizes))}


def recorded(studio: Studio) -> None:
    for number in range(4):
        studio.write("S1", "a", f"one {number}\n")
        studio.write("S2", f"n{number}", "two\n" * 50)
    studio.run("pin", name="good")
    studio.hand("b", "mine\n")


def check(repo: Repo, found: dict[str, object]) -> None:
    rows = found["sessions"]
    assert isinstance(rows, list)
    assert len(rows) == 3
    for row in rows:
        counted = {"objects": row["objects"], "bytes": row["bytes"]}
        assert counted == by_git(repo, *row["refs"])
    assert [row["bytes"] for row in rows] == sorted(
        (row["bytes"] for row in rows), reverse=True
    )
    other = found["other"]
    assert isinstance(other, list)
    (pins,) = other
    assert pins["kind"] == "pins"
    assert by_git(repo, *pins["refs"])["bytes"] == pins["bytes"]
    assert found["total"] == by_git(repo, "--glob=refs/agent-undo/*")


def test_du_is_gits_own_count(repo: Repo) -> None:
    """KEEP-12: loose and packed, by session and in total."""
    with studio_of(repo) as studio:
        recorded(studio)
        check(repo, encode(usage(studio.context.workspace.layout, os.environ)))
        layout = studio.context.workspace.layout
        pack_now(layout, os.environ)
        found = encode(usage(layout, os.environ))
        check(repo, found)
        ours = Shelf(repo).packer.packs.ours()
        size = sum(pack.size_bytes for pack in ours)
        assert found["packs"] == {"count": 1, "bytes": size}


def test_what_the_user_committed_costs_nothing(repo: Repo) -> None:
    """KEEP-12: it would be there without us."""
    with studio_of(repo) as studio:
        studio.write("S1", "n", Random(1).randbytes(20_000))
        before = encode(usage(studio.context.workspace.layout, os.environ))["total"]
        studio.commit("takes it over")
        after = encode(usage(studio.context.workspace.layout, os.environ))["total"]
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        assert before["bytes"] > after["bytes"] > 0
        assert after == by_git(repo, "--glob=refs/agent-undo/*")
