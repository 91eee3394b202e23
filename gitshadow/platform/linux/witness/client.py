"""Ask the witness service of root, where this user may not read the kernel's reports itself.

Invariant: nothing is believed that does not come from root, or that was said about another process
than this one: in another pid namespace the same pid is a different process.
"""

import array
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Sequence

from gitshadow.platform.linux.witness import service
from gitshadow.platform.linux.witness.processes import look_at
from gitshadow.platform.linux.witness.record import opened_target
from gitshadow.platform.writers import WitnessGoneError, WriterAnswer, WriterQuery

_REPLY_S = 5.0
_GONE = "the witness service does not answer"


class ServiceWitness:
    """What the service knows of the file system of an open directory.

    Raises:
        OSError: there is no service of root, or it does not watch this directory.
    """

    def __init__(self, directory: int) -> None:
        self._socket = _connected()
        with contextlib.ExitStack() as stack:
            stack.callback(self._socket.close)
            try:
                data = self._call(service.packed_request(service.WATCH), (directory,))
                known_as = service.read_identity(data)
            except (WitnessGoneError, service.BadPacketError) as error:
                raise ConnectionError(errno.ECONNRESET, _GONE) from error
            me = look_at(os.getpid())
            if me is None or known_as != (me.pid, me.started):
                raise PermissionError(
                    errno.EPERM, "the witness service is in another pid namespace"
                )
            stack.pop_all()

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def drain(self) -> None:
        """Make the service read all that the kernel has queued.

        Raises:
            WitnessGoneError: it ended, or sends what cannot be believed.
        """
        if self._call(service.packed_request(service.DRAIN), ()) != service.DONE:
            raise WitnessGoneError

    def ask(self, question: WriterQuery) -> WriterAnswer | None:
        """Return what the service knows, None where it knows nothing of this path.

        Raises:
            OSError: the file cannot be opened.
            WitnessGoneError: the service ended.
        """
        if question.has_moved:  # it does not say who wrote what may be another user's
            return None
        with opened_target(question.places) as target:
            fds = [directory for directory, _ in question.places]
            if target is not None:
                fds.append(target)
            try:
                has_target = target is not None
                data = service.packed_question(question, has_target=has_target)
            except service.BadPacketError:
                return None
            try:
                answer = service.read_answer(
                    self._call(data, fds), len(question.agents)
                )
            except service.BadPacketError as error:
                raise WitnessGoneError from error
        if answer is None:
            return None
        # Our own writes need no author: the verb that made them recorded them.
        own = os.getpid()
        others = tuple(one for one in answer.reports if one.pid != own)
        return answer._replace(reports=others)

    def _call(self, data: bytes, fds: Sequence[int]) -> bytes:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        try:
            self._socket.sendmsg([data], [rights] if fds else [])
            reply = self._socket.recv(service.PACKET_BYTES)
        except OSError as error:
            raise WitnessGoneError from error
        if not reply:
            raise WitnessGoneError
        return reply


def problem() -> str | None:
    """Return why the service of root does not answer, None if it does."""
    try:
        _connected().close()
    except OSError as error:
        return str(error)
    return None


def _connected() -> socket.socket:
    """Connect to the service.

    Raises:
        OSError: there is none, or somebody other than root has put a socket in its place.
    """
    service.check_root_owned(service.DIRECTORY, stat.S_IFDIR)
    service.check_root_owned(service.SOCKET, stat.S_IFSOCK)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    with contextlib.ExitStack() as stack:
        stack.callback(found.close)
        found.settimeout(_REPLY_S)
        found.connect(service.SOCKET)
        if service.peer_of(found)[1] != 0:
            raise PermissionError(
                errno.EPERM, "another user than root answers", service.SOCKET
            )
        stack.pop_all()
    return found
