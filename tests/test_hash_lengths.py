"""No module but `store.object_format` and the backends knows how long an object id is.

A length that is written down somewhere else works until the first repository with the other hash,
so it is looked for in the syntax: patterns, slices, comparisons, byte counts, and names of hashes.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "gitshadow"
KNOWING = ("store/object_format.py", "store/backends/")
ALLOWED = {
    "interchange/agent_trace.py": "content hashes of Agent Trace",
    "interchange/authorship.py": "ids of git-ai's format",
    "platform/macos/facts.py": "the label of a worktree at launchd",
    "render/page.py": "the policy of a page that allows its one script",
    "sdk/testing/memory_store.py": "a store without a repository",
    "sdk/testing/store_kit.py": "ids that only have to be different",
}
"""Modules with another use of these hashes, and which."""

_LENGTHS = frozenset({20, 32, 40, 64})
_HASH = re.compile(r"sha[-_]?(1|256)(?![0-9])", re.IGNORECASE)
_HEX_RUN = re.compile(r"\[0-9a-f(A-F)?\]\{([0-9]+,)?(40|64)\}")
_WHOLE_ID = re.compile(r"(?<![0-9a-f])([0-9a-f]{40}|[0-9a-f]{64})(?![0-9a-f])")
_RAW_ID = re.compile(r"(?<![0-9])(20|32)s")


def found_in(source: str) -> list[str]:
    """Return where a module seems to know a hash, as `line: what`, by line."""
    tree = ast.parse(source)
    said = _docstrings(tree)
    found = [
        (getattr(node, "lineno", 0), what)
        for node in ast.walk(tree)
        if node not in said
        for what in _known_by(node)
    ]
    return [f"{line}: {what}" for line, what in sorted(set(found))]


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    """Return the strings that are statements: what they name is explained, not computed."""
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {one.value for one in statements if isinstance(one.value, ast.Constant)}


def _known_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield from _text(node.value)
    elif isinstance(node, ast.Name | ast.Attribute | ast.alias):
        name = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name"}[type(node)]
        if _HASH.search(getattr(node, name)):
            yield "a hash by name"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        if any(map(_is_text, sides)) and any(map(_is_length, sides)):
            yield "a text as long as an id"
    elif isinstance(node, ast.Slice):
        if any(_is_negative_length(end) for end in (node.lower, node.upper)):
            yield "a cut from the end"
    elif isinstance(node, ast.Compare):
        ends = (node.left, *node.comparators)
        is_equality = all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        if is_equality and any(map(_is_length, ends)) and any(map(_is_size, ends)):
            yield "a comparison of lengths"
    elif isinstance(node, ast.Assign) and _is_length(node.value):
        names = (ast.unparse(target).lower() for target in node.targets)
        if any(re.search("oid|hash|digest|checksum|trailer", name) for name in names):
            yield "a length with a name"


def _text(value: object) -> Iterator[str]:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str):
        return
    if _HASH.search(value):
        yield "a hash by name"
    if _HEX_RUN.search(value):
        yield "a pattern of an id"
    if _WHOLE_ID.search(value):
        yield "an id"
    if _RAW_ID.search(value):
        yield "an id in a row of bytes"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_length(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in _LENGTHS


def _is_negative_length(node: ast.AST | None) -> bool:
    return isinstance(node, ast.UnaryOp) and _is_length(node.operand)


def _is_size(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "len"


def test_no_other_module_knows_a_hash_or_the_length_of_an_id() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(KNOWING):
            known = found_in(path.read_text(encoding="utf-8"))
            if known:
                found[name] = known
    unexplained = {name: found[name] for name in found.keys() - ALLOWED.keys()}
    assert unexplained == {}, "see store.object_format"
    assert sorted(ALLOWED.keys() - found.keys()) == [], "allowed without need"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("from hashlib import sha1", "a hash by name"),
        ("x = hashlib.sha256(b'')", "a hash by name"),
        ("x = hashlib.new('SHA-1')", "a hash by name"),
        ("X = re.compile(rb'([0-9a-f]{40}) ')", "a pattern of an id"),
        ("X = r'[0-9a-f]{7,64}'", "a pattern of an id"),
        ("X = f'{a} [0-9a-f]{{40}}'", "a pattern of an id"),
        ("X = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'", "an id"),
        ("X = Oid('0' * 40)", "a text as long as an id"),
        ("X = 64 * b'0'", "a text as long as an id"),
        ("x = row[-20:]", "a cut from the end"),
        ("x = len(oid) == 40", "a comparison of lengths"),
        ("X = struct.Struct('<20sq')", "an id in a row of bytes"),
        ("CHECKSUM_BYTES = 20", "a length with a name"),
    ],
)
def test_what_knows_the_length_of_an_id_is_found(source: str, what: str) -> None:
    assert found_in(source) == [f"1: {what}"]


@pytest.mark.parametrize(
    "source",
    ['"""Ids have 40 digits: SHA-1."""', "x = text[:40]", "x = len(parts) < 20"],
)
def test_other_numbers_are_no_lengths_of_ids(source: str) -> None:
    assert found_in(source) == []
