"""Exports: what they say of commits, and git-ai's notes on their ref."""

from collections.abc import Callable

import pytest

from gitshadow.errors import RefusedError, StoreError, UsageError
from tests.support.repo import Repo
from tests.support.studio import Document, Studio

Open = Callable[[Repo], Studio]
NOTES = "refs/notes/ai"


def rows(document: Document, key: str) -> list[dict[str, object]]:
    found = document[key]
    assert isinstance(found, list)
    return found


def texts(document: Document) -> dict[object, str]:
    return {row["commit"]: str(row["text"]) for row in rows(document, "notes")}


def attested(text: str) -> list[str]:
    return text.partition("\n---\n")[0].split("\n")


def noted(repo: Repo) -> str:
    return repo.git("for-each-ref", "refs/notes/")


def test_traces_say_what_each_commit_brought_then_what_is_not_committed(
    repo: Repo, studio: Studio
) -> None:
    studio.write("S1", "new", "1\n2\n")
    first = studio.commit("first of S1")
    studio.hand("new", "1\n2\nhand\n")
    second = studio.commit("by hand")
    studio.write("S2", "new", "1\n2\nhand\n4\n")
    records = rows(studio.run("export_traces"), "records")
    assert [record.get("vcs") for record in records] == [
        {"type": "git", "revision": first},
        None,
    ]
    assert second not in str(records)
    ranges = [str(record["files"]) for record in records]
    assert "'start_line': 1, 'end_line': 2" in ranges[0]
    assert "'start_line': 4, 'end_line': 4" in ranges[1]


def test_export_again_says_the_same(studio: Studio) -> None:
    studio.write("S1", "new", "1\n")
    studio.commit("second")
    one, two = (studio.run("export_traces") for _ in range(2))
    assert one == two
    one, two = (studio.run("export_notes", dry_run=True) for _ in range(2))
    assert one == two


def test_words_choose_commits_and_sessions(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "one", "1\n")
    first = studio.commit("one")
    studio.write("S2", "two", "2\n")
    second = studio.commit("two")

    def commits(*words: str) -> list[object]:
        found = studio.run("export_notes", words=list(words), dry_run=True)
        return list(texts(found))

    assert commits() == [first, second]
    assert commits("HEAD") == [second]
    assert commits(f"{first}..HEAD") == [second]
    assert commits(studio.session("S1")) == [first]
    assert commits(studio.session("S1"), "HEAD") == []
    with pytest.raises(UsageError, match="cannot find session nowhere"):
        commits("nowhere")


def test_person_who_was_there_is_a_known_human(repo: Repo, studio: Studio) -> None:
    studio.run("session_start", human=True)
    studio.hand("new", "mine\n")
    commit = studio.commit("by hand")
    text = texts(studio.run("export_notes", dry_run=True))[commit]
    path, entry = attested(text)
    assert path == "new"
    assert entry.startswith("  h_")
    assert '"author": "Test User <test@example.com>"' in text


def test_notes_are_written_where_git_finds_them_and_taken_back(
    repo: Repo, studio: Studio
) -> None:
    """LAW-02: what export writes, `--remove` takes back exactly."""
    studio.write("S1", "new", "1\n2\n")
    commit = studio.commit("second")
    before = repo.snapshot()
    told = studio.run("export_notes", dry_run=True)
    assert repo.snapshot() == before
    done = studio.run("export_notes")
    assert (told["written"], done["written"]) == (False, True)
    assert repo.git("notes", "--ref=ai", "show", commit) + "\n" == texts(done)[commit]
    repo.git("fsck", "--strict")
    assert studio.run("export_remove", dry_run=True)["removed"] == 1
    assert studio.run("export_remove")["removed"] == 1
    assert noted(repo) == ""
    assert repo.snapshot().refs == before.refs
    assert studio.run("export_remove")["removed"] == 0


def test_later_export_adds_to_our_own_notes(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "one", "1\n")
    first = studio.commit("one")
    studio.run("export_notes")
    studio.write("S1", "two", "2\n")
    second = studio.commit("two")
    studio.run("export_notes", words=["HEAD"])
    listed = repo.git("notes", "--ref=ai", "list").split()
    assert set(listed[1::2]) == {first, second}


def test_notes_of_somebody_else_are_never_touched(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "new", "1\n")
    studio.commit("second")
    repo.git("notes", "--ref=ai", "add", "-m", "theirs")
    before = noted(repo)
    for verb in ("export_notes", "export_remove"):
        with pytest.raises(RefusedError, match="notes of another tool"):
            studio.run(verb)
    assert noted(repo) == before


def test_notes_that_somebody_changed_since_are_theirs(
    repo: Repo, studio: Studio
) -> None:
    studio.write("S1", "new", "1\n")
    studio.commit("second")
    studio.run("export_notes")
    repo.git("notes", "--ref=ai", "append", "-m", "more")
    before = noted(repo)
    with pytest.raises(RefusedError):
        studio.run("export_remove")
    assert noted(repo) == before


def test_nothing_is_written_beside_git_ai(repo: Repo, studio: Studio) -> None:
    studio.write("S1", "new", "1\n")
    studio.commit("second")
    repo.mkdir(".git/ai")
    with pytest.raises(RefusedError, match="git-ai is used here"):
        studio.run("export_notes")
    assert noted(repo) == ""
    assert rows(studio.run("export_notes", dry_run=True), "notes")


def test_git_ai_in_the_path_counts_as_here(
    repo: Repo,
    open_studio: Open,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tools = tmp_path_factory.mktemp("bin")
    program = tools / "git-ai"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    studio = open_studio(repo)
    studio.write("S1", "new", "1\n")
    studio.commit("second")
    with pytest.raises(RefusedError, match="git-ai is used here"):
        studio.run("export_notes")


def test_interrupted_write_can_be_taken_back(
    repo: Repo, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between what is remembered and the ref leaves the older notes ours."""
    studio.write("S1", "one", "1\n")
    studio.commit("one")
    studio.run("export_notes")
    studio.write("S1", "two", "2\n")
    studio.commit("two")
    git = studio.context.workspace.git
    with monkeypatch.context() as patch:
        patch.setattr(git, "put_ref", broken)
        with pytest.raises(StoreError, match="killed"):
            studio.run("export_notes")
    assert studio.run("export_remove")["removed"] == 1
    assert noted(repo) == ""


def broken(*_: object) -> None:
    raise StoreError("killed")


def test_hooks_of_the_repository_are_not_run(repo: Repo, studio: Studio) -> None:
    hook = ".git/hooks/reference-transaction"
    repo.write(hook, f"#!/bin/sh\ntouch {repo.root}/ran\n", 0o755)
    studio.write("S1", "new", "1\n")
    repo.delete(hook)
    studio.commit("second")
    repo.write(hook, f"#!/bin/sh\ntouch {repo.root}/ran\n", 0o755)
    studio.run("export_notes")
    studio.run("export_remove")
    assert not repo.exists("ran")


def test_files_that_no_format_can_name_are_named(repo: Repo, studio: Studio) -> None:
    studio.hand(b"odd\xff", "")
    studio.write("S1", "new", "1\n")
    studio.run("session_start", human=True)
    studio.hand(b"odd\xff", "mine\n")
    studio.commit("second")
    left = rows(studio.run("export_notes", dry_run=True), "left_out")
    assert [row["path"] for row in left] == ['"odd\\377"']
