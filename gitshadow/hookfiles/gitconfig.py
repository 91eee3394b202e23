"""Settings for Git itself, in one file of ours that the repository's configuration includes.

Invariant: the configuration gets one block, and its removal gives the former bytes; nothing else
of it is changed.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gitshadow.errors import RefusedError, ShadowError
from gitshadow.hookfiles import files
from gitshadow.hookfiles.files import Content
from gitshadow.hookfiles.install import FileAction, FileStep
from gitshadow.hookfiles.placement import InstallScope
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout

AGENT = "git-config"
# The file is in the directory of the configuration and has its mode. Git dies if it may not read an
# included file (`access_or_die`, git 2.39), and our own directory is closed to other users.
NAME = "agent-undo.gitconfig"
_MADE = (
    "# Made by git agent-undo hooks install git-config; hooks uninstall deletes it.\n"
)
_HIDDEN = (
    "# Not for others: git clone --mirror of this repository leaves our refs out, and so does\n"
    "# git log --exclude-hidden=uploadpack --all.\n"
    "[uploadpack]\n\thideRefs = refs/agent-undo/\n\thideRefs = refs/remotes/agent-undo/\n"
)
_UNLABELLED = "[log]\n\texcludeDecoration = refs/agent-undo/\n"
_HEADER = b"\n[include]\n\t# gitshadow: hooks uninstall git-config takes this out\n"
_LINE = f"\tpath = {NAME}\n".encode()
_BLOCK = _HEADER + _LINE
_LABELS_NARROWED_SINCE = (2, 39)


def plan(layout: Layout, git: Git) -> list[FileStep]:
    """Plan the included file and the line that includes it; nothing is written.

    Raises:
        StoreError: git could not be asked.
        ShadowError: a file could not be read.
        RefusedError: a file of that name was not created by us, or the last line of the
            configuration ends with a backslash.
    """
    config = _read_config(layout)
    ours = _step(layout, os.path.join(layout.common_dir, NAME))
    wanted = _content(git)
    if ours.before is not None and not _is_ours(ours.before.data):
        raise RefusedError(
            f"could not write {ours.path}: it was not created by gitshadow"
        )
    if ours.before is None or ours.before.data != wanted:
        action = FileAction.CREATE if ours.before is None else FileAction.CHANGE
        ours = replace(ours, action=action, after=wanted, mode=config.mode)
    return [ours, _including(_step(layout, _config(layout)), config)]


def plan_removal(layout: Layout) -> list[FileStep]:
    """Plan the removal of both.

    Raises:
        ShadowError: a file could not be read.
    """
    config = _step(layout, _config(layout))
    if config.before is not None:
        left = without(config.before.data)
        if left != config.before.data:
            config = replace(
                config, action=FileAction.CHANGE, after=left, mode=config.before.mode
            )
    ours = _step(layout, os.path.join(layout.common_dir, NAME))
    if ours.before is not None and _is_ours(ours.before.data):
        ours = replace(ours, action=FileAction.DELETE)
    return [config, ours]


def apply(steps: Sequence[FileStep]) -> list[FileStep]:
    """Do a plan in its order; from the first step that fails on, the rest is left as it is."""
    done: list[FileStep] = []
    failed = False
    for step in steps:
        try:
            if step.action is not FileAction.NONE and not failed:
                _do(step)
            done.append(replace(step, action=FileAction.NONE) if failed else step)
        except ShadowError as error:
            failed = True
            done.append(replace(step, action=FileAction.FAIL, error=error))
    return done


def is_installed(layout: Layout) -> bool:
    """Return whether our file exists and is included.

    Raises:
        ShadowError: the configuration could not be read.
    """
    there = os.path.exists(os.path.join(layout.common_dir, NAME))
    return there and _LINE in _read_config(layout).data


def left_alone(layout: Layout) -> list[str]:
    """Return a note on a file that a removal keeps because it was changed."""
    path = os.path.join(layout.common_dir, NAME)
    found = files.read(path)
    if found is None or _is_ours(found.data):
        return []
    return [
        f"{path} was changed since it was installed: it was kept, but is no longer included"
    ]


def without(data: bytes) -> bytes:
    """Return a configuration without our block."""
    before, found, after = data.partition(_BLOCK)
    if not found:
        return data
    # `git config` adds a new include.path below ours, in the section that our block began.
    rest = after.lstrip(b" \t\r\n")
    if rest and not rest.startswith(b"["):
        return before + b"\n[include]\n" + after
    return before + after


def _including(step: FileStep, config: Content) -> FileStep:
    if _LINE in config.data:
        return step
    if config.data.endswith(b"\\"):
        raise RefusedError(f"cannot change {step.path}: its last line continues")
    action = FileAction.CREATE if step.before is None else FileAction.CHANGE
    return replace(step, action=action, after=config.data + _BLOCK, mode=config.mode)


def _content(git: Git) -> bytes:
    # log.excludeDecoration replaces the set of refs that git labels by default, so it may be set
    # only if git labels all refs anyway. Git 2.39 narrowed the default.
    labels = git.run("config", "--get", "log.initialDecorationSet", ok=(0, 1))
    every = labels.strip() == b"all" or git.version() < _LABELS_NARROWED_SINCE
    return f"{_MADE}{_HIDDEN}{_UNLABELLED if every else ''}".encode()


def _is_ours(data: bytes) -> bool:
    parts = (f"{_MADE}{_HIDDEN}{labels}".encode() for labels in ("", _UNLABELLED))
    return data in parts


def _config(layout: Layout) -> str:
    return os.path.join(layout.common_dir, "config")


def _read_config(layout: Layout) -> Content:
    path = os.path.realpath(_config(layout))
    found = files.read(path)
    if found is None:
        raise ShadowError(f"cannot read {path}: it does not exist")
    return found


def _step(layout: Layout, path: str) -> FileStep:
    real = os.path.realpath(path)
    return FileStep(
        agent=AGENT,
        scope=InstallScope.PROJECT,
        path=path,
        real=real,
        before=files.read(real),
    )


def _do(step: FileStep) -> None:
    """Write one file while holding git's own lock on it."""
    with _locked(step.real):
        if files.read(step.real) != step.before:
            raise RefusedError(f"cannot change {step.path}: it has changed since")
        if step.action is FileAction.DELETE:
            files.delete(step.real)
        elif step.after is not None:
            files.write(step.real, step.after, step.mode)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    # `git config` takes the same lock, so neither loses the change of the other.
    lock = f"{path}.lock"
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
    except OSError as error:
        raise ShadowError(
            f"could not lock {path}: {error.strerror}",
            hint=f"if no git process runs, remove {lock}",
        ) from error
    try:
        yield
    finally:
        os.unlink(lock)
