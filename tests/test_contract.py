"""docs/contract.md and the tests agree, and nothing cites a document that is not here."""

import itertools
import re

from tests.support import contract

_FOUND = contract.carried(contract.sources())
_PAGE = contract.PAGE.read_text(encoding="utf-8")
# Notes outside the repository were cited by a page in capitals, by `spec/` or by a number.
_ABSENT = re.compile(
    r"\b(?:DESIGN|HOUSE|STYLE|LANGUAGE)\b|(?<![\w./])(?:spec|found)/\w|§"
    r"|\b(?:[Ss]pec|[Tt]rap|[Ll]aws?) \d"
)
_PLACES = ("gitshadow", "tests", "bench", "demo", "hooks", "docs")
_KINDS = {".py", ".md", ".ts", ".js", ".mjs", ".sh", ".fish", ".bash", ".toml", ".yml"}


def test_each_id_is_promised_once() -> None:
    ids = contract.promises(_PAGE)
    assert len(ids) > 300
    assert len(ids) == len(set(ids))


def test_no_test_cites_an_id_that_the_contract_does_not_have() -> None:
    assert sorted(_FOUND.keys() - set(contract.promises(_PAGE))) == []


def test_each_promise_has_a_test_or_a_reason() -> None:
    bare = {one for one in contract.promises(_PAGE) if one not in _FOUND}
    assert sorted(bare) == sorted(contract.excused(_PAGE))


def test_the_page_lists_the_tests_of_today() -> None:
    assert contract.renewed(_PAGE, _FOUND) == _PAGE, "run `make docs`"


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
