"""Push sessions to a remote, check them for secrets first, and fetch those of other machines.

The forms of tokens are those that their issuers document. A password without a known form is not
found.
Invariant: sessions of other machines are never pushed. A finding names kind and path, never the
secret. A fetch writes no ref of ours and none outside our namespace.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gitshadow.errors import RefusedError, StoreError, UsageError
from gitshadow.model import GITLINK_MODE, Chain, Oid, RepoPath
from gitshadow.query.resolve import session_anywhere
from gitshadow.recording.context import RecorderContext
from gitshadow.store import machine, marks, refs, remotes
from gitshadow.store.journal import sessions
from gitshadow.store.marks import ReviewMark
from gitshadow.store.objects import CommitInfo
from gitshadow.store.purge import is_purged
from gitshadow.store.refs import display_path
from gitshadow.store.remotes import RefResult
from gitshadow.store.repo import Repo

_SECRET = re.compile(
    rb"""(?:^|/)(?:
      \.env(?:\.(?!example$|sample$|template$|dist$)[^/]*)? | [^/]*\.env
    | id_(?:rsa|dsa|ecdsa|ed25519) | [^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|asc|gpg)
    | \.npmrc | \.pypirc | \.netrc | _netrc | \.htpasswd | \.git-credentials
    | credentials(?:\.(?:json|ya?ml|toml))? | secrets?\.(?:json|ya?ml|toml|env)
    | [^/]*(?:service[-_]?account|secret[-_]?key|private[-_]?key)[^/]*
    | \.aws/credentials | \.docker/config\.json | \.kube/config
    )$""",
    re.VERBOSE | re.IGNORECASE,
)

_TOKENS = {
    "a private key": rb"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----",
    "an AWS key": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "a GitLab token": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a Slack token": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "an Anthropic key": rb"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "an OpenAI key": rb"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{40,}",
    "a Google key": rb"\bAIza[0-9A-Za-z_-]{35}",
    "a Stripe key": rb"\b[rs]k_live_[0-9a-zA-Z]{16,}",
    "an npm token": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "a PyPI token": rb"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "a SendGrid key": rb"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "a Hugging Face token": rb"\bhf_[A-Za-z0-9]{34,}",
}
_KINDS = list(_TOKENS)
_ANY_TOKEN = re.compile(b"|".join(b"(%b)" % form for form in _TOKENS.values()))
BRANCHES = "refs/heads/agent-undo/"
"""Where sessions lie on a server that takes nothing but branches."""
_SHOWN = 5
# A push looks through every content of the history, so large ones are not read whole.
_MOST_BYTES = 1 << 20
_NAME = re.compile(r"[a-z0-9-]{1,40}")


class Token(NamedTuple):
    """What kind of secret a content has, and in which line, from 1."""

    kind: str
    line: int


def token_in(data: bytes) -> Token | None:
    """Return the first secret of a content, None where none is known by its form."""
    match = _ANY_TOKEN.search(data)
    if match is None:
        return None
    kind = _KINDS[(match.lastindex or 1) - 1]
    return Token(kind, data.count(b"\n", 0, match.start()) + 1)


def looks_secret(path: RepoPath) -> bool:
    """Return whether a file of this name usually holds a secret."""
    return _SECRET.search(path) is not None


def secret_names(paths: Iterable[RepoPath]) -> list[RepoPath]:
    """Return those of some paths that look secret, sorted."""
    return sorted(path for path in paths if looks_secret(path))


class SecretFinding(NamedTuple):
    """What looks secret, whose session has it, and what is in it where it is known.

    `path` is that of a file, None where a commit says it: in a prompt, as a rule.
    """

    path: RepoPath | None
    session: str
    token: Token | None = None

    def describe(self) -> str:
        """Return it in a few words."""
        name = "a prompt" if self.path is None else display_path(self.path)
        if self.token is None:
            return f"{name} in {self.session}"
        line = "" if self.path is None else f":{self.token.line}"
        return f"{name}{line}: {self.token.kind} in {self.session}"


class Parcel(NamedTuple):
    """What is to be sent: chains of ours, and review marks."""

    chains: tuple[Chain, ...]
    marks: tuple[ReviewMark, ...]

    @property
    def sessions(self) -> list[str]:
        """Return the sessions in it, sorted."""
        return sorted({chain.session for chain in self.chains})

    @property
    def refs(self) -> list[str]:
        """Return the refs, as they are here."""
        return [*(one.ref for one in self.chains), *(one.ref for one in self.marks)]


class Sending:
    """Send sessions of this machine, and the review marks that were set on it."""

    def __init__(self, context: RecorderContext) -> None:
        self._context = context
        self._ws = context.workspace

    def chosen(self, typed: Sequence[str]) -> Parcel:
        """Return some sessions with the marks that name them; all, and our marks, where none is.

        Of a session that was fetched the marks alone are ours to send.

        Raises:
            UsageError: an id names no session, or several.
        """
        db, own = self._ws.db, machine.ours(self._ws.layout)
        found = [session_anywhere(self._context, name) for name in typed]
        named = [session.id for context, session in found if context is self._context]
        theirs = {
            session.id for context, session in found if context is not self._context
        }
        chains = [row for one in named for row in sessions.chains_of(db, one)]
        if not typed:
            chains = sessions.chains(db)
        sent = {chain.session for chain in chains}
        chosen = [
            mark
            for mark in marks.list_marks(self._ws.repo)
            if sent & mark.sessions
            or (mark.machine in own and (not typed or theirs & mark.sessions))
        ]
        return Parcel(tuple(chains), tuple(chosen))

    def check_secrets(self, chains: Sequence[Chain]) -> None:
        """Refuse to send what looks secret.

        Raises:
            RefusedError: something does.
        """
        found = list(_secrets(self._ws.repo, chains))
        if found:
            shown = "; ".join(one.describe() for one in found[:_SHOWN])
            more = f"; {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            looks = "a file that looks" if len(found) == 1 else "files that look"
            if any(one.path is None for one in found):
                looks = "what looks"
            raise RefusedError(
                f"cannot push: the history contains {looks} secret: {shown}{more}",
                hint="to see who wrote one: git agent-undo log -- PATH; to erase it:"
                " git agent-undo purge PATH, or --text; to send them anyway:"
                " --force-secrets",
            )

    def send(
        self, remote: str, parcel: Parcel, *, as_branches: bool, force: bool
    ) -> dict[str, RefResult]:
        """Send it; return what became of each ref, by its name over there."""
        there = BRANCHES if as_branches else refs.REF_PREFIX
        specs = [
            f"{'+' * force}{ref}:{there}{ref.removeprefix(refs.REF_PREFIX)}"
            for ref in parcel.refs
        ]
        return remotes.push(self._ws.git, remote, specs)


def refused(remote: str, sent: Mapping[str, RefResult]) -> StoreError:
    """Return the error that says what a remote did not take, and what helps."""
    refusals = {ref: one.refused for ref, one in sent.items() if one.refused}
    ref, why = next(iter(refusals.items()))
    of = f" of {len(sent)}" if len(sent) > 1 else ""
    refs_ = "ref" if len(sent) == 1 else "refs"
    message = f"cannot push {len(refusals)}{of} {refs_} to {remote}: {ref}: {why}"
    if "non-fast-forward" in why or "fetch first" in why or "already exists" in why:
        hint = "it has a different history of that session; to replace it: --force"
    elif ref.startswith(BRANCHES):
        hint = "the server rejects such branches: ask its administrator"
    else:
        hint = "for a server that accepts only branches: push --as-branches"
    return StoreError(message, hint=hint)


def _secrets(repo: Repo, chains: Sequence[Chain]) -> Iterator[SecretFinding]:
    """Yield what looks secret in the commits of some chains: their words, names, contents."""
    named: dict[RepoPath, str] = {}
    blobs: dict[Oid, tuple[RepoPath, str]] = {}
    for chain in chains:
        commits = repo.chain(chain.tip)
        if not commits:
            continue
        whose = chain.session
        told = (token_in(commit.message) for commit in commits)
        spoken = next((token for token in told if token is not None), None)
        if spoken is not None:
            yield SecretFinding(None, whose, spoken)
        held = [
            (path, oid) for path, (_, oid) in repo.trees.flat(commits[0].tree).items()
        ]
        for before, after in _steps(repo, commits):
            for change in repo.trees.diff(before, after):
                if change.new is not None and change.new[0] != GITLINK_MODE:
                    held.append((change.path, change.new[1]))
                    blobs.setdefault(change.new[1], (change.path, whose))
        for path, oid in held:
            if path not in named and looks_secret(path) and not _is_gone(repo, oid):
                named[path] = whose
    yield from (SecretFinding(path, named[path]) for path in sorted(named))
    for oid, (path, whose) in sorted(blobs.items(), key=lambda item: item[1]):
        if path in named:
            continue
        token = token_in(repo.read_blob(oid)[:_MOST_BYTES])
        if token is not None:
            named[path] = whose
            yield SecretFinding(path, whose, token)


def _is_gone(repo: Repo, oid: Oid) -> bool:
    """Return whether a content was purged: its name alone no longer shows that."""
    try:
        return is_purged(repo.read_blob(oid))
    except StoreError:
        # It is a commit of a submodule, or an object that a partial clone does not have.
        return False


def _steps(
    repo: Repo, commits: Sequence[CommitInfo]
) -> Iterator[tuple[Oid | None, Oid]]:
    """Yield the trees before and after each commit of a chain, its baseline among them."""
    parents = commits[0].parents
    yield repo.commit(parents[0]).tree if parents else None, commits[0].tree
    for before, after in pairwise(commits):
        yield before.tree, after.tree


class Fetching:
    """Fetch for one worktree."""

    def __init__(self, context: RecorderContext) -> None:
        self._ws = context.workspace

    def fetch(self, remote: str, typed: Sequence[str]) -> list[tuple[str, str]]:
        """Fetch the sessions that words name (their ids or beginnings); all where there is none.

        Returns:
            The refs over there, and here, of those that are new or moved.

        Raises:
            UsageError: a word names no session of the remote.
            StoreError: the remote cannot be reached, or its objects cannot be read.
        """
        patterns = (f"{refs.REF_PREFIX}*", f"{BRANCHES}*")
        there = remotes.remote_refs(self._ws.git, remote, patterns)
        here, ours = self._ws.repo.refs(), self._ours()
        wanted: dict[str, str] = {}
        for name in sorted(there):
            place = self._place(name, ours)
            if place is not None:
                # `refs/agent-undo/` sorts before `refs/heads/`, so a session that was pushed both
                # ways is fetched from its own ref.
                wanted.setdefault(place, name)
        moved = [
            (name, place)
            for place, name in _named(remote, wanted, typed).items()
            if here.get(place) != there[name]
            and not (refs.is_mark(place) and place in here)  # a mark is never changed
        ]
        if moved:
            specs = [
                f"{'' if refs.is_mark(place) else '+'}{name}:{place}"
                for name, place in moved
            ]
            remotes.fetch(self._ws.git, remote, specs)
        return sorted(moved)

    def _ours(self) -> frozenset[str]:
        return frozenset(chain.ref for chain in sessions.chains(self._ws.db))

    def _place(self, name: str, ours: frozenset[str]) -> str | None:
        """Return where a ref of a remote belongs here; None for what is not to be fetched."""
        for prefix in (refs.REF_PREFIX, BRANCHES):
            last = name.removeprefix(prefix)
            if last == name or _NAME.fullmatch(last) is None:
                continue
            ref = refs.REF_PREFIX + last
            if refs.is_mark(ref):
                return ref
            if refs.is_chain(ref) and ref not in ours:
                return refs.fetched_ref(ref)
        return None


def _named(remote: str, wanted: dict[str, str], typed: Sequence[str]) -> dict[str, str]:
    """Return those of some refs, by their places here, that words name, and all review marks."""
    if not typed:
        return wanted
    chosen = {place: name for place, name in wanted.items() if refs.is_mark(place)}
    for word in typed:
        found = {
            place: name
            for place, name in wanted.items()
            if name.rpartition("/")[2].startswith(word) and not refs.is_mark(place)
        }
        if not found:
            raise UsageError(f"cannot find session {word} at {remote}")
        chosen |= found
    return chosen
