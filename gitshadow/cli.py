"""The command line: the verb that is called, its errors, and the exit code."""

import codecs
import os
import sys
from collections.abc import Sequence
from contextvars import copy_context

from gitshadow.commands import error_handler, group, spelled_out
from gitshadow.errors import ExitCode, ShadowError
from gitshadow.render.style import PLAIN, is_plain_locale, plainly

# What a shell reports for a program that SIGPIPE ended, as it ends `git log | head`. Python ignores
# the signal and raises an error instead.
_SIGPIPE_EXIT = 128 + 13
_WITHOUT_JSON = frozenset({"exec", "hook", "git-hook"})


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line to its end and return its exit code; never raise.

    Args:
        args: The words after the program's name; those of this process by default.
    """
    words = spelled_out(list(sys.argv[1:] if args is None else args))
    _never_fail_on_encoding()
    try:
        return error_handler.contain(lambda: _run(words))
    except BrokenPipeError:
        _silence_stdout()
        return _SIGPIPE_EXIT
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except ShadowError as error:
        return _fail(error, words)


def _run(words: list[str]) -> int:
    code = copy_context().run(group.run, words)
    sys.stdout.flush()
    return code


def _fail(error: ShadowError, words: list[str]) -> int:
    error_handler.complain(error)
    try:
        if _wants_json(words):
            from gitshadow.render import output

            output.show_json(error_handler.error_document(error))
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
    return int(error.exit_code)


def _wants_json(words: list[str]) -> bool:
    if words and words[0] in _WITHOUT_JSON:
        return False
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _never_fail_on_encoding() -> None:
    """Set both streams to replace what their encoding cannot represent."""
    # Python treats the locale C as UTF-8 (PEP 540). A terminal in that locale cannot show UTF-8, so
    # it gets ASCII; a file or pipe keeps the bytes.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        codecs.register_error(PLAIN, plainly)
        if stream.isatty() and is_plain_locale(os.environ):
            reconfigure(encoding="ascii", errors=PLAIN)
        else:
            reconfigure(errors=PLAIN)


def _silence_stdout() -> None:
    """Redirect standard output after its reader or the space for it has gone."""
    # Else the flush at the interpreter's end fails once more and prints "Exception ignored".
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
