"""`git agent-undo report`: one session as a page to read."""

import errno
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from gitshadow.commands.client import Reply, find_layout, send
from gitshadow.commands.options import json_option, named_file
from gitshadow.errors import ShadowError, UsageError
from gitshadow.messages.codec import JsonObject
from gitshadow.messages.report import REPORT, ReportAnswer, ReportRequest
from gitshadow.render import output
from gitshadow.render.style import printable
from gitshadow.store.digests import digest
from gitshadow.store.layout import journal_stamp, page_of
from gitshadow.store.safe_files import replacing

_STDOUT = "-"


@click.command("report")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Write the report to FILE; - is standard output.",
)
@click.option("--open", "opened", is_flag=True, help="Open the report in a browser.")
@click.option(
    "--serve",
    is_flag=True,
    help="Serve it on this machine, kept up to date, until Ctrl-C.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="With --serve, the port; by default any that is free.",
)
@json_option
@click.argument("session", required=False)
@click.argument("other", required=False)
def command(  # noqa: PLR0913 - one per option
    session: str | None,
    other: str | None,
    target: str | None,
    opened: bool,
    serve: bool,
    port: int | None,
    as_json: bool,
) -> None:
    """Write an HTML report of SESSION; by default of the newest agent session.

    With OTHER it compares the two sessions, side by side. With --serve the page renews itself
    when something is recorded.

    The report is a single file and needs no network. Without --output it is stored with the
    files of gitshadow in the Git directory, where only you can read it.
    """
    if serve and (target or as_json):
        raise UsageError(
            "cannot use --serve with --output or --json",
            hint="leave one of them out",
        )
    if port and not serve:
        raise UsageError("cannot use --port without --serve", hint="add --serve")
    if serve:
        _serve(session, other, port or 0, opened=opened)
        return
    replies = _asked(session, other)
    if as_json:
        documents = [one.document for one in replies]
        whole: JsonObject = {"version": 1, "sessions": documents}
        output.show_json(whole if other else documents[0])
        return
    data = _page(replies).encode()
    if target == _STDOUT:
        output.show_bytes(data)
        return
    own = page_of(find_layout(), *(one.answer.session.row.id for one in replies))
    path = own if target is None else os.path.abspath(target)
    _write(path, data, private=target is None)
    click.echo(printable(path))
    if opened:
        _show(Path(path).as_uri())


def _asked(session: str | None, other: str | None) -> list[Reply[ReportAnswer]]:
    """Return the report of one session, or those of two.

    Raises:
        ShadowError: a session does not exist, or both are the same.
    """
    replies = [send(REPORT, ReportRequest(session))]
    if other is not None:
        replies.append(send(REPORT, ReportRequest(other)))
        first, second = (one.answer.session.row.id for one in replies)
        if first == second:
            raise UsageError(
                f"cannot compare session {first} with itself",
                hint="name two sessions of: git agent-undo sessions",
            )
    return replies


def _page(replies: Sequence[Reply[ReportAnswer]], live: str = "") -> str:
    # The template engine is imported for pages only, not for --json.
    from gitshadow.render.page import compare, page

    first, *rest = (one.answer for one in replies)
    return compare(first, rest[0], live) if rest else page(first, live)


def _serve(session: str | None, other: str | None, port: int, *, opened: bool) -> None:
    # http.server takes 25 ms to import.
    from gitshadow.commands import live_report

    layout = find_layout()

    def ask() -> live_report.Edition:
        replies = _asked(session, other)
        # Without the time at which it was made, which always differs.
        facts = [{**one.document, "generated": None} for one in replies]
        tag = digest(json.dumps(facts))
        return live_report.Edition(tag, lambda: _page(replies, tag))

    def announce(url: str) -> None:
        click.echo(url)
        sys.stdout.flush()
        click.echo("live until Ctrl-C; only this address opens the report", err=True)
        if opened:
            # Some browsers return only when they are closed.
            threading.Thread(target=_show, args=(url,), daemon=True).start()

    live_report.serve(ask, lambda: journal_stamp(layout), port, announce)


def _write(path: str, data: bytes, *, private: bool) -> None:
    """Replace a file, or make it; a private one can be read by its owner alone.

    Raises:
        ShadowError: it could not be written.
    """
    try:
        if private:
            # The report has prompts and source code. A link in the Git directory could lead it to a
            # place that others read.
            if os.path.islink(os.path.dirname(path)):
                raise OSError(errno.ELOOP, "its directory is a link")
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with replacing(path) if private else named_file(path) as stream:
            stream.write(data)
    except OSError as error:
        raise ShadowError(
            f"could not write {path}: {error.strerror}",
            hint="name another file: -o FILE",
        ) from error


def _show(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        click.echo(f"hint: no browser was found; open {url} by hand", err=True)
        sys.stderr.flush()
