"""Trailers on request: which messages get them, and that every other one stays as it is."""

import os
from collections.abc import Callable

import pytest

from gitshadow.errors import StoreError
from gitshadow.interchange import commit_trailers
from gitshadow.interchange.commit_trailers import MessageContext, final_block, own_text
from tests.support.repo import Repo
from tests.support.studio import Studio

Open = Callable[[Repo], Studio]
TEMPLATE = b"\n# Please enter the commit message.\n# On branch main\n"
MESSAGE = ".git/COMMIT_EDITMSG"


@pytest.fixture
def asked(repo: Repo, open_studio: Open) -> Studio:
    """Return a repository that wants trailers and in which an agent's line is staged."""
    repo.git("config", "agent-undo.trailers", "true")
    studio = open_studio(repo)
    studio.write("S1", "new", "1\n2\n")
    repo.git("add", "new")
    return studio


def prepare(studio: Studio, message: bytes, source: str = "message") -> bytes:
    studio.repo.write(MESSAGE, message)
    path = os.fsdecode(studio.repo.path(MESSAGE))
    commit_trailers.prepare(studio.context, MessageContext(path, source))
    return studio.repo.read(MESSAGE)


def finish(studio: Studio, message: bytes) -> bytes:
    studio.repo.write(MESSAGE, message)
    commit_trailers.finish(
        studio.context, MessageContext(os.fsdecode(studio.repo.path(MESSAGE)))
    )
    return studio.repo.read(MESSAGE)


def trailers(studio: Studio) -> bytes:
    session = studio.session("S1").encode()
    return b"\nAssisted-by: claude-code:claude-sonnet-5\nAgent-Session: %b\n" % session


def test_written_message_names_agent_model_and_session(asked: Studio) -> None:
    assert prepare(asked, b"subject\n") == b"subject\n" + trailers(asked)


def test_message_stays_where_nobody_asked(repo: Repo, open_studio: Open) -> None:
    studio = open_studio(repo)
    studio.write("S1", "new", "1\n")
    repo.git("add", "new")
    assert prepare(studio, b"subject\n") == b"subject\n"


def test_only_sessions_that_wrote_staged_lines_are_named(
    repo: Repo, asked: Studio
) -> None:
    asked.write("S2", "other", "not staged\n")
    asked.write("S3", "a", "overwritten\n")
    asked.hand("a", "by hand\n")
    repo.git("add", "a")
    assert prepare(asked, b"subject\n") == b"subject\n" + trailers(asked)


def test_lines_of_nobody_known_name_nobody(repo: Repo, open_studio: Open) -> None:
    repo.git("config", "agent-undo.trailers", "true")
    studio = open_studio(repo)
    studio.hand("a", "by hand\n")
    repo.git("add", "a")
    assert prepare(studio, b"subject\n") == b"subject\n"


@pytest.mark.parametrize("source", ["merge", "squash", "commit", "what"])
def test_messages_that_others_made_stay(asked: Studio, source: str) -> None:
    """Merges, squashes, amends and -C keep what they say."""
    assert prepare(asked, b"subject\n", source) == b"subject\n"


@pytest.mark.parametrize(
    "state", ["MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge/x", "SQUASH_MSG"]
)
def test_messages_stay_while_git_replays_commits(asked: Studio, state: str) -> None:
    asked.repo.write(f".git/{state}", "x")
    assert prepare(asked, b"subject\n") == b"subject\n"


def test_trailers_that_stand_there_are_not_doubled(asked: Studio) -> None:
    once = prepare(asked, b"subject\n\nSigned-off-by: T <t@x>\n")
    assert dict(final_block(once)).keys() == {
        "Signed-off-by",
        "Assisted-by",
        "Agent-Session",
    }
    assert prepare(asked, once) == once


def test_message_that_a_person_writes_gets_them_when_it_is_written(
    asked: Studio,
) -> None:
    assert prepare(asked, TEMPLATE, "") == TEMPLATE
    made = finish(asked, b"subject\n" + TEMPLATE)
    assert made == b"subject\n" + trailers(asked) + TEMPLATE


@pytest.mark.parametrize("left", [TEMPLATE, b"", b"\n\n# only a comment\n"])
def test_message_left_empty_stays_empty(asked: Studio, left: bytes) -> None:
    """Leaving it empty gives the commit up; Git counts trailers as a message."""
    prepare(asked, TEMPLATE, "")
    assert finish(asked, left) == left


def test_template_left_as_it_was_stays_so(asked: Studio) -> None:
    """An untouched template gives the commit up too (commit.template)."""
    template = b"write here\n" + TEMPLATE
    assert prepare(asked, template, "template") == template
    assert finish(asked, template) == template
    prepare(asked, template, "template")
    assert b"Assisted-by" in finish(asked, b"written here\n" + TEMPLATE)


def test_what_waited_is_used_once(asked: Studio) -> None:
    prepare(asked, TEMPLATE, "")
    finish(asked, TEMPLATE)
    assert finish(asked, b"another\n") == b"another\n"


def test_what_waited_is_forgotten_by_the_next_commit(asked: Studio) -> None:
    """`--no-verify` runs the first hook alone."""
    prepare(asked, TEMPLATE, "")
    prepare(asked, b"merged\n", "merge")
    assert finish(asked, b"another\n") == b"another\n"


@pytest.mark.parametrize("held", [b"", b"{", b"[]", b'{"trailers": 1}', b"\xff"])
def test_damaged_waiting_file_is_none(asked: Studio, held: bytes) -> None:
    with open(asked.context.workspace.layout.trailers, "wb") as file:
        file.write(held)
    assert finish(asked, b"subject\n") == b"subject\n"


def test_comment_character_of_the_repository_counts(
    repo: Repo, open_studio: Open
) -> None:
    repo.git("config", "core.commentChar", ";")
    repo.git("config", "agent-undo.trailers", "true")
    studio = open_studio(repo)
    studio.write("S1", "new", "1\n")
    repo.git("add", "new")
    prepare(studio, b"\n; enter\n", "")
    made = finish(studio, b"subject\n\n# no comment\n\n; enter\n")
    assert made == b"subject\n\n# no comment\n" + trailers(studio) + b"\n; enter\n"


def test_no_command_of_the_repository_is_run(asked: Studio) -> None:
    asked.repo.git("config", "trailer.x.command", f"touch {asked.repo.root}/ran")
    assert b"Assisted-by" in prepare(asked, b"subject\n")
    assert not asked.repo.exists("ran")


def test_another_index_is_looked_at_where_git_names_one(asked: Studio) -> None:
    asked.repo.git("read-tree", "--index-output=.git/other", "HEAD")
    asked.repo.git("add", "new")
    index = os.fsdecode(asked.repo.path(".git/other"))
    path = os.fsdecode(asked.repo.path(MESSAGE))
    asked.repo.write(MESSAGE, b"subject\n")
    commit_trailers.prepare(asked.context, MessageContext(path, "message", index))
    assert asked.repo.read(MESSAGE) == b"subject\n"


def test_missing_message_is_an_error_that_the_hook_swallows(asked: Studio) -> None:
    with pytest.raises(StoreError, match="could not read"):
        commit_trailers.prepare(
            asked.context, MessageContext("/nowhere/MSG", "message")
        )


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (b"a\n# b\nc\n", b"a\nc"),
        (b"\n\n#\n", b""),
        (
            b"a\n# ------------------------ >8 ------------------------\n+diff\n",
            b"a",
        ),
        (b"a \n\nb\n", b"a\n\nb"),
    ],
)
def test_own_text_is_what_a_person_wrote(message: bytes, kept: bytes) -> None:
    assert own_text(message, b"#") == kept
