"""A socket with a read buffer, deadlines and a way to cut it from another thread.

Every wait is bounded twice: `idle` seconds for the next octet, and the deadline of the command in hand, so that a
server which trickles one octet a minute does not hold a folder for ever.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time

from mailkeep.errors import MailServerUnavailable

MAX_LINE_OCTETS = 64 * 1024 * 1024  # a SEARCH answer of several million UIDs is one line
_RECEIVE_OCTETS = 256 * 1024


class Stream:
    """Owned by one worker thread; only `cut` may be called from another."""

    def __init__(self, *, idle: float) -> None:
        self._idle = idle
        self._buffer = bytearray()
        self._socket: socket.socket | None = None
        self._guard = threading.Lock()
        self._is_cut = False
        self.deadline = time.monotonic() + idle
        self.octets_received = 0

    def adopt(self, connected: socket.socket) -> None:
        """Read and write this socket from now on. Octets read before STARTTLS are an injection and end it all."""
        with self._guard:
            if connected is self._socket:
                return
            if self._buffer:
                raise MailServerUnavailable("the server sent unprotected octets behind its answer to STARTTLS")
            self._socket = connected
            if self._is_cut:
                connected.close()

    def cut(self) -> None:
        """Close at once, without a word; whoever waits for octets is woken with an error."""
        with self._guard:
            self._is_cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read, be it the end of the connection, within `seconds`; nothing is read."""
        live = self._live()
        if self._buffer or (isinstance(live, ssl.SSLSocket) and live.pending()):
            return True
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(live, selectors.EVENT_READ)
                return bool(selector.select(max(seconds, 0)))
        except (OSError, ValueError) as error:
            raise MailServerUnavailable("the connection to the mail server broke") from error

    def send(self, octets: bytes) -> None:
        try:
            self._live().sendall(octets)
        except (OSError, ValueError) as error:
            raise MailServerUnavailable("the connection to the mail server broke while sending") from error

    def readline(self) -> bytes:
        """One line, its end included; b"" when the server closed before any octet of it."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > MAX_LINE_OCTETS:
                raise MailServerUnavailable(f"the mail server sent a line of more than {MAX_LINE_OCTETS} octets")
            if not self._fill():
                break
        size = end + 1 if end >= 0 else len(self._buffer)
        line = bytes(self._buffer[:size])
        del self._buffer[:size]
        return line

    def read(self, size: int) -> bytes:
        """Exactly `size` octets. Raises when the server closes before."""
        if len(self._buffer) >= size:
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            return data
        whole = bytearray(size)
        have = len(self._buffer)
        whole[:have] = self._buffer
        self._buffer.clear()
        view = memoryview(whole)
        while have < size:
            received = self._receive(view[have:])
            if not received:
                raise MailServerUnavailable("the mail server closed the connection inside a literal")
            have += received
        view.release()
        return bytes(whole)

    def discard(self, size: int) -> None:
        """Read over `size` octets without keeping more than a buffer of them."""
        while size:
            size -= len(self.read(min(size, _RECEIVE_OCTETS)))

    def _fill(self) -> bool:
        chunk = bytearray(_RECEIVE_OCTETS)
        received = self._receive(memoryview(chunk))
        self._buffer += chunk[:received]
        return received > 0

    def _receive(self, into: memoryview) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise MailServerUnavailable("the mail server took too long to complete its answer")
        live = self._live()
        try:
            live.settimeout(min(left, self._idle))
            received = live.recv_into(into)
        except TimeoutError as error:
            is_late = time.monotonic() >= self.deadline
            reason = "took too long to complete its answer" if is_late else "stopped answering"
            raise MailServerUnavailable(f"the mail server {reason}") from error
        except (OSError, ValueError, ssl.SSLError) as error:
            raise MailServerUnavailable("the connection to the mail server broke") from error
        self.octets_received += received
        return received

    def _live(self) -> socket.socket:
        if self._socket is None or self._is_cut:
            raise MailServerUnavailable("the connection to the mail server is closed")
        return self._socket
