"""`mailkeep list | search | show`: what is stored, found and read; a server is never asked."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from mailkeep.app import App, ShownMessage
from mailkeep.cli.exits import run
from mailkeep.cli.terminal import is_narrow, out, say, show, show_json, table
from mailkeep.config import home, load_settings
from mailkeep.display import moment, neutralise, size
from mailkeep.search import (
    Direction,
    Filters,
    FolderFreshness,
    ListRequest,
    Summary,
)
from mailkeep.transfer import safe_file_name, write_new_file
from mailkeep.transfer.files import make_folder

AccountsOption = Annotated[
    list[str] | None, typer.Option("--account", "-a", help="Only this account, by id or name; repeatable.")
]
FoldersOption = Annotated[
    list[str] | None, typer.Option("--folder", "-f", help="Only this folder, ALIAS or role:Sent; repeatable.")
]
FromOption = Annotated[str | None, typer.Option("--from", help="Only mail from this address.")]
ToOption = Annotated[str | None, typer.Option("--to", help="Only mail to this address, Cc included.")]
SubjectOption = Annotated[str | None, typer.Option("--subject", help="Only subjects that contain this.")]
SinceOption = Annotated[str | None, typer.Option("--since", help="Only mail received on or after this day or instant.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Only mail received before this day or instant.")]
UnreadOption = Annotated[bool | None, typer.Option("--unread/--read", help="Only unread, or only read mail.")]
FlaggedOption = Annotated[bool | None, typer.Option("--flagged/--unflagged", help="Only flagged mail, or only other.")]
KeywordOption = Annotated[str | None, typer.Option("--keyword", help="Only mail with this keyword.")]
AttachmentsOption = Annotated[
    bool | None,
    typer.Option("--with-attachments/--without-attachments", help="Only mail with attachments, or without."),
]
JunkOption = Annotated[bool, typer.Option("--junk", help="Search the junk folder as well.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def parse_instant(text: str | None, option: str) -> datetime | None:
    """A day means its beginning in the machine's zone; an instant without an offset is in that zone too."""
    if text is None:
        return None
    try:
        if len(text) <= 10:
            return datetime.combine(date.fromisoformat(text), time.min).astimezone(UTC)
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter("should be 2024-01-31 or 2024-01-31T09:30", param_hint=option) from None


def list_mail(
    account: AccountsOption = None,
    folder: FoldersOption = None,
    sender: FromOption = None,
    recipient: ToOption = None,
    subject: SubjectOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    unread: UnreadOption = None,
    flagged: FlaggedOption = None,
    keyword: KeywordOption = None,
    attachments: AttachmentsOption = None,
    junk: JunkOption = False,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Begin with the oldest mail.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Messages on the page.")] = 25,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the last page ended.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List stored mail, newest first, one page at a time."""
    request = ListRequest(
        accounts=tuple(account) if account else None,
        folders=tuple(folder) if folder else None,
        filters=filters_of(sender, recipient, subject, since, until, unread, flagged, keyword, attachments),
        include_junk_mail=junk,
        direction=Direction.OLDEST_FIRST if oldest_first else Direction.NEWEST_FIRST,
        page_size=limit,
        cursor=cursor,
    )

    async def work() -> None:
        async with App.open(home()) as mailkeep:
            page = await mailkeep.list(request)
        if as_json:
            emails = [summary_json(summary) for summary in page.emails]
            show_json(
                {"emails": emails, "next_cursor": page.next_cursor, "folders": freshness_json(page.folder_freshness)}
            )
            return
        if not page.emails:
            say("Nothing is stored that fits." + freshness_hint(page.folder_freshness, request.folders))
        elif is_narrow():
            for summary in page.emails:
                show_summary(summary)
        else:
            table(
                ("received", "from", "subject", "folder", "id"),
                [
                    (
                        moment(summary.received_at),
                        sender_text(summary, short=True),
                        summary.subject or "(no subject)",
                        place(summary),
                        str(summary.stored_email_id),
                    )
                    for summary in page.emails
                ],
                whole=(0, 4),
            )
        if page.next_cursor is not None:
            say(f"More: add --cursor {page.next_cursor}")

    run(work())


def show_message(
    email_id: Annotated[str, typer.Argument(metavar="ID", help="The id that list and search print.")],
    headers: Annotated[bool, typer.Option("--headers", help="All header fields, as they came.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The stored octets, exactly.")] = False,
    html: Annotated[bool, typer.Option("--html", help="The HTML body, made harmless.")] = False,
    attachments: Annotated[
        Path | None, typer.Option("--attachments", metavar="DIR", help="Save the attachments into this folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show one message: its text, or its headers, octets or HTML, or save its attachments.

    Names of attachments are made harmless, files that exist are never overwritten, the folder is never left.
    """
    if sum([headers, raw, html, attachments is not None, as_json]) > 1:
        raise typer.BadParameter("--headers, --raw, --html, --attachments and --json exclude each other")
    run(_show(email_id, headers=headers, raw=raw, html=html, attachments=attachments, as_json=as_json))


async def _show(
    email_id: str, *, headers: bool, raw: bool, html: bool, attachments: Path | None, as_json: bool
) -> None:
    async with App.open(home()) as mailkeep:
        if raw:
            octets = await mailkeep.raw(email_id)
            sys.stdout.buffer.write(octets)
            sys.stdout.flush()
            return
        if headers:
            for name, value in await mailkeep.header_fields(email_id):
                show(f"{neutralise(name)}: {neutralise(value)}")
            return
        message = await mailkeep.show(email_id)
        if attachments is not None:
            await _save_attachments(mailkeep, message, attachments)
            return
    if as_json:
        show_json(message)
    elif html:
        if message.html is None:
            say("This message has no HTML body.")
        else:
            show(neutralise(message.html, lines=True))
    else:
        _show_text(message)


def _show_text(message: ShownMessage) -> None:
    for name, value in message.fields:
        show(f"{name}: {neutralise(value)}")
    for attachment in message.attachments:
        name = neutralise(attachment.name or "unnamed")
        show(f"Attachment: {name} ({attachment.media_type}, {size(attachment.size)}; {attachment.remark})")
    show("")
    show(neutralise(message.text, lines=True))
    for note in message.notes:
        say(note)


async def _save_attachments(mailkeep: App, message: ShownMessage, folder: Path) -> None:
    if not message.attachments:
        say("This message has no attachments.")
        return
    target = make_folder(folder)
    for attachment in message.attachments:
        octets = await mailkeep.attachment(message.id, attachment.position)
        name = safe_file_name(
            attachment.name, fallback=f"attachment-{attachment.position + 1}", media_type=attachment.media_type
        )
        show(neutralise(str(write_new_file(target, name, octets))))


def summary_json(summary: Summary) -> dict[str, object]:
    """A message as listings and results print it."""
    return {
        "id": summary.stored_email_id,
        "account": summary.account_id,
        "folder": summary.folder_alias,
        "subject": summary.subject,
        "from": sender_text(summary),
        "from_name": summary.sender_display_name,
        "from_address": summary.sender_address,
        "to": summary.to_addresses,
        "sent_at": summary.sent_at,
        "received_at": summary.received_at,
        "size": summary.size_octets,
        "attachments": summary.attachments.attachment_count,
        "availability": summary.content_availability,
        "flags": summary.flags if summary.was_observed else None,
        "thread_id": summary.thread_id,
        "message_id": summary.internet_message_id,
    }


def sender_text(summary: Summary, *, short: bool = False) -> str:
    """The author as people write it; `short` prefers the name alone."""
    name, address = summary.sender_display_name, summary.sender_address
    if name and address and not short:
        return f"{name} <{address}>"
    return name or address or ""


def show_summary(summary: Summary) -> None:
    """One message in three lines."""
    show_heading(summary)
    show(f"  {summary.stored_email_id}")


def show_heading(summary: Summary, *, more: str = "") -> None:
    """The subject with `more` behind it, and a line of when, who and where."""
    out.print(Text(neutralise(summary.subject or "(no subject)"), style="bold").append(more, style="not bold"))
    show(f"  {moment(summary.received_at)}  {neutralise(sender_text(summary))}  {neutralise(place(summary))}")


def place(summary: Summary) -> str:
    """Account and folder."""
    return f"{summary.account_id}/{summary.folder_alias}"


def filters_of(
    sender: str | None,
    recipient: str | None,
    subject: str | None,
    since: str | None,
    until: str | None,
    unread: bool | None,
    flagged: bool | None,
    keyword: str | None,
    attachments: bool | None,
) -> Filters:
    return Filters(
        sender_address=sender,
        recipient_address=recipient,
        subject_fragment=subject,
        received_on_or_after=parse_instant(since, "--since"),
        received_before=parse_instant(until, "--until"),
        is_remotely_seen=None if unread is None else not unread,
        is_remotely_flagged=flagged,
        keyword=keyword,
        has_attachments=attachments,
    )


def freshness_json(folders: tuple[FolderFreshness, ...]) -> list[dict[str, object]]:
    return [
        {"account": one.account_id, "folder": one.folder_alias, "synchronized_at": one.synchronized_at}
        for one in folders
    ]


def freshness_hint(folders: tuple[FolderFreshness, ...], asked: tuple[str, ...] | None) -> str:
    if not folders and asked:
        return " No folder of that name is kept here; see them with: mailkeep status"
    if not folders or all(folder.synchronized_at is None for folder in folders):
        if not load_settings(home()).mail_synchronization.accounts:
            return " There is no account yet; add one with: mailkeep account add"
        return " Nothing has been mirrored yet; run: mailkeep sync --once"
    return ""
