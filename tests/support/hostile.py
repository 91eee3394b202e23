"""A session in which every name, prompt and content tries to break out of a page."""

from pathlib import Path

from tests.support.repo import Repo
from tests.support.studio import Studio, studio_of

TAG = "<script>document.title='owned'</script>"
PROMPTS = (
    f"{TAG}</blockquote></title></style><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m \u202egnp.exe \x00\x07 \ud800 {{ 7*7 }} {% raw %}",
    "&lt;b&gt; &amp; \"quotes\" 'and' `ticks`\n\n" + "long-word" * 500,
    "",
    "x" * 100_000,
)
NAMES = (
    f"a{TAG.replace('/', '')}.py".encode(),
    b'b"onmouseover="alert(1).txt',
    b"c\x1b[2Jd\n.txt",
    b"e\xff\xfe.bin",
    "f\u202etxt.exe".encode(),
    b"g/" + b"very-long-name-" * 12 + b"/" + b"and-on-it-goes" * 10,
    b"{{ self }}.txt",
)
CONTENTS: tuple[str | bytes, ...] = (
    f"{TAG}\n-->]]></style></div></details>\n",
    b"\xff\xfe invalid \x1b[31m utf-8\n\tand a tab\r\n",
    "x" * 50_000 + "\n",
    "".join(f"line {number}\n" for number in range(3_000)),
    b"\0binary",
    "\u2028\u2029\u0085separators\n",
    "{% for x in y %}\n",
)


def hostile(root: Path) -> Repo:
    """Make a repository with such a session, `S1`."""
    repo = Repo.create(root)
    with studio_of(repo) as studio:
        _play(studio)
    return repo


def _play(studio: Studio) -> None:
    studio.start("S1", model=f"{TAG}model")
    for place, prompt in enumerate(PROMPTS):
        studio.prompt("S1", prompt)
        studio.write("S1", NAMES[place], CONTENTS[place])
        studio.write("S1", f"plain-{place}", CONTENTS[-place - 1])
        studio.stop("S1")
    studio.prompt("S1", "the rest")
    call = {"tool_name": f"Bash{TAG}", "tool_use_id": "c1"}
    studio.hook("S1", "PreToolUse", **call, tool_input={"command": "make"})
    for name, data in zip(NAMES, CONTENTS, strict=True):
        studio.repo.write(name, data)
    studio.hook("S1", "PostToolUse", **call, tool_input={}, tool_response={})
    studio.stop("S1")
    studio.run("undo", verb="oops", yes=True)
    studio.run("journal_gap", why=f"gap {TAG} \x1b[31m")
