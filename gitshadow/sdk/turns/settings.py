"""What all turns and undos of one session share.

Nothing of it changes while the session is open, except for what is known of its calls.
"""

from dataclasses import dataclass, field

from gitshadow.sdk.turns.file_recording import FileRecorder
from gitshadow.sdk.turns.host import ContextCache, Host
from gitshadow.sdk.turns.kept_secrets import KeptSecrets
from gitshadow.sdk.turns.policy import Policy
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.user_hooks import UserHooks


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """What all turns of a session share; `root` is where their files are.

    `recorder` is None where files are not recorded.
    `active` are the calls that this process runs, by turn and id; some outlive their turn.
    """

    store_id: str
    session: str
    agent: str | None
    registry: ToolRegistry
    policy: Policy
    host: Host
    owner: str
    contexts: ContextCache
    root: str
    recorder: FileRecorder | None = None
    hooks: UserHooks | None = None
    given: KeptSecrets = field(default_factory=KeptSecrets)
    active: dict[tuple[str, str], None] = field(default_factory=dict)
