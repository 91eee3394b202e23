"""Words of a command line: ids of the journal, recorded paths, names that Git knows.

A shell asks at every press of a key: nothing here settles, starts a daemon, writes or loads the
engine.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitshadow.errors import ShadowError
from gitshadow.store.journal import offers
from gitshadow.store.journal.db import Db
from gitshadow.store.layout import Layout

_MOST_IDS = 50
_MOST_OF_EACH = 10


class Word(NamedTuple):
    """One word to choose from, with a note about it.

    `form` is `plain`, `path` (a directory ends in `/`), or `file`: any file of this machine.
    """

    value: str
    note: str = ""
    form: str = "plain"


class CompletionContext(NamedTuple):
    """Where a command line is typed."""

    layout: Layout
    cwd: str
    environ: Mapping[str, str]


def words(place: CompletionContext, kinds: Sequence[str], typed: str) -> list[Word]:
    """Return what begins with what is typed, kind by kind, the newest ids first.

    Args:
        place: Where.
        kinds: `path`, `revision`, `remote`, or a kind of `offers.ids`.
        typed: The beginning of the word; a path's is relative to the current directory.
    """
    found: list[Word] = []
    most = _MOST_IDS if len(kinds) == 1 else _MOST_OF_EACH
    try:
        for kind in kinds:
            of_git = _OF_GIT.get(kind)
            if of_git is not None:
                found += of_git(place, typed)
            elif kind == "path":
                found += _paths(place, typed)
            else:
                found += _ids(place, kind, typed, most)
    except (OSError, ShadowError):
        # An error here would be printed into the line that is being typed. The command itself
        # will report it.
        pass
    return list({word.value: word for word in found}.values())


def _ids(place: CompletionContext, kind: str, typed: str, most: int) -> Iterator[Word]:
    db = Db.look(place.layout.journal)
    try:
        for offer in offers.ids(db, kind, typed, most):
            yield Word(offer.value, _said(offer))
    finally:
        db.close()


def _said(offer: offers.Offer) -> str:
    # Imported here, like other modules below: each key press starts a process.
    import time

    when = time.strftime("%b %d %H:%M", time.localtime(offer.ts_ns // 10**9))
    lines = (offer.note or "").strip().splitlines()
    return f"{when} {lines[0][:60]}".rstrip() if lines else when


def _paths(place: CompletionContext, typed: str) -> Iterator[Word]:
    layout = place.layout
    folder, slash, name = typed.rpartition("/")
    inside = os.path.normpath(os.path.join(os.path.realpath(place.cwd), folder + slash))
    below = os.path.relpath(inside, layout.root)
    if below == ".." or below.startswith("../"):
        return
    top = "" if below == "." else f"{below}/"
    db = Db.look(layout.journal)
    try:
        found = offers.names_below(db, layout.worktree, os.fsencode(top + name))
    finally:
        db.close()
    for one in found:
        yield Word(_spelled(os.fsencode(folder + slash) + one), form="path")


def _spelled(path: bytes) -> str:
    """Return a path as a command takes it, on one line."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text and not text.startswith('"'):
        return text
    # This import takes 10 ms, and few names are odd.
    from gitshadow.store.paths import c_quoted

    return c_quoted(path)


def _revisions(place: CompletionContext, typed: str) -> Iterator[Word]:
    """Yield branches and tags; behind `..` too."""
    before, dots, beginning = typed.rpartition("..")
    listed = ("refs/heads", "refs/remotes", "refs/tags")
    for name in _git(place, "for-each-ref", "--format=%(refname:short)", *listed):
        if name.startswith(beginning):
            yield Word(before + dots + name)


def _remotes(place: CompletionContext, typed: str) -> Iterator[Word]:
    return (Word(name) for name in _git(place, "remote") if name.startswith(typed))


def _git(place: CompletionContext, *args: str) -> list[str]:
    # This import takes 10 ms.
    from gitshadow.store.git import Git

    out = Git(place.layout, dict(place.environ)).run(*args)
    return out.decode("utf-8", "replace").splitlines()


_OF_GIT: Mapping[str, Callable[[CompletionContext, str], Iterator[Word]]] = {
    "revision": _revisions,
    "remote": _remotes,
}
