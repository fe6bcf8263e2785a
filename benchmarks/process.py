"""Running a command under measurement: its wall time, and the memory of it and of the PostgreSQL that it starts.

Memory is read from /proc while the command runs. Of the command itself the peak resident size counts (VmHWM, every
process of its own summed). PostgreSQL's processes share most of their memory, so their proportional sizes (PSS) are
summed at each reading and the highest sum counts.
"""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

READING_INTERVAL_SECONDS = 0.1
MEBIBYTE = 1024.0  # kB as /proc prints them


class CommandFailedError(Exception):
    """A command under measurement ended with a non-zero code; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of wall time, peak MiB of the command's processes, peak MiB of the PostgreSQL below `data`."""

    seconds: float
    peak_mib: float
    postgres_peak_mib: float
    output: str = field(repr=False)


def run(command: Sequence[str | Path], *, environment: Mapping[str, str], data: Path | None = None) -> Measured:
    """Run `command` to its end. `data` is the PostgreSQL data folder to watch. Raises CommandFailedError."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = _Watch(process.pid, data)
    reader = threading.Thread(target=watch.read_until_done)
    reader.start()
    output, complaints = process.communicate()
    seconds = time.perf_counter() - started
    watch.done.set()
    reader.join()
    if process.returncode != 0:
        raise CommandFailedError(f"{command[0]} ended with {process.returncode}: {complaints.strip()[-600:]}")
    return Measured(seconds, sum(watch.peaks.values()) / MEBIBYTE, watch.postgres_peak / MEBIBYTE, output)


class _Watch:
    """The readings of one command: peak of each of its processes, and the highest sum of PostgreSQL's."""

    def __init__(self, pid: int, data: Path | None) -> None:
        self.pid = pid
        self.data = data
        self.done = threading.Event()
        self.peaks: dict[int, int] = {}
        self.postgres_peak = 0

    def read_until_done(self) -> None:
        while not self.done.wait(READING_INTERVAL_SECONDS):
            parents = _parents()
            postgres = self._postgres(parents)
            for pid in _descendants(self.pid, parents) - postgres:
                self.peaks[pid] = max(self.peaks.get(pid, 0), kilobytes(pid, "status", "VmHWM:"))
            total = sum(kilobytes(pid, "smaps_rollup", "Pss:") for pid in postgres)
            self.postgres_peak = max(self.postgres_peak, total)

    def _postgres(self, parents: Mapping[int, int]) -> set[int]:
        if self.data is None:
            return set()
        try:
            leader = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return set()
        return _descendants(leader, parents)


def _parents() -> dict[int, int]:
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended between the listing and the reading
    return found


def _descendants(pid: int, parents: Mapping[int, int]) -> set[int]:
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def processor_seconds(pid: int) -> float:
    """What a running process has used of the processors so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kilobytes(pid: int, name: str, label: str) -> int:
    """The line of that label in a file of /proc/<pid>, such as `VmRSS:` in `status`; 0 when the process is gone."""
    try:
        for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
