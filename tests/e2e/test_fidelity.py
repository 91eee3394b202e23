"""FID: what comes back is byte for byte, mode for mode, link for link what was there."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.claude import Claude
from tests.support.repo import PathLike, Repo, ten_lines
from tests.support.reports import actions, items, reasons, states
from tests.support.shadow import Document, Shadow

pytestmark = pytest.mark.usefixtures("untouched")

Untouched = Callable[[], None]


def at_work(shadow: Shadow) -> Claude:
    """Record what is there and return an agent that has just been asked for something."""
    shadow.init()
    agent = Claude(shadow)
    agent.prompt("change things")
    return agent


def contents(repo: Repo, paths: Iterable[PathLike]) -> dict[PathLike, str]:
    return {path: hashlib.sha256(repo.read(path)).hexdigest() for path in paths}


def writes(rows: Iterable[Document]) -> dict[object, Document]:
    """Return the rows of log by path, newest wins."""
    found: dict[object, Document] = {}
    for row in rows:
        found.setdefault(row["path"], row)
    return found


BYTES: Mapping[str, bytes] = {
    "every": bytes(range(256)),
    "nuls": b"\0\0\0a\0",
    "invalid": b"\xff\xfe\x80 \xc3\n",
    "empty": b"",
    "open": b"no final newline",
    "bom": b"\xef\xbb\xbfwith a mark\n",
    "utf16": "wide\r\nwide\n".encode("utf-16"),
}


def test_bytes_come_back_whatever_they_are(shadow_new: Shadow) -> None:
    """FID-01: SHA-256 equal to the originals."""
    repo = shadow_new.repo
    for name, data in BYTES.items():
        repo.write(name, data)
    before = contents(repo, BYTES)
    agent = at_work(shadow_new)
    for name, data in BYTES.items():
        agent.write(name, b"agent\n" + data[::-1])
    report = shadow_new.oops()
    assert report["status"] == "reversed"
    assert set(states(report).values()) == {"reversed"}
    assert contents(repo, BYTES) == before


def test_modes_come_back(shadow_new: Shadow) -> None:
    """FID-02: 0755, 0600, 0640 and 0444 after the agent has made all of them 0644."""
    repo = shadow_new.repo
    modes = {"script": 0o755, "key": 0o600, "shared": 0o640, "fixed": 0o444}
    for name, mode in modes.items():
        repo.write(name, f"{name}\n", mode)
    agent = at_work(shadow_new)
    for name in modes:
        call = agent.pre("Write", {"file_path": str(repo.root / name)})
        repo.chmod(name, 0o644)
        repo.write(name, "agent\n")
        agent.post(call)
    assert shadow_new.oops()["status"] == "reversed"
    assert {name: repo.mode(name) for name in modes} == modes
    assert {name: repo.read(name) for name in modes} == {
        name: f"{name}\n".encode() for name in modes
    }


def outside_of(repo: Repo, **files: str) -> Path:
    """Make a directory beside the worktree that nobody may ever write to."""
    directory = repo.root.parent / "outside"
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_text(data)
    return directory


def look_of(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(directory.iterdir()):
        look = path.lstat()
        found[path.name] = (look.st_mode, look.st_mtime_ns, path.read_bytes())
    return found


def test_links_come_back_and_are_not_followed(shadow_new: Shadow) -> None:
    """FID-03: a retargeted link, and a directory that a link outside has replaced."""
    repo = shadow_new.repo
    outside = outside_of(repo, one="theirs\n", two="theirs too\n")
    kept = look_of(outside)
    repo.symlink("l", "a")
    repo.write("d/one", "1\n")
    repo.write("d/sub/two", "2\n", 0o755)
    agent = at_work(shadow_new)
    call = agent.pre("Write", {"file_path": str(repo.root / "l")})
    repo.symlink("l", "b")
    agent.post(call)
    agent.shell(f"rm -r d; ln -s '{outside}' d")
    assert shadow_new.oops()["status"] == "reversed"
    assert repo.readlink("l") == b"a"
    assert not os.path.islink(repo.path("d"))
    assert (repo.read("d/one"), repo.read("d/sub/two")) == (b"1\n", b"2\n")
    assert repo.mode("d/sub/two") == 0o755
    assert look_of(outside) == kept
    agent.prompt("again")
    agent.write("d/one", "later\n")
    report = shadow_new.oops()
    assert (report["status"], list(items(report))) == ("reversed", ["d/one"])
    assert repo.read("d/one") == b"1\n"
    assert look_of(outside) == kept


def test_deleted_links_come_back_as_links(shadow_new: Shadow) -> None:
    """FID-04: the same target bytes; never followed, never replaced by their content."""
    repo = shadow_new.repo
    outside = outside_of(repo, target="theirs\n")
    targets = {
        "dangling": b"no/such/file",
        "absolute": os.fsencode(outside / "target"),
        "odd": b"caf\xe9/\xff",
    }
    for name, target in targets.items():
        repo.symlink(name, target)
    kept = look_of(outside)
    agent = at_work(shadow_new)
    agent.shell("rm dangling absolute odd")
    report = shadow_new.oops()
    assert report["status"] == "reversed"
    assert {name: repo.readlink(name) for name in targets} == targets
    assert look_of(outside) == kept


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


def test_line_endings_stay_when_a_human_has_written_too(shadow_new: Shadow) -> None:
    """FID-09: CRLF without final newline, merged: as the human left them."""
    repo = shadow_new.repo
    lines = [f"line {number}".encode() for number in range(1, 9)]
    repo.write("w", b"\r\n".join(lines))
    agent = at_work(shadow_new)
    agent.write("w", b"\r\n".join([b"agent", *lines[1:]]))
    repo.append("w", b"\r\nhuman")
    report = shadow_new.oops()
    assert (report["status"], actions(report)) == ("reversed", {"w": "merge"})
    assert repo.read("w") == b"\r\n".join([*lines, b"human"])


def test_binary_that_a_human_has_changed_too_is_left(shadow_new: Shadow) -> None:
    """FID-10: left + named, reason binary."""
    repo = shadow_new.repo
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))
    repo.write("i.png", picture)
    agent = at_work(shadow_new)
    agent.write("i.png", picture + b"agent\0")
    repo.write("i.png", b"\x89PNG human\0" + picture)
    left = repo.tree_snapshot()
    result = shadow_new("oops", "--yes", "--json")
    assert (result.code, result.json()["status"]) == (4, "partial")
    assert reasons(result.json()) == {"i.png": "binary"}
    assert repo.tree_snapshot() == left


def mtime_ns(repo: Repo, path: str) -> int:
    return os.lstat(repo.path(path)).st_mtime_ns


def test_what_is_equal_already_keeps_its_mtime(shadow_new: Shadow) -> None:
    """FID-11: `no_effect` for that; a restored file gets a fresh mtime."""
    repo = shadow_new.repo
    old_ns = 1_500_000_000_000_000_000
    for name in ("a", "b", "c"):
        os.utime(repo.path(name), ns=(old_ns, old_ns))
    agent = at_work(shadow_new)
    for name in ("a", "b", "c"):
        agent.write(name, "agent\n")
    repo.write("a", ten_lines("a"))
    kept = mtime_ns(repo, "a")
    wrote = mtime_ns(repo, "c")
    report = shadow_new.oops()
    assert (report["status"], states(report)) == (
        "reversed",
        {"a": "no_effect", "b": "reversed", "c": "reversed"},
    )
    assert mtime_ns(repo, "a") == kept
    assert min(mtime_ns(repo, "b"), mtime_ns(repo, "c")) > wrote


def test_key_is_never_half_nor_open_to_others(shadow_new: Shadow) -> None:
    """FID-12: a reader sees the old or the new, and no wider mode with its content."""
    repo = shadow_new.repo
    secret = b"secret " * 300_000
    repo.write("keys/key", secret, 0o600)
    agent = at_work(shadow_new)
    call = agent.pre("Write", {"file_path": str(repo.root / "keys" / "key")})
    repo.chmod("keys/key", 0o644)
    repo.write("keys/key", "agent\n")
    agent.post(call)
    shadow_new.ok("flush")
    seen = set(looks(repo.root / "keys", secret))
    with shadow_new.spawn("oops", "--yes") as undoing:
        while undoing.poll() is None:
            seen.update(looks(repo.root / "keys", secret))
        undoing.communicate()
        assert undoing.returncode == 0
    seen.update(looks(repo.root / "keys", secret))
    assert {look for look in seen if look[0] == "key"} == {
        ("key", False, 0o644),
        ("key", True, 0o600),
    }
    assert {mode for name, _, mode in seen if name != "key"} <= {0o600}
    assert repo.read("keys/key") == secret


def looks(directory: Path, secret: bytes) -> Iterable[tuple[str, bool, int]]:
    """Yield of each file its name, whether it holds the secret, and its permissions."""
    for name in os.listdir(directory):
        try:
            with open(directory / name, "rb") as stream:
                data = stream.read()
                mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        except FileNotFoundError:
            continue
        if name == "key":
            assert data in (secret, b"agent\n")
        yield name, data == secret, mode


def test_mode_survives_a_rebuilt_journal(shadow_new: Shadow) -> None:
    """FID-13: 0600 still, the mode is rebuilt from the refs."""
    repo = shadow_new.repo
    repo.write("key", "secret\n", 0o600)
    agent = at_work(shadow_new)
    agent.write("key", "agent\n", 0o600)
    agent.stop()
    shadow_new.ok("reindex")
    assert shadow_new.oops()["status"] == "reversed"
    assert (repo.read("key"), repo.mode("key")) == (b"secret\n", 0o600)
