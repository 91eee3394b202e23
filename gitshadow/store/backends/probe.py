"""Choose what reads a repository: libgit2, or Git's own plumbing.

libgit2 is taken where it opens a repository of a format that it is known to read. A newer one is
believed about a newer format only where its answers are those of Git.
"""

from collections.abc import Mapping
from enum import Enum

from gitshadow.errors import StoreError, UnsupportedError
from gitshadow.model import Oid
from gitshadow.store.backends import libgit2
from gitshadow.store.backends.libgit2 import Libgit2Backend
from gitshadow.store.backends.plumbing import PlumbingBackend
from gitshadow.store.backends.port import FILES, REFTABLE, Backend
from gitshadow.store.backends.ref_files import has_head
from gitshadow.store.backends.two_formats import EXTENSION
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout
from gitshadow.store.object_format import SHA1, format_named

# The first that may read SHA-256 and reftables in its usual build.
_NEW_FORMATS_SINCE = (1, 10)
_REFTABLE_SINCE = "2.45"
_NEEDS_RUST = "a repository with two object formats needs a newer git, built with Rust"


class UnknownFormatError(UnsupportedError):
    """The repository is of a format that nothing here can read."""


class Engine(Enum):
    """What reads a repository."""

    LIBGIT2 = "libgit2"
    PLUMBING = "git"


def open_backend(
    layout: Layout, environ: Mapping[str, str], engine: Engine | None = None
) -> Backend:
    """Open the repository of a worktree.

    Args:
        layout: The worktree.
        environ: The environment of git children.
        engine: What reads it; None: what is fit for it.

    Raises:
        UnsupportedError: nothing here can read it (an unknown extension, another owner), or it is
            bare.
    """
    if engine is not Engine.PLUMBING:
        found = _through_libgit2(layout, environ, engine)
        if found is not None:
            return found
    return _through_git(layout, environ)


def _through_libgit2(
    layout: Layout, environ: Mapping[str, str], engine: Engine | None
) -> Backend | None:
    try:
        found = Libgit2Backend(layout, environ)
    except UnsupportedError as error:
        if engine is None and not _is_owners(error.message):
            return None
        raise _refused(layout, error.message) from error
    if found.is_bare:
        found.close()
        raise _bare(layout)
    if engine is None and not _is_true(found, layout, environ):
        found.close()
        return None
    return found


def _is_true(
    found: Libgit2Backend,
    layout: Layout,
    environ: Mapping[str, str],
    version: tuple[int, ...] = libgit2.VERSION,
) -> bool:
    """Return whether what libgit2 says of a repository that it opened can be true."""
    if found.setting(EXTENSION) is not None:
        return False
    if (found.form, found.ref_format) == (SHA1, FILES):
        return has_head(layout.git_dir)
    return version >= _NEW_FORMATS_SINCE and _agrees(found, Git(layout, dict(environ)))


def _agrees(found: Backend, git: Git) -> bool:
    """Return whether a backend and Git say the same of HEAD and its commit."""
    try:
        branch, head = found.head()
        named = git.run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).strip()
        at = git.run("rev-parse", "--verify", "--quiet", "HEAD", ok=(0, 1)).strip()
        same = (branch or "", head or "") == (named.decode(), at.decode())
        if not same or head is None:
            return same
        content = git.run("cat-file", "commit", head)
        return found.read(Oid(head)) == ("commit", content)
    except (StoreError, ValueError):
        return False


def _through_git(layout: Layout, environ: Mapping[str, str]) -> Backend:
    git = Git(layout, dict(environ))
    asked = ("--is-bare-repository", "--show-object-format=storage")
    try:
        is_bare, named = git.discovered("rev-parse", *asked).decode("ascii").split()
        if is_bare == "true":
            raise _bare(layout)
        return PlumbingBackend(layout, environ, format_named(named))
    except (StoreError, ValueError) as error:
        detail = str(error).removeprefix("cannot run git rev-parse: ")
        # It lists extensions on lines of their own.
        words = detail.removeprefix("fatal: ").replace(":;", ":").split()
        raise _refused(layout, " ".join(words)) from error.__cause__


def _bare(layout: Layout) -> UnsupportedError:
    return UnsupportedError(
        f"could not record {layout.root}: the repository is bare",
        hint="run this in a worktree",
    )


def _refused(layout: Layout, detail: str) -> UnsupportedError:
    lower, message = (
        detail.lower(),
        f"could not open repository {layout.root}: {detail}",
    )
    if _is_owners(lower):
        trust = f"git config --global --add safe.directory {layout.root}"
        return UnsupportedError(message, hint=f"if you trust it: {trust}")
    if "extension" in lower and "refstorage" in lower:
        newer = f"{REFTABLE} needs git {_REFTABLE_SINCE} or later: update git"
        return UnknownFormatError(message, hint=newer)
    if "requires rust" in lower or "compatobjectformat" in lower:
        return UnknownFormatError(message, hint=_NEEDS_RUST)
    if any(words in lower for words in ("extension", "repo version", "of the format")):
        newer = "this repository needs a newer git: update git"
        return UnknownFormatError(message, hint=newer)
    hint = "check that git itself can read it: git status"
    return UnsupportedError(message, hint=hint)


def _is_owners(detail: str) -> bool:
    return "owned" in detail or "owner" in detail or "safe.directory" in detail
