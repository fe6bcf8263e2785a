"""Sender labels and downloads over HTTP (INBOX-54, INBOX-106)."""

from __future__ import annotations

from collections.abc import Sequence
from email.message import EmailMessage

import pytest
from inbox_support.hosts import client_of, make_host
from inbox_support.mail import ANN, write
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import MailboxPersistArgs, SenderAuthorization, create_mailbox_persist

pytestmark = pytest.mark.anyio


@pytest.mark.spec("INBOX-54", "INBOX-4")
async def test_senders_are_labelled_by_one_call_for_a_page(engine: AsyncEngine) -> None:
    """List, search and detail carry the host's label; a page costs one call, and a failing call costs no page."""
    calls: list[tuple[str, list[str]]] = []

    async def resolve(tenant_id: str, headers: Sequence[str]) -> dict[str, str]:
        calls.append((tenant_id, sorted(headers)))
        return {"bo@x.example": "Bo of Support"}

    def fail(tenant_id: str, headers: Sequence[str]) -> dict[str, str]:
        raise RuntimeError

    message_id = await write(engine, ANN, subject="zebra")
    await write(engine, ANN, subject="zebra", from_address="al@x.example")
    async with client_of(make_host("starlette", engine, resolve_sender_displays=resolve)) as client:
        listed = {each["id"]: each.get("fromDisplay") for each in (await client.get("")).json["messages"]}
        assert calls == [("acme", ["Bo <bo@x.example>", "al@x.example"])]
        assert listed[message_id] == "Bo of Support"
        assert sorted(map(str, listed.values())) == ["Bo of Support", "None"]
        assert (await client.get(f"/{message_id}")).json["fromDisplay"] == "Bo of Support"
        found = (await client.get("/search?q=zebra")).json["messages"]
        assert "Bo of Support" in [each.get("fromDisplay") for each in found]
    async with client_of(make_host("asgi", engine, resolve_sender_displays=fail)) as client:
        answer = await client.get("")
        assert len(answer.json["messages"]) == 2
        assert "fromDisplay" not in answer.json["messages"][0]


@pytest.mark.spec("INBOX-106", "INBOX-112")
async def test_attachment_is_a_download_that_cannot_run(engine: AsyncEngine) -> None:
    """The octets, the sender's type and name made safe, and headers that keep a browser from showing it."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "bo@x.example", "ann@acme.example", "file"
    mail["Message-ID"] = "<f@x.example>"
    mail.set_content("see file")
    mail.add_attachment(b"<script>\x00", maintype="text", subtype="html", filename='é"\r\n.html')
    persist = create_mailbox_persist(
        engine, upstream=lambda args: None, authorize_sender=lambda address: SenderAuthorization("acme", "acme.example")
    )
    raw = mail.as_bytes().replace(b"\n", b"\r\n")
    await persist(MailboxPersistArgs(sender_address="bo@x.example", recipients=["ann@acme.example"], raw=raw))
    async with client_of(make_host("fastapi", engine)) as client:
        (listed,) = (await client.get("")).json["messages"]
        part = listed["attachments"][0]["part"]
        file = await client.get(f"/{listed['id']}/attachments/{part}")
        assert (file.status, file.body) == (200, b"<script>\x00")
        assert file.headers["content-disposition"].startswith("attachment; filename*=UTF-8''%C3%A9")
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in file.headers["content-security-policy"]
        assert (await client.get(f"/{listed['id']}/attachments/999")).status == 404
        for bad in ("x", "-1", "99999999"):
            assert (await client.get(f"/{listed['id']}/attachments/{bad}")).status == 400
