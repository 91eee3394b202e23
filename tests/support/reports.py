"""Reports of undo verbs, as a test reads them."""

from collections.abc import Mapping

Item = Mapping[str, object]


def items(report: Mapping[str, object]) -> dict[str, Item]:
    """Return the items of a report by path; check that `counts` sum to them."""
    found = report["items"]
    assert isinstance(found, list), report
    counts = report["counts"]
    assert isinstance(counts, dict)
    for state, count in counts.items():
        assert count == sum(item["state"] == state for item in found), report
    assert sum(counts.values()) == len(found), report
    by_path = {str(item["path"]): item for item in found}
    assert len(by_path) == len(found), report
    return by_path


def actions(report: Mapping[str, object]) -> dict[str, str]:
    """Return the action of each item by path."""
    return {path: str(item["action"]) for path, item in items(report).items()}


def states(report: Mapping[str, object]) -> dict[str, str]:
    """Return the state of each item by path."""
    return {path: str(item["state"]) for path, item in items(report).items()}


def reasons(report: Mapping[str, object]) -> dict[str, object]:
    """Return the reason of each item that was left alone, by path."""
    return {
        path: item["reason"]
        for path, item in items(report).items()
        if item["state"] == "not_reversed"
    }


def uncovered(report: Mapping[str, object]) -> dict[str, str]:
    """Return what a report names as not covered, and why."""
    entries = report["not_covered"]
    assert isinstance(entries, list), report
    return {str(entry["what"]): str(entry["why"]) for entry in entries}


def hints(report: Mapping[str, object]) -> dict[str, str]:
    """Return what a report says of what is not covered, beyond the reason."""
    entries = report["not_covered"]
    assert isinstance(entries, list), report
    return {str(one["what"]): str(one["hint"]) for one in entries if "hint" in one}


def rows_of(document: Mapping[str, object], *names: str) -> list[dict[str, object]]:
    """Return the rows at a place of a document."""
    found: object = document
    for name in names:
        assert isinstance(found, dict), document
        found = found[name]
    assert isinstance(found, list), document
    return found
