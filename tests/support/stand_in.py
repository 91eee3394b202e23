"""An agent's process as a hook sees it: it runs the hooks and the tools, and lives on.

Steps come as JSON on standard input: `run` a command with an input, `write` a file, or run a
`shell` text. The outputs of the commands go to standard output as JSON.
"""

import json
import os
import subprocess
import sys


def main() -> None:
    """Run all steps in order; a command that fails ends the run."""
    if "CLAUDE_PID" in os.environ:
        os.environ["CLAUDE_PID"] = str(os.getpid())
    said = []
    for step in json.load(sys.stdin):
        if "run" in step:
            said.append(_run(step["run"], step["input"]))
        elif "write" in step:
            path, text = step["write"]
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            subprocess.run(["/bin/sh", "-c", step["shell"]], check=True)
    json.dump(said, sys.stdout)


def _run(command: list[str], text: str) -> str:
    done = subprocess.run(
        command, input=text, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
