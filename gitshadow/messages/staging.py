"""staging: a turn's changes in the index, in a commit, in another worktree; plans and reports."""

from typing import NamedTuple

from gitshadow.messages.codec import Verb
from gitshadow.messages.rows import AboutRow
from gitshadow.messages.undo import UndoTarget


class UnitRequest(NamedTuple):
    """A unit by what was typed: `only` and `except_` are paths that limit it."""

    targets: tuple[UndoTarget, ...] = ()
    only: tuple[str, ...] = ()
    except_: tuple[str, ...] = ()
    include_low: bool = False


class StageRequest(NamedTuple):
    """Stage a unit, or with `undo` restore the index entries from before the last staging.

    It is only planned unless `yes` is true. With a `token` only the plan of that token is applied.
    `confirm` is what the environment of the process that asks says about questions.
    """

    unit: UnitRequest = UnitRequest()
    undo: bool = False
    yes: bool = False
    token: str | None = None
    confirm: str | None = None
    cwd: str | None = None


class CommitRequest(NamedTuple):
    """Plan a commit of units, or with `yes` prepare it for `git commit`.

    `message` replaces the one from the prompts. With `onto` the commit is for that branch.
    """

    unit: UnitRequest = UnitRequest()
    message: str | None = None
    trailers: bool = False
    onto: str | None = None
    yes: bool = False
    token: str | None = None
    confirm: str | None = None
    cwd: str | None = None


class AdoptRequest(NamedTuple):
    """Let the index have what a commit has brought; `before` is HEAD before it, None if unborn."""

    commit: str
    before: str | None = None
    cwd: str | None = None


class SplitRequest(NamedTuple):
    """Plan one commit for each turn that has uncommitted changes."""

    only: tuple[str, ...] = ()
    except_: tuple[str, ...] = ()
    include_low: bool = False
    confirm: str | None = None
    cwd: str | None = None


class FileEnd(NamedTuple):
    """One end of a change: where a file is and what it holds; no `oid` if it is absent."""

    path: str
    mode: int = 0
    oid: str | None = None


class CarriedFile(NamedTuple):
    """What a unit changed in one file, from a state without its change to the state with it.

    `paths` are all names that the file had.
    """

    before: FileEnd
    after: FileEnd
    paths: tuple[str, ...]
    session: str | None = None


class CarryRequest(NamedTuple):
    """Apply the changes of files of another worktree here, as `carried` answers with them.

    `name` is how the op remembers the unit; `runner` is the session of the agent that asks.
    """

    files: tuple[CarriedFile, ...]
    name: str
    yes: bool = False
    token: str | None = None
    runner: str | None = None
    confirm: str | None = None
    cwd: str | None = None


class CarriedRequest(NamedTuple):
    """Ask what a unit changed, for another worktree."""

    unit: UnitRequest = UnitRequest()
    cwd: str | None = None


class StagingItem(NamedTuple):
    """What becomes of one file: it is `included`, `skipped` for a reason, or there `already`.

    `action` is what the target gets: create, modify, delete, rename, mode or none. `added` and
    `removed` count lines; they are None for a file without lines.
    """

    path: str
    action: str
    state: str
    session: str | None = None
    reason: str | None = None
    detail: str | None = None
    old_path: str | None = None
    added: int | None = None
    removed: int | None = None


class CommitPlan(NamedTuple):
    """One commit, planned or made: `target` names its unit."""

    target: str
    message: str
    items: tuple[StagingItem, ...]
    about: tuple[AboutRow, ...]
    commit: str | None = None


class PreparedCommit(NamedTuple):
    """What `git commit` needs: an index file, or for another branch the tree and its parent."""

    parent: str | None
    index_: str | None = None
    tree: str | None = None


class StagingAnswer(NamedTuple):
    """The plan or the report of one of these verbs.

    `commits` are those of `commit` and `split`, in order. `way_back` is the command that takes it
    back. `maybe` are paths whose changes may be the unit's and were skipped, `left` those with
    changes that are no turn's. `op_id` is set where files were changed, and `op_short`, its short
    id. `files` answers another worktree, `prepared` the process that runs `git commit`, `confirm`
    says whether to ask.
    """

    kind: str
    target: str
    status: str
    token: str = ""
    items: tuple[StagingItem, ...] = ()
    commits: tuple[CommitPlan, ...] = ()
    notes: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    about: tuple[AboutRow, ...] = ()
    way_back: str | None = None
    op_id: str | None = None
    op_short: str = ""
    files: tuple[CarriedFile, ...] = ()
    prepared: PreparedCommit | None = None
    confirm: bool | None = None


STAGE = Verb("stage", StageRequest, StagingAnswer)
COMMIT = Verb("commit", CommitRequest, StagingAnswer)
ADOPT = Verb("adopt", AdoptRequest, StagingAnswer)
SPLIT = Verb("split", SplitRequest, StagingAnswer)
CARRIED = Verb("carried", CarriedRequest, StagingAnswer)
CARRY = Verb("carry", CarryRequest, StagingAnswer)
