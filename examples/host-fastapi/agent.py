"""An agent: a program that works for the people of a tenant and tells them by inbox, a message each interval.

Every item has a source and an id there, so that running it twice over the same work delivers nothing twice.
"""

import argparse
import asyncio
import contextlib
import os
from datetime import UTC, datetime

from mailkeep_inbox import (
    InboxItem,
    MailboxRef,
    MailboxScope,
    PostgresMailboxEventBus,
    create_mailbox_db,
    deliver_inbox_items,
)

PEOPLE = (MailboxScope("acme", "ann"), MailboxScope("acme", "bob"), MailboxScope("globex", "gus"))
WORDS = ("urgent", "normal", "low")


def report(number: int, scope: MailboxScope) -> InboxItem:
    """What the agent found out, about one of three shipments."""
    shipment = str(number % 3 + 1)
    return InboxItem(
        scope=scope,
        source="shipping-agent",
        external_id=f"{datetime.now(UTC):%Y%m%d%H%M%S}-{number}",
        address=f"usr_{scope.principal_id}@{scope.tenant_id}.example",
        from_address=f"Shipping agent <agent@{scope.tenant_id}.example>",
        subject=f"Shipment {shipment} needs a decision",
        body=f"Report {number}: the carrier offers another date for shipment {shipment}. Accept or decline?",
        refs=(MailboxRef("shipment", shipment, f"Shipment {shipment}"),),
        priority=WORDS[number % 3],
        status="open",
    )


async def work(interval: float) -> None:
    """Deliver until stopped. Publishing needs no listening connection."""
    db, close = create_mailbox_db(os.environ["DATABASE_URL"])
    bus = PostgresMailboxEventBus(db)
    number = 0
    try:
        while True:
            number += 1
            await deliver_inbox_items(db, [report(number, scope) for scope in PEOPLE], bus=bus)
            await asyncio.sleep(interval)
    finally:
        await close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between two reports")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work(parser.parse_args().interval))
