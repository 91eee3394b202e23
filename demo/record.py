"""Turn real terminal output into a picture: run commands on a terminal, draw what they print.

    record.py oops docs/img/oops.svg

The commands of a scene are run one after the other in a new repository, each on a pseudo-terminal
of its own; Enter is typed where one asks. Colours are those that the commands print (SGR codes).
"""

import html
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Scene(NamedTuple):
    """Hold what is prepared in a new repository, and the commands that the picture shows."""

    setup: str
    shown: tuple[str, ...]


_BEGIN = r"""
git init -q -b main tea && cd tea
printf 'green\nblack\nwhite\n' >teas.txt
printf '# Tea\n\nBrew it for three minutes.\n' >README.md
git add . && git commit -qm Start
git agent-undo init
"""
# An agent that reports one turn: its name, its prompt, what its shell runs.
_TURN = r"""
turn() {
    said='"session": "'$1'", "agent": "'$1'", "tool": "Bash", "class": "shell"'
    for event in prompt before; do
        echo '{"event": "'$event'", "prompt": "'$2'", '$said'}' | git agent-undo hook generic
    done
    sh -c "$3"
    for event in after turn_end; do
        echo '{"event": "'$event'", '$said'}' | git agent-undo hook generic
    done
}
"""
SCENES = {
    "oops": Scene(
        _BEGIN
        + r"""
git agent-undo exec --agent helper -- sh -c '
    sed -i "s/three/thirty/" README.md; echo pot >pot.txt; rm teas.txt'
echo 'Enjoy.' >>README.md
""",
        ("git agent-undo log", "git agent-undo oops", "git status --short"),
    ),
    "split": Scene(
        _BEGIN
        + _TURN
        + r"""
turn claude-code 'Brew green tea for two minutes only' \
    'sed -i s/three/two/ README.md; sed -i "s/green/green, two minutes/" teas.txt'
turn codex 'Add a list of pots' 'echo glass >pots.txt; echo "See pots.txt." >>README.md'
echo 'oolong' >>teas.txt
""",
        (
            "git agent-undo log",
            "git agent-undo split",
            "git log --oneline --stat -2",
            "git diff",
        ),
    ),
}
QUESTION_END = b"] "
COLUMNS = 98
FONT_PX = 14
CHAR_PX = 8.43
LINE_PX = 20
MARGIN_PX = 18
PAPER, INK, FAINT = "#16181d", "#d8dee9", "#7b8494"
COLOURS = {
    31: "#e06c75",
    32: "#98c379",
    33: "#e5c07b",
    34: "#7aa2f7",
    35: "#c678dd",
    36: "#56b6c2",
    37: INK,
    39: INK,
}
GROUNDS = {42: "#2c4a33", 44: "#2b3a5e"}
_SGR = re.compile(r"\033\[([0-9;]*)m")
_OTHER = re.compile(r"\033\[[0-9;?]*[A-Za-ln-z]|\r")


class Style(NamedTuple):
    """Hold how a piece of a line looks."""

    colour: str = INK
    bold: bool = False
    ground: str = ""


def on_terminal(command: str, cwd: str, environ: dict[str, str]) -> str:
    """Run a command on a terminal of its own and return all that was printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe("sh", ["sh", "-c", command], environ)
    printed = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the last process has closed its end
            break
        if not part:
            break
        printed += part
        if printed.endswith(QUESTION_END):
            os.write(terminal, b"\n")
    os.waitpid(pid, 0)
    os.close(terminal)
    return _OTHER.sub("", printed.decode()).rstrip("\n")


def pieces(line: str, style: Style) -> Iterator[tuple[str, Style]]:
    """Split a line at its SGR codes."""
    at = 0
    for code in _SGR.finditer(line):
        yield line[at : code.start()], style
        at = code.end()
        style = _changed(style, code[1])
    yield line[at:], style


def _changed(style: Style, codes: str) -> Style:
    for code in (int(one or 0) for one in codes.split(";")):
        if code == 0:
            style = Style()
        elif code == 1:
            style = style._replace(bold=True)
        elif code == 2:
            style = style._replace(colour=FAINT)
        elif code in COLOURS:
            style = style._replace(colour=COLOURS[code])
        elif 40 <= code <= 49:
            style = style._replace(ground=GROUNDS.get(code, ""))
    return style


def draw(
    lines: list[tuple[str, Style]],
    title: str = "git agent-undo in a terminal",
    columns: int = COLUMNS,
) -> str:
    """Return lines of terminal output as an SVG document."""
    width = round(columns * CHAR_PX + 2 * MARGIN_PX)
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    rows: list[str] = []
    for number, (line, style) in enumerate(lines):
        parts = list(pieces(line, style))
        bottom = MARGIN_PX + (number + 1) * LINE_PX
        rows += _grounds(parts, bottom - LINE_PX)
        if spans := "".join(map(_span, parts)):
            rows.append(f'<text x="{MARGIN_PX}" y="{bottom - 6}">{spans}</text>')
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" role="img">',
            f"<title>{html.escape(title)}</title>",
            f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
            f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT_PX}"'
            ' xml:space="preserve">',
            *rows,
            "</g>",
            "</svg>",
            "",
        )
    )


def _grounds(parts: list[tuple[str, Style]], top: int) -> Iterator[str]:
    """Yield what stands behind the pieces of one line."""
    column = 0
    for text, style in parts:
        if style.ground and text:
            x, width = MARGIN_PX + column * CHAR_PX, len(text) * CHAR_PX
            yield (
                f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{LINE_PX}"'
                f' fill="{style.ground}"/>'
            )
        column += len(text)


def _span(piece: tuple[str, Style]) -> str:
    text, style = piece
    if not text:
        return ""
    bold = ' font-weight="bold"' if style.bold else ""
    said = html.escape(text).replace(" ", "\u00a0")
    return f'<tspan fill="{style.colour}"{bold}>{said}</tspan>'


def record(scene: Scene, directory: str) -> list[tuple[str, Style]]:
    """Run the set-up and the shown commands; return the lines that a person would see."""
    dropped = ("GIT", "NO_COLOR")
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith(dropped)},
        **{f"GIT_{role}_NAME": "You" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "you@example.com" for role in ("AUTHOR", "COMMITTER")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PAGER": "cat",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}",
        "TZ": "UTC",
    }
    subprocess.run(
        ["sh", "-ec", scene.setup],
        cwd=directory,
        env=environ,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    project = os.path.join(directory, "tea")
    lines: list[tuple[str, Style]] = []
    try:
        for command in scene.shown:
            lines.append((f"\033[2m$\033[m \033[1m{command}\033[m", Style()))
            text = on_terminal(command, project, environ)
            lines += [(line, Style()) for line in text.split("\n")]
            lines.append(("", Style()))
    finally:
        stop = ["git", "agent-undo", "stop"]
        subprocess.run(
            stop, cwd=project, env=environ, check=True, stdout=subprocess.DEVNULL
        )
    return lines[:-1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        picture = draw(record(SCENES[sys.argv[1]], temporary))
    Path(sys.argv[2]).write_text(picture, encoding="utf-8")
