"""What is concluded from the kernel's reports, whatever they say."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from gitshadow.attribution.process import ProcessId, process_start
from gitshadow.attribution.windows import Evidence, OpenTurn, Scene, Witnessed
from gitshadow.capture.drafts import Draft
from gitshadow.model import (
    Actor,
    Call,
    EventKind,
    FileState,
    FileVersion,
    Oid,
    RepoPath,
    Session,
    StatKey,
    ToolClass,
)
from gitshadow.platform.linux.witness.record import KernelWitness
from gitshadow.platform.writers import (
    FileAction,
    WitnessGoneError,
    WriterAnswer,
    WriterQuery,
    WriterReport,
)
from gitshadow.recording.witness_evidence import WitnessEvidence
from tests.support.engine import Engine
from tests.support.repo import Repo

PATH = RepoPath(b"a")
BEGIN_NS, END_NS = 1_000_000_000, 2_000_000_000


@dataclass
class Told(KernelWitness):
    """Stand in for the kernel: report what a test says."""

    reports: tuple[WriterReport, ...] = ()
    covered_since_ns: int = 0
    asked: list[WriterQuery] = field(default_factory=list)
    is_gone: bool = False

    def drain(self) -> None:
        if self.is_gone:
            raise WitnessGoneError

    def ask(self, question: WriterQuery) -> WriterAnswer:
        self.drain()
        self.asked.append(question)
        return WriterAnswer(self.covered_since_ns, self.reports)

    def close(self) -> None:
        self.asked.clear()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def evidence(repo: Repo, told: Told) -> Iterator[WitnessEvidence]:
    repo.git("config", "agent-undo.witness", "true")
    engine = Engine.open(repo.root)
    found = WitnessEvidence(engine.context.workspace)
    found._witness = told
    found._top = os.open(repo.root, os.O_RDONLY | os.O_DIRECTORY)
    yield found
    found.close()
    engine.close()


def session(name: str, agent: str = "claude-code", pid: int | None = None) -> Session:
    """Return the session of a living process: this one, or the one that is given."""
    pid = pid or os.getpid()
    return Session(
        id=name,
        native_id=name,
        actor=Actor.AGENT,
        agent=agent,
        started_ns=0,
        pid=pid,
        pid_started=process_start(pid),
    )


def window(owner: str) -> Call:
    """Return an open shell call."""
    return Call(
        id=f"call-{owner}",
        session=owner,
        turn=f"turn-{owner}",
        tool="Bash",
        tool_class=ToolClass.SHELL,
        opened_ns=BEGIN_NS,
    )


def scene(*sessions: Session) -> Scene:
    """Return some sessions with an open call each."""
    return Scene(
        windows=tuple(window(one.id) for one in sessions),
        turns=tuple(
            OpenTurn(one.id, f"turn-{one.id}", one.agent, True, 0) for one in sessions
        ),
        sessions=sessions,
    )


def report(
    agent: int | None, *, is_sure: bool = True, mode: bool = False
) -> WriterReport:
    """Return a report of a shell's child."""
    change = FileAction.ATTRIBUTES if mode else FileAction.MODIFIED
    tool_ns = None if agent is None else END_NS
    return WriterReport(4711, "sed", change, agent, tool_ns, is_sure)


def draft(repo: Repo, inode: int | None = None) -> Draft:
    """Return a change of the content of `a`."""
    look = os.stat(repo.root / "a")
    stat = StatKey(look.st_size, 0, 0, inode or look.st_ino)

    def state(oid: str) -> FileState:
        return FileState(FileVersion(Oid(oid * 40), 0o100644), stat, 0)

    return Draft(
        kind=EventKind.MODIFY,
        path=PATH,
        before=state("1"),
        after=state("2"),
        begin_ns=BEGIN_NS,
        end_ns=END_NS,
    )


def seen(evidence: WitnessEvidence, draft: Draft, scene: Scene) -> Witnessed | None:
    """Return what is added to the evidence of a draft."""
    plain = Evidence(path=PATH, begin_ns=draft.begin_ns, end_ns=draft.end_ns)
    return evidence.add(draft, plain, scene).witnessed


def test_a_shells_child_writes_for_its_call(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0),)
    found = seen(evidence, draft(repo), scene(session("s1")))
    assert found is not None
    assert (found.session, found.call) == ("s1", window("s1"))
    assert found.reason == (
        "the kernel reported the write by process 4711 (sed), which claude-code started"
    )
    (asked,) = told.asked
    started = process_start(os.getpid()) or 0
    assert asked.agents == (ProcessId(os.getpid(), started),)
    assert asked.since_ns == BEGIN_NS


def test_nothing_is_said_when_a_part_of_the_time_is_not_covered(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports, told.covered_since_ns = (report(0),), BEGIN_NS + 1
    assert seen(evidence, draft(repo), scene(session("s1"))) is None
    told.reports = (report(None),)
    assert seen(evidence, draft(repo), scene(session("s1"))) is None


def test_nothing_is_said_when_one_writer_is_not_sure_or_none_is_known(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0), report(None, is_sure=False))
    assert seen(evidence, draft(repo), scene(session("s1"))) is None
    told.reports = ()
    assert seen(evidence, draft(repo), scene(session("s1"))) is None


def test_nothing_is_said_when_another_file_is_at_the_path(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0),)
    changed = draft(repo, inode=1)
    assert seen(evidence, changed, scene(session("s1"))) is None
    assert told.asked == []


def test_a_new_file_that_was_moved_away_is_asked_about_by_its_name(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0),)
    made = draft(repo, inode=1)._replace(kind=EventKind.CREATE, before=None)
    found = seen(evidence, made, scene(session("s1")))
    assert found is not None
    assert found.session == "s1"
    assert [one.has_moved for one in told.asked] == [True]


def test_a_person_is_named_only_if_no_agent_at_work_may_have_written_unseen(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(None),)
    known, editor = session("s1"), session("s2", agent="vscode-copilot")
    found = seen(evidence, draft(repo), scene(known))
    assert found is not None
    assert (found.session, found.candidates) == (None, ())
    assert seen(evidence, draft(repo), scene(known, editor)) is None


def test_nothing_is_said_of_a_terminal_in_an_editor(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0),)
    editor = session("s1", agent="vscode-copilot")
    assert seen(evidence, draft(repo), scene(editor)) is None


def test_a_program_that_named_its_process_writes_what_comes_from_it(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    """What others write may still be its: a container or a server may work for it."""
    program = session("s1", agent="own")
    evidence._marks.name("s1")
    told.reports = (report(0),)
    found = seen(evidence, draft(repo), scene(program))
    assert found is not None
    assert found.session == "s1"
    told.reports = (report(None),)
    assert seen(evidence, draft(repo), scene(program)) is None
    evidence._marks.writes_alone("s1")
    found = seen(evidence, draft(repo), scene(program))
    assert found is not None
    assert found.session is None


def test_a_program_itself_writes_between_its_calls(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0)._replace(tool_ns=None),)
    here = scene(session("s1", agent="own"))
    between = replace(here, windows=())
    assert seen(evidence, draft(repo), between) is None
    evidence._marks.name("s1")
    found = seen(evidence, draft(repo), between)
    assert found is not None
    assert (found.session, found.turn, found.call) == ("s1", "turn-s1", None)


def test_an_agent_and_a_person_in_one_interval_are_ambiguous(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0), report(None))
    found = seen(evidence, draft(repo), scene(session("s1")))
    assert found is not None
    assert (found.session, found.candidates) == (None, ("s1",))


def test_who_changed_only_the_mode_did_not_write_the_content(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0), report(None, mode=True))
    found = seen(evidence, draft(repo), scene(session("s1")))
    assert found is not None
    assert found.session == "s1"


def test_calls_of_two_sessions_of_one_process_are_not_told_apart(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(0),)
    both = scene(session("s1"), session("s2"))
    assert seen(evidence, draft(repo), both) is None


def test_nothing_is_asked_while_no_agent_is_at_work(
    evidence: WitnessEvidence, told: Told, repo: Repo
) -> None:
    told.reports = (report(None),)
    assert seen(evidence, draft(repo), Scene(sessions=(session("s1"),))) is None
    assert told.asked == []


@pytest.mark.parametrize("asks", [True, False])
def test_nothing_is_said_when_nobody_reports_any_more(
    evidence: WitnessEvidence, told: Told, repo: Repo, asks: bool
) -> None:
    told.reports = (report(None),)
    evidence.begin_barrier(lambda: (session("s"),))
    assert evidence.is_open
    told.is_gone = True
    if asks:
        assert seen(evidence, draft(repo), scene(session("s"))) is None
    else:
        evidence.begin_barrier(lambda: (session("s"),))
    assert not evidence.is_open
