"""The output of `git blame --porcelain`, parsed."""

import pytest

from gitshadow.blame.git_history import GitLine, parse_porcelain
from gitshadow.errors import StoreError
from gitshadow.model import Oid, RepoPath
from gitshadow.store.object_format import SHA1, SHA256, ObjectFormat
from tests.support.repo import Repo

ONE = "1" * 40


@pytest.mark.parametrize("form", [SHA1, SHA256], ids=lambda form: form.name)
def test_each_line_has_commit_name_and_number(form: ObjectFormat) -> None:
    one, two = "1" * form.digits, "2" * form.digits
    found = parse_porcelain(
        (
            f"{one} 1 1 1\nauthor A\nsummary filename x\nboundary\nfilename f\n"
            "\tfilename y\n"
            f'{two} 2 2 1\nauthor B\nprevious {one} f\nfilename "a\\303\\251\\n"\n'
            "\t\n"
            f"{one} 7 3 2\n\tx\n{one} 8 4\n\t\ty\n"
        ).encode()
    )
    odd = RepoPath("aé\n".encode())
    assert [line[:4] for line in found] == [
        (one, b"f", 1, None),
        (two, odd, 2, (one, b"f")),
        (one, b"f", 7, None),
        (one, b"f", 8, None),
    ]
    assert found[0].facts.words == {
        "author": b"A",
        "summary": b"filename x",
        "boundary": b"",
    }


@pytest.mark.parametrize(
    "output", [b"nonsense\n\tx\n", b"1 1 1\n\tx\n", f"{ONE} 1 1 1\n\tx\n".encode()]
)
def test_what_is_no_porcelain_is_refused(output: bytes) -> None:
    with pytest.raises(StoreError):
        parse_porcelain(output)


def test_gits_own_output_is_read(repo: Repo) -> None:
    repo.append("a", b"\xff\r\n\n\tlast")
    second = repo.commit("second")
    first = repo.git("rev-parse", "HEAD~")
    out = repo.git("blame", "--porcelain", "HEAD", "--", "a")
    found = parse_porcelain(out.encode("utf-8", "surrogateescape") + b"\n")
    commits = [first] * 10 + [second] * 3
    assert [(line.commit, line.line) for line in found] == [
        (Oid(commit), number) for number, commit in enumerate(commits, 1)
    ]
    assert isinstance(found[-1], GitLine)
    assert found[-1].previous == (first, b"a")
