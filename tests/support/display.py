"""A display that nobody sees, for programs with windows: `with display(tmp) as screen:`.

Xvfb keeps its screen in a file (`-fbdir`) of the form of xwd(1), which is read here: no program is
needed to take a picture.
"""

import os
import struct
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.tools import need
from tests.support.waiting import until

WIDTH, HEIGHT = 1000, 640
_HEADER = struct.Struct(">25I")
_COLOUR_BYTES = 12
_COARSE = bytes(value >> 4 | value & 0xF0 for value in range(256))


@dataclass(frozen=True, slots=True)
class Shot:
    """What a screen shows: rows of red, green and blue bytes."""

    width: int
    height: int
    rows: Sequence[bytes]

    def count(self, colour: str) -> int:
        """Return how many pixels have a colour (`ffddaa`)."""
        wanted = bytes.fromhex(colour)
        return sum(
            row[at : at + 3] == wanted
            for row in self.rows
            if wanted in row
            for at in range(0, len(row), 3)
        )

    def png(self) -> bytes:
        """Return the picture as PNG (ISO 15948): a palette of colours in 16 steps a channel."""
        colours: dict[bytes, int] = {}
        lines = bytearray()
        for row in (one.translate(_COARSE) for one in self.rows):
            lines.append(0)  # no filter
            for at in range(0, len(row), 3):
                pixel = row[at : at + 3]
                lines.append(colours.setdefault(pixel, len(colours)))
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 3, 0, 0, 0)
        parts = (
            (b"IHDR", head),
            (b"PLTE", b"".join(colours)),
            (b"IDAT", zlib.compress(lines, 9)),
            (b"IEND", b""),
        )
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(body))
            + name
            + body
            + struct.pack(">I", zlib.crc32(name + body))
            for name, body in parts
        )


@dataclass(frozen=True, slots=True)
class Display:
    """One display and the file of its screen."""

    name: str
    frame: Path

    def environment(self) -> dict[str, str]:
        """Return the environment of a program that is to be seen here."""
        return {**os.environ, "DISPLAY": self.name}

    def titles(self) -> list[str]:
        """Return the titles of all windows."""
        done = subprocess.run(
            [need("xwininfo"), "-display", self.name, "-root", "-tree"],
            capture_output=True,
            text=True,
            check=False,  # it fails where a window goes while it lists them
        )
        lines = (line.strip() for line in done.stdout.splitlines())
        return [
            line.split('"')[1]
            for line in lines
            if line.startswith("0x") and '"' in line
        ]

    def shot(self) -> Shot:
        """Return what is shown now."""
        data = self.frame.read_bytes()
        fields = _HEADER.unpack_from(data)
        header, width, height = fields[0], fields[4], fields[5]
        bits, line, colours = fields[11], fields[12], fields[19]
        assert bits == 32, "a screen of 24 bits has pixels of 32"
        start = header + colours * _COLOUR_BYTES
        rows = []
        for y in range(height):
            row = data[start + y * line : start + y * line + width * 4]
            pixels = bytearray(width * 3)
            for place, of in enumerate((2, 1, 0) if fields[7] == 0 else (1, 2, 3)):
                pixels[place::3] = row[of::4]
            rows.append(bytes(pixels))
        return Shot(width, height, rows)


@contextmanager
def display(scratch: Path) -> Iterator[Display]:
    """Start an X server with one screen."""
    program = need("Xvfb")
    reading, writing = os.pipe()
    command = (
        *(program, "-displayfd", str(writing), "-fbdir", str(scratch)),
        *("-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp", "-noreset"),
    )
    with (
        open(reading, "rb") as told,
        subprocess.Popen(
            command,
            pass_fds=(writing,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server,
    ):
        os.close(writing)
        try:
            number = told.readline().decode("ascii").strip()
            assert number, "the X server did not start"
            yield Display(f":{number}", scratch / "Xvfb_screen0")
        finally:
            server.terminate()


@contextmanager
def shown(screen: Display, command: Sequence[str], cwd: Path) -> Iterator[None]:
    """Run a program with windows, and end it."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=screen.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def await_title(screen: Display, words: str) -> str:
    """Wait until a window has a title with these words; return the title."""
    until(lambda: any(words in title for title in screen.titles()))
    return next(title for title in screen.titles() if words in title)


def await_colour(screen: Display, colour: str, pixels: int) -> Shot:
    """Wait until so many pixels have a colour; return the picture."""
    until(lambda: screen.shot().count(colour) >= pixels)
    return screen.shot()
