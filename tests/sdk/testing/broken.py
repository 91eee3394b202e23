"""Kits that are proven: each rule is failed by something that breaks it."""

from collections.abc import Callable, Iterable

from gitshadow.errors import ShadowError


def rules_of(kit: type) -> set[str]:
    """Return the names of a kit's rules."""
    return {name for name in dir(kit) if name.startswith("test_")}


def failures(
    kit: type, rules: Iterable[str], subject: Callable[[], object]
) -> set[str]:
    """Return which of a kit's rules a subject fails; each gets a new one."""
    failed = set()
    for rule in rules:
        try:
            getattr(kit(), rule)(subject())
        except (AssertionError, ShadowError):
            failed.add(rule)
    return failed
