"""Where stages meet: attachments are given the same languages and spellings as the mail that they came with."""

from __future__ import annotations

from mailkeep.attachments import AttachmentStage, Language, Spelling
from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.languages import LANGUAGE_MARK, STEMMED
from mailkeep.languages.detect import detect_language
from mailkeep.languages.folds import folded_vector
from mailkeep_message import Limits


def attachment_stage(db: Database, settings: Settings, *, limits: Limits) -> AttachmentStage:
    """The stage that reads attachments, as configured."""
    return AttachmentStage(db, settings.attachment_text, spelling=spelling_of(settings), limits=limits)


def spelling_of(settings: Settings) -> Spelling:
    """How words of attachments are found: stemmed in the language of each file, and in their plainer spellings."""
    return Spelling(
        configuration=settings.persistence.text_search_configuration,
        language_of=_language_of,
        spellings_of=lambda text: folded_vector(subject="", names="", body=text),
    )


def _language_of(text: str) -> Language | None:
    detected = detect_language(text)
    if detected is None or detected.language not in STEMMED:
        return None
    return Language(stemming=STEMMED[detected.language], mark=LANGUAGE_MARK + detected.language)
