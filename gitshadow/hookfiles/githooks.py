"""Our calls in Git's own hooks: as configuration if git supports it, else as chained scripts.

Git 2.54 runs the hooks of its configuration and those of the hooks directory (git-hook(1)). Before
that there is one file per hook: an existing one is renamed, runs after ours with the same input,
and decides the exit code.
Invariant: no call of ours ever fails a git command, whether the program exists or not, except a
push that would send shadow refs and, if it was asked for, a commit that a policy refuses. What is
written is what the plan shows, and removal keeps every file that was changed since.
"""

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gitshadow.errors import ExitCode, RefusedError, ShadowError
from gitshadow.ipc.pushguard import NAMESPACES, REFUSED
from gitshadow.store.git import Git
from gitshadow.store.layout import Layout
from gitshadow.store.safe_files import replacing

EVENTS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-rewrite",
    "pre-push",
)
BEFORE = ".before-gitshadow"
_WITH_INPUT = frozenset({"post-rewrite"})
MARKER = "# gitshadow-managed: git"
_COMMENT = "# Reports to gitshadow, then runs the hook that was here before."
_GUARDS = (
    "# Refuses a push of recorded history, else runs the hook that was here before."
)
_PROGRAM = "gitshadow="
GUARD = "pre-push"
CHECKED = "pre-commit"
CHECK = "check"
# Any other exit code lets the commit go on: a fault of ours must not stop it.
CHECKING = f"""\
[ ! -x "$gitshadow" ] || "$gitshadow" check --quiet
[ $? -ne {int(ExitCode.REFUSED)} ]"""
# It keeps its input, and fails only if our program refuses. Any other exit code, also that of a
# broken installation, lets the push go on.
_GUARDING = f"""\
input="$(cat; echo .)"
case $input in {" | ".join(f"*{namespace}*" for namespace in NAMESPACES)})
    [ ! -x "$gitshadow" ] || printf %s "${{input%.}}" | "$gitshadow" git-hook {GUARD} "$@"
    [ $? -ne {REFUSED} ] ;;
esac"""
_CONFIGURED_SINCE = (2, 54)


class Way(StrEnum):
    """How git gets our hooks."""

    CONFIG = "config"
    FILES = "files"
    MANUAL = "manual"


class Act(StrEnum):
    """One kind of step: `set` and `unset` change configuration, the others files."""

    SET = "set"
    UNSET = "unset"
    WRITE = "write"
    MOVE = "move"
    REMOVE = "remove"


class GitHookState(StrEnum):
    """How complete the installation is."""

    INSTALLED = "installed"
    MISSING = "missing"
    STALE = "stale"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class HookChange:
    """One step.

    Attributes:
        place: An absolute path, or a key of the configuration (for `unset` its section).
        text: The file's content, the value, or the path to move a file to.
        seen: The content of `place` when the plan was made.
    """

    act: Act
    place: str
    text: str = ""
    seen: bytes | None = None


@dataclass(frozen=True, slots=True)
class GitHookPlan:
    """All steps in order, and advice on what a person has to do."""

    way: Way
    changes: tuple[HookChange, ...] = ()
    advice: str = ""


def plan(
    layout: Layout, git: Git, command: str, *, check: bool | None = None
) -> GitHookPlan:
    """Plan the changes that make git call us; nothing is written.

    Args:
        layout: Any worktree of the repository; all of them share their hooks.
        git: Its git.
        command: The absolute path of `git-agent-undo`.
        check: Whether commits are checked, and refused if a policy says so; None for no change.

    Raises:
        StoreError: git could not be asked.
        ShadowError: a hook could not be read.
    """
    if git.version() >= _CONFIGURED_SINCE:
        # This git runs the files of the hooks directory too, so our scripts from the time of an
        # older git would report everything twice.
        old = _removals(_default_directory(layout))
        if check is None:
            check = _is_configured(git, CHECK)
        settings = _settings(git, command, check=check)
        return GitHookPlan(Way.CONFIG, (*old.changes, *settings), old.advice)
    directory = _hooks_directory(layout, git)
    if directory is None:
        return GitHookPlan(Way.MANUAL, (), _by_hand(command, check=check))
    changes: list[HookChange] = []
    left: list[str] = []
    for event in EVENTS:
        path = os.path.join(directory, event)
        seen = _read(path)
        text = script(event, command, check=_is_checked(event, seen, check))
        if seen == text.encode():
            continue
        if seen is not None and not is_ours(seen, event):
            # The earlier backup may be the only copy of that hook, so it is not replaced.
            if os.path.lexists(path + BEFORE):
                left.append(f"{path}: {path + BEFORE} already exists")
                continue
            changes.append(HookChange(Act.MOVE, path, path + BEFORE, seen))
            seen = None
        changes.append(HookChange(Act.WRITE, path, text, seen))
    return GitHookPlan(Way.FILES, tuple(changes), "\n".join(left))


def plan_removal(layout: Layout, git: Git) -> GitHookPlan:
    """Plan the removal of our calls, errors as `plan`.

    A hook that was changed since we wrote it is kept and named in the advice.
    """
    unset = tuple(
        HookChange(Act.UNSET, _section(event))
        for event in (*EVENTS, CHECK)
        if _is_configured(git, event)
    )
    directory = _hooks_directory(layout, git) or _default_directory(layout)
    files = _removals(directory)
    way = Way.CONFIG if unset else Way.FILES
    return GitHookPlan(way, (*unset, *files.changes), files.advice)


def apply(plan: GitHookPlan, git: Git) -> None:
    """Apply a plan.

    Raises:
        RefusedError: a hook has changed since the plan was made; nothing was changed.
        StoreError: git could not write its configuration.
        ShadowError: a file could not be written.
    """
    # All hooks are compared before the first is changed, so that a refusal changes nothing.
    for change in plan.changes:
        if change.act in (Act.MOVE, Act.REMOVE) and _read(change.place) != change.seen:
            raise RefusedError(f"cannot change {change.place}: it has changed since")
    for change in plan.changes:
        if change.act is Act.SET:
            git.run("config", "--local", change.place, change.text)
        elif change.act is Act.UNSET:
            git.run("config", "--local", "--remove-section", change.place)
        else:
            _change_file(change)


def status(layout: Layout, git: Git, command: str) -> GitHookState:
    """Return how complete the installation is, errors as `plan`."""
    wanted = plan(layout, git, command)
    if wanted.way is Way.MANUAL:
        return GitHookState.MANUAL
    if not wanted.changes and not wanted.advice:
        return GitHookState.INSTALLED
    removal = plan_removal(layout, git)
    return GitHookState.STALE if removal.changes else GitHookState.MISSING


def _settings(git: Git, command: str, *, check: bool) -> Iterator[HookChange]:
    """Yield settings that are missing; a hook is named after us, never after an event."""
    wanted = {event: (configured_command(event, command), event) for event in EVENTS}
    if check:
        wanted[CHECK] = (check_command(command), CHECKED)
    for hook, values in wanted.items():
        for key, value in zip(("command", "event"), values, strict=True):
            name = f"{_section(hook)}.{key}"
            if _setting(git, name) != [value]:
                yield HookChange(Act.SET, name, value)
    if not check and _is_configured(git, CHECK):
        yield HookChange(Act.UNSET, _section(CHECK))


def _is_configured(git: Git, event: str) -> bool:
    names = (f"{_section(event)}.{key}" for key in ("command", "event"))
    return any(_setting(git, name) for name in names)


def _is_checked(event: str, seen: bytes | None, check: bool | None) -> bool:
    """Return whether a hook file is to run the check: as requested, else as it does now."""
    if event != CHECKED:
        return False
    return check if check is not None else CHECKING.encode() in (seen or b"")


def _section(event: str) -> str:
    return f"hook.gitshadow-{event}"


def _setting(git: Git, name: str) -> list[str]:
    # NUL separates the values, because the command of the guard has several lines.
    out = git.run("config", "--local", "-z", "--get-all", name, ok=(0, 1))
    return [os.fsdecode(value) for value in out.split(b"\0")[:-1]]


def _hooks_directory(layout: Layout, git: Git) -> str | None:
    """Return the directory in which git looks for hooks; None if we must not write there."""
    out = git.run(
        "config", "--type=path", "-z", "--get-all", "core.hooksPath", ok=(0, 1)
    )
    # The last value is the one that keeps our own children from running hooks.
    values = out.split(b"\0")[:-2]
    if not values:
        directory = _default_directory(layout)
    else:
        directory = os.path.join(layout.root, os.fsdecode(values[-1]))
        if not os.path.isdir(directory):
            return None
    real = os.path.realpath(directory)
    if os.path.lexists(real) and not os.path.isdir(real):
        return None
    # A directory of the working tree is source code (Husky keeps its hooks there), and a checkout
    # may replace it with that of another branch.
    inside = _is_below(real, layout.root) and not _is_below(real, layout.common_dir)
    return None if inside else directory


def _default_directory(layout: Layout) -> str:
    return os.path.join(layout.common_dir, "hooks")


def _is_below(path: str, top: str) -> bool:
    return os.path.commonpath((path, os.path.realpath(top))) == os.path.realpath(top)


def _by_hand(command: str, *, check: bool | None) -> str:
    """Return the lines that a person adds to hooks written by a hook manager.

    If the check is wanted, its line comes first.
    """
    word = shlex.quote(command)
    lines = [
        "core.hooksPath is inside the working tree or not a directory; nothing is written there.",
        "Add to your hooks (with pre-commit: the hooks gitshadow-note and gitshadow-window):",
    ]
    if check:
        lines.append(f"  {CHECKED}: {word} check --quiet || [ $? -ne 5 ] || exit 1")
    lines += [
        f'  {event}: {word} git-hook --beside {event} "$@" || true'
        for event in EVENTS
        if event != GUARD
    ]
    lines.append(
        f'  {GUARD}: {word} git-hook {GUARD} "$@"; [ $? -ne {REFUSED} ] || exit 1'
    )
    return "\n".join(lines)


def _removals(directory: str) -> GitHookPlan:
    changes: list[HookChange] = []
    left: list[str] = []
    for event in EVENTS:
        path = os.path.join(directory, event)
        seen, before = _read(path), _read(path + BEFORE)
        if seen is not None and is_ours(seen, event):
            changes.append(HookChange(Act.REMOVE, path, "", seen))
            if before is not None:
                changes.append(HookChange(Act.MOVE, path + BEFORE, path, before))
        elif before is not None or (seen is not None and MARKER.encode() in seen):
            left.append(f"{path} was changed since it was installed: skipped")
    return GitHookPlan(Way.FILES, tuple(changes), "\n".join(left))


def _read(path: str) -> bytes | None:
    """Read the file of a hook; None if there is none, the target of a broken link."""
    if not os.path.lexists(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return os.fsencode(os.readlink(path))
    except OSError as error:
        raise ShadowError(f"could not read {path}: {error.strerror}") from error


def _change_file(change: HookChange) -> None:
    try:
        if change.act is Act.MOVE:
            os.rename(change.place, change.text)
        elif change.act is Act.REMOVE:
            os.unlink(change.place)
        else:
            _write(change.place, os.fsencode(change.text))
    except OSError as error:
        raise ShadowError(f"cannot change {change.place}: {error.strerror}") from error


def _write(path: str, data: bytes) -> None:
    # A repository that was made with an empty template has no hooks directory (git-init(1)).
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path, 0o755) as out:
        out.write(data)


def script(event: str, command: str, *, check: bool = False) -> str:
    """Return the hook file for one event: our call first, then the hook that was there before."""
    if event == GUARD:
        return _guard_script(command)
    # The check comes before our report of the hook, so that no window is open while it runs.
    guard = f"{{ {CHECKING}; }} || exit 1\n" if check else ""
    # A variable keeps git's input, because a full disk could truncate a file. The full stop keeps
    # the line ends that `$(...)` removes from the end of a text (sh(1), command substitution).
    reads = event in _WITH_INPUT
    keep = 'input="$(cat; echo .)"\n' if reads else ""
    give = """printf '%s' "${input%.}" 2>/dev/null | """ if reads else ""
    return (
        f"#!/bin/sh\n{MARKER} {event}\n"
        f"{_COMMENT}\n"
        f"{_PROGRAM}{shlex.quote(command)}\n"
        f'before="$(dirname "$0")/{event}{BEFORE}"\n{keep}'
        f"{guard}"
        'tell() { [ ! -x "$gitshadow" ] || "$gitshadow" git-hook "$@" || :; }\n'
        f'[ -x "$before" ] || {{ {give}tell {event} "$@"; exit 0; }}\n'
        f'{give}tell --chained {event} "$@"\n'
        f'{give}"$before" "$@"\nstatus=$?\n'
        "tell hooks-done </dev/null\nexit $status\n"
    )


def _guard_script(command: str) -> str:
    """Return the hook that reads what a push sends; it starts us only for shadow refs."""
    return (
        f"#!/bin/sh\n{MARKER} {GUARD}\n"
        f"{_GUARDS}\n"
        f"{_PROGRAM}{shlex.quote(command)}\n"
        f'before="$(dirname "$0")/{GUARD}{BEFORE}"\n'
        f"{_GUARDING} || exit 1\n"
        '[ -x "$before" ] || exit 0\n'
        """printf '%s' "${input%.}" 2>/dev/null | "$before" "$@"\n"""
    )


def configured_command(event: str, command: str) -> str:
    """Return the configured command of one event; git appends the hook's arguments."""
    word = shlex.quote(command)
    if event == GUARD:
        text = f"gitshadow={word}\n{_GUARDING}"
        return f"sh -c {shlex.quote(text)} {event}"
    text = f'if [ -x {word} ]; then {word} git-hook --beside {event} "$@" || :; fi'
    return f"sh -c {shlex.quote(text)} {event}"


def check_command(command: str) -> str:
    """Return the configured command of the check."""
    text = f"gitshadow={shlex.quote(command)}\n{CHECKING}"
    return f"sh -c {shlex.quote(text)} {CHECK}"


def is_ours(data: bytes, event: str) -> bool:
    """Return whether a hook file is exactly what we write, with any program."""
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        if line.startswith(_PROGRAM):
            words = _words(line.removeprefix(_PROGRAM))
            ours = [
                script(event, word, check=on) for word in words for on in (False, True)
            ]
            return len(words) == 1 and data in map(os.fsencode, ours)
    return False


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []
