"""Whose process one is, over values: chains of processes and what they carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.attribution.markers import AncestorProcess, KnownSessions, owners
from gitshadow.model import Actor, Session


def session(name: str, agent: str, parent: str | None = None) -> Session:
    return Session(
        id=name,
        native_id=f"n-{name}",
        actor=Actor.AGENT,
        agent=agent,
        parent=parent,
        started_ns=0,
    )


CLAUDE = session("claude", "claude-code")
SUB = session("sub", "claude-code", "claude")
CODEX = session("codex", "codex")
GEMINI = session("gemini", "gemini")
KNOWN = KnownSessions([CLAUDE, SUB, CODEX, GEMINI])

BY_CLAUDE = {"CLAUDE_CODE_SESSION_ID": "n-claude"}
BY_CODEX = {"CODEX_THREAD_ID": "n-codex"}
DECLARED = {"GITSHADOW_SESSION": "codex"}


def link(*sessions: str, **variables: str) -> AncestorProcess:
    return AncestorProcess(sessions, variables)


UNREAD = AncestorProcess((), None)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([link()], ()),
        ([link(), link("claude")], ("claude",)),
        ([link(**BY_CLAUDE), link("claude")], ("claude",)),
        ([link(**BY_CLAUDE), link("gemini", **BY_CLAUDE)], ("gemini",)),
        ([link(**BY_CLAUDE, **BY_CODEX), link(**BY_CLAUDE), link()], ("codex",)),
        ([link(**BY_CLAUDE, **BY_CODEX), link(**BY_CODEX), link()], ("claude",)),
        ([link(**DECLARED), link("claude")], ("codex",)),
        ([link(**DECLARED), link("claude", **DECLARED), link()], ("claude",)),
        ([link(), link("gemini"), link("claude")], ("gemini",)),
        ([link(), link("claude", "sub")], ("claude", "sub")),
        ([link(CODEX_THREAD_ID="elsewhere"), link("claude")], ("claude",)),
    ],
    ids=[
        "nobody",
        "agent-above",
        "agent-and-its-own-variable",
        "let-through-by-the-inner-agent",
        "inner-variable",
        "order-of-the-list-is-nothing",
        "declared-below-an-agent",
        "declared-above-an-agent",
        "nearest-agent",
        "agent-with-its-subagents",
        "unrecorded-inner-agent",
    ],
)
def test_nearest_recorded_owner_wins(
    chain: list[AncestorProcess], expected: tuple[str, ...]
) -> None:
    assert owners(chain, KNOWN) == expected


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([link(**BY_CLAUDE, **BY_CODEX)], ("claude", "codex")),
        ([link(**BY_CLAUDE, **BY_CODEX), link()], ("claude", "codex")),
        ([link(**BY_CODEX), UNREAD, link("claude"), link()], ("codex",)),
        ([link(**BY_CODEX), link("claude", **BY_CODEX)], ("claude",)),
        (
            [link(**BY_CODEX), AncestorProcess(("claude",), None), link()],
            ("claude", "codex"),
        ),
    ],
    ids=[
        "nobody-above-is-seen",
        "one-maker",
        "given-below-the-agent-for-sure",
        "given-above-the-agent-for-sure",
        "agent-cannot-be-read",
    ],
)
def test_all_are_named_when_a_claim_that_cannot_be_placed_could_be_nearer(
    chain: list[AncestorProcess], expected: tuple[str, ...]
) -> None:
    assert owners(chain, KNOWN) == expected


@pytest.mark.parametrize(
    "chain",
    [
        [link(GITSHADOW_SESSION="elsewhere"), link("claude")],
        [link(CLAUDE_CODE_SESSION_ID="ended"), link("claude")],
    ],
    ids=["declared-elsewhere", "earlier-session-of-the-agent"],
)
def test_process_is_nobodys_when_its_own_session_is_not_recorded(
    chain: list[AncestorProcess],
) -> None:
    assert owners(chain, KNOWN) == ()


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ([link(GEMINI_CLI="1")], ("gemini",)),
        ([link(), link(GEMINI_CLI="1")], ("gemini",)),
        ([link(CLAUDECODE="1")], ("claude", "sub")),
        ([link(GEMINI_CLI="1"), link()], ()),
        ([link(GEMINI_CLI="1"), UNREAD], ()),
        ([link(CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="ended")], ()),
        ([link(CRUSH="1")], ()),
    ],
    ids=[
        "detached",
        "its-child",
        "family",
        "terminal",
        "unknown-parent",
        "other-session",
        "agent-without-sessions",
    ],
)
def test_an_orphan_is_its_agents_when_that_tells_no_session(
    chain: list[AncestorProcess], expected: tuple[str, ...]
) -> None:
    assert owners(chain, KNOWN) == expected


VARIABLES = st.dictionaries(
    st.sampled_from(["GITSHADOW_SESSION", *BY_CLAUDE, *BY_CODEX]),
    st.sampled_from(["codex", "sub", "n-claude", "n-codex", "x"]),
)
LINKS = st.builds(
    AncestorProcess,
    st.lists(
        st.sampled_from(["claude", "sub", "codex", "gemini"]), max_size=2, unique=True
    ).map(tuple),
    st.none() | VARIABLES,
)


@given(st.lists(LINKS, max_size=6))
def test_owner_is_never_farther_than_a_recorded_agent(
    chain: list[AncestorProcess],
) -> None:
    """An agent above hides all that only stands above itself."""
    found = owners(chain, KNOWN)
    assert set(found) <= {"claude", "sub", "codex", "gemini"}
    agents = [n for n, one in enumerate(chain) if one.sessions]
    if agents and all(one.variables == {} for one in chain):
        assert set(found) == set(chain[agents[0]].sessions)
