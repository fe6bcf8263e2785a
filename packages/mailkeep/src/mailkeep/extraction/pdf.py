"""PDF: the text layer of each page, through pypdf (no JavaScript, no fonts rendered, no pictures decoded)."""

from __future__ import annotations

from io import BytesIO

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.generic import DictionaryObject

from mailkeep.extraction.model import Budget, Outcome, Stopped


def read(budget: Budget, octets: bytes) -> None:
    """Gather page after page; a page that cannot be read leaves the others their text."""
    reader = PdfReader(BytesIO(octets))
    # Files that only forbid printing and copying open with the empty password.
    if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
        raise Stopped(Outcome.ENCRYPTED)
    has_pictures, unread = False, 0
    for number, page in enumerate(reader.pages):
        if number >= budget.bounds.max_pages:
            raise Stopped(Outcome.SCANNED_PAGES if has_pictures else Outcome.NO_TEXT)
        try:
            text = page.extract_text()
        except MemoryError:
            raise
        except Exception:
            unread += 1
            continue
        if text.strip():
            budget.add(text + "\n\n")
        else:
            has_pictures = has_pictures or _has_picture(page)
    if unread:
        raise Stopped(Outcome.BROKEN)
    if has_pictures:
        budget.empty_outcome = Outcome.SCANNED_PAGES


def _has_picture(page: PageObject) -> bool:
    resources = page.get("/Resources")
    resources = resources.get_object() if resources is not None else None
    if not isinstance(resources, DictionaryObject):
        return False
    objects = resources.get("/XObject")
    objects = objects.get_object() if objects is not None else None
    if not isinstance(objects, DictionaryObject):
        return False
    found = (one.get_object() for one in objects.values())
    return any(isinstance(one, DictionaryObject) and one.get("/Subtype") == "/Image" for one in found)
