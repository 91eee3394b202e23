"""Places that are not recorded, and who writes there next."""

import os

from tests.support.repo import Repo
from tests.support.studio import studio_of


def test_a_file_that_replaced_a_fifo_is_created_by_who_wrote_it(repo: Repo) -> None:
    os.mkfifo(repo.path("pipe"))
    with studio_of(repo) as studio:
        studio.desk.observer.settle()
        repo.delete("pipe")
        studio.write("S1", "pipe", "agent\n")
        report = studio.run("undo", verb="oops", yes=True)
        assert (report["status"], repo.exists("pipe")) == ("reversed", False)
