"""The classifier against Git itself, and the corners of patterns one by one."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitshadow.capture.coverage import Coverage
from gitshadow.capture.patterns import parse_rules
from gitshadow.capture.reconcile import walk
from gitshadow.model import RepoPath
from gitshadow.recording.index import IndexView
from gitshadow.recording.workspace import read_config, rules_of
from gitshadow.store.files import WorkFiles
from gitshadow.store.git import Git
from gitshadow.store.object_format import SHA1
from gitshadow.store.repo import Repo as Store
from tests.support.examples import shares_fixture
from tests.support.repo import Repo
from tests.support.studio import layout_of

_FILES = [
    *(b"a b ab .h a.o b.o foob".split()),
    b"c d",
    b"a ",
    b"#c",
    b"!x",
    b"[a]",
    b"a\\b",
    b"*",
    b"a\tb",
    "é".encode(),
    b"\xff.o",
    b"A",
]
_DIRECTORIES = [
    b"",
    b"d",
    b"d/d",
    b"d/e",
    b"e",
    b"e/d",
    b"e/d/e",
    b"x y",
    b".h.d",
    b"d/node",
]
_TRACKED = [b"d/d/a", b"e/d/e/a.o", b"b.o", b"x y/a"]
_TOKENS = [
    *(b"a b c d e ab a.o node .h foo".split()),
    *(b"* * ** **/ /** /**/ ? / / [ab] [!a] [^a] [a-c] [c-a]".split()),
    *(rb"[[:alpha:]] [[:nope:]] []a] [!]a] [a [a- [\]a] [--b] [[:x]".split()),
    *(rb"\a \* \! \# \[ \\ \/".split()),
    *(b".o", b" ", b"\\ ", b"!", b"#", b"\t", b"\xff", b"\xc3", "é".encode()),
]


@st.composite
def _pattern(draw: st.DrawFn) -> bytes:
    body = b"".join(draw(st.lists(st.sampled_from(_TOKENS), max_size=6)))
    start = draw(st.sampled_from([b"", b"", b"!", b"/", b"!/"]))
    end = draw(st.sampled_from([b"", b"", b"/", b" ", b"\\", b"\r"]))
    return start + body + end


_RULE_FILE = st.builds(
    lambda lines, bom, last: (
        (b"\xef\xbb\xbf" if bom else b"") + b"\n".join(lines) + last
    ),
    st.lists(_pattern(), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([b"", b"\n"]),
)
_RULES = st.dictionaries(st.sampled_from(_DIRECTORIES), _RULE_FILE, max_size=4)


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    repo = Repo.create(tmp_path_factory.mktemp("forest"), ())
    for directory in _DIRECTORIES:
        for name in _FILES:
            repo.write(os.path.join(directory, name), b"")
    repo.git("add", "--force", "--", *_TRACKED)
    return repo


def _coverage(repo: Repo) -> tuple[WorkFiles, Coverage]:
    layout = layout_of(repo)
    files = WorkFiles(layout.root, SHA1)
    store = Store.open(layout)
    index = IndexView(layout, Git(layout, dict(os.environ)), store)
    rules = rules_of(read_config(store, os.environ), store, layout)
    return files, Coverage(files, index, rules._replace(max_file_size=1 << 20))


def _ignored_by_git(repo: Repo, paths: list[bytes]) -> set[bytes]:
    listed = b"".join(path + b"\0" for path in paths)
    out = os.fsencode(
        repo.git(
            *("check-ignore", "--no-index", "-z", "-n", "-v", "--stdin"),
            stdin=listed,
            check=False,
        )
    )
    cells = out.split(b"\0")
    rows = zip(*[iter(cells)] * 4, strict=False)
    return {
        path
        for source, _, pattern, path in rows
        if source and not pattern.startswith(b"!")
    }


def _write_rules(repo: Repo, rules: Mapping[bytes, bytes], exclude: bytes) -> None:
    for directory in _DIRECTORIES:
        path = os.path.join(directory, b".gitignore")
        if directory in rules:
            repo.write(path, rules[directory])
        elif repo.exists(path):
            repo.delete(path)
    repo.write(".git/info/exclude", exclude)


@given(rules=_RULES, exclude=_RULE_FILE)
@shares_fixture
def test_walk_covers_what_git_does_not_ignore_for_any_rules(
    forest: Repo, rules: dict[bytes, bytes], exclude: bytes
) -> None:
    """CAP-04, CAP-06: recorded exactly where `git check-ignore` says not ignored."""
    _write_rules(forest, rules, exclude)
    names = [*_FILES, *([b".gitignore"] if rules else [])]
    files = [os.path.join(d, name) for d in _DIRECTORIES for name in names]
    there = [path for path in files if forest.exists(path)]
    ignored = _ignored_by_git(forest, there)
    door, coverage = _coverage(forest)
    found = walk(door, coverage)
    assert set(found.files) == {
        path for path in there if path not in ignored or path in _TRACKED
    }
    for path in there:
        look = door.look(RepoPath(path))
        assert look is not None
        assert (coverage.verdict(RepoPath(path), look) is None) == (path in found.files)


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        ("foo**/bar", "foobar", True),
        ("foo**/bar", "foo/x/bar", True),
        ("foo**/bar", "fooxbar", False),
        ("a/**", "a", False),
        ("a/**", "a/b/c", True),
        ("**/a", "x/y/a", True),
        ("*.o", "x/y.o", True),
        ("/*.o", "x/y.o", False),
        ("a/*/c", "a/b/b/c", False),
        ("[!a]", "/", False),
        ("[^a]", "a", False),
        ("[^a]", "^", True),
        ("[a-c]", "c", True),
        ("[a-c]", "-", False),
        ("[c-a]", "b", False),
        ("[a\\-c]", "-", True),
        ("[a", "[a", False),
        ("[[:nope:]a]", "a", False),
        ("**\\/a", "x/y/a", True),
        ("[]-]", "-", True),
        ("[[:digit:][:upper:]]", "Q", True),
        ("\\ ", " ", True),
        ("a\\ ", "a ", True),
        ("a\\\\ ", "a\\", True),
        ("x\\", "x", False),
        ("x\\", "x\\", False),
    ],
)
def test_decide_takes_what_wildmatch_takes(
    pattern: str, path: str, taken: bool
) -> None:
    rule = parse_rules(pattern.encode()).decide(path.encode(), is_dir=False)
    assert (rule is not None) is taken


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 60 + "b",
        "/" + "**/a/" * 40 + "b",
        "/" + "**/*a*a*a/" * 20 + "b",
        "/" + "x**\\/" * 30 + "b",
    ],
)
def test_decide_is_quick_when_a_pattern_is_hostile(pattern: str) -> None:
    rules = parse_rules(pattern.encode())
    began = time.process_time()
    assert rules.decide(b"a" * 250, is_dir=False) is None
    assert rules.decide(b"a/" * 200 + b"c", is_dir=False) is None
    assert time.process_time() - began < 1.0


def test_parse_rules_keeps_names_that_are_not_text() -> None:
    rules = parse_rules(b"\xff*\n")
    assert rules.decide(b"\xff\xfe", is_dir=False) is not None
    assert rules.decide(b"\xfe", is_dir=False) is None


def test_rule_file_is_empty_when_it_is_a_link(tmp_path: Path) -> None:
    repo = Repo.create(tmp_path / "repo", ())
    repo.write("outside", "a\n")
    repo.symlink(".gitignore", "outside")
    repo.write("a", "")
    assert RepoPath(b"a") in walk(*_coverage(repo)).files


_CASED = (b"Foo", b"foo", b"FOO.O", b"a", b"B", b"Q.txt", b"Dir/X", b"dir/x")
_CASED_TOKENS = [
    *(b"F", b"o", b"O", b"*", b"?", b"**", b"/", b".", b"a", b"B", b"Q", b"X", b"\\"),
    *(b"[A-C]", b"[a-c]", b"[!A]", b"[FQ]", b"[[:upper:]]", b"[[:lower:]]", b"dir/"),
    *(b"Dir/", b"foo", b"FOO", b"[^X-Z]", b".TXT", b"-", b"\\F"),
]
_CASED_RULES = st.lists(
    st.lists(st.sampled_from(_CASED_TOKENS), max_size=5).map(b"".join),
    min_size=1,
    max_size=4,
).map(b"\n".join)


@given(rules=_CASED_RULES)
@shares_fixture
def test_rules_match_as_those_of_git_with_ignore_case(
    forest: Repo, rules: bytes
) -> None:
    """`core.ignoreCase` changes Git's rules, so those of one file are compared with it."""
    forest.write(".git/info/exclude", rules)
    listed = b"".join(path + b"\0" for path in _CASED)
    words = ("-c", "core.ignoreCase=true", "check-ignore", "--no-index")
    out = forest.git(*words, *("-z", "-n", "-v", "--stdin"), stdin=listed, check=False)
    rows = zip(*[iter(os.fsencode(out).split(b"\0"))] * 4, strict=False)
    said = {row[3]: row[2] for row in rows if row[0].endswith(b"exclude")}
    parsed = parse_rules(rules, folds=True)
    for path in _CASED:
        tops = (path.partition(b"/")[0], path) if b"/" in path else (path,)
        decided = [parsed.decide(top, is_dir=top != path) for top in tops]
        # A directory that is ignored decides about all below it.
        first = next((rule for rule in decided[:-1] if rule and not rule.negated), None)
        ours = first or decided[-1]
        git_ignores = path in said and not said[path].startswith(b"!")
        assert (ours is not None and not ours.negated) == git_ignores
        names = {one.rpartition(b"/")[2] for one in (path,)}
        folder = path.rpartition(b"/")[0]
        within = folder + b"/" if folder else b""
        assert decided[-1] is None or parsed.candidates(within, names) == names
