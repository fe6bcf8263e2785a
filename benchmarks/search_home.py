"""An installation with synthetic mail for the benchmarks that read, and the same mail for mu and notmuch.

A quarter of a million messages take a while to store and to index, so the result stays in the benchmarks' folder and
is used again; `make clean` removes it. MAILKEEP_BENCH_MESSAGES makes it smaller.
"""

import asyncio
import os
import shutil
from pathlib import Path

import psycopg

from mailkeep.config import Settings, load_settings
from mailkeep.config.edit import add_account
from mailkeep.db import Database

from . import rivals
from .corpus import WORK
from .search_mail import mail, write_maildir
from .search_store import ACCOUNT_ID, fill

MESSAGES = int(os.environ.get("MAILKEEP_BENCH_MESSAGES", "250000"))


def prepared_home() -> tuple[Path, Settings]:
    """Return the installation's folder, filled and analysed, and its settings."""
    home = WORK / f"search-{MESSAGES}" / "home"
    done = home / "filled"
    if not done.exists():
        shutil.rmtree(home, ignore_errors=True)
        add_account(home, {"account_id": ACCOUNT_ID, "display_name": "Bench", "kind": "local"})
        asyncio.run(_fill(home))
        done.touch()
    return home, load_settings(home)


def prepared_rivals() -> rivals.Rivals:
    """Return mu's and notmuch's indexes over the same messages."""
    them = rivals.Rivals(WORK / f"search-{MESSAGES}" / "rivals")
    done = them.home / "indexed"
    if not done.exists():
        shutil.rmtree(them.home, ignore_errors=True)
        write_maildir(them.maildir / "INBOX", mail(MESSAGES))
        rivals.prepare_notmuch(them)
        rivals.mu_init(them)
        rivals.mu_index(them)
        rivals.notmuch_new(them)
        done.touch()
    return them


async def _fill(home: Path) -> None:
    async with Database.open(load_settings(home), home) as database:
        await asyncio.to_thread(_fill_and_analyse, database.dsn)


def _fill_and_analyse(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        fill(connection, mail(MESSAGES))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
