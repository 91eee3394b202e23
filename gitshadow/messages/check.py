"""check, review, reviews, unreview: findings about a change, and review marks."""

from collections.abc import Mapping
from typing import NamedTuple

from gitshadow.messages.codec import Nothing, Verb


class CheckRequest(NamedTuple):
    """The change to check: a range, a commit (`rev`), else what is staged.

    `index_` is the index file that Git names, `pid` the process that asks, `environ` its
    settings. `managed` is set if a hook manager asks, `borrowed` if the refs are used alone.
    """

    range: str | None = None
    rev: str | None = None
    index_: str | None = None
    pid: int | None = None
    parent: int | None = None
    environ: Mapping[str, str] | None = None
    managed: bool = False
    borrowed: bool = False
    cwd: str | None = None


class CheckedChange(NamedTuple):
    """The change that was checked; `lines` counts what it adds."""

    kind: str
    base: str | None
    tip: str | None
    files: int
    lines: int


class FindingRow(NamedTuple):
    """One finding.

    `lines` are pairs of a first and a last line. `about` is an op, a gap or a pattern, `source`
    the policy, `remedy` the command that resolves the finding.
    """

    rule: str
    level: str
    path: str | None
    lines: tuple[tuple[int, ...], ...]
    reason: str
    agent: str | None
    session: str | None
    turn: str | None
    prompt: str | None
    candidates: tuple[str, ...]
    about: str | None
    source: str
    remedy: str


class CheckAnswer(NamedTuple):
    """The findings; `status` is passed, warned or refused, or skipped if nothing was checked."""

    status: str
    change: CheckedChange
    findings: tuple[FindingRow, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    policies: tuple[str, ...]
    own: tuple[str, ...]


class ReviewRequest(NamedTuple):
    """The lines to mark: of `targets` those on disk, else those that the change adds.

    The change is named as in a CheckRequest. `agent` is set if an agent's environment asks.
    """

    targets: tuple[str, ...] = ()
    range: str | None = None
    rev: str | None = None
    index_: str | None = None
    pid: int | None = None
    agent: str | None = None
    borrowed: bool = False
    cwd: str | None = None


class MarkRow(NamedTuple):
    """One review mark; `id` is empty if there was nothing to review."""

    id: str
    ref: str
    commit: str
    ts: str | None
    who: str
    target: str
    lines: int
    files: int
    paths: tuple[str, ...]
    sessions: tuple[str, ...]
    deleted: bool = False


class NothingToReview(NamedTuple):
    """The answer to `review` if no line needs one."""

    id: None
    target: str
    lines: int
    files: int
    sessions: tuple[str, ...]


class ReviewsAnswer(NamedTuple):
    """The review marks, newest first."""

    rows: tuple[MarkRow, ...]


class UnreviewRequest(NamedTuple):
    """The id of a review mark, or a unique prefix of it."""

    id: str


CHECK = Verb("check", CheckRequest, CheckAnswer)
REVIEW = Verb("review", ReviewRequest, MarkRow)
REVIEWS = Verb("reviews", Nothing, ReviewsAnswer)
UNREVIEW = Verb("unreview", UnreviewRequest, MarkRow)
