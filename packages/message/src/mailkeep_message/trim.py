"""Quoted reply and signature cut from the end of a text (SYNC-109, SYNC-110, and more languages and Outlook's block).

Only the end is cut, since text elsewhere may be the author's. Every pattern is anchored to one line of bounded length
and uses possessive repeats, so that time is linear in the text.
"""

from __future__ import annotations

import re
from typing import Final

_MAX_SIGNATURE_LINES = 20
_MAX_ATTRIBUTION = 300
_MAX_CANDIDATES = 50

_SEPARATOR: Final = re.compile(
    r"\n[ \t>*]*+[-_]{2,}+[ \t]*+"
    r"(?:original message|original appointment|forwarded message|begin forwarded message|reply message"
    r"|ursprüngliche nachricht|ursprüngliche e-mail|originalnachricht|weitergeleitete nachricht"
    r"|oorspronkelijk bericht|doorgestuurd bericht|message d'origine|message original|message transféré"
    r"|mensaje original|mensaje reenviado|messaggio originale|messaggio inoltrato|mensagem original"
    r"|mensagem encaminhada|oprindelig meddelelse|videresendt meddelelse|opprinnelig melding|ursprungligt meddelande"
    r"|vidarebefordrat meddelande|alkuperäinen viesti|wiadomość oryginalna|oryginalna wiadomość"
    r"|wiadomość przekazana dalej|původní zpráva|přeposlaná zpráva|pôvodná správa|eredeti üzenet|továbbított üzenet"
    r"|mesajul original|özgün ileti|orijinal mesaj|исходное сообщение|пересылаемое сообщение|оригинальное сообщение"
    r"|αρχικό μήνυμα|原始邮件|原始郵件|转发的邮件|元のメッセージ|転送されたメッセージ|원본 메시지)"
    r"[ \t]*+[-_]{2,}+[ \t*]*+(?![^\n])",
    re.IGNORECASE,
)
# Positions found in "\n" + text are those of the line's first character in text.
_OUTLOOK_FROM: Final = re.compile(
    r"\n[ \t*>]{0,10}(?:from|von|de|da|van|fra|från|lähettäjä|od|kimden|de la|feladó|от|от кого|发件人|寄件者"
    r"|差出人|보낸 사람)"
    r"[ \t*]{0,10}[:：][ \t*]*+\S",
    re.IGNORECASE,
)
# The same for ASCII text, without case folding: every message pays for this one.
_OUTLOOK_FROM_ASCII: Final = re.compile(
    r"\n[ \t*>]{0,10}+(?=[fvdokFVDOK])(?:[fF]rom|[vV]on|[dD]e la|[dD]e|[dD]a|[vV]an|[fF]ra|[oO]d|[kK]imden|FROM)"
    r"[ \t*]{0,10}+:[ \t*]*+\S"
)
_OUTLOOK_KEY: Final = re.compile(
    r"^[ \t*>]{0,10}(?:(sent|date|gesendet|datum|envoyé|date d'envoi|enviado(?: el)?|fecha|data|inviato|verzonden|sendt"
    r"|dato|skickat|lähetetty|wysłano|odesláno|gönderilme|tarih|дата|отправлено|发送时间|日期|送信日時|보낸 날짜)"
    r"|(to|an|à|a|para|aan|til|till|vastaanottaja|do|komu|kime|кому|收件人|收件者|宛先|받는 사람)"
    r"|(subject|betreff|objet|asunto|oggetto|assunto|onderwerp|emne|ämne|aihe|temat|předmět|konu|tárgy|subiect|тема"
    r"|主题|主旨|件名|제목)"
    r"|(cc|kopie|copia|kopia|kopi|bcc|importance|reply-to|antwort an))[ \t*]{0,10}[:：]",
    re.IGNORECASE,
)
_VERB: Final = (
    r"(?:wrote|writes|said|schrieb|a écrit|ha escrito|escribió|va escriure|ha scritto|escreveu|schreef|heeft geschreven"
    r"|skrev|kirjoitti|napsala?|napísala?|napisał|пишет|пише|написал|написав|yazdı|írta|a scris|έγραψε|đã viết"
    r"|写道|寫道"
    r"|のメール|さんは書きました|작성)"
)
_LEAD: Final = r"(?:on|am|le|el|il|em|op|den|dne|dňa|dnia|w dniu|p[åa]|в|kl|at|в|vào|in (?:article|message))\b"
# "On <date> <name> wrote:" in many languages; a digit must stand in it, so that "On your host you can run:" is none.
_ATTRIBUTION: Final = re.compile(
    rf"[ \t>]*+{_LEAD}(?=[^\n]*\d)[^\n]{{0,300}}{_VERB}[^\n]{{0,100}}[:：][ \t]*+", re.IGNORECASE
)
_DATED: Final = re.compile(r"\d{1,2}[:.h]\d\d|\b(?:19|20)\d\d\b")
_ADDRESSED: Final = re.compile(r"[^\s<>@,;:\"()]{1,64}@[^\s<>@,;:\"()]{1,255}")
_PLAIN_ATTRIBUTION: Final = re.compile(rf"[ \t>]*+\S[^\n]{{0,150}}{_VERB}[ \t]?[:：][ \t]*+", re.IGNORECASE)
_WRAPPED_HEAD: Final = re.compile(rf"[ \t]*{_LEAD}[^\n]{{0,80}}", re.IGNORECASE)
_QUOTED_OR_BLANK: Final = re.compile(r"[ \t]*+(?:>|$)")
_QUOTED_NEXT: Final = re.compile(r"\s{0,20}>")
_QUOTE_MARK: Final = re.compile(r"\n[ \t]{0,8}>")
_DEVICE: Final = re.compile(
    r"[ \t(<*_]{0,6}(?:sent (?:from|via|with|by|using) |get outlook for |envoyé (?:depuis|de|à partir de) "
    r"|von meine[mr] |gesendet (?:mit|von) |diese nachricht wurde von meinem |inviato da "
    r"|enviado (?:desde|do|de|a partir) |verzonden (?:met|vanaf|via) |skickat från |sendt fra |lähetetty "
    r"|отправлено (?:с|из) |надіслано з |wysłane z |odesláno z |從我的|从我的|发自我的|iphoneから送信|나의 iphone)"
    r"[^\n]{0,120}",
    re.IGNORECASE,
)


def trim(text: str) -> str:
    """Return what the author wrote: `text` without trailing quote and signature; all of it when nothing would remain.

    A separator line ("-----Original Message-----") or Outlook's From/Sent/To/Subject block cuts first; else a trailing
    run of quoted and blank lines with the attribution line above it. Then a signature of at most 20 lines goes, and
    the quote that stood above the signature.
    """
    position = _separator_position(text)
    if position >= 0:
        cut = _without_signature(text[:position])
    else:
        cut = _without_trailing_quote(text)
        unsigned = _without_signature(cut)
        if len(unsigned) != len(cut) and len(cut) == len(text):
            unsigned = _without_trailing_quote(unsigned)
        cut = unsigned
    cut = cut.strip("\n").rstrip()
    return cut if cut.strip() else text


def _separator_position(text: str) -> int:
    """Start of the topmost separator or Outlook block, -1 without one."""
    best = -1
    lines = "\n" + text  # every line begins with a line end, so that patterns can begin with it: far faster than "^"
    if "--" in text or "__" in text:
        match = _SEPARATOR.search(lines)
        if match:
            best = match.start()
    if ":" not in text and "：" not in text:
        return best
    for count, match in enumerate((_OUTLOOK_FROM_ASCII if text.isascii() else _OUTLOOK_FROM).finditer(lines)):
        if count > _MAX_CANDIDATES or 0 <= best <= match.start():
            break
        if _is_outlook_block(text, match.start()):
            return _above_rule(text, match.start())
    return best


def _is_outlook_block(text: str, start: int) -> bool:
    """True when in the nine lines below "From:" a subject and a date or a recipient follow (case 146)."""
    kinds: set[int] = set()
    for line in text[start : start + 2000].split("\n")[1:10]:
        if not line.strip():
            break
        match = _OUTLOOK_KEY.match(line)
        if match and match.lastindex:
            kinds.add(match.lastindex)
    return 3 in kinds and bool(kinds & {1, 2})


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
        match = _QUOTED_OR_BLANK.match(text, start, end)
        if match is None:
            break
        quoted = quoted or (match.end() > start and text[match.end() - 1] == ">")
        end = start - 1
    if not quoted:
        return _without_unmarked_quote(text)
    if end <= 0:
        return text  # a quote up to the first line: the quote is the message
    return text[: _attribution_start(text, end)]


def _attribution_start(text: str, end: int) -> int:
    """Start of the attribution that ends at `end`, one line or its wrap (case 145); `end` without one."""
    starts = _line_starts(text, end)
    for start in starts:
        if _is_attribution(" ".join(text[start:end].split("\n"))):
            return _wrapped_start(text, start)
    for start in starts[:2]:
        if _PLAIN_ATTRIBUTION.fullmatch(text[start:end].replace("\n", " ")):
            return start
    return end


def _line_starts(text: str, end: int) -> list[int]:
    """Starts of the last one to four lines before `end`, no blank line within, at most 300 characters together."""
    starts: list[int] = []
    start = end
    while len(starts) < 4 and start > 0:
        line_end = start if not starts else start - 1
        start = text.rfind("\n", 0, line_end) + 1
        if end - start > _MAX_ATTRIBUTION or not text[start:line_end].strip():
            break
        starts.append(start)
    return starts


def _is_attribution(line: str) -> bool:
    """A dated line that says who wrote: by a verb, or by an address and a final colon."""
    line = line.rstrip()
    if not line.endswith((":", "：")) or _DATED.search(line) is None:
        return False
    return _ADDRESSED.search(line) is not None or _ATTRIBUTION.fullmatch(line) is not None


def _wrapped_start(text: str, start: int) -> int:
    """Include a short line above that begins the same attribution ("On Monday," at its end)."""
    above = text.rfind("\n", 0, max(start - 1, 0)) + 1
    line = text[above : start - 1] if start else ""
    if start and line.endswith((",", " ")) and _WRAPPED_HEAD.fullmatch(line):
        return above
    return start


def _without_unmarked_quote(text: str) -> str:
    """Cut at an attribution below which nothing is marked as quoted: the client quotes without marks."""
    end = 0
    for _ in range(_MAX_CANDIDATES):
        end = text.find(":\n", end) + 1
        if end == 0:
            break
        if _QUOTED_NEXT.match(text, end):
            continue
        for start in _line_starts(text, end):
            line = text[start:end].replace("\n", " ")
            if _is_attribution(line) and (_ATTRIBUTION.fullmatch(line) or "<" in line):
                if _QUOTE_MARK.search(text, end):
                    break
                start = _wrapped_start(text, start)
                return text[:start] if text[:start].strip() else text
    return text


def _without_signature(text: str) -> str:
    """Cut from the last "--" line, unless it is the first line or more than 20 lines follow it."""
    if "\n--" in text:
        stripped = text.rstrip()
        position = len(stripped)
        for _ in range(_MAX_SIGNATURE_LINES):
            line_start = stripped.rfind("\n", 0, position) + 1
            if line_start == 0:
                break
            if stripped[line_start:position].rstrip() == "--":
                return text[:line_start]
            position = line_start - 1
    return _without_device_lines(text)


def _without_device_lines(text: str) -> str:
    """Cut trailing lines such as "Sent from my telephone"."""
    end = len(text.rstrip())
    kept = len(text)
    for _ in range(_MAX_SIGNATURE_LINES):
        line_start = text.rfind("\n", 0, end) + 1
        if line_start == 0 or end - line_start > 160 or _DEVICE.fullmatch(text, line_start, end) is None:
            break
        kept = line_start
        end = len(text[:line_start].rstrip())
    return text[:kept]
