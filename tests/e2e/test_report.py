"""REPORT: the command writes the page where it says, for its owner alone, or where it is told."""

from pathlib import Path

from tests.support.claude import Claude
from tests.support.kept import kept
from tests.support.shadow import Shadow


def test_page_is_written_into_our_directory_or_where_it_is_told(
    shadow_n: Shadow, tmp_path: Path
) -> None:
    agent = Claude(shadow_n)
    agent.prompt("write <it>")
    agent.write("a", "agent\n")
    agent.stop()
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/shown\n')
    browser.chmod(0o755)
    with kept(shadow_n.repo):
        said = shadow_n.ok("report", "--open", env={"BROWSER": f"{browser} %s"})
    path = Path(said.out.rstrip("\n"))
    session = str(shadow_n.ok("sessions", "--json").rows()[0]["id"])
    assert path == shadow_n.repo.state_dir / "pages" / f"{session}.html"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (
        0o600,
        0o700,
    )
    assert (tmp_path / "shown").read_text() == f"{path.as_uri()}\n"
    text = path.read_text(encoding="utf-8")
    assert "write &lt;it&gt;" in text
    shadow_n.ok("report", session, "--output", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o644
    assert shadow_n.ok("report", "-o", "-").out.startswith("<!doctype html>\n")


def test_facts_are_the_same_as_json_and_errors_are_said(
    shadow_n: Shadow, tmp_path: Path
) -> None:
    none = shadow_n("report")
    assert (none.code, none.raw) == (2, b"")
    assert none.err.startswith("error: cannot report: no agent session")
    Claude(shadow_n).write("a", "agent\n")
    document = shadow_n.ok("report", "--json").json()
    assert document["version"] == 1
    assert isinstance(document["session"], dict)
    assert document["session"]["agent"] == "claude-code"
    bad = shadow_n("report", "-o", str(tmp_path / "none" / "page.html"))
    assert bad.code == 1
    assert bad.err.startswith("error: could not write ")


def test_two_sessions_are_one_page_or_one_document(shadow_n: Shadow) -> None:
    for session in ("one", "two"):
        agent = Claude(shadow_n, session)
        agent.prompt(f"attempt {session}")
        agent.write("a", f"{session}\n")
        agent.stop()
    two, one = (
        str(row["id"])
        for row in shadow_n.ok("sessions", "--json").rows()
        if row["agent"] == "claude-code"
    )
    said = shadow_n.ok("report", one, two)
    path = Path(said.out.rstrip("\n"))
    assert path == shadow_n.repo.state_dir / "pages" / f"{one}..{two}.html"
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text(encoding="utf-8")
    assert "attempt one" in text
    assert "attempt two" in text
    document = shadow_n.ok("report", one, two, "--json").json()
    assert document["version"] == 1
    sessions = document["sessions"]
    assert isinstance(sessions, list)
    assert [each["session"]["id"] for each in sessions] == [one, two]
    same = shadow_n("report", one, one)
    assert (same.code, same.raw) == (2, b"")
    assert same.err.startswith(f"error: cannot compare session {one} with itself\n")
