"""The answers of `git blame`, for content that no recorded event wrote.

Content that was there first goes to the commits that `git blame` names. Content that Git brought
later is asked of `git blame` too, and each commit that is newer than the recording is led back to
recorded states: by its exact blob, then by the same change; what looks recorded but cannot be
proven to be so is unknown.
Invariant: Git is asked only for content of which a line is still there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gitshadow.blame.git_history import GitLine, GitPast
from gitshadow.blame.owners import (
    Diff,
    Origin,
    OriginSource,
    Owner,
    Vector,
    carried,
    count_lines,
    fresh,
    split_lines,
    whole,
)
from gitshadow.blame.rewrites import Rewrites, changes_of
from gitshadow.errors import StoreError
from gitshadow.model import Actor, Confidence, Oid, PathChange, RepoPath

GONE = "Git wrote it, but its commit cannot be found"
BEFORE = "it was already there, uncommitted, when recording began"
ALIKE = "Git wrote it; an identical line was recorded before, so it may be the same"
UNSEEN = "it was committed here, but its writing was not recorded"
SILENT = "git blame gave no author"


@dataclass(slots=True)
class GitOrigins:
    """Answer for the origins of one replay that rest on Git.

    `first` is the oldest recorded event of the file: commits under it hold nothing recorded.
    """

    commits: GitPast
    read: Callable[[Oid], bytes]
    diff: Diff
    rewrites: Rewrites
    first: PathChange | None = None
    _answers: dict[int, tuple[Owner, Vector]] = field(default_factory=dict)
    _owners: dict[tuple[Oid, RepoPath], Owner] = field(default_factory=dict)
    _asking: set[int] = field(default_factory=set)
    _windows: dict[tuple[int, RepoPath], Owner] = field(default_factory=dict)
    _nobodies: dict[tuple[tuple[Oid, RepoPath], str], Owner] = field(
        default_factory=dict
    )
    _changes: dict[tuple[Oid, RepoPath], dict[int, Origin]] = field(
        default_factory=dict
    )
    _said: dict[tuple[Oid, RepoPath], GitLine] = field(default_factory=dict)

    def said(self, owner: Owner) -> GitLine | None:
        """Return what Git said of a line of the commit that an owner names, if it was asked."""
        return (
            None if owner.commit is None else self._said.get((owner.commit, owner.path))
        )

    def settle(self, vector: Vector) -> Vector:
        """Return a vector in which no origin is left open."""
        return [self._settled(origin) for origin in vector]

    def _settled(self, origin: Origin) -> Origin:
        owner = origin.owner
        if owner.content is None:
            return origin
        if id(owner) not in self._answers:
            # An answer may lead back to a content whose owners are being asked for; this ends the
            # circle.
            self._asking.add(id(owner))
            # The owner is kept with its answer, so that its id is not given to another one.
            self._answers[id(owner)] = owner, self._answer(owner, owner.content)
            self._asking.discard(id(owner))
        found = self._answers[id(owner)][1]
        if origin.line > len(found):
            return Origin(_nobody(owner, GONE), origin.line)
        return found[origin.line - 1]

    def _answer(self, owner: Owner, content: Oid) -> Vector:
        """Return the origins of all lines of a content."""
        data = self.read(content)
        commit = self._commit(owner, content)
        blob = None if commit is None else self.commits.blob(commit, owner.path)
        rest = self._rest(owner)
        if commit is None or blob is None:
            return fresh(rest, count_lines(data))
        try:
            lines = self.commits.blame(commit, owner.path)
            held = data if blob == content else self.read(blob)
        except StoreError as error:
            silent = _nobody(owner, f"{SILENT}: {error}")
            return fresh(silent, count_lines(data))
        vector = self._led_back(owner, lines, split_lines(held))
        if blob == content or len(vector) != count_lines(held):
            return vector
        return carried(vector, self.diff(_plain(held), _plain(data)), rest)

    def _commit(self, owner: Owner, content: Oid) -> Oid | None:
        """Return the commit whose lines are to be asked for."""
        if owner.commit is not None:
            return owner.commit
        # A content that Git switched in is in a commit where HEAD was. One that was there first is
        # in the commit on which the session began, unless it was uncommitted.
        holding = self.commits.holding(owner.path, content)
        if owner.switched:
            # The commit that brought it first is the one to which HEAD moved then: a later one
            # may be somebody's own work of the same content.
            return self.commits.bringing(owner.path, content) or holding
        began = self.commits.began(owner.event)
        if began is not None and (
            holding is None or self.commits.blob(began, owner.path) == content
        ):
            return began
        return holding

    def _rest(self, owner: Owner) -> Owner:
        """Return who owns what is in a content but in no commit."""
        if owner.switched:
            return _nobody(owner, GONE)
        return Owner(
            source=OriginSource.BEFORE, path=owner.path, event=owner.event, note=BEFORE
        )

    def _led_back(
        self, owner: Owner, lines: Sequence[GitLine], texts: Sequence[bytes]
    ) -> Vector:
        self._said.update(((line.commit, line.path), line) for line in lines)
        if not owner.switched:
            return [self._by_git(line) for line in lines]
        named = list({line.commit for line in lines})
        base = self._base()
        # Without a base nothing proves that a commit is older than the recording.
        newer = set(named) if base is None else self.commits.newer(named, base)
        return [
            self._newer(owner, line, text)
            if line.commit in newer
            else self._by_git(line)
            for line, text in zip(lines, texts, strict=False)
        ]

    def _base(self) -> Oid | None:
        """Return a commit that is built on nothing recorded of this file.

        The session of the first event may itself have begun on a commit that was made then.
        """
        if self.first is None:
            return self.commits.recorded_since()
        path = self.first.path_before
        blob = self.first.before.oid if self.first.before is not None else None
        # The reflog is the better witness: the session may have begun on a commit of recorded work.
        return self.commits.oldest(path, blob) or self.commits.began(self.first)

    def _by_git(self, line: GitLine) -> Origin:
        key = line.commit, line.path
        if key not in self._owners:
            self._owners[key] = Owner(
                source=OriginSource.COMMIT, path=line.path, commit=line.commit
            )
        return Origin(self._owners[key], line.line)

    def _nobody_of(self, line: GitLine, why: str) -> Origin:
        key = line.commit, line.path
        if (key, why) not in self._nobodies:
            self._nobodies[key, why] = Owner(
                source=OriginSource.UNKNOWN,
                path=line.path,
                commit=line.commit,
                note=why,
            )
        return Origin(self._nobodies[key, why], line.line)

    def _newer(self, owner: Owner, line: GitLine, text: bytes) -> Origin:
        """Return the origin of a line that a commit newer than the recording brought."""
        blob = self.commits.blob(line.commit, line.path)
        state = None if blob is None else self.rewrites.recorded(blob)
        if state is not None and line.line <= len(state.vector):
            origin = state.vector[line.line - 1]
            if id(origin.owner) not in self._asking:
                return self._settled(origin)
        names = (line.path, *(line.previous[1:] if line.previous else ()), owner.path)
        for changed in (
            self.rewrites.original(line.commit, line.line, *names),
            self._same_changes(line).get(line.line),
        ):
            if changed is None or id(changed.owner) in self._asking:
                continue
            found = self._settled(changed)
            if found.owner.source is not OriginSource.UNKNOWN:
                return found
        # Rebases and squashes change blobs and hunks, so an equal recorded line may be the same
        # one.
        if self.rewrites.has_written(text):
            return self._nobody_of(line, ALIKE)
        # Only `git commit` takes what is in the working tree: cherry-pick, am and rebase take the
        # work of others.
        if self.commits.plainly_made(line.commit) and _is_agents(owner.event):
            return self._by_window(owner, line)
        if self.commits.made_here(line.commit):
            return self._nobody_of(line, UNSEEN)
        return self._by_git(line)

    def _by_window(self, owner: Owner, line: GitLine) -> Origin:
        """Return the origin of a line that was written and committed in one agent's tool call."""
        key = id(owner), line.path
        if key not in self._windows:
            self._windows[key] = Owner(
                source=OriginSource.EVENT, path=line.path, event=owner.event
            )
        return Origin(self._windows[key], line.line)

    def _same_changes(self, line: GitLine) -> dict[int, Origin]:
        """Return the lines that a commit brought by a change that was recorded before."""
        key = line.commit, line.path
        if key not in self._changes:
            self._changes[key] = self._look_for_changes(line)
        return self._changes[key]

    def _look_for_changes(self, line: GitLine) -> dict[int, Origin]:
        before = self._content(*line.previous) if line.previous else b""
        after = self._content(line.commit, line.path)
        if before is None or after is None:
            return {}
        olds, news = split_lines(before), split_lines(after)
        found: dict[int, Origin] = {}
        for hunk in self.diff(before, after):
            owners = self.rewrites.same_change(changes_of(olds, news, hunk))
            for offset, origin in enumerate(owners or ()):
                found[hunk[2] + offset] = origin
        return found

    def _content(self, commit: Oid, path: RepoPath) -> bytes | None:
        blob = self.commits.blob(commit, path)
        try:
            return None if blob is None else whole(self.read(blob))
        except StoreError:
            return None


def _nobody(owner: Owner, why: str) -> Owner:
    return Owner(
        source=OriginSource.UNKNOWN, path=owner.path, event=owner.event, note=why
    )


def _is_agents(event: PathChange | None) -> bool:
    """Return whether HEAD moved inside the only open window of an agent's tool."""
    if event is None or event.attribution.confidence is not Confidence.MEDIUM:
        return False
    return event.attribution.actor is Actor.AGENT and event.attribution.call is not None


def _plain(data: bytes) -> bytes:
    r"""Return a content as Git stores it where it converts line endings."""
    return whole(data).replace(b"\r\n", b"\n")
