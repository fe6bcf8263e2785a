"""Builders of messages for tests: real octets as a server would hand them out, small and all of our own making.

`message()` composes what a well-behaved client sends. For broken mail write the octets down in the test, so that the
reader sees what is broken; `raw()` only turns such text into CRLF octets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

DEFAULT_SENT_AT = datetime(2024, 3, 5, 9, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class File:
    """An attachment: its name, media type and decoded octets."""

    name: str
    media_type: str = "application/octet-stream"
    octets: bytes = b"octets"


def message(
    subject: str | None = "Hello",
    *,
    body: str | None = "Hello there.\n",
    html: str | None = None,
    from_: str = "Ann Lee <ann@example.com>",
    to: str = "Robin Winter <robin@example.org>",
    cc: str | None = None,
    message_id: str | None = None,
    in_reply_to: str | None = None,
    references: Sequence[str] = (),
    sent_at: datetime | None = DEFAULT_SENT_AT,
    received_at: datetime | None = None,
    headers: Sequence[tuple[str, str]] = (),
    files: Sequence[File] = (),
) -> bytes:
    """Compose one message; None leaves a field out.

    `received_at` becomes the topmost Received field; without it the message has none, as mail in Sent or Drafts does.
    Identifiers are given without angle brackets.
    """
    mail = EmailMessage()
    if received_at is not None:
        mail["Received"] = f"from out.example.com by in.example.org with ESMTPS; {format_datetime(received_at)}"
    mail["From"] = from_
    mail["To"] = to
    if cc is not None:
        mail["Cc"] = cc
    if subject is not None:
        mail["Subject"] = subject
    if sent_at is not None:
        mail["Date"] = format_datetime(sent_at)
    if message_id is not None:
        mail["Message-ID"] = f"<{message_id}>"
    if in_reply_to is not None:
        mail["In-Reply-To"] = f"<{in_reply_to}>"
    if references:
        mail["References"] = " ".join(f"<{reference}>" for reference in references)
    for name, value in headers:
        mail[name] = value
    if body is not None:
        mail.set_content(body)
    if html is not None:
        if body is None:
            mail.set_content(html, subtype="html")
        else:
            mail.add_alternative(html, subtype="html")
    for file in files:
        maintype, _, subtype = file.media_type.partition("/")
        mail.add_attachment(file.octets, maintype=maintype, subtype=subtype, filename=file.name)
    return with_crlf(mail.as_bytes())


def conversation(length: int, *, domain: str = "example.com", subject: str = "Garden party") -> list[bytes]:
    """Compose `length` messages, each answering the one before; identifiers are `c<n>@domain`, n from 0."""
    found = []
    for position in range(length):
        earlier = [f"c{n}@{domain}" for n in range(position)]
        found.append(
            message(
                subject if position == 0 else f"Re: {subject}",
                body=f"Message number {position}.\n",
                message_id=f"c{position}@{domain}",
                in_reply_to=earlier[-1] if earlier else None,
                references=earlier,
                sent_at=DEFAULT_SENT_AT.replace(minute=position % 60),
            )
        )
    return found


def raw(text: str, *, charset: str = "utf-8") -> bytes:
    """Turn handwritten text into octets with CRLF line ends, exactly as written otherwise."""
    return with_crlf(text.encode(charset))


def with_crlf(octets: bytes) -> bytes:
    """Return the octets with every line end as CRLF."""
    return octets.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
