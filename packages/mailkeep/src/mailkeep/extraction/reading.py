"""One file read: chooses the reader, and makes of every early end an outcome with the text gathered so far."""

from __future__ import annotations

from mailkeep.extraction import archive, markup, nested, pdf
from mailkeep.extraction.formats import Format
from mailkeep.extraction.model import Bounds, Budget, Extraction, Outcome, Stopped


def extract(octets: bytes, form: Format, *, charset: str | None, hint: str | None, bounds: Bounds) -> Extraction:
    """The text of a file. Raises MemoryError only; whatever else a reader raises means that the file is broken."""
    budget = Budget(bounds)
    try:
        read_into(budget, octets, form, charset=charset, hint=hint, depth=0)
        outcome = budget.empty_outcome
    except Stopped as stop:
        outcome = stop.outcome
        budget.is_cut = True
    except MemoryError:
        raise
    except Exception:
        # The libraries raise whatever comes to them on damaged files; beside the outcome there is nothing to tell.
        outcome = Outcome.BROKEN
        budget.is_cut = True
    text = budget.text
    return Extraction(Outcome.EXTRACTED, text, budget.is_cut) if text else Extraction(outcome)


def read_into(
    budget: Budget, octets: bytes, form: Format, *, charset: str | None, hint: str | None, depth: int
) -> None:
    """Gather the text of a file. Raises Stopped, and anything for a broken file."""
    match form:
        case Format.PDF:
            pdf.read(budget, octets)
        case Format.ZIP:
            archive.read(budget, octets)
        case Format.COMPOUND:
            archive.read_compound(octets)
        case Format.RTF:
            markup.read_rtf(budget, octets)
        case Format.CALENDAR:
            markup.read_calendar(budget, octets, charset=charset, hint=hint)
        case Format.HTML:
            markup.read_html(budget, octets, charset=charset, hint=hint)
        case Format.TEXT:
            markup.read_text(budget, octets, charset=charset, hint=hint)
        case Format.MESSAGE:
            nested.read_message(budget, octets, depth=depth, read_into=read_into)
