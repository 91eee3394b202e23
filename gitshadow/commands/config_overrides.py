"""Settings given for one call: `git -c agent-undo.check.unknown=refuse agent-undo check`.

Git hands them on in GIT_CONFIG_PARAMETERS, scripts in GIT_CONFIG_COUNT (git-config(1),
ENVIRONMENT); libgit2 reads neither, and a daemon has another environment.
Invariant: what cannot be read is nothing that was given.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gitshadow.config import GIT_PREFIX, KEYS

_PARAMETERS, _COUNT = "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"
_MOST = 1000


class ConfigOverrides(NamedTuple):
    """Hold settings as the environment would have them, and the names of those left out."""

    environ: Mapping[str, str]
    ignored: tuple[str, ...]


def settings_given(environ: Mapping[str, str], below: str) -> ConfigOverrides:
    """Return the settings for this call alone.

    Args:
        environ: The process environment; a variable of ours there wins, as over Git's config.
        below: The group of keys that counts (`check.`); others are left out.
    """
    values: dict[str, list[str]] = {}
    for name, value in _pairs(environ):
        values.setdefault(name.lower(), []).append(value)
    known = {key.git_name.lower(): key for key in KEYS}
    found: dict[str, str] = {}
    ignored: list[str] = []
    for name, given in values.items():
        key = known.get(name)
        if key is None or not key.name.startswith(below):
            ignored.append(name if key is None else key.git_name)
        elif not any(environ.get(one) for one in key.env_names):
            found[key.env_name] = "\n".join(given) if key.joined else given[-1]
    return ConfigOverrides(found, tuple(ignored))


def _pairs(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield our settings, those that win last."""
    counted = environ.get(_COUNT, "")
    for number in range(min(int(counted), _MOST) if counted.isdecimal() else 0):
        name = environ.get(f"GIT_CONFIG_KEY_{number}", "")
        yield from _ours(name, environ.get(f"GIT_CONFIG_VALUE_{number}", ""))
    try:
        words = shlex.split(environ.get(_PARAMETERS, ""))
    except ValueError:
        return
    for word in words:
        name, sign, value = word.partition("=")
        yield from _ours(name, value if sign else "true")


def _ours(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name.lower().startswith(GIT_PREFIX):
        yield name, value
