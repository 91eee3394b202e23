"""Patches of `show` and `diff` as data, for a reader that draws them."""

import pytest

from tests.support.repo import Repo
from tests.support.studio import studio_of

BINARY = "Binary files a/logo.png and b/logo.png differ"
FILES = [
    {
        "path": "logo.png",
        "old_path": "logo.png",
        "header": ["new file mode 100644", "index 0000000000..bdc955b7b2", BINARY],
        "hunks": [],
    },
    {
        "path": "é",
        "old_path": "é",
        "header": ["new file mode 100644", "index 0000000000..9ed40b4425"],
        "hunks": ["@@ -0,0 +1,2 @@", "+one", "+two", "\\ No newline at end of file"],
    },
]
TEXT = f"""\
diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000000..bdc955b7b2
{BINARY}
diff --git "a/\\303\\251" "b/\\303\\251"
new file mode 100644
index 0000000000..9ed40b4425
--- /dev/null
+++ "b/\\303\\251"
@@ -0,0 +1,2 @@
+one
+two
\\ No newline at end of file
"""


@pytest.mark.parametrize(
    ("verb", "named", "field"), [("show", "id", "diff"), ("diff", "of", "patch")]
)
def test_hunks_are_data_on_request_and_text_without_it(
    repo: Repo, verb: str, named: str, field: str
) -> None:
    with studio_of(repo) as studio:
        studio.write("S1", "é", "one\ntwo")
        studio.write("S1", "logo.png", b"\0\1")
        studio.stop("S1")
        rows = studio.run("log", limit=1)["rows"]
        assert isinstance(rows, list)
        burst = rows[0]["burst"]
        text = studio.run(verb, **{named: burst})
        data = studio.run(verb, **{named: burst}, hunks=True)
    assert text[field] == TEXT
    assert "file_diffs" not in text
    assert data["file_diffs"] == FILES
    assert field not in data
