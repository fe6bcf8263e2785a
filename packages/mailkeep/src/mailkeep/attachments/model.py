"""What is known of attachments: how their words are called, what became of each, where a search found them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mailkeep.extraction import Outcome


@dataclass(frozen=True, slots=True)
class Language:
    """The language of a text: PostgreSQL's configuration that stems it, and the mark that a stem is asked for with."""

    stemming: str
    mark: str


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the words of a text are found besides as they stand. `app` fills it with what mail itself is given.

    `language_of` gives None where nothing is stemmed; `spellings_of` the plainer spellings as text of a tsvector.
    """

    configuration: str
    language_of: Callable[[str], Language | None]
    spellings_of: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class AttachmentReading:
    """What became of one attachment. `is_partial`: only the beginning was read; `character_count` of what was."""

    position: int
    outcome: Outcome
    is_partial: bool
    character_count: int


@dataclass(frozen=True, slots=True)
class AttachmentText:
    """A stretch of an attachment's text from `offset` on; `character_count` is the length of the whole."""

    reading: AttachmentReading
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Stemmed:
    """A query in the words of one language: the mark that a vector of it holds, its configuration, the tsquery."""

    mark: str
    configuration: str
    query: str


@dataclass(frozen=True, slots=True)
class Hit:
    """An attachment that a search found. `headline` has PostgreSQL's marks, `text` is the piece it was cut from."""

    stored_email_id: UUID
    position: int
    file_name: str | None
    media_type: str
    headline: str
    text: str
