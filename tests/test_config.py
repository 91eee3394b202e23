"""Settings: precedence, values, and errors that name what is wrong."""

import string
from collections.abc import Mapping
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.config import (
    KEYS,
    Config,
    ConfigKey,
    DaemonMode,
    PromptPolicy,
    WatchBackend,
    load,
)
from gitshadow.errors import ExitCode, UsageError
from gitshadow.model import Demands, Level

MINUTE_NS = 60 * 10**9


def test_load_gives_the_defaults_when_nothing_is_set() -> None:
    assert load({}, {}) == Config(
        enabled=True,
        daemon=DaemonMode.AUTO,
        server=DaemonMode.AUTO,
        watcher=WatchBackend.AUTO,
        max_file_size_bytes=20 * 1024 * 1024,
        max_untracked_bytes=200 * 1024 * 1024,
        include=(),
        idle_gap_ns=5 * MINUTE_NS,
        confirm=True,
        prompts=PromptPolicy.JOURNAL,
        trailers=False,
        retention_age_ns=None,
        retention_count=2000,
        retention_size_bytes=2**31,
        mirror=None,
        push_guard=True,
        ledger=True,
        witness=False,
        alerts=True,
        alert_deletes=20,
        protect=(),
        pre_undo=(),
        post_undo=(),
        post_rewind=(),
        check=Demands(
            open_turn=Level.REFUSE,
            protected=Level.REFUSE,
            undone=Level.WARN,
            gaps=Level.WARN,
        ),
    )


def test_load_takes_every_key_from_git_config() -> None:
    values = {
        "agent-undo.enabled": ["false"],
        "agent-undo.daemon": ["off"],
        "agent-undo.watcher": ["Watchfiles"],
        "agent-undo.maxfilesize": ["3k"],
        "agent-undo.maxuntracked": ["5m"],
        "agent-undo.include": [".env", "/build/*.map"],
        "agent-undo.idlegap": ["90s"],
        "agent-undo.confirm": ["no"],
        "agent-undo.prompts": ["commit"],
        "agent-undo.retentionage": ["2w"],
        "agent-undo.retentioncount": ["500"],
        "agent-undo.retentionsize": ["1g"],
        "agent-undo.mirror": ["/srv/mirror"],
        "agent-undo.pushguard": ["no"],
        "agent-undo.ledger": ["off"],
        "agent-undo.witness": ["on"],
        "agent-undo.alerts": ["off"],
        "agent-undo.alertdeletes": ["3"],
        "agent-undo.protect": ["/deploy/", "*.pem"],
        "agent-undo.preundo": ["/usr/bin/ask 'a b'"],
        "agent-undo.postundo": ["notify"],
        "agent-undo.postrewind": ["notify -r"],
        "agent-undo.trailers": ["yes"],
        "agent-undo.check.openturn": ["warn"],
        "agent-undo.check.protected": ["OFF"],
        "agent-undo.check.protectedpaths": ["/deploy/", "*.pem"],
        "agent-undo.check.review": ["refuse"],
        "agent-undo.check.reviewlines": ["0"],
        "agent-undo.check.unknown": ["warn"],
        "agent-undo.check.undone": ["refuse"],
        "agent-undo.check.gaps": ["off"],
    }
    assert load(values, {}) == Config(
        enabled=False,
        daemon=DaemonMode.OFF,
        server=DaemonMode.AUTO,
        watcher=WatchBackend.WATCHFILES,
        max_file_size_bytes=3072,
        max_untracked_bytes=5 * 1024 * 1024,
        include=(".env", "/build/*.map"),
        idle_gap_ns=90 * 10**9,
        confirm=False,
        prompts=PromptPolicy.COMMIT,
        trailers=True,
        retention_age_ns=14 * 86400 * 10**9,
        retention_count=500,
        retention_size_bytes=2**30,
        mirror="/srv/mirror",
        push_guard=False,
        ledger=False,
        witness=True,
        alerts=False,
        alert_deletes=3,
        protect=("/deploy/", "*.pem"),
        pre_undo=("/usr/bin/ask", "a b"),
        post_undo=("notify",),
        post_rewind=("notify", "-r"),
        check=Demands(
            open_turn=Level.WARN,
            protected=Level.OFF,
            protected_paths=("/deploy/", "*.pem"),
            review=Level.REFUSE,
            review_lines=0,
            unknown=Level.WARN,
            undone=Level.REFUSE,
            gaps=Level.OFF,
        ),
    )


def test_load_takes_the_last_value_when_git_has_several() -> None:
    assert load({"agent-undo.idleGap": ["1m", "2m"]}, {}).idle_gap_ns == 2 * MINUTE_NS


def test_load_accepts_names_without_the_section() -> None:
    assert load({"maxfilesize": ["1"]}, {}).max_file_size_bytes == 1


def test_load_ignores_keys_of_a_newer_version() -> None:
    assert load({"agent-undo.newKey": ["x"]}, {"GITSHADOW_NEW": "x"}) == load({}, {})


@pytest.mark.parametrize(
    ("environ", "flags", "expected"),
    [
        ({}, {}, 1),
        ({"GITSHADOW_MAX_FILE_SIZE": "2"}, {}, 2),
        ({"GITSHADOW_MAXFILESIZE": "3"}, {}, 3),
        ({"GITSHADOW_MAX_FILE_SIZE": "2", "GITSHADOW_MAXFILESIZE": "3"}, {}, 2),
        ({"GITSHADOW_MAX_FILE_SIZE": ""}, {}, 1),
        ({"GITSHADOW_MAX_FILE_SIZE": "2"}, {"maxFileSize": "4"}, 4),
    ],
)
def test_load_lets_the_later_source_win(
    environ: Mapping[str, str], flags: Mapping[str, str], expected: int
) -> None:
    config = load({"agent-undo.maxFileSize": ["1"]}, environ, flags)
    assert config.max_file_size_bytes == expected


def test_load_replaces_the_patterns_when_the_environment_has_some() -> None:
    environ = {"GITSHADOW_INCLUDE": ".env\n\nkeep me\\ \n"}
    assert load({"include": ["*.log"]}, environ).include == (".env", "keep me\\ ")


@pytest.mark.parametrize("word", ["true", "YES", "on", "1"])
def test_load_reads_true_as_git_does(word: str) -> None:
    assert load({"enabled": ["false", word]}, {}).enabled is True


@pytest.mark.parametrize("word", ["false", "No", "off", "0", ""])
def test_load_reads_false_as_git_does(word: str) -> None:
    assert load({"enabled": [word]}, {}).enabled is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enabled", "maybe"),
        ("daemon", "on"),
        ("maxFileSize", "0"),
        ("maxFileSize", "-1"),
        ("maxFileSize", "20 MiB"),
        ("maxFileSize", "9" * 5000),
        ("idleGap", "soon"),
        ("idleGap", "5"),
        ("idleGap", "0s"),
        ("confirm", "2"),
        ("prompts", "everywhere"),
        ("retentionAge", "never"),
        ("retentionSize", "1t"),
        ("mirror", "relative/path"),
        ("mirror", ""),
        ("include", "a\0b"),
        ("check.openTurn", "maybe"),
        ("check.reviewLines", "-1"),
        ("check.protectedPaths", "a\0b"),
    ],
)
def test_load_names_key_value_and_what_is_allowed(name: str, value: str) -> None:
    key = next(key for key in KEYS if key.name == name)
    with pytest.raises(UsageError) as caught:
        load({key.git_name: [value]}, {})
    assert caught.value.exit_code == ExitCode.USAGE
    assert f"as agent-undo.{name}: it must be " in caught.value.message
    assert repr(value[:80]) in caught.value.message
    assert caught.value.message.endswith(key.allowed.replace("`", ""))
    assert caught.value.hint is not None
    assert key.git_name in caught.value.hint


def test_subsection_is_a_word_of_the_variable() -> None:
    config = load({}, {"GITSHADOW_CHECK_REVIEW_LINES": "7"})
    assert config.check.review_lines == 7


def test_load_names_the_variable_when_it_is_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        load({}, {"GITSHADOW_IDLE_GAP": "soon"})
    assert caught.value.hint == "change or unset the variable GITSHADOW_IDLE_GAP"


def test_load_refuses_a_flag_that_is_no_setting() -> None:
    with pytest.raises(UsageError, match="no such setting: 'nonsense'"):
        load({}, {}, {"nonsense": "1"})


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_default_is_what_an_explicit_default_gives(key: ConfigKey[object]) -> None:
    assert load({key.name: [key.default]}, {}) == load({}, {})


def test_every_setting_is_in_the_table() -> None:
    settings = {field.name for field in fields(Config)} - {"check"}
    assert len(KEYS) == len(settings) + len(Demands._fields)
    assert len({key.env_name for key in KEYS}) == len(KEYS)


@given(
    name=st.sampled_from([key.name for key in KEYS]),
    text=st.text(alphabet=string.printable + "é\0\x1b", max_size=12),
)
def test_load_either_works_or_names_the_setting(name: str, text: str) -> None:
    try:
        outcome: Config | UsageError = load({name: [text]}, {})
    except UsageError as error:
        outcome = error
    if isinstance(outcome, UsageError):
        assert f"agent-undo.{name}" in outcome.message
        assert outcome.message.isprintable()
