"""`git -c agent-undo.…` counts for the call that it is given to, whoever answers."""

import subprocess
from pathlib import Path

import pytest

from gitshadow.commands.check import ConfigOverrides, settings_given


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, ConfigOverrides({}, ())),
        (
            {"GIT_CONFIG_PARAMETERS": "'agent-undo.check.unknown'='refuse'"},
            ConfigOverrides({"GITSHADOW_CHECK_UNKNOWN": "refuse"}, ()),
        ),
        (
            {"GIT_CONFIG_PARAMETERS": "'agent-undo.check.reviewlines=7' 'a.b'='c'"},
            ConfigOverrides({"GITSHADOW_CHECK_REVIEW_LINES": "7"}, ()),
        ),
        (
            {
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": "agent-undo.check.gaps",
                "GIT_CONFIG_VALUE_0": "off",
                "GIT_CONFIG_KEY_1": "agent-undo.check.protectedPaths",
                "GIT_CONFIG_VALUE_1": "a b",
                "GIT_CONFIG_PARAMETERS": "'agent-undo.check.gaps'='refuse'"
                " 'agent-undo.check.protectedPaths'='it'\\''s'",
            },
            ConfigOverrides(
                {
                    "GITSHADOW_CHECK_GAPS": "refuse",
                    "GITSHADOW_CHECK_PROTECTED_PATHS": "a b\nit's",
                },
                (),
            ),
        ),
        (
            {
                "GITSHADOW_CHECK_GAPS": "warn",
                "GIT_CONFIG_PARAMETERS": "'agent-undo.check.gaps'='off'"
                " 'agent-undo.idleGap'='1m' 'agent-undo.typo'='1'",
            },
            ConfigOverrides({}, ("agent-undo.idleGap", "agent-undo.typo")),
        ),
        ({"GIT_CONFIG_PARAMETERS": "'open"}, ConfigOverrides({}, ())),
        ({"GIT_CONFIG_COUNT": "x"}, ConfigOverrides({}, ())),
    ],
)
def test_settings_are_read_as_git_hands_them_on(
    environ: dict[str, str], found: ConfigOverrides
) -> None:
    assert settings_given(environ, "check.") == found


def test_git_hands_them_on_as_we_read_them(tmp_path: Path) -> None:
    """Of the git that is installed, in its own spelling."""
    alias = 'alias.said=!printf %s "$GIT_CONFIG_PARAMETERS"'
    given = ("-c", "agent-undo.check.protectedPaths=it's a=b", "-c", alias, "said")
    done = subprocess.run(
        ["git", *given], cwd=tmp_path, capture_output=True, check=True
    )
    environ = {"GIT_CONFIG_PARAMETERS": done.stdout.decode()}
    found = settings_given(environ, "check.")
    assert found == ConfigOverrides({"GITSHADOW_CHECK_PROTECTED_PATHS": "it's a=b"}, ())
