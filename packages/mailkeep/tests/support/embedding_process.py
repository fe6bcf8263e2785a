"""A process that cuts, embeds, switches and removes until all is done: `python -m support.embedding_process DSN PORT`.

For tests that kill it at any moment. Says `running` when it begins and `done` when the declared model is read alone.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from support.embedding import hosted, settings_with

from mailkeep.db import Database
from mailkeep.embeddings import Embeddings, EmbeddingStage
from mailkeep.passages import PassageStage
from mailkeep.stages import drain


def now() -> datetime:
    return datetime.now(UTC)


async def main(dsn: str, port: int) -> None:
    settings = settings_with(
        hosted(port, model="new"), backfill={"batch_size": 2, "max_batches_per_run": 1}, max_passages_per_request=2
    )
    async with Database(dsn) as db:
        embeddings = Embeddings(settings, db, Path("/nonexistent"), now=now)
        stages = (PassageStage(db, settings), EmbeddingStage(db, settings, embeddings))
        print("running", flush=True)
        await embeddings.activate()
        while True:
            results = await drain(stages, db, now=now)
            report = await embeddings.report()
            if report.serving is not None and report.serving.profile.identity.model_identifier == "new":
                break
            if all(result.held_elsewhere for result in results):
                await asyncio.sleep(0.05)  # until the server has noticed that the last process is dead
        await stages[1].run_pass(now())
        await embeddings.close()
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
