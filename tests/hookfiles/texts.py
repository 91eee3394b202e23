"""Generated JSON texts with comments, trailing commas, any line ends and indentation."""

import json
from collections.abc import Callable

from hypothesis import strategies as st

SPACES = ("", " ", "\n", "\r\n", "\n  ", "\t", "\r\n\t\t", " /* c, } */ ", " // note\n")
_KINDS: tuple[tuple[str, ...], ...] = (
    SPACES,
    ("",),
    ("\n",),
    ("", " "),
    ("\n    ",),
    ("\r\n", "\r\n\t"),
)
_KEYS = st.sampled_from(["a", "hooks", "b b", "é", "//", "Stop", "a"])
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.text(st.sampled_from('ab"\\/*,{}[]é\u2028 '), max_size=6),
)
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)
_EVENTS = st.sampled_from(
    ["Stop", "PreToolUse", "stop", "BeforeTool", "session_start", "pre_write_code"]
)
_HANDLERS = st.sampled_from(
    [
        {"type": "command", "command": "entire hooks claude-code stop"},
        {"type": "command", "command": "git-ai checkpoint claude --hook-input stdin"},
        {"type": "http", "url": "http://127.0.0.1/x"},
    ]
)
_GROUPS = st.one_of(
    _HANDLERS,
    st.fixed_dictionaries(
        {"hooks": st.lists(_HANDLERS, max_size=2)},
        optional={"matcher": st.sampled_from(["*", "", "Edit|Write"])},
    ),
)
_MAPS = st.dictionaries(_EVENTS, st.lists(_GROUPS, max_size=2), max_size=3)
_SETTINGS = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={"model": _SCALARS, "hooks": _MAPS, "version": st.just(1), "z": _DATA},
    ),
    _MAPS,
)
Space = Callable[[], str]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Return a text whose root is an object or a list, often with hooks in it."""
    kinds = draw(st.sampled_from(_KINDS))
    choices = st.sampled_from(kinds)

    def space() -> str:
        return draw(choices)

    containers = st.one_of(
        _SETTINGS, _SETTINGS, st.lists(_DATA, max_size=3), st.just({})
    )
    data: object = draw(containers)
    bom = draw(st.sampled_from(["", "", "\ufeff"]))
    return bom + space() + _rendered(draw, space, data) + space()


def _rendered(draw: st.DrawFn, space: Space, data: object) -> str:
    if isinstance(data, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}{space()}:{space()}"
            + _rendered(draw, space, value)
            for key, value in data.items()
        ]
        return "{" + _body(draw, space, parts) + "}"
    if isinstance(data, list):
        parts = [_rendered(draw, space, value) for value in data]
        return "[" + _body(draw, space, parts) + "]"
    ascii_only: bool = draw(st.booleans())
    return json.dumps(data, ensure_ascii=ascii_only)


def _body(draw: st.DrawFn, space: Space, parts: list[str]) -> str:
    if not parts:
        return space()
    body = ",".join(space() + part + space() for part in parts)
    trailing: bool = draw(st.booleans())
    return body + "," + space() if trailing else body
