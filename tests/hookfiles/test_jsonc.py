"""Text edits of JSON with comments: what is not ours keeps its bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.hookfiles import jsonc
from tests.hookfiles.texts import documents


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{"a": 1,}',
        "[1, 2, ]",
        '// c\r\n{/*x*/ "a" // y\r\n: 1}\r\n',
        '\ufeff{"a": "//not a comment /* nor this */, }"}',
        '{"a": "quote \\" and \\\\",}',
        "null",
    ],
)
def test_comments_and_trailing_commas_are_read(text: str) -> None:
    assert jsonc.parse(text).root is not None


@pytest.mark.parametrize("text", ["", " \n", "// only\n/* comments */", "\ufeff"])
def test_text_without_a_value_has_no_root(text: str) -> None:
    assert jsonc.parse(text).root is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{,}",
        "[1,,]",
        '{"a" 1}',
        "{a: 1}",
        "{'a': 1}",
        "{} {}",
        "{} /* open",
        '{"a": NaN}',
        '{"a": "line\nbreak"}',
        '{"a": "http://x}',
        "[" * 100_000,
        "/",
    ],
)
def test_what_is_no_json_is_malformed(text: str) -> None:
    with pytest.raises(jsonc.MalformedError):
        jsonc.parse(text)


def test_last_of_equal_names_counts() -> None:
    root = jsonc.parse('{"a": 1, "a": 2}').root
    assert root is not None
    assert (root.index("a"), root.data) == (1, {"a": 2})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "k": 1\n}'),
        ("{ }", '{\n  "k": 1\n }'),
        ('{"a":0}', '{"a":0,"k":1}'),
        ('{"a": 0}', '{"a": 0, "k": 1}'),
        ('{\n\t"a": 0\n}', '{\n\t"a": 0,\n\t"k": 1\n}'),
        ('{\r\n    "a": 0,\r\n}', '{\r\n    "a": 0,\r\n    "k": 1,\r\n}'),
        ('{\n  "a": 0 // c\n}', '{\n  "a": 0, // c\n  "k": 1\n}'),
        ('{\n  "a": 0, // c\n}', '{\n  "a": 0, // c\n  "k": 1,\n}'),
        ("{\n  // c\n}", '{\n  "k": 1\n  // c\n}'),
        ("{ // c\n}", '{ // c\n  "k": 1\n}'),
        ("{ /* c\n */ }", '{\n  "k": 1 /* c\n */ }'),
    ],
)
def test_new_member_looks_like_its_surroundings(text: str, expected: str) -> None:
    assert jsonc.append(text, (), 1, key="k") == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("[1]", (0,), "[]"),
        ("[1, 2]", (0,), "[2]"),
        ("[1, 2]", (1,), "[1]"),
        ("[1, 2,]", (1,), "[1,]"),
        ("[\n  1, // c\n  2\n]", (1,), "[\n  1 // c\n]"),
        ("[\n  1, // c\n  2]", (1,), "[\n  1 // c\n]"),
        ("[\n  1,\n  2\n]", (0,), "[\n  2\n]"),
        ("[1 /* , */ , 2]", (1,), "[1 /* , */ ]"),
    ],
)
def test_removed_item_takes_its_comma_along(
    text: str, path: jsonc.Path, expected: str
) -> None:
    assert jsonc.remove(text, path) == expected


@given(documents(), st.data())
def test_removing_what_was_appended_gives_the_text_back(
    text: str, draw: st.DataObject
) -> None:
    paths = [path for path in containers(text) if jsonc.parse(text).at(path).children]
    if not paths:
        return
    path = draw.draw(st.sampled_from(paths))
    value = jsonc.parse(text).at(path)
    key = "a new name" if value.is_object else None
    more = jsonc.append(text, path, {"x": [1, {"y": "z"}]}, key=key)
    assert is_subsequence(text, more)
    added = jsonc.parse(more).at(path)
    assert len(added.children) == len(value.children) + 1
    assert added.children[-1].data == {"x": [1, {"y": "z"}]}
    assert jsonc.remove(more, (*path, len(value.children))) == text


@given(documents(), st.data())
def test_filling_and_emptying_gives_the_text_back(
    text: str, draw: st.DataObject
) -> None:
    document = jsonc.parse(text)
    paths = [path for path in containers(text) if not document.at(path).children]
    if not paths:
        return
    path = draw.draw(st.sampled_from(paths))
    key = "k" if document.at(path).is_object else None
    more = jsonc.append(text, path, [1], key=key)
    assert is_subsequence(text, more)
    inner = jsonc.inside(document, path)
    assert jsonc.set_inside(jsonc.remove(more, (*path, 0)), path, inner) == text


@given(documents())
def test_generated_text_means_what_plain_json_means(text: str) -> None:
    root = jsonc.parse(text).root
    assert root is not None
    assert json.loads(json.dumps(root.data)) == root.data


def containers(text: str) -> list[jsonc.Path]:
    found: list[jsonc.Path] = []
    root = jsonc.parse(text).root
    assert root is not None
    waiting: list[tuple[jsonc.Path, jsonc.Value]] = [((), root)]
    while waiting:
        path, value = waiting.pop()
        if value.is_object or value.is_list:
            found.append(path)
        waiting += [((*path, at), child) for at, child in enumerate(value.children)]
    return found


def is_subsequence(short: str, long: str) -> bool:
    """Tell whether every character of one text is in another, in the same order."""
    rest = iter(long)
    return all(char in rest for char in short)
