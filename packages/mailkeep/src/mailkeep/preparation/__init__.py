"""What a batch of arrivals becomes before the database is touched: read, judged, encoded. Pure.

Parsing and encoding take most of the work of an arrival, so they are kept apart from the transaction and run while the
batch before is being stored: in this process (`prepare`), or in one that does nothing else (`PreparingProcess`).
Nothing of the service is imported here, so that such a process starts quickly.
"""

from mailkeep.preparation.encoding import ROW_COLUMNS, next_form, prepare, prepare_one
from mailkeep.preparation.model import (
    DEFAULT_LIMITS,
    Arrival,
    ContentAvailability,
    Flags,
    Form,
    PreparedBatch,
    PreparedMessage,
    Uid,
)
from mailkeep.preparation.process import PreparingProcess, ProcessLost

__all__ = [
    "DEFAULT_LIMITS",
    "ROW_COLUMNS",
    "Arrival",
    "ContentAvailability",
    "Flags",
    "Form",
    "PreparedBatch",
    "PreparedMessage",
    "PreparingProcess",
    "ProcessLost",
    "Uid",
    "next_form",
    "prepare",
    "prepare_one",
]
