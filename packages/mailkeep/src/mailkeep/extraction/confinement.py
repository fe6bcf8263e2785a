"""What the worker gives up before it touches a file: descriptors, memory, forks, files, its life beyond the parent.

With every descriptor number used up the kernel refuses each `open` and each `socket`: no file is read or written and no
network reached, whatever a parser is talked into. All limits are hard, so nothing in the process takes them back
(except as root, who is not stopped by limits but by there being no code that would).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_NICENESS: Final = 5


def die_with_parent(parent: int) -> None:
    """Be killed by the kernel the moment the parent is gone, also when it was killed. Exits when it is gone already."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def confine(max_memory_octets: int) -> None:
    """Give up everything that reading files needs not. `max_memory_octets` come on top of what is used already."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
    os.nice(_NICENESS)
    if sys.platform == "linux":
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    for descriptor in range(3, 64):  # none is inherited; one that a library opened meanwhile goes too
        try:
            os.close(descriptor)
        except OSError:
            continue
    memory = _address_space() + max_memory_octets
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NOFILE, 3),
    ):
        resource.setrlimit(kind, (limit, limit))


def limit_processor(seconds: int) -> None:
    """Let the kernel end the process when it has used so many more seconds of the processor."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _address_space() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 256 << 20


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
