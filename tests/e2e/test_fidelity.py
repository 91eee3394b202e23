"""FID: what comes back is byte for byte, mode for mode, link for link what was there."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import Repo, ten_lines
from tests.support.reports import items
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

Untouched = Callable[[], None]


def at_work(shadow: Shadow) -> Claude:
    """Record what is there and return an agent that has just been asked for something."""
    shadow.init()
    agent = Claude(shadow)
    agent.prompt("change things")
    return agent


def writes(rows: Iterable[Document]) -> dict[object, Document]:
    """Return the rows of log by path, newest wins."""
    found: dict[object, Document] = {}
    for row in rows:
        found.setdefault(row["path"], row)
    return found


NAMES: tuple[bytes, ...] = (
    b"with space",
    b"new\nline",
    b"tab\there",
    b'"quoted"',
    b"it's",
    b"*",
    b"[x]",
    b"-leading",
    b":colon",
    "emoji \N{PARTY POPPER}".encode(),
    "decomposed e\N{COMBINING ACUTE ACCENT}".encode(),
    b"n" * 250,
    b"caf\xe9",
)


def name_of(shown: object) -> bytes:
    """Read a path as our documents spell it, with nothing but Git's own rules."""
    assert isinstance(shown, str)
    if not shown.startswith('"'):
        return shown.encode()
    inner = shown[1:-1].encode("latin-1")
    return inner.decode("unicode_escape").encode("latin-1")


def test_odd_names_come_back_and_are_taken_as_printed(shadow_new: Shadow) -> None:
    """FID-05: the escape of the JSON is lossless and our own commands take it back."""
    repo = shadow_new.repo
    for number, name in enumerate(NAMES):
        repo.write(name, f"{number}\n")
    agent = at_work(shadow_new)
    if shadow_new.daemon:
        for name in NAMES:
            agent.write(name, "agent\n")
    else:  # a process for each hook: one call that writes all of them
        agent.shell(
            'for f in *; do case "$f" in [abc]) ;; *) echo agent > "./$f";; esac; done'
        )
    rows = [row for row in shadow_new.log() if row["kind"] == "modify"]
    printed = {name_of(row["path"]): str(row["path"]) for row in rows}
    assert set(printed) == set(NAMES)
    half = NAMES[::2]
    report = shadow_new.ok(
        "restore", "--yes", "--json", "--", *(printed[name] for name in half)
    ).json()
    assert {name_of(path) for path in items(report)} == set(half)
    for number, name in enumerate(NAMES):
        expected = f"{number}\n" if name in half else "agent\n"
        assert repo.read(name) == expected.encode(), name
    report = shadow_new.oops()
    assert report["status"] == "reversed"
    assert [repo.read(name) for name in NAMES] == [
        f"{number}\n".encode() for number in range(len(NAMES))
    ]


def test_converted_files_come_back_as_they_lay_on_the_disk(
    shadow_new: Shadow, untouched: Untouched
) -> None:
    """FID-06: line endings, ident and encodings; the stored blob is the raw bytes."""
    repo = shadow_new.repo
    files = {
        "crlf": b"one\r\ntwo\r\n",
        "lf": b"one\ntwo\n",
        "mixed": b"one\r\ntwo\nthree\r\n",
        "ident": b"$Id: 0123456789 $\r\n",
        "utf16": "one\r\ntwo\r\n".encode("utf-16-le"),
    }
    repo.git("config", "core.autocrlf", "true")
    repo.write(
        ".gitattributes",
        "* text=auto eol=crlf\nident ident\n"
        "utf16 text working-tree-encoding=UTF-16LE eol=crlf\n",
    )
    for name, data in files.items():
        repo.write(name, data)
    repo.commit("converted")
    assert {name: repo.read(name) for name in files} == files
    untouched()
    stored = {name: repo.blob(name) for name in files}
    agent = at_work(shadow_new)
    for name in files:
        agent.write(name, b"agent\r\nwrote\n\r\n")
    rows = writes(shadow_new.log())
    raw = repo.blob("lf")
    for name in files:
        before, after = rows[name]["before"], rows[name]["after"]
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        assert (before["oid"], after["oid"]) == (stored[name], raw), name
    assert shadow_new.oops()["status"] == "reversed"
    assert {name: repo.read(name) for name in files} == files


def test_filter_is_never_run(
    shadow_new: Shadow, untouched: Untouched, tmp_path: Path
) -> None:
    """FID-07: a clean command that touches a marker; blobs are the raw bytes."""
    repo = shadow_new.repo
    marker = tmp_path / "marker"
    repo.write(".gitattributes", "* filter=up\n")
    repo.commit("attributes")
    repo.git("config", "filter.up.clean", f"touch '{marker}'; tr a-z A-Z")
    repo.git("config", "filter.up.smudge", f"touch '{marker}'; tr A-Z a-z")
    assert repo.git("hash-object", "--path=a", "--stdin", stdin=b"x") != repo.git(
        "hash-object", "--no-filters", "--stdin", stdin=b"x"
    )
    marker.unlink()
    untouched()
    agent = at_work(shadow_new)
    agent.write("a", "agent\n")
    agent.write("n", "new\n")
    raw = {name: repo.blob(name) for name in ("a", "n")}
    rows = writes(shadow_new.log())
    for name, oid in raw.items():
        after = rows[name]["after"]
        assert isinstance(after, dict)
        assert after["oid"] == oid
    assert shadow_new.oops()["status"] == "reversed"
    assert repo.read("a") == ten_lines("a").encode()
    assert not repo.exists("n")
    assert not marker.exists()


def blobs(repo: Repo) -> set[str]:
    lines = repo.git(
        "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"
    )
    return {line.split()[1] for line in lines.splitlines() if line.startswith("blob ")}


def test_init_stores_only_what_git_does_not_have(
    shadow_new: Shadow, untouched: Untouched
) -> None:
    """FID-08: HEAD's blob where nothing is converted, the raw bytes where something is."""
    repo = shadow_new.repo
    repo.write(".gitattributes", "converted text eol=crlf\n")
    repo.write("converted", "one\r\ntwo\r\n")
    repo.commit("more")
    untouched()
    before = blobs(repo)
    raw = repo.blob("converted")
    assert raw not in before
    shadow_new.init()
    assert blobs(repo) - before == {raw}
