"""HTML to readable text: tokenized, never loaded, in time linear in the source (SYNC-108).

A handful of regular expressions over the whole source; each reads a tag at most to the next "<", so that no input makes
them look twice. Depth costs nothing because no tree is built.
"""

from __future__ import annotations

import html as _html
import re
from typing import Final
from urllib.parse import unquote

from .text import clean_body

_MAX_QUOTE_DEPTH = 50
_SOURCE_FACTOR = 20  # markup and text, seen in newsletters, seldom exceed this ratio
_ATTRIBUTES: Final = r"""(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+>"""
_HIDDEN: Final = re.compile(r"<(!--|script\b|style\b|title\b|template\b|!\[|\?)", re.IGNORECASE)
_BLOCKS: Final = re.findall(
    r"\w+",
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure"
    " footer form h1 h2 h3 h4 h5 h6 head header hr html legend li main menu nav ol option p pre section select summary"
    " table tbody td tfoot th thead tr ul",
)
_BREAKS: Final = {
    slash + spelled: "\n"
    for name in _BLOCKS
    for spelled in (name, name.upper(), name.capitalize())
    for slash in ("", "/")
}
_TAG: Final = re.compile(r"<(/?[a-zA-Z][a-zA-Z0-9:-]*+|[/!?])(?:" + _ATTRIBUTES + r"|[^<>]*+>?)")
_QUOTE: Final = re.compile(r"<blockquote\b[^<>]*?(?:\bcite\b|quote[\"' _]|border-left)[^<>]*+>", re.IGNORECASE)
_PLAIN_QUOTE: Final = re.compile(r"<blockquote\b[^<>]*+>", re.IGNORECASE)
_CLOSE_QUOTE: Final = re.compile(r"</blockquote\b[^<>]*+>", re.IGNORECASE)
_HUGE_REFERENCE: Final = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{7,}+);?")
_BLANK_RUN: Final = re.compile(r"\n{3,}+")
_INVISIBLE: Final = re.compile("[\u00ad\u200b\u200c\u2060\ufeff\u034f]+")
_CID: Final = re.compile(r"cid:([^\"'\s<>)]{1,1000})", re.IGNORECASE)
_STYLE: Final = re.compile(r"<style\b[^<>]*+>([^<]*+)", re.IGNORECASE)


def html_to_text(source: str, *, maximum: int) -> str:
    """Return the readable text of `source`, reading at most `20 * maximum` characters of it."""
    if len(source) > maximum * _SOURCE_FACTOR:
        source = source[: maximum * _SOURCE_FACTOR]
    text = " ".join(_without_hidden(source).split())
    has_quotes = _QUOTE.search(text) is not None
    if has_quotes:
        text = _CLOSE_QUOTE.sub("\n\x02\n", _PLAIN_QUOTE.sub("\n\x03\n", _QUOTE.sub("\n\x01\n", text)))
    pieces = _TAG.split(text)  # text, tag name, text, ...
    get = _BREAKS.get
    pieces[1::2] = [get(name, "") for name in pieces[1::2]]
    text = "".join(pieces)
    if "&" in text:
        text = _unescaped(text)
    text = _marked_quotes(text) if has_quotes else clean_body(text)
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    text = "\n".join([" ".join(line.split()) for line in text.split("\n")])
    return _BLANK_RUN.sub("\n\n", text).strip() if "\n\n\n" in text else text.strip()


def _marked_quotes(text: str) -> str:
    """Put "> " before the lines of quoting blocks, so that trimming sees them as in plain mail.

    In `text` U+0001 opens a quoting block, U+0003 another block, U+0002 closes either.
    """
    lines: list[str] = []
    open_blocks: list[bool] = []
    depth = 0
    for line in text.split("\n"):
        mark = line.strip(" ")
        if mark in ("\x01", "\x03"):
            if len(open_blocks) < _MAX_QUOTE_DEPTH:
                open_blocks.append(mark == "\x01")
                depth += mark == "\x01"
        elif mark == "\x02":
            if open_blocks:
                depth -= open_blocks.pop()
        elif depth and mark:
            lines.append(">" * depth + " " + mark)
        else:
            lines.append(line)
    return clean_body("\n".join(lines))


def _without_hidden(source: str) -> str:
    """Drop comments, conditional sections and the content of script, style, title and template."""
    if not _HIDDEN.search(source):
        return source
    lowered = source.lower()
    if len(lowered) != len(source):  # a character that grows in lower case would shift the positions
        lowered = source
    pieces: list[str] = []
    position = 0
    unclosed: set[str] = set()
    while match := _HIDDEN.search(source, position):
        start = match.start()
        pieces.append(source[position:start])
        kind = match[1].lower()
        closing = {"!--": "-->", "![": ">", "?": ">"}.get(kind, f"</{kind}")
        end = -1 if kind in unclosed else lowered.find(closing, match.end())
        if kind == "!--" and source.startswith(("<!-->", "<!--->"), start):
            end, closing = source.index(">", start), ">"
        if end >= 0:
            position = end + len(closing) if closing.endswith(">") else end
        elif kind in ("script", "style"):
            return "".join(pieces)
        else:  # never closed: the tag alone goes, its content is somebody's text
            unclosed.add(kind)
            position = match.end()
            if kind == "!--":
                continue
            pieces.append("<x ")
    pieces.append(source[position:])
    return "".join(pieces)


def _unescaped(text: str) -> str:
    return _html.unescape(_HUGE_REFERENCE.sub("", text))


def referenced_content_ids(source: str) -> frozenset[str]:
    """Return the Content-IDs that attributes and style sheets reference by `cid:` (SYNC-101), percent-decoded."""
    if "cid:" not in source and "cid:" not in source.lower():
        return frozenset()
    found: set[str] = set()
    for tag in (*_TAG.finditer(source), *_STYLE.finditer(source)):
        if "cid:" in tag[0] or "CID:" in tag[0] or "Cid:" in tag[0]:
            found.update(unquote(match[1]) for match in _CID.finditer(_unescaped(tag[0][:20_000])))
    return frozenset(found)
