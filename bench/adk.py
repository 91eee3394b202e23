"""A rewind and one more event by Google's ADK; `turns.py` runs this in an environment of its own.

Nothing of ours is imported here, and ADK is imported nowhere else.
"""

# mypy: ignore-errors

import asyncio
import json
import sys
import time
from importlib.metadata import version

from google.adk.agents.base_agent import BaseAgent
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.genai import types

_APP, _USER = "bench", "somebody"
_PART = types.Part(inline_data=types.Blob(mime_type="text/plain", data=b"page\n" * 190))


async def measured(
    service: str, home: str, events: int, artifacts: int
) -> tuple[float, float]:
    """Fill a session, go back over half of it, then append an event; print both times."""
    if service == "memory":
        sessions = InMemorySessionService()
    else:
        name = time.time_ns()
        sessions = DatabaseSessionService(f"sqlite+aiosqlite:///{home}/{name}.db")
    files = InMemoryArtifactService()
    runner = Runner(
        app_name=_APP,
        agent=BaseAgent(name="nobody"),
        session_service=sessions,
        artifact_service=files,
    )
    session = await sessions.create_session(app_name=_APP, user_id=_USER)
    of = {"app_name": _APP, "user_id": _USER, "session_id": session.id}
    for number in range(events):
        state = {f"k{number % 50}": number} if number < events // 2 else {"late": 1}
        delta = {}
        half, into = divmod(number, events // 2)
        if into < artifacts and half < 2:
            saved = await files.save_artifact(**of, filename=f"a{into}", artifact=_PART)
            delta = {f"a{into}": saved}
        await sessions.append_event(session, _event(number, state, delta))
    began = time.perf_counter()
    before = f"i-{events // 20}"
    await runner.rewind_async(
        user_id=_USER, session_id=session.id, rewind_before_invocation_id=before
    )
    rewind = time.perf_counter() - began
    after = await sessions.get_session(**of)
    assert after.state.get("late") is None, "it did not go back"
    began = time.perf_counter()
    await sessions.append_event(after, _event(events, {"one": 1}, {}))
    return rewind, (time.perf_counter() - began) * 1000


def _event(number: int, state: dict[str, int], delta: dict[str, int]) -> Event:
    return Event(
        author="user",
        invocation_id=f"i-{number // 10}",
        content=types.Content(role="user", parts=[types.Part(text="x" * 100)]),
        actions=EventActions(state_delta=state, artifact_delta=delta),
    )


def main() -> None:
    """Measure as often as is asked for, and print one JSON object."""
    service, home, events, artifacts, times = sys.argv[1:]
    found = [
        asyncio.run(measured(service, home, int(events), int(artifacts)))
        for _ in range(int(times))
    ]
    rewind, append = zip(*found, strict=True)
    told = {"rewind": rewind, "append": append, "version": version("google-adk")}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
