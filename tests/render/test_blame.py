"""Git's own format of `blame`, made of an answer."""

import base64

import pytest

from gitshadow.messages.blame import BlameAnswer, OwnerRow
from gitshadow.render import blame
from gitshadow.store.object_format import SHA1, SHA256, ObjectFormat


@pytest.mark.parametrize("form", [SHA1, SHA256], ids=lambda form: form.name)
def test_lines_of_no_commit_have_the_null_id_of_the_format(form: ObjectFormat) -> None:
    nobody = OwnerRow("unknown", "none", "not recorded", path="f")
    commit = form.blob(b"1")
    git = {"summary": "second"}
    known = OwnerRow("human", "certain", "", path="f", commit=commit, git=git)
    answer = BlameAnswer(
        path="f",
        content_base64=base64.b64encode(b"one\ntwo\n").decode("ascii"),
        lines=((1, 0, 1), (2, 1, 1)),
        owners=(nobody, known),
        removed=(),
        no_commit=form.null,
    )
    rows = blame.porcelain(answer, every_line=False, now=1).split(b"\n")
    ids = (form.null.encode(), commit.encode())
    heads = [row.decode("ascii") for row in rows if row.startswith(ids)]
    assert heads == [f"{form.null} 1 1 1", f"{commit} 1 2 1"]
