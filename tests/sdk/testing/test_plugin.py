"""The pytest plug-in, as a program's own tests meet it: run by a pytest inside this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitshadow.sdk.testing import plugin
from tests.support.waiting import HANGS_S

pytest_plugins = ["pytester"]

TOOLS = """
    import pytest
    from gitshadow import Inverse, Reversibility, ToolRegistry

    stock = {}

    @pytest.fixture
    def undo_tools():
        stock.clear()
        tools = ToolRegistry()
        @tools.tool(
            "stock.put",
            reversibility=Reversibility.REVERSIBLE,
            inverse=lambda a, c, r: Inverse.tool("stock.drop", what=a["what"]),
        )
        def put(what):
            stock[what] = 1
        @tools.handler("stock.drop", idempotent=True)
        def drop(what):
            stock.pop(what, None)
        return tools
"""


def passed(pytester: pytest.Pytester, test: str, count: int = 1) -> None:
    """Run a test inside this process: what it loads first is dropped again, so nothing of C."""
    pytester.makeconftest(TOOLS)
    pytester.makepyfile(test)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=count)


def test_a_session_in_memory_has_the_tools_of_the_program(
    pytester: pytest.Pytester,
) -> None:
    passed(
        pytester,
        """
        from conftest import stock

        def test_undo(undo_session):
            with undo_session.turn("put") as turn:
                assert turn.call("stock.put", what="pears").ok
            assert stock == {"pears": 1}
            assert undo_session.undo(turn.id).status == "reversed"
            assert stock == {}
        """,
    )


def test_a_session_of_the_next_test_is_another(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_first_turn(undo_session, number):
            with undo_session.turn("one") as turn:
                pass
            assert turn.id == "t-1"
        """,
        count=2,
    )


def test_policy_and_host_of_a_session_can_be_overridden(
    pytester: pytest.Pytester,
) -> None:
    passed(
        pytester,
        """
        import pytest
        from gitshadow import Host, Policy, Verdict

        @pytest.fixture
        def undo_policy():
            return Policy(guards=(lambda proposal: Verdict.deny("closed"),))

        @pytest.fixture
        def undo_host():
            return Host(clock=lambda: 7)

        def test_both(undo_session):
            with undo_session.turn("put") as turn:
                assert turn.call("stock.put", what="pears").content == "closed"
            assert undo_session.turns()[0].started_ns == 7
        """,
    )


def test_an_async_session_is_the_same_awaited(pytester: pytest.Pytester) -> None:
    passed(
        pytester,
        """
        import asyncio
        from conftest import stock

        def test_undo(async_undo_session):
            async def run():
                async with async_undo_session.turn("put") as turn:
                    await turn.call("stock.put", what="pears")
                return await async_undo_session.undo(turn.id)

            assert asyncio.run(run()).status == "reversed"
            assert stock == {}
        """,
    )


def test_a_repository_is_recorded_and_has_no_daemon(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(TOOLS)
    pytester.makepyfile(
        """
        import json
        import subprocess
        import sys
        from pathlib import Path
        from gitshadow import AgentUndo

        def test_repository(undo_repo, undo_tools):
            for words in (["status"], ["commit", "--allow-empty", "-m", "first"]):
                subprocess.run(["git", *words], cwd=undo_repo, check=True)
            with AgentUndo.open(undo_repo, session="s", tools=undo_tools) as au:
                with au.turn("put") as turn:
                    turn.call("stock.put", what="pears")
            with AgentUndo.open(undo_repo, session="s", tools=undo_tools) as au:
                assert au.undo("t-1").status == "reversed"
            said = subprocess.run(
                [Path(sys.executable).with_name("git-agent-undo"), "status", "--json"],
                cwd=undo_repo, check=True, capture_output=True,
            )
            assert json.loads(said.stdout)["daemon"]["running"] is False
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", "gitshadow.sdk.testing.plugin")
    result.assert_outcomes(passed=1)


def test_a_rollback_that_is_not_proven_fails_the_test(
    pytester: pytest.Pytester,
) -> None:
    """AN-31: with the proof as the message, and no traceback."""
    pytester.makeconftest(TOOLS)
    pytester.makepyfile(
        """
        from conftest import stock

        def test_proven(undo_tools, proves_rollback):
            script = [("stock.put", {"what": "pears"})]
            assert proves_rollback(undo_tools, script, lambda: stock).ok

        def test_lies(undo_tools, proves_rollback):
            undo_tools.remove("stock.drop")
            undo_tools.handler("stock.drop")(lambda what: None)
            proves_rollback(undo_tools, [("stock.put", {"what": "x"})], lambda: stock)
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["rollback of 1 steps: 1 flawed", "  step 1 stock.put: LIES"]
    )
    result.stdout.no_fnmatch_line("*plugin.py:*")


def test_a_kit_fails_with_both_values(pytester: pytest.Pytester) -> None:
    """AN-32: asserts of a kit are explained as those of the test itself are."""
    pytester.makepyfile(
        """
        import pytest
        from gitshadow.sdk.testing import MemoryStore, SessionStoreKit

        class Broken(MemoryStore):
            def last_seq(self, session):
                return 7

        class TestMine(SessionStoreKit):
            @pytest.fixture
            def open_store(self):
                return Broken
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", "last_number")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*At index 0 diff: 7 != -1"])


def test_assertions_of_every_kit_are_rewritten() -> None:
    kits = {path.stem for path in Path(plugin.__file__).parent.glob("*_kit.py")}
    assert set(plugin._KITS) == kits


def test_nothing_is_loaded_for_who_uses_no_fixture() -> None:
    """Every pytest run of every user of gitshadow imports the plug-in."""
    code = (
        "import sys, pytest; before = set(sys.modules)\n"
        "import gitshadow.sdk.testing.plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    assert done.stdout.split() == [
        "gitshadow",
        "gitshadow.sdk",
        "gitshadow.sdk.testing",
        "gitshadow.sdk.testing.plugin",
    ]
