"""Who wrote each line, in one word: what the tests of blame compare.

A line of an agent is its native session id, one that Git names an author for is `H`, one of a
person `you`, every other `unk`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.claude import Claude
from tests.support.repo import PathLike
from tests.support.shadow import Document, Shadow


@dataclass(slots=True)
class Scene:
    """Write as several sessions and by hand in one repository, and ask for the owners."""

    shadow: Shadow
    agents: dict[str, Claude] = field(default_factory=dict)

    def agent(self, name: str) -> Claude:
        """Return the agent session of that name, started where it is new."""
        if name not in self.agents:
            self.agents[name] = Claude(self.shadow, name)
            self.agents[name].start()
            self.agents[name].prompt(f"prompt of {name}")
        return self.agents[name]

    def write(self, who: str, path: str, *lines: str) -> str:
        """Write a file as a session's edit tool does."""
        return self.agent(who).write(path, text(*lines))

    def hand(self, path: str, *lines: str) -> None:
        """Write a file outside every tool call and have it recorded."""
        self.shadow.repo.write(path, text(*lines))
        self.shadow.ok("flush")

    def git(self, *words: str) -> str:
        """Run git, then have what it did recorded."""
        said = self.shadow.repo.git(*words)
        self.shadow.ok("flush")
        return said

    def commit(self, message: str) -> str:
        """Commit everything, as the person at the keyboard."""
        oid = self.shadow.repo.commit(message)
        self.shadow.ok("flush")
        return oid

    def rows(self, path: PathLike, *args: PathLike) -> list[Document]:
        """Return the rows of `blame --json`."""
        return self.shadow.ok("blame", "--json", *args, "--", path).rows()

    def owners(self, path: PathLike, *args: PathLike) -> str:
        """Return who wrote each line, in one word each."""
        natives = {
            row["id"]: str(row["native_id"])
            for row in self.shadow.ok("sessions", "--json").rows()
        }
        return " ".join(owner_of(row, natives) for row in self.rows(path, *args))


def owner_of(row: Document, natives: Mapping[object, str]) -> str:
    """Return who wrote one line, in one word."""
    if row["actor"] == "agent":
        return natives[row["session"]]
    if row["actor"] == "human":
        return "H" if row["author"] else "you"
    return "unk"


def text(*lines: str) -> str:
    """Return lines as a file's content."""
    return "".join(f"{line}\n" for line in lines)


def numbered(name: str, first: int, last: int) -> list[str]:
    """Return `name first` to `name last`, telling enough to be known again."""
    return [f"{name} {n}, a line of the {name} kind" for n in range(first, last + 1)]
