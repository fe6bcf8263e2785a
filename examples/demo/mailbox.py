"""The demo mailbox: a few hundred messages of our own making, composed anew for the day on which it is asked for.

`compose(now)` is deterministic: the same instant gives the same octets. It holds what real mailboxes hold:
conversations in many languages, mail the owner sent, drafts, newsletters, invoices with files, an invitation, HTML
without plain text, junk, and messages that are broken in the ways seen in the wild.
"""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, formataddr

from .letters import (
    BOOK_TITLES,
    BROKEN_LETTERS,
    CONVERSATIONS,
    NEWSLETTERS,
    OWNER,
    PEOPLE,
    SPAM_SUBJECTS,
    Conversation,
    Person,
)

SEEN, FLAGGED, ANSWERED, DRAFT = "\\Seen", "\\Flagged", "\\Answered", "\\Draft"

# One white pixel, and the smallest page that opens as PDF.
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII=")
PDF = (
    b"%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)


@dataclass(frozen=True, slots=True)
class DemoMessage:
    """One message for the server: where it lies, its octets, its flags and when it arrived there (INTERNALDATE)."""

    folder: str
    octets: bytes
    flags: tuple[str, ...]
    arrived_at: datetime


def compose(now: datetime) -> list[DemoMessage]:
    """Return the whole mailbox as of `now`, oldest arrival first within each folder."""
    sources: tuple[Callable[[datetime], Iterator[DemoMessage]], ...] = (
        _conversations,
        _newsletters,
        _invoices,
        _library,
        _invitation,
        _html_only,
        _forwarded,
        _drafts,
        _junk,
        _broken,
    )
    found = [message for source in sources for message in source(now)]
    return sorted(found, key=lambda message: (message.folder, message.arrived_at))


def _mail(
    sender: Person, recipient: Person, subject: str, *, at: datetime, key: str, sent: bool = False
) -> EmailMessage:
    """Begin a message: trace field unless the owner sent it, addresses, subject, date and identifier."""
    mail = EmailMessage(policy=SMTP)
    if not sent:
        mail["Received"] = f"from out.example.net by mx.mail.example with ESMTPS id {key}; {format_datetime(at)}"
    mail["From"] = formataddr((sender.name, sender.address)) if sender.name.isascii() else _encoded(sender)
    mail["To"] = formataddr((recipient.name, recipient.address)) if recipient.name.isascii() else _encoded(recipient)
    mail["Subject"] = subject
    mail["Date"] = format_datetime(at)
    mail["Message-ID"] = f"<{key}@{sender.address.partition('@')[2]}>"
    return mail


def _encoded(person: Person) -> str:
    return f"{Header(person.name, 'utf-8').encode()} <{person.address}>"


def _put(mail: EmailMessage, folder: str, at: datetime, *flags: str) -> DemoMessage:
    return DemoMessage(folder, _with_steady_boundaries(mail.as_bytes()), flags, at)


def _with_steady_boundaries(octets: bytes) -> bytes:
    """Replace the boundaries that the library draws by lot, so that the demo is the same every time."""
    drawn = list(dict.fromkeys(re.findall(rb"={15}\d+==", octets)))
    for number, boundary in enumerate(drawn):
        octets = octets.replace(boundary, b"demo-part-boundary-%d" % number)
    return octets


def _conversations(now: datetime) -> Iterator[DemoMessage]:
    for number, conversation in enumerate(CONVERSATIONS):
        yield from _one_conversation(conversation, number=number, now=now)


def _one_conversation(conversation: Conversation, *, number: int, now: datetime) -> Iterator[DemoMessage]:
    started = now - timedelta(days=conversation.days_ago, hours=number)
    partner = PEOPLE[next(who for who, _ in conversation.letters if who != "me")]
    named: list[str] = []
    quoted = ""
    for position, (who, text) in enumerate(conversation.letters):
        at = started + timedelta(hours=3 * position, minutes=7 * number)
        sender = PEOPLE[who]
        subject = conversation.subject if position == 0 else conversation.reply_prefix + conversation.subject
        recipient = partner if who == "me" else OWNER
        key = f"demo.{number}.{position}"
        mail = _mail(sender, recipient, subject, at=at, key=key, sent=who == "me")
        if named:
            mail["In-Reply-To"] = named[-1]
            mail["References"] = " ".join(named)
        named.append(str(mail["Message-ID"]))
        mail.set_content(f"{text}\n{quoted}", charset="utf-8")
        last = position == len(conversation.letters) - 1
        flags: tuple[str, ...] = (SEEN,) if not last or conversation.days_ago > 10 else ()
        if who != "me" and not last and conversation.letters[position + 1][0] == "me":
            flags = (SEEN, ANSWERED)
        if number == 0 and position == 2:
            flags = (*flags, FLAGGED)
        yield _put(mail, "Sent" if who == "me" else conversation.folder, at, *flags)
        lines = "".join(f"> {line}\n" for line in text.splitlines())
        quoted = f"\nOn {at:%a, %d %b %Y at %H:%M}, {sender.name} wrote:\n{lines}"


def _newsletters(now: datetime) -> Iterator[DemoMessage]:
    for which, (name, address, subject, text) in enumerate(NEWSLETTERS):
        for issue in range(1, 31):
            at = now - timedelta(days=7 * (31 - issue), hours=which)
            body = text.format(n=issue)
            mail = _mail(Person(name, address), OWNER, subject.format(n=issue), at=at, key=f"issue.{which}.{issue}")
            mail["List-Id"] = f"<news.{address.partition('@')[2]}>"
            mail["List-Unsubscribe"] = f"<mailto:leave@{address.partition('@')[2]}>"
            mail["Precedence"] = "bulk"
            mail.set_content(body + "\n")
            mail.add_alternative(
                f"<html><head><style>p {{ color: #363 }}</style></head><body><h1>{name}</h1><p>{body}</p></body>",
                subtype="html",
            )
            flags = (SEEN,) if issue < 27 else ()
            yield _put(mail, "Lists/Newsletters", at, *flags)


def _invoices(now: datetime) -> Iterator[DemoMessage]:
    shop = Person("Werkzeug & Söhne", "rechnung@werkzeug.example")
    for number in range(1, 37):
        at = now - timedelta(days=10 * number, hours=5)
        mail = _mail(shop, OWNER, f"Rechnung Nr. {at:%Y}-{number:03d}", at=at, key=f"rechnung.{number}")
        total = f"{17 * number + 4},{number % 10}0"
        mail.set_content(
            f"Sehr geehrte Kundin, sehr geehrter Kunde,\n\nanbei die Rechnung über {total} € für Schrauben,\n"
            "Dübel und eine Wasserwaage. Zahlbar innerhalb von vierzehn Tagen.\n\n"
            "-- \nWerkzeug & Söhne, Lange Straße 5\n"
        )
        mail.add_attachment(PDF, maintype="application", subtype="pdf", filename=f"Rechnung für März {number:03d}.pdf")
        yield _put(mail, "Rechnungen & Belege", at, SEEN, *(("$Paid",) if number > 2 else ()))


def _library(now: datetime) -> Iterator[DemoMessage]:
    library = Person("City Library", "no-reply@library.example")
    for number in range(80):
        at = now - timedelta(days=2 * number + 1, hours=9)
        title = BOOK_TITLES[number % len(BOOK_TITLES)]
        mail = _mail(library, OWNER, f"Due soon: {title}", at=at, key=f"due.{number}")
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(
            f"Your loan of “{title}” is due on {at + timedelta(days=4):%d %B %Y}. Renew it at the desk or answer\n"
            f"this message with the word RENEW. Shelf mark {number:04d}.\n"
        )
        yield _put(mail, "INBOX", at, *((SEEN,) if number > 4 else ()))


def _invitation(now: datetime) -> Iterator[DemoMessage]:
    at = now - timedelta(days=2)
    starts = (now + timedelta(days=5)).replace(hour=18, minute=0, second=0, microsecond=0)
    mail = _mail(PEOPLE["mira"], OWNER, "Invitation: shed-warming party", at=at, key="party")
    mail.set_content("The shed has a roof! Come and see it. There will be soup.\n")
    calendar = "\r\n".join(
        (
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "PRODID:-//Demo//Shed//EN",
            "METHOD:REQUEST",
            "BEGIN:VEVENT",
            "UID:shed-party@example.pl",
            "SEQUENCE:0",
            f"DTSTAMP:{at:%Y%m%dT%H%M%SZ}",
            f"DTSTART:{starts:%Y%m%dT%H%M%SZ}",
            f"DTEND:{starts + timedelta(hours=3):%Y%m%dT%H%M%SZ}",
            "SUMMARY:Shed-warming party",
            "LOCATION:Behind the house",
            "ORGANIZER;CN=Mira Kowalska:mailto:mira@example.pl",
            f"ATTENDEE;CN=Robin:mailto:{OWNER.address}",
            "END:VEVENT",
            "END:VCALENDAR",
            "",
        )
    )
    mail.add_alternative(calendar, subtype="calendar", params={"method": "REQUEST"})
    yield _put(mail, "INBOX", at, FLAGGED)


def _html_only(now: datetime) -> Iterator[DemoMessage]:
    bank = Person("Genossenschaftsbank", "konto@bank.example")
    for number in range(12):
        at = now - timedelta(days=30 * number + 4)
        mail = _mail(bank, OWNER, f"Kontoauszug {at:%m/%Y}", at=at, key=f"konto.{number}")
        mail.set_content(
            "<html><body><table><tr><td>Ihr Kontostand betr&auml;gt</td><td><b>"
            f"{1200 + 31 * number},00&nbsp;&euro;</b></td></tr></table><p>Bitte nicht antworten.</p>"
            '<img src="cid:pixel" width="1" height="1"></body></html>',
            subtype="html",
        )
        mail.add_related(PNG, maintype="image", subtype="png", cid="<pixel>")
        yield _put(mail, "INBOX", at, *((SEEN,) if number else ()))


def _forwarded(now: datetime) -> Iterator[DemoMessage]:
    at = now - timedelta(days=16)
    inner = _mail(PEOPLE["tom"], PEOPLE["mira"], "Drawings of the shed", at=at - timedelta(hours=2), key="drawings")
    inner.set_content("Roof pitch 35 degrees, ridge height 2.9 m.\n")
    inner.add_attachment(PDF, maintype="application", subtype="pdf", filename="shed-roof.pdf")
    mail = _mail(PEOPLE["mira"], OWNER, "Fwd: Drawings of the shed", at=at, key="drawings.fwd")
    mail.set_content("As promised, the drawings with the load calculation.\n")
    mail.add_attachment(inner)
    mail.add_attachment(
        b"beam;load kN\nA;4.1\nB;3.8\n", maintype="text", subtype="csv", filename="Balkenlast geprüft.csv"
    )
    yield _put(mail, "Projekte/Überblick", at, SEEN, "$Important")


def _drafts(now: datetime) -> Iterator[DemoMessage]:
    texts = (
        ("Speech for the street party", "Dear neighbours, I promised to be brief, and here the draft ends for now."),
        ("Complaint about the doorbell", "It rings at night. Nobody is there. I suspect the cat."),
        ("", "no subject yet"),
    )
    for number, (subject, text) in enumerate(texts):
        at = now - timedelta(days=number + 1)
        mail = _mail(OWNER, PEOPLE["ann"], subject, at=at, key=f"draft.{number}", sent=True)
        mail.set_content(text + "\n")
        yield _put(mail, "Drafts", at, DRAFT, SEEN)


def _junk(now: datetime) -> Iterator[DemoMessage]:
    for number in range(28):
        at = now - timedelta(days=number, hours=2)
        stranger = Person(f"Prize Office {number}", f"win{number}@junk.example")
        subject = SPAM_SUBJECTS[number % len(SPAM_SUBJECTS)]
        mail = _mail(stranger, OWNER, subject, at=at, key=f"junk.{number}")
        mail.set_content(
            f"<p>Click <a href='http://junk.example/{number}'>here</a> <font color=white>ferry garden</font></p>",
            subtype="html",
        )
        yield _put(mail, "Junk", at)


def _broken(now: datetime) -> Iterator[DemoMessage]:
    """Yield messages as bad clients make them; a mirror has to keep each of them all the same."""
    for number, lines in enumerate(BROKEN_LETTERS):
        yield DemoMessage("INBOX", b"\r\n".join(lines), (SEEN,), now - timedelta(days=60 + number))


def demo_now() -> datetime:
    """Return the instant to compose for: yesterday morning, so that two runs on one day make the same mail."""
    return (datetime.now(UTC) - timedelta(days=1)).replace(hour=6, minute=0, second=0, microsecond=0)
