"""Every failure this library names, in one tree.

InboxError
└── MigrationError
    ├── MigrationChecksumError    a recorded migration is not the one the code holds
    └── SchemaTypeMismatchError   a table of ours has other columns than declared
"""

from __future__ import annotations

from collections.abc import Sequence


class InboxError(Exception):
    """Root of everything this library raises on purpose."""


class MigrationError(InboxError):
    """The schema cannot be brought to what the code expects; everything was rolled back."""


class MigrationChecksumError(MigrationError):
    """A migration recorded in the ledger differs from the code's. Shipped migrations are immutable (INBOX-18)."""

    def __init__(self, migration_id: str, *, recorded: str, current: str) -> None:
        super().__init__(
            f"migration {migration_id} was applied with checksum {recorded}, this build holds {current}; "
            "an applied migration must not be edited, add another one"
        )
        self.migration_id = migration_id
        self.recorded = recorded
        self.current = current


class SchemaTypeMismatchError(MigrationError):
    """Tables of the expected names hold other columns. `mismatches` names every fault, not the first (INBOX-21)."""

    def __init__(self, mismatches: Sequence[str], *, schema: str) -> None:
        super().__init__(
            f"schema {schema} holds other columns than expected: {'; '.join(mismatches)}. "
            "Rename or move the clashing table, then start again"
        )
        self.mismatches = tuple(mismatches)
        self.schema = schema
