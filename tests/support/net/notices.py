"""A service manager's socket: collects the notices of processes with the process id of each sender."""

import socket
import struct
import threading
from pathlib import Path

from tests.support.waiting import until_blocking

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class NoticeSocket:
    """The socket at ``path``. A thread reads it, since Linux lets only ten datagrams wait."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.notices: list[tuple[int, str]] = []
        """Process ids and texts, in the order of their arrival."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(self.path)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            data, ancillary, _, _ = self._socket.recvmsg(4096, room)
            if not data:
                return
            pid, _, _ = _CREDENTIALS.unpack(ancillary[0][2])
            self.notices.append((pid, data.decode()))

    def senders(self, text: str) -> set[int]:
        """Return the processes that sent a notice."""
        return {pid for pid, sent in list(self.notices) if sent == text}

    def wait_for(self, text: str, pids: set[int]) -> None:
        """Wait until all processes have sent a notice."""
        until_blocking(lambda: pids <= self.senders(text), lambda: str(self.notices))

    def close(self) -> None:
        """End the thread and remove the socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self.path)
        self._thread.join()
        self._socket.close()
        Path(self.path).unlink()
