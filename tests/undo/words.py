"""Words that several tests of undo share."""

from collections.abc import Collection, Mapping

from gitshadow.messages.undo import HunkChoice
from gitshadow.undo.report import Report


def reasons(report: Report) -> list[tuple[str, str | None]]:
    return [(one.path, one.reason and one.reason.value) for one in report.items]


def choice_of(token: str, taken: Mapping[int, Collection[int]]) -> HunkChoice:
    """Return the choice of parts of a plan, by the number of their item."""
    parts = {str(item): tuple(sorted(of)) for item, of in taken.items()}
    return HunkChoice(token, parts)
