"""Inverses that are not functions of the program: a command, an HTTP request, an MCP tool.

The journal's data about them is of unknown origin, so it is checked when it is written and when it
is read. The program's policy or a person decides what may run. Pure; a text that people see names
secrets and never contains one.
"""

import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from gitshadow.sdk.turns.option_checks import check_fields, names, unfit
from gitshadow.sdk.turns.values import JsonObject

# A registered handler has a domain in its name, so it can have none of these names.
COMMAND, HTTP, MCP = "command", "http", "mcp"

SECRET_KEY = "$secret"
_METHOD = re.compile(r"[A-Z]{3,12}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_CREDENTIAL = re.compile(r"(?i)auth|token|secret|cookie|key|password")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "idempotency-key"})
_UNSEEN = re.compile(r"[\x00-\x20\x7f]")
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# For some servers, `%u002e` is a dot, and `..;x`, `..?x` and `.. ` are `..`.
_ODD_ESCAPE = re.compile(r"(?i)%u[0-9a-f]{4}|[\x00-\x1f\x7f\\]")
_NAME_END = re.compile(r"[;?#\s]")
_PORTS = {"http": 80, "https": 443}


def is_external(handler: str) -> bool:
    """Return whether a handler is none of the program's own functions."""
    return handler in _CHECKS


def check(handler: str, args: JsonObject) -> None:
    """Check the arguments of an external inverse, as stored: secrets by name.

    Raises:
        ValueError: it must not be stored or run; the text repeats no value.
    """
    _CHECKS[handler](args)


def described(handler: str, args: JsonObject) -> str:
    """Return for people what would be done."""
    if handler == COMMAND:
        place = f" (in {args['cwd']})" if args.get("cwd") else ""
        return f"runs {shlex.join(_texts(args['argv']))}{place}"
    if handler == HTTP:
        return f"sends {args['method']} {args['url']}"
    return f"calls {args['server']}/{args['tool']}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The external inverses that run without a question.

    Args:
        commands: First words of command lines: `git tag -d` allows every command that begins so.
        urls: Beginnings of addresses, by whole segments: `https://api.example.com/v1`.
        mcp: Servers, or `server/tool`.

    Raises:
        UsageError: one text instead of a tuple, no command, no address, or an address that has
            more than scheme, host, port and path.
    """

    commands: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, dict.fromkeys(("commands", "urls", "mcp"), names))
        for entry in self.commands:
            _check_words(entry)
        for entry in self.urls:
            try:
                _check_url(entry)
            except ValueError as error:
                raise unfit("urls", "addresses", entry, hint=str(error)) from error
            if "?" in entry:
                raise unfit("urls", "addresses without a query", entry)

    def covers(self, handler: str, args: JsonObject) -> bool:
        """Return whether an external inverse is allowed."""
        if handler == COMMAND:
            argv = _texts(args["argv"])
            begins = [shlex.split(entry) for entry in self.commands]
            return any(words and argv[: len(words)] == words for words in begins)
        if handler == HTTP:
            try:
                url = _check_url(str(args["url"]))
            except ValueError:
                return False
            return any(_is_below(url, urlsplit(entry)) for entry in self.urls)
        # A server whose own name has a slash is never one that an entry means.
        for entry in self.mcp:
            server, slash, tool = entry.partition("/")
            if args["server"] == server and (not slash or args["tool"] == tool):
                return True
        return False


def _is_below(url: SplitResult, top: SplitResult) -> bool:
    if _origin(url) != _origin(top):
        return False
    path = top.path.rstrip("/")
    return url.path == path or url.path.startswith(path + "/")


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    port = _PORTS.get(url.scheme) if url.port is None else url.port
    return url.scheme, url.hostname, port


def _check_words(entry: str) -> None:
    try:
        words = shlex.split(entry)
    except ValueError as error:
        raise unfit("commands", "beginnings of command lines", entry) from error
    if not words:
        raise unfit("commands", "beginnings of command lines", entry)


def _check_command(args: JsonObject) -> None:
    argv, cwd, env = args.get("argv"), args.get("cwd"), args.get("env")
    if not isinstance(argv, list) or not argv or not all(map(_is_word, argv)):
        raise ValueError("a command must be a list of strings")
    # A relative path would run a file of the working tree, which an agent writes.
    if "/" in argv[0] and not argv[0].startswith("/"):
        raise ValueError("a program must be a plain name or an absolute path")
    if cwd is not None and not isinstance(cwd, str):
        raise ValueError("a directory must be a string")
    if not isinstance(env, Mapping) or not all(map(_is_secret, env.values())):
        raise ValueError("variables of a command must be secrets, given by name")


def _check_http(args: JsonObject) -> None:
    method, url, headers = args.get("method"), args.get("url"), args.get("headers")
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise ValueError("a method must be a word in capitals")
    if not isinstance(url, str):
        raise ValueError("an address must be a string")
    _check_url(url)
    if not isinstance(headers, Mapping):
        raise ValueError("headers must be a mapping")
    for name, value in headers.items():
        _check_header(name, value)
    if args.get("auth") is not None and not _is_secret(args["auth"]):
        raise ValueError("a token must be given by name: env:NAME")
    accept = args.get("accept")
    if not isinstance(accept, list) or not all(isinstance(n, int) for n in accept):
        raise ValueError("accepted statuses must be numbers")


def _check_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        origin = _origin(url)
    except ValueError as error:
        raise ValueError("it is not an address") from error
    if url.scheme not in _PORTS or not origin[1]:
        raise ValueError("an address must start with https:// or http:// and a host")
    if "@" in url.netloc:
        raise ValueError("an address must not contain credentials: pass auth=env:NAME")
    if url.fragment or "\\" in text or _UNSEEN.search(text) or not text.isascii():
        raise ValueError(
            "an address must not contain spaces, fragments or unescaped letters"
        )
    _check_path(url.path)
    return url


def _check_path(path: str) -> None:
    """Check that no server can read a path as one that is above its beginning.

    The policy allows beginnings of addresses, and servers decode a path once, twice or not at all
    before they resolve `..`.
    """
    if _NO_ESCAPE.search(path):
        raise ValueError("an address must not contain a % that is no escape")
    decoded, before = path, ""
    while decoded != before and not _ODD_ESCAPE.search(decoded):
        before = decoded
        try:
            decoded = unquote_to_bytes(before).decode()
        except UnicodeDecodeError as error:
            raise ValueError("an address must be UTF-8") from error
        decoded = unicodedata.normalize("NFKC", decoded)
    if _ODD_ESCAPE.search(decoded) or decoded.count("/") != path.count("/"):
        raise ValueError(
            "an address must not contain an escaped /, \\ or control character"
        )
    for segment in decoded.split("/"):
        name = _NAME_END.split(segment.strip(), maxsplit=1)[0]
        if name and not name.strip("."):
            raise ValueError("an address must not contain /../")


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not _HEADER.fullmatch(name):
        raise ValueError("a header name may contain letters, digits and dashes")
    if name.lower() in _OURS:
        raise ValueError(f"the header {name} cannot be set by inverses")
    if _is_secret(value):
        return
    if _CREDENTIAL.search(name):
        raise ValueError(f"the header {name} contains a credential: pass Secret(NAME)")
    if not isinstance(value, str) or "\n" in value or "\r" in value:
        raise ValueError(f"the header {name} is not a line of text")


def _check_mcp(args: JsonObject) -> None:
    if not all(isinstance(args.get(name), str) for name in ("server", "tool")):
        raise ValueError("a server and its tool must be strings")
    if not isinstance(args.get("arguments"), Mapping):
        raise ValueError("arguments must be a mapping")


def _is_word(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_secret(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() == {SECRET_KEY}
        and isinstance(value[SECRET_KEY], str)
    )


def _texts(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, Sequence) else []


_CHECKS: Mapping[str, Callable[[JsonObject], None]] = {
    COMMAND: _check_command,
    HTTP: _check_http,
    MCP: _check_mcp,
}
