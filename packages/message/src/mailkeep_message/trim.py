"""Quoted reply and signature cut from the end of a text (SYNC-109, SYNC-110, and more languages and Outlook's block).

Only the end is cut, since text elsewhere may be the author's. Every pattern is anchored to one line of bounded length
and uses possessive repeats, so that time is linear in the text.
"""

from __future__ import annotations

import re
from typing import Final

_MAX_SIGNATURE_LINES = 20
_MAX_ATTRIBUTION = 300

_SEPARATOR: Final = re.compile(
    r"^[ \t>*]*+[-_]{2,}+[ \t]*+"
    r"(?:original message|original appointment|forwarded message|begin forwarded message|reply message"
    r"|ursprüngliche nachricht|ursprüngliche e-mail|originalnachricht|weitergeleitete nachricht"
    r"|oorspronkelijk bericht|doorgestuurd bericht|message d'origine|message original|message transféré"
    r"|mensaje original|mensaje reenviado|messaggio originale|messaggio inoltrato|mensagem original"
    r"|mensagem encaminhada|oprindelig meddelelse|videresendt meddelelse|opprinnelig melding|ursprungligt meddelande"
    r"|vidarebefordrat meddelande|alkuperäinen viesti|wiadomość oryginalna|oryginalna wiadomość"
    r"|wiadomość przekazana dalej|původní zpráva|přeposlaná zpráva|pôvodná správa|eredeti üzenet|továbbított üzenet"
    r"|mesajul original|özgün ileti|orijinal mesaj|исходное сообщение|пересылаемое сообщение|оригинальное сообщение"
    r"|αρχικό μήνυμα|原始邮件|原始郵件|转发的邮件|元のメッセージ|転送されたメッセージ|원본 메시지)"
    r"[ \t]*+[-_]{2,}+[ \t]*+$",
    re.IGNORECASE | re.MULTILINE,
)
_OUTLOOK_FROM: Final = re.compile(
    r"^[ \t*>]{0,10}(?:from|von|de|da|van|fra|från|lähettäjä|od|kimden|de la|feladó|от|от кого|发件人|寄件者|差出人|보낸 사람)"
    r"[ \t*]{0,10}[:：][ \t*]*+\S",
    re.IGNORECASE | re.MULTILINE,
)
_OUTLOOK_KEY: Final = re.compile(
    r"^[ \t*>]{0,10}(?:(sent|date|gesendet|datum|envoyé|date d'envoi|enviado(?: el)?|fecha|data|inviato|verzonden|sendt|dato"
    r"|skickat|lähetetty|wysłano|odesláno|gönderilme|tarih|дата|отправлено|发送时间|日期|送信日時|보낸 날짜)"
    r"|(to|an|à|a|para|aan|til|till|vastaanottaja|do|komu|kime|кому|收件人|收件者|宛先|받는 사람)"
    r"|(subject|betreff|objet|asunto|oggetto|assunto|onderwerp|emne|ämne|aihe|temat|předmět|konu|тема|主题|主旨|件名|제목)"
    r"|(cc|kopie|copia|kopia|kopi|bcc|importance|reply-to|antwort an))[ \t*]{0,10}[:：]",
    re.IGNORECASE,
)
_ATTRIBUTION: Final = re.compile(
    r"[ \t>]*+(?:"
    r"(?:on|am|le|el|il|em|op|den|dne|dnia|w dniu|p[åa]|в|le|a|at|vào|kl|quoting|in (?:article|message|reply))\b.{0,300}"
    r"(?:wrote|writes|schrieb|a écrit|ha escrito|escribió|ha scritto|escreveu|schreef|skrev|kirjoitti|napsal(?:\(a\)|a)?"
    r"|napisał(?:\(a\)|a)?|пишет|написал(?:\(а\)|а)?|yazdı|írta|a scris|wrote the following|đã viết)\b.{0,200}[:：]"
    r"|.{0,300}(?:\bwrote|\bwrites|\bschrieb|\ba écrit|\bescribió|\bha scritto|\bescreveu|\bschreef|\bskrev|\bkirjoitti"
    r"|\bпишет|\bнаписал\(?а?\)?|写道|のメール|さんは書きました)[ \t]?[:：]"
    r")[ \t]*+",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED_OR_BLANK: Final = re.compile(r"[ \t]*+(?:>|$)")


def trim(text: str) -> str:
    """Return what the author wrote: `text` without trailing quote and signature; all of it when nothing would remain.

    A separator line ("-----Original Message-----") or Outlook's From/Sent/To/Subject block cuts first; else a trailing
    run of quoted and blank lines with the attribution line above it. Then a signature of at most 20 lines goes.
    """
    cut = _without_quote(text)
    cut = _without_signature(cut)
    cut = cut.strip("\n").rstrip()
    return cut if cut.strip() else text


def _without_quote(text: str) -> str:
    position = _separator_position(text)
    if position >= 0:
        return text[:position]
    return _without_trailing_quote(text)


def _separator_position(text: str) -> int:
    """Start of the topmost separator or Outlook block, -1 without one."""
    best = -1
    if "--" in text or "__" in text:
        match = _SEPARATOR.search(text)
        if match:
            best = match.start()
    if ":" in text or "：" in text:
        for match in _OUTLOOK_FROM.finditer(text):
            if 0 <= best <= match.start():
                break
            if _is_outlook_block(text, match.start()):
                return _above_rule(text, match.start())
    return best


def _is_outlook_block(text: str, start: int) -> bool:
    """True when within the nine lines after "From:" a date, a recipient or subject follow: at least two of three."""
    kinds: set[int] = set()
    for line in text[start : start + 2000].split("\n")[1:10]:
        stripped = line.strip()
        if not stripped:
            break
        match = _OUTLOOK_KEY.match(line)
        if match and match.lastindex:
            kinds.add(match.lastindex)
        elif not line.startswith((" ", "\t")) and "@" not in line and not kinds:
            break
    return len(kinds & {1, 2, 3}) >= 2


def _above_rule(text: str, position: int) -> int:
    """Move up over a line of underscores or dashes that Outlook draws above its block."""
    above = text[:position].rstrip("\n \t")
    line_start = above.rfind("\n") + 1
    line = above[line_start:].strip()
    return line_start if len(line) >= 5 and not line.strip("_-") else position


def _without_trailing_quote(text: str) -> str:
    end = len(text)
    quoted = False
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        if _QUOTED_OR_BLANK.match(text, start, end) is None:
            break
        quoted = quoted or text.startswith(">", start) or text[start:end].lstrip().startswith(">")
        end = start - 1
    if not quoted or end <= 0:
        return text  # no quote, or a quote up to the first line
    return text[: _attribution_start(text, end)]


def _attribution_start(text: str, end: int) -> int:
    """Start of the attribution that ends at `end`: one line or its wrap (case 145); `end` without one."""
    start = end
    for _ in range(3):
        if start <= 0:
            break
        start = text.rfind("\n", 0, start) + 1
        line = text[start:end]
        if len(line) > _MAX_ATTRIBUTION:
            break
        if not line[: line.find("\n")].strip() and "\n" in line:
            break
        if _ATTRIBUTION.fullmatch(line):
            return start
        start -= 1
    return end


def _without_signature(text: str) -> str:
    """Cut from the last "--" line, unless it is the first line or more than 20 lines follow it."""
    if "\n--" not in text:
        return text
    stripped = text.rstrip()
    position = len(stripped)
    for _ in range(_MAX_SIGNATURE_LINES):
        line_start = stripped.rfind("\n", 0, position) + 1
        if line_start == 0:
            return text
        if stripped[line_start:position].rstrip() == "--":
            return text[:line_start]
        position = line_start - 1
    return text
