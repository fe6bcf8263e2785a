"""Every failure this library names, in one tree.

InboxError
├── MailboxRangeError             an argument no call may carry; HTTP answers 400
│   ├── MailboxScopeError         a principal that belongs to another tenant
│   └── MailboxCursorError        a cursor that is malformed or was minted for another list
└── MigrationError
    ├── MigrationChecksumError    a recorded migration is not the one the code holds
    ├── SchemaTypeMismatchError   a table of ours has other columns than declared
    └── SchemaCheckError          columns, indexes or constraints differ from what this build needs

What the server refuses, a foreign key above all, passes through as SQLAlchemy raises it.
"""

from __future__ import annotations

from collections.abc import Sequence


class InboxError(Exception):
    """Root of everything this library raises on purpose."""


class MailboxRangeError(InboxError, ValueError):
    """The caller passed what no call may carry. Nothing was written; retrying the same call cannot help."""


class MailboxScopeError(MailboxRangeError):
    """A known principal belongs to another tenant than the one named; the write was rolled back (INBOX-15)."""


class MailboxCursorError(MailboxRangeError):
    """A cursor that is malformed or belongs to another list; its text is part of the HTTP contract (INBOX-83)."""


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


class SchemaCheckError(MigrationError):
    """The database does not hold what this build needs. `faults` names everything found, one sentence each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__(f"the mailbox schema is not what this build needs: {'; '.join(faults)}. Run the migrations")
        self.faults = tuple(faults)
