"""A turn of a conversation is read from its agent's own file, whatever that contains."""

import json
import os
from pathlib import Path

import pytest

from gitshadow.errors import ShadowError, UnsupportedError
from gitshadow.messages.states import Said, TranscriptPlace
from gitshadow.reporting import transcript


def line(kind: str, content: object, **more: object) -> dict[str, object]:
    return {"type": kind, "message": {"role": kind, "content": content}, **more}


CLAUDE: list[dict[str, object]] = [
    {"type": "queue-operation", "content": "one"},
    line("user", "Make it blue", promptId="p1"),
    line("assistant", [{"type": "thinking", "thinking": "hm"}]),
    line(
        "assistant",
        [
            {"type": "text", "text": "I look first."},
            {"type": "tool_use", "name": "Bash", "input": {"command": "ls\n  -l"}},
        ],
    ),
    line("user", [{"type": "tool_result", "content": "secret"}], promptId="p1"),
    line("user", "a reminder", promptId="p1", isMeta=True),
    line("assistant", [{"type": "text", "text": "of a subagent"}], isSidechain=True),
    line("assistant", [{"type": "tool_use", "name": "Edit", "input": {"x": 1}}]),
    line("assistant", [{"type": "text", "text": "Done."}]),
    line("user", [{"type": "text", "text": "And red"}], promptId="p2"),
    line("assistant", [{"type": "text", "text": "No."}]),
]
BLUE = [
    Said("user", "Make it blue"),
    Said("assistant", "I look first."),
    Said("tool", "Bash ls -l"),
    Said("tool", 'Edit {"x": 1}'),
    Said("assistant", "Done."),
]


def codex(kind: str, **payload: object) -> dict[str, object]:
    return {"type": kind, "payload": payload}


def user(text: str, turn: str) -> dict[str, object]:
    item = {"type": "UserMessage", "content": [{"type": "text", "text": text}]}
    return codex("event_msg", type="item_completed", turn_id=turn, item=item)


CODEX: list[dict[str, object]] = [
    codex("session_meta", id="s"),
    codex("event_msg", type="task_started", turn_id="t1"),
    codex(
        "response_item",
        type="message",
        role="user",
        content=[{"type": "input_text", "text": "<environment_context>"}],
    ),
    user("Make it blue", "t1"),
    codex(
        "response_item",
        type="function_call",
        name="exec_command",
        arguments=json.dumps({"cmd": "ls -l"}),
    ),
    codex("response_item", type="function_call_output", output="secret"),
    codex(
        "response_item",
        type="message",
        role="assistant",
        content=[{"type": "output_text", "text": "Done."}],
    ),
    codex("event_msg", type="task_started", turn_id="t2"),
    user("And red", "t2"),
]


def written(tmp_path: Path, rows: list[dict[str, object]], *more: bytes) -> str:
    path = tmp_path / "talk.jsonl"
    lines = [json.dumps(row).encode() + b"\n" for row in rows]
    path.write_bytes(b"".join([*more, *lines]))
    return str(path)


def read(path: str, turn: str = "p1", agent: str = "claude-code") -> list[Said]:
    return list(transcript.read(TranscriptPlace(path, agent, turn)))


def test_a_turn_of_claude_code_is_found_by_the_id_of_its_prompt(tmp_path: Path) -> None:
    assert read(written(tmp_path, CLAUDE)) == BLUE


def test_a_turn_of_codex_is_found_by_its_id(tmp_path: Path) -> None:
    assert read(written(tmp_path, CODEX), "t1", "codex") == [
        Said("user", "Make it blue"),
        Said("tool", "exec_command ls -l"),
        Said("assistant", "Done."),
    ]


def test_a_turn_that_is_not_in_the_file_has_nothing(tmp_path: Path) -> None:
    assert read(written(tmp_path, CLAUDE), "p9") == []


def test_what_is_no_record_is_left_out(tmp_path: Path) -> None:
    hostile = (
        b"\xff\0\x1b[2J\n",
        b"[" * 100_000 + b"\n",
        b'{"type": "user", "promptId": "p1", "message": 3}\n',
        b'{"type": ["user"], "promptId": {}, "message": {"content": [[1], {"a": 1}]}}\n',
        b"null\n",
    )
    assert read(written(tmp_path, CLAUDE, *hostile)) == BLUE


def test_a_line_that_is_too_long_is_left_out_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "_MOST_LINE_BYTES", 500)
    inner = json.dumps(line("user", "x", promptId="p1")).encode()
    assert read(written(tmp_path, CLAUDE, b" " * 500 + inner + b"\n")) == BLUE


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    said = read(written(tmp_path, [line("user", "x" * 50_000, promptId="p1")]))
    assert said[0].text == "x" * 20_000 + "…\n(50000 characters)"


def test_only_a_regular_file_of_this_user_is_read(tmp_path: Path) -> None:
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(written(tmp_path, CLAUDE))
    for path in (fifo, link, tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(ShadowError, match="cannot read the transcript"):
            read(str(path))
    with pytest.raises(ShadowError, match="cannot read the transcript"):
        read("a\0b")


def test_transcripts_of_other_agents_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot read transcripts of gemini"):
        read(written(tmp_path, CLAUDE), agent="gemini")
