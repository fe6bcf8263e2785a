"""A message in a message: its subject, people and text, then its own attachments, to a bounded depth."""

from __future__ import annotations

from typing import Protocol

from mailkeep.extraction.formats import HEAD_OCTETS, Format, format_of
from mailkeep.extraction.model import Budget, Outcome, Stopped
from mailkeep_message import Limits, attached_files, read


class ReadInto(Protocol):
    """The reader of any file, `mailkeep.extraction.reading.read_into`."""

    def __call__(
        self, budget: Budget, octets: bytes, form: Format, *, charset: str | None, hint: str | None, depth: int
    ) -> None: ...


def read_message(budget: Budget, octets: bytes, *, depth: int, read_into: ReadInto) -> None:
    """Gather an embedded message. A file in it that cannot be read leaves the rest its text."""
    budget.expand(len(octets))
    limits = Limits(max_text_characters=max(1_000, min(budget.room, 200_000)))
    message = read(octets, limits=limits)
    for person in (*message.from_, *message.to, *message.cc):
        budget.add(f"{person.display_name or ''} {person.address}\n")
    budget.add((message.subject or "") + "\n\n" + message.body.text_before_trimming + "\n\n")
    for file in attached_files(octets, limits=limits):
        budget.add((file.about.file_name or "") + "\n")
        form = format_of(file.octets[:HEAD_OCTETS], media_type=file.about.media_type, file_name=file.about.file_name)
        if form is None:
            continue
        if depth >= budget.bounds.max_nesting_depth:
            budget.is_cut = True
            continue
        try:
            read_into(budget, file.octets, form, charset=file.charset, hint=file.charset_hint, depth=depth + 1)
        except Stopped as stop:
            if budget.room == 0 or stop.outcome is Outcome.EXPANDED_TOO_FAR:
                raise
        except MemoryError:
            raise
        except Exception:
            budget.is_cut = True
