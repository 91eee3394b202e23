"""push, fetch, mirror, expose: what leaves this repository, and what comes."""

from typing import NamedTuple

from gitshadow.messages.codec import Nothing, Verb


class PushRequest(NamedTuple):
    """Sessions to send to a remote; without any, all of this machine."""

    remote: str
    sessions: tuple[str, ...] = ()
    force_secrets: bool = False
    as_branches: bool = False
    force: bool = False


class PushAnswer(NamedTuple):
    """What the remote has now: refs, sessions and ids of review marks, each sorted.

    `changed` are the refs that were new to it, `as_` the prefix of the branches, if any.
    """

    remote: str
    pushed: tuple[str, ...]
    changed: tuple[str, ...]
    sessions: tuple[str, ...]
    marks: tuple[str, ...]
    as_: str | None


class FetchRequest(NamedTuple):
    """Sessions to fetch from a remote; without any, all of them."""

    remote: str
    sessions: tuple[str, ...] = ()


class FetchedMark(NamedTuple):
    """A review mark that came: who marked what."""

    id: str
    who: str
    target: str


class UnreadableRef(NamedTuple):
    """A fetched ref that could not be read, and why."""

    ref: str
    why: str


class FetchAnswer(NamedTuple):
    """What came; `fetched` are pairs of the ref there and the ref here."""

    remote: str
    fetched: tuple[tuple[str, ...], ...]
    sessions: tuple[str, ...]
    marks: tuple[FetchedMark, ...]
    broken: tuple[UnreadableRef, ...]
    machines: tuple[str, ...]


class MirrorAnswer(NamedTuple):
    """The directory of the mirror, which has everything now."""

    mirror: str


class BringBackRequest(NamedTuple):
    """Restore the history from a mirror: the named one, or the configured one."""

    mirror: str | None = None


class BringBackAnswer(NamedTuple):
    """What was restored from a mirror: a number of refs, and your branches as refs of a remote.

    `at` is the newest recorded moment, in nanoseconds since the epoch.
    """

    mirror: str
    refs: int
    branches: tuple[str, ...]
    at: int | None


class ExposeRequest(NamedTuple):
    """A session to show to Git programs."""

    session: str


class ExposeAnswer(NamedTuple):
    """The refs that Git programs list now."""

    exposed: tuple[str, ...]


class UnexposeRequest(NamedTuple):
    """A session to hide again, or `all`."""

    session: str | None = None
    all: bool = False


class UnexposeAnswer(NamedTuple):
    """The refs that were deleted, and those that were not ours."""

    unexposed: tuple[str, ...]
    left: tuple[str, ...]


PUSH = Verb("push", PushRequest, PushAnswer)
FETCH = Verb("fetch", FetchRequest, FetchAnswer)
MIRROR = Verb("mirror", Nothing, MirrorAnswer)
BRING_BACK = Verb("bring_back", BringBackRequest, BringBackAnswer)
CAME_BACK = Verb("came_back", Nothing, Nothing)
EXPOSE = Verb("expose", ExposeRequest, ExposeAnswer)
UNEXPOSE = Verb("unexpose", UnexposeRequest, UnexposeAnswer)
