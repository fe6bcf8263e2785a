"""The text of a message: which parts are its body, and what they say (SYNC-100, SYNC-106, SYNC-107)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from .charsets import PLAIN_LABELS, decode, has_jis_escape
from .html import html_to_text
from .model import Body, Limits, TextSource
from .structure import Entity, Structure
from .text import clean_ascii_body, clean_body
from .transfer import IDENTITY, decode_transfer
from .trim import trim

_HTML_FACTOR = 4
_OCTETS_PER_CHARACTER = 40  # markup counts too; beyond it the original length is a lower bound
_SHORT_STUB = 600
# What a plain part says that only points to the HTML one (SYNC "Beyond" 6).
_STUB: Final = re.compile(
    r"view[^\n]{0,60}\b(?:browser|online|web ?page)|(?:read|see) (?:it|this)[^\n]{0,40}\bonline"
    r"|(?:does not|doesn't|cannot|can't|not)[^\n]{0,30}\b(?:support|display|read|view)[^\n]{0,20}\bhtml"
    r"|html[ -](?:version|format|capable|enabled|e-?mail|mail|message|viewer|compatible|part)|\bin html\b"
    r"|im browser|html-(?:mail|format|version|fähig|ansicht)|navigateur|au format html|navegador|nel browser"
    r"|in (?:je|uw) browser|в браузере|浏览器|ブラウザ|text[- ]only|multi-?part message in mime",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(r"\s{0,200}(?:<!doctype html\b|<html\b|<head\b|<body\b)", re.IGNORECASE)
EMPTY: Final = Body("", "", None, TextSource.NoTextualBodyPart, was_cut=False, original_character_count=0)
NOT_EXTRACTED: Final = Body("", "", None, TextSource.BodyNotExtracted, was_cut=False, original_character_count=0)


@dataclass(slots=True)
class BodyParts:
    """The textual parts on the body branch, in order; `is_encrypted` when the branch itself is encrypted."""

    plain: list[Entity] = field(default_factory=list)
    html: list[Entity] = field(default_factory=list)
    other: list[Entity] = field(default_factory=list)
    is_encrypted: bool = False


def part_text(structure: Structure, entity: Entity, limits: Limits) -> tuple[str, int]:
    """Return the decoded, cleaned text of a part and its decoded size in octets.

    Cost follows the bound, not the part (SYNC-107): at most 40 octets per wanted character are decoded as text.
    """
    octets = structure.octets[entity.body_start : entity.end]
    if entity.encoding not in IDENTITY:
        octets, defect = decode_transfer(octets, entity.encoding)
        if defect:
            structure.defects.add(defect)
    size = len(octets)
    if size > limits.max_text_characters * _OCTETS_PER_CHARACTER:
        octets = octets[: limits.max_text_characters * _OCTETS_PER_CHARACTER]
    charset = entity.parameters.get("charset")
    if octets.isascii() and (charset is None or charset.lower() in PLAIN_LABELS) and not has_jis_escape(octets):
        return clean_ascii_body(octets), size
    text, defect = decode(octets, charset)
    if defect:
        structure.defects.add(defect)
    return clean_body(text.removeprefix("\ufeff")), size


def read_body(parts: BodyParts, texts: dict[Entity, str], limits: Limits) -> Body:
    """Choose between the plain and the HTML parts and return the body; `texts` holds their decoded text."""
    maximum = limits.max_text_characters
    plain_parts = parts.plain or ([] if parts.html else parts.other)
    plain = _joined([texts[entity] for entity in plain_parts])
    source = _joined([texts[entity] for entity in parts.html]) if parts.html else None
    if source is None and len(plain_parts) == 1 and _MARKUP.match(plain):
        source, plain = plain, ""  # HTML under a plain label (case 134)
    if source is None:
        if not plain_parts:
            return _without_text(parts)
        return _body(plain, None, TextSource.PlainTextBodyPart, maximum, len(plain))
    html = source[: maximum * _HTML_FACTOR]
    if plain_parts and plain.strip() and not (len(plain) <= _SHORT_STUB and _STUB.search(plain)):
        return _body(plain, html, TextSource.PlainTextBodyPart, maximum, len(plain))
    derived = html_to_text(source, maximum=maximum)
    if plain.strip() and len(derived) <= len(plain.strip()):
        return _body(plain, html, TextSource.PlainTextBodyPart, maximum, len(plain))
    return _body(derived, html, TextSource.DerivedFromHtmlBodyPart, maximum, len(derived))


def _without_text(parts: BodyParts) -> Body:
    if parts.is_encrypted:
        return Body("", "", None, TextSource.EncryptedBody, was_cut=False, original_character_count=0)
    return EMPTY


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _body(text: str, html: str | None, source: TextSource, maximum: int, count: int) -> Body:
    was_cut = len(text) > maximum
    if was_cut:
        text = text[:maximum]
    return Body(trim(text), text, html, source, was_cut=was_cut, original_character_count=count)
