"""The files that are wholly ours, as the wheel has them.

Invariant: a file counts as ours only if everything that it runs is ours.
"""

import json
import os
from collections.abc import Iterator

from gitshadow.attribution.markers import MANAGED_MARK
from gitshadow.errors import ShadowError
from gitshadow.hookfiles import invocation
from gitshadow.hookfiles.placement import PackagedPiece

_NAME = "gitshadow"
_RUN_KEYS = frozenset({"command", "bash"})
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CARRIED = os.path.join(_PACKAGE, "_hooks")
_IN_CLONE = os.path.join(os.path.dirname(_PACKAGE), "hooks")


def content(piece: PackagedPiece, agent: str, executable: str | None) -> bytes:
    """Return a packaged file for the user, or for a project (without an executable).

    Raises:
        ShadowError: this installation lacks the file, or a path cannot be written as text.
    """
    # A wheel has the files in the package; an editable installation uses those of the clone.
    top = _CARRIED if os.path.isdir(_CARRIED) else _IN_CLONE
    path = os.path.join(top, piece.source)
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            template = stream.read()
    except OSError as error:
        raise ShadowError(
            f"could not read the packaged file {piece.source}",
            hint="check that the installation is complete",
        ) from error
    suffix = os.path.splitext(piece.source)[1]
    return encoded(invocation.fill(template, suffix, agent, executable))


def encoded(text: str) -> bytes:
    """Return a text as UTF-8.

    Raises:
        ShadowError: a path in it is not UTF-8.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ShadowError("could not write a path that is not UTF-8") from None


def is_ours(data: bytes) -> bool:
    """Return whether a file is ours, of this or another version."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    if MANAGED_MARK in text:
        return True
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    commands = list(_commands(document))
    # The manifest of a plugin runs nothing, so only its name shows whose it is.
    if not commands:
        return document.get("name") == _NAME
    return all(invocation.agent_of(command) is not None for command in commands)


def programs(data: bytes) -> Iterator[str]:
    """Yield the programs that one of our JSON files runs."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    for command in _commands(document):
        program = invocation.program_of(command)
        if program is not None:
            yield program


def _commands(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _RUN_KEYS and isinstance(inner, str):
                yield inner
            else:
                yield from _commands(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _commands(inner)
