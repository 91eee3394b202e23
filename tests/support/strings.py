"""Every text of the package that a person may read, in tests/fixtures/strings.txt.

`make docs` writes the file, a test compares it: a change of language is a diff of one file.
One line is one text, behind the module it is in; `{name}` is a placeholder of an f-string.

What is visible follows from the place of a literal in the source, not from a list:

1. An argument of a call whose name ends in `Error`, of `click` calls that show text, and every
   `help`, `hint`, `epilog`, `footer`, `label`, `title` or `description` argument.
2. The docstring of a function that a decorator makes a command (`command`, `group`, `verb`) or a
   tool of an MCP server (`tool`): a program shows it to people, or to a model.
3. In the packages whose purpose is text (`render`, `ui`): the values of mappings, and each
   f-string that holds a word.
4. Anywhere: a literal that reads as prose, that is two words with a blank between them.
5. The text between the tags of the HTML templates.

Not visible are other docstrings, annotations, SQL, CSS, what is passed to `re.compile`, the names
of agents' tools in `adapters`, and the lists of columns in `store/journal`.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STORED = ROOT / "tests" / "fixtures" / "strings.txt"

_TEXT_PACKAGES = ("render", "ui")
_CLICK = ("echo", "secho", "prompt", "confirm", "version_option")
_OFFERS = ("command", "group", "tool", "verb")
_KEYWORDS = frozenset(
    ("help", "hint", "epilog", "footer", "label", "title", "description")
)
_PROSE = re.compile(r"[^\W\d_}]{2}[,:;]? +[^\W\d_{]*[\w{]|\w [\w{]\w")
_WORD = re.compile(r"[^\W\d_]{2}")
_FIELD = re.compile(r"\{.*?\}")
_SQL = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|VACUUM|ATTACH|SAVEPOINT|IN"
    r"|AND|OR|WHERE|ORDER BY|GROUP BY|JOIN|FROM|VALUES|LIMIT|COALESCE)\b[^a-z]* [\w({=?*]"
    r"|^(?=.*_)\w+(, \w+)+$|^[\w ]+ [=<>] "
)
_CSS = re.compile(r"[\w.#>-]+ \{[^{}]*: ")
_TEMPLATE_TAG = re.compile(r"\{%.*?%\}")
_TEMPLATE_FIELD = re.compile(r"\{\{.*?\}\}")
_BETWEEN_TAGS = re.compile(r"(?<=>)[^<>]+(?=<)")
_TRANSPARENT = (ast.IfExp, ast.BoolOp, ast.BinOp, ast.List, ast.Tuple)
_SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts() -> list[str]:
    """Return the lines of the file, sorted."""
    found: set[str] = set()
    for path in (ROOT / "gitshadow").rglob("*.py"):
        module = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        shown = visible(tree, is_text_package=module.split("/")[1] in _TEXT_PACKAGES)
        found.update(f"{module}\t{_one_line(text)}" for text in shown)
    for path in (ROOT / "gitshadow").rglob("*.html"):
        page = path.relative_to(ROOT).as_posix()
        source = _TEMPLATE_TAG.sub(" ", path.read_text(encoding="utf-8"))
        found.update(
            f"{page}\t{' '.join(text.split())}"
            for text in _BETWEEN_TAGS.findall(source)
            if _WORD.search(_TEMPLATE_FIELD.sub("", text))
        )
    return sorted(found)


def visible(tree: ast.Module, *, is_text_package: bool = False) -> Iterator[str]:
    """Yield the visible texts of one module, as in the source."""
    return _Visible(is_text_package).of(tree)


class _Visible:
    def __init__(self, is_text_package: bool) -> None:
        self.is_text_package = is_text_package

    def of(self, node: ast.AST, forced: bool = False) -> Iterator[str]:
        """Yield the texts below a node; `forced` are those that need not read as prose."""
        text = _literal(node)
        if text is not None:
            if forced or self._reads_as_prose(node, text):
                yield from [text] if _WORD.search(_FIELD.sub("", text)) else []
            for part in getattr(node, "values", ()):
                if isinstance(part, ast.FormattedValue):
                    yield from self.of(part.value)
            return
        if isinstance(node, ast.FunctionDef) and _is_offered(node):
            yield from filter(None, [ast.get_docstring(node)])
        for child, visible in self._children(node, forced):
            yield from self.of(child, visible)

    def _reads_as_prose(self, node: ast.AST, text: str) -> bool:
        if _SQL.search(text) or _CSS.search(text):
            return False
        is_row = self.is_text_package and isinstance(node, ast.JoinedStr)
        return is_row or bool(_PROSE.search(text))

    def _children(self, node: ast.AST, forced: bool) -> Iterator[tuple[ast.AST, bool]]:
        shown = _shown(node, self.is_text_package)
        forced = forced and isinstance(node, _TRANSPARENT)
        for child in ast.iter_child_nodes(node):
            if child not in _hidden(node):
                yield child, forced or child in shown


def _literal(node: ast.AST) -> str | None:
    """Return a string literal with its placeholders in braces, None for another node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(
        f"{{{ast.unparse(part.value)}}}"
        if isinstance(part, ast.FormattedValue)
        else str(getattr(part, "value", ""))
        for part in node.values
    )


def _is_offered(node: ast.FunctionDef) -> bool:
    return any(_name(one) in _OFFERS for one in node.decorator_list)


def _name(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return str(getattr(called, "attr", "") or getattr(called, "id", ""))


def _hidden(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node that no person sees."""
    if isinstance(node, _SCOPES):
        lone = [one for one in node.body if isinstance(one, ast.Expr)]
        return [one for one in lone if isinstance(one.value, ast.Constant)]
    if isinstance(node, ast.Call) and _name(node) == "compile":
        return list(node.args)
    if isinstance(node, ast.Call) and _name(node) == "tool_classes":
        return list(node.keywords)
    annotation = getattr(node, "annotation", None)
    return [annotation] if annotation else []


def _shown(node: ast.AST, is_text_package: bool) -> Sequence[ast.AST | None]:
    """Return the children of a node whose literals are visible even as single words."""
    if isinstance(node, ast.keyword):
        return [node.value] if node.arg in _KEYWORDS else []
    if isinstance(node, ast.Call):
        shows = _name(node).endswith("Error") or _name(node) in _CLICK
        return node.args if shows else []
    return node.values if isinstance(node, ast.Dict) and is_text_package else []


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


if __name__ == "__main__":
    STORED.write_text("\n".join(texts()) + "\n", encoding="utf-8")
