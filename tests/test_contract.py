"""tests/contract.md and the tests agree, and nothing cites a document that is not here."""

import itertools
import re
from collections.abc import Mapping

import pytest

from tests.support import contract

_PAGE = contract.PAGE.read_text(encoding="utf-8")
# Notes outside the repository were cited by a page in capitals, by `spec/` or by a number.
_ABSENT = re.compile(
    r"\b(?:DESIGN|HOUSE|STYLE|LANGUAGE)\b|(?<![\w./])(?:spec|found)/\w|§"
    r"|\b(?:[Ss]pec|[Tt]rap|[Ll]aws?) \d"
)
_PLACES = ("gitshadow", "tests", "bench", "demo", "hooks", "docs")
_KINDS = {".py", ".md", ".ts", ".js", ".mjs", ".sh", ".fish", ".bash", ".toml", ".yml"}


@pytest.fixture(scope="module")
def found() -> Mapping[str, contract.Places]:
    """Return the tests that carry each promise; reading them takes a second or two."""
    return contract.carried(contract.sources())


def test_each_id_is_promised_once() -> None:
    ids = contract.promises(_PAGE)
    assert len(ids) > 300
    assert len(ids) == len(set(ids))


def test_no_test_cites_an_id_that_the_contract_does_not_have(
    found: Mapping[str, contract.Places],
) -> None:
    assert sorted(found.keys() - set(contract.promises(_PAGE))) == []


def test_each_promise_has_a_test_or_a_reason(
    found: Mapping[str, contract.Places],
) -> None:
    bare = {one for one in contract.promises(_PAGE) if one not in found}
    assert sorted(bare) == sorted(contract.excused(_PAGE))


def test_the_page_lists_the_tests_of_today(
    found: Mapping[str, contract.Places],
) -> None:
    assert contract.renewed(_PAGE, found) == _PAGE, "run `make docs`"


def test_a_range_names_every_id_in_it() -> None:
    assert list(contract.cited("EN-05 to EN-07, V1; SHA-25")) == [
        "EN-05",
        "EN-06",
        "EN-07",
        "V1",
    ]


def test_nothing_cites_a_document_that_is_not_here() -> None:
    root = contract.ROOT
    places = [root.iterdir(), *((root / place).rglob("*") for place in _PLACES)]
    files = [
        path
        for path in itertools.chain(*places)
        if path.suffix in _KINDS and "fixtures" not in path.parts
    ]
    cited = [
        f"{path.relative_to(root)}:{number}: {match[0]}"
        for path in sorted(files)
        if path.name != "test_contract.py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in _ABSENT.finditer(line)
    ]
    assert len(files) > 800
    assert cited == []
