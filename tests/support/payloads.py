"""Every stored payload of every agent, with the name under which its hook is installed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gitshadow.adapters import registry

_TOP = Path(__file__).parents[1] / "fixtures"
_ALIASES = {
    "cline-sdk": "cline",
    "copilot-cli": "copilot",
    "devin-cli": "devin",
    "entire-protocol": "generic",
    "factory-droid": "droid",
    "gemini-cli": "gemini",
    "gitai-agent-v1": "generic",
    "kiro-cli2": "kiro",
    "kiro-v1": "kiro",
    "qwen-code": "qwen",
}
ENV = {"DEVIN_PROJECT_DIR": "/home/dev/app"}


class Stored(NamedTuple):
    """One payload, as an agent's hook gets it."""

    agent: str
    payload: object

    @property
    def raw(self) -> bytes:
        return json.dumps(self.payload).encode()


def stored() -> Iterator[Stored]:
    """Yield the samples, what real agents sent, and the example of docs/hooks.md."""
    for path in sorted((_TOP / "hook_payloads").glob("*__*.json")):
        name = path.stem.split("__")[0].replace("_", "-")
        yield Stored(_ALIASES.get(name, name), json.loads(path.read_bytes()))
    for path in sorted(_TOP.glob("*_payloads/*/*.json")):
        for step in json.loads(path.read_bytes()).get("steps", ()):
            if "payload" in step and path.parent.name in registry.KNOWN_AGENTS:
                yield Stored(path.parent.name, step["payload"])
    own = {"event": "prompt", "session": "s1", "turn": "t1", "prompt": "Greet"}
    yield from (Stored(agent, own) for agent in ("generic", "aider"))
