"""check, review: check a change against policies, and mark lines as reviewed."""

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import click

from gitshadow.commands import error_handler
from gitshadow.commands.client import Reply, find_layout, send
from gitshadow.commands.options import colour_option, json_option, spelled_paths
from gitshadow.commands.terminal import print_answer, print_list, screen
from gitshadow.config import ENV_PREFIX, GIT_PREFIX, KEYS
from gitshadow.errors import ExitCode, JournalError, ShadowError, UsageError
from gitshadow.ipc import own_process
from gitshadow.ipc.handover import FLAG
from gitshadow.messages.check import (
    CHECK,
    REVIEW,
    REVIEWS,
    UNREVIEW,
    CheckAnswer,
    CheckRequest,
    ReviewRequest,
    UnreviewRequest,
)
from gitshadow.messages.codec import Nothing
from gitshadow.render import check as shown
from gitshadow.render import output
from gitshadow.render.check import review_lines, reviews_lines, unreview_lines
from gitshadow.render.style import printable

# Git passes what was typed after `git -c` to this program in these variables (git-config(1)). A
# daemon has another environment, and libgit2 reads none of them, so they go along with the request.
_PARAMETERS, _COUNT = "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"
_MOST = 1000


class ConfigOverrides(NamedTuple):
    """Settings as environment variables, and the names of those left out."""

    environ: Mapping[str, str]
    ignored: tuple[str, ...]


def settings_given(environ: Mapping[str, str], below: str) -> ConfigOverrides:
    """Return the settings for this call alone.

    Args:
        environ: The process environment; a variable of ours there wins, as over Git's config.
        below: The group of keys that counts (`check.`); others are left out.
    """
    values: dict[str, list[str]] = {}
    for name, value in _pairs(environ):
        values.setdefault(name.lower(), []).append(value)
    known = {key.git_name.lower(): key for key in KEYS}
    found: dict[str, str] = {}
    ignored: list[str] = []
    for name, given in values.items():
        key = known.get(name)
        if key is None or not key.name.startswith(below):
            ignored.append(name if key is None else key.git_name)
        elif not any(environ.get(one) for one in key.env_names):
            found[key.env_name] = "\n".join(given) if key.joined else given[-1]
    return ConfigOverrides(found, tuple(ignored))


def _pairs(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield our settings, those that win last."""
    counted = environ.get(_COUNT, "")
    for number in range(min(int(counted), _MOST) if counted.isdecimal() else 0):
        name = environ.get(f"GIT_CONFIG_KEY_{number}", "")
        yield from _ours(name, environ.get(f"GIT_CONFIG_VALUE_{number}", ""))
    try:
        words = shlex.split(environ.get(_PARAMETERS, ""))
    except ValueError:
        return
    for word in words:
        name, sign, value = word.partition("=")
        yield from _ours(name, value if sign else "true")


def _ours(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name.lower().startswith(GIT_PREFIX):
        yield name, value


@click.command("check")
@click.option("--staged", is_flag=True, help="Staged changes (the default).")
@click.option("--range", "range_", metavar="A..B", help="The changes from A to B.")
@click.option("-q", "--quiet", is_flag=True, help="Print only findings.")
@click.option(FLAG, "managed", is_flag=True, help="For the pre-commit framework.")
@colour_option
@json_option
@click.argument("rev", required=False)
def check_command(
    staged: bool,
    range_: str | None,
    quiet: bool,
    managed: bool,
    as_json: bool,
    rev: str | None,
) -> int:
    """Check a change against your policies: what is staged, the commit REV, or a range.

    Policies come from `git config agent-undo.check.*` and `.agent-undo.toml`. Exits 5 if a
    policy refuses the change, else 0, even if nothing could be checked; a warning then
    explains why.
    """
    if sum((staged, range_ is not None, rev is not None)) > 1:
        raise UsageError(
            "cannot check several changes at once",
            hint="use only one of: --staged, --range A..B, REV",
        )
    reply = _checked(surroundings()._replace(range=range_, rev=rev, managed=managed))
    answer = reply.answer
    if as_json:
        output.show_json(reply.document)
    elif answer.status != "skipped":
        output.show(shown.check_lines(answer, screen().view, quiet=quiet or managed))
    refused = answer.status == "refused"
    return int(ExitCode.REFUSED if refused else ExitCode.DONE)


def surroundings() -> CheckRequest:
    """Return a request with this process, its settings, and the index that Git names."""
    index = os.environ.get("GIT_INDEX_FILE")
    given = settings_given(os.environ, "check.")
    for name in given.ignored:
        said = printable(name)
        click.echo(f"warning: `git -c {said}` is ignored here", err=True)
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(f"{ENV_PREFIX}CHECK")
    }
    return CheckRequest(
        pid=own_process.pid(),
        parent=own_process.parent(),
        index_=None if index is None else os.path.abspath(index),
        environ=own | dict(given.environ),
    )


def _checked(request: CheckRequest) -> Reply[CheckAnswer]:
    """Ask the engine; return a skipped check if it fails."""
    # This runs before commits: an error of ours must not keep anybody from committing.
    try:
        if request.managed:
            _refuse_other_versions()
        return error_handler.contain(lambda: send(CHECK, request))
    except UsageError:
        raise
    except ShadowError as error:
        hint = f" ({error.hint})" if error.hint else ""
        said = printable(f"nothing was checked: {error.message}{hint}")
        click.echo(f"warning: {said}", err=True)
        lists = {"findings": [], "warnings": [said], "notes": []}
        return Reply(CHECK.answer, {"status": "skipped", **lists})


def _refuse_other_versions() -> None:
    """Refuse a journal of another version.

    Raises:
        JournalError: the journal is of another version.
    """
    # pre-commit runs a copy of this program from an environment of its own, which may be another
    # version than the daemon.
    layout = find_layout()
    if layout.initialised:
        # This imports sqlite3, which the daemon otherwise spares this process.
        from gitshadow.store.journal.db_file import version_of
        from gitshadow.store.journal.schema import VERSION

        if version_of(layout.journal) != VERSION:
            raise JournalError("the journal is from another version of gitshadow")


_EMPTY = "nothing is marked as reviewed; to mark lines: git agent-undo review PATH"


@click.command("review")
@click.option("--staged", is_flag=True, help="Staged changes (the default).")
@click.option("--range", "range_", metavar="A..B", help="The changes from A to B.")
@click.option("--commit", "rev", metavar="REV", help="The changes of a commit.")
@click.option("--list", "listed", is_flag=True, help="List the review marks.")
@click.option("--undo", metavar="ID", help="Remove a review mark.")
@json_option
@click.argument("targets", nargs=-1, metavar="[SESSION|PATH]...")
def review_command(
    targets: tuple[str, ...],
    as_json: bool,
    staged: bool,
    listed: bool,
    undo: str | None,
    **change: str | None,
) -> None:
    """Mark lines by agents as reviewed.

    For a SESSION or PATH these are the lines on disk, else those that the change adds. The
    mark records you, the time and exactly these lines; later changes need a new one.
    """
    named = [value for value in (undo, *change.values()) if value is not None]
    if len(named) + staged + listed + bool(targets) > 1:
        raise UsageError(
            "cannot do several of these at once",
            hint="use a SESSION, or PATHs, or one of the options alone",
        )
    if listed:
        print_list(
            send(REVIEWS, Nothing()),
            lambda answer: answer.rows,
            reviews_lines,
            as_json=as_json,
            empty=_EMPTY,
        )
    elif undo is not None:
        reply = send(UNREVIEW, UnreviewRequest(undo))
        print_answer(reply, unreview_lines, as_json=as_json)
    else:
        caller = surroundings()
        request = ReviewRequest(
            targets=tuple(spelled_paths(targets)),
            range=change["range_"],
            rev=change["rev"],
            index_=caller.index_,
            pid=caller.pid,
            agent=agent_here(),
        )
        print_answer(send(REVIEW, request), review_lines, as_json=as_json)


def agent_here() -> str | None:
    """Return the agent in whose environment this runs, if any."""
    from gitshadow.attribution import markers

    found = markers.detect(os.environ)
    return None if found is None else found.agent
