"""The session against a real server: protection, and what goes over the wire."""

from datetime import UTC, datetime

import pytest
from pydantic import SecretStr
from support.accounts import account_at
from support.dovecot import Dovecot
from support.tap import Tap

from mailkeep.config import AccountSettings, SpecialUse
from mailkeep.errors import CertificateRefused, LoginRejected
from mailkeep.imap import ReadOnlySession, UidSet

pytestmark = pytest.mark.anyio

MESSAGE = b"Subject: hello\r\nMessage-ID: <1@example.com>\r\n\r\nbody\r\n"
SECRET = SecretStr(Dovecot.password)


def account(server: Dovecot, user: str, **options: object) -> AccountSettings:
    return account_at(server.ports.plain, user_name=user, **options)  # type: ignore[arg-type]


@pytest.mark.spec("SYNC-33")
async def test_all_three_ways_to_connect(dovecot: Dovecot, user: str) -> None:
    """TLS from the first octet, STARTTLS, and none, each with the private authority where it matters."""
    for security, port in (
        ("TlsOnConnect", dovecot.ports.tls),
        ("StartTlsRequired", dovecot.ports.plain),
        ("None", dovecot.ports.plain),
    ):
        settings = account_at(port, user_name=user, host="localhost", security=security, authority=dovecot.authority)
        session = await ReadOnlySession.connect(settings, SECRET)
        assert session.offers("condstore")
        await session.close()


@pytest.mark.spec("SYNC-33")
@pytest.mark.parametrize("security", ["TlsOnConnect", "StartTlsRequired"])
async def test_an_untrusted_certificate_is_refused(dovecot: Dovecot, user: str, security: str) -> None:
    """Without the private authority the connection ends before a password is sent; nothing switches that off."""
    port = dovecot.ports.tls if security == "TlsOnConnect" else dovecot.ports.plain
    async with Tap(port) as tap:
        settings = account_at(tap.port, user_name=user, host="localhost", security=security)
        with pytest.raises(CertificateRefused):
            await ReadOnlySession.connect(settings, SECRET)
    assert not tap.commands("LOGIN ")
    assert not tap.commands("AUTHENTICATE")


@pytest.mark.spec("SYNC-33")
async def test_a_certificate_for_another_host_is_refused(dovecot: Dovecot, user: str) -> None:
    """The name is checked, not only the chain."""
    async with Tap(dovecot.ports.tls, host="127.0.0.2") as tap:
        settings = account_at(
            tap.port, user_name=user, host="127.0.0.2", security="TlsOnConnect", authority=dovecot.authority
        )
        with pytest.raises(CertificateRefused):
            await ReadOnlySession.connect(settings, SECRET)


async def test_a_wrong_password_is_rejected(dovecot: Dovecot, user: str) -> None:
    """21002 from a real server."""
    with pytest.raises(LoginRejected):
        await ReadOnlySession.connect(account(dovecot, user), SecretStr("wrong"))


async def test_what_is_read_is_what_is_there(dovecot: Dovecot, user: str) -> None:
    """Folders with roles and states, metadata, bodies, headers and flags of a real mailbox."""
    moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    with dovecot.client(user) as other:
        uid = other.append("INBOX", MESSAGE, flags=["\\Flagged", "Work"], internaldate=moment)
    session = await ReadOnlySession.connect(account(dovecot, user), SECRET)
    listing = await session.list_folders(with_states=True)
    roles = {folder.path: folder.roles for folder in listing.folders}
    selected = await session.examine("INBOX")
    uids = await session.search(1, None)
    metadata = (await session.fetch_metadata(uids)).messages[uid]
    bodies = await session.fetch_bodies(uids, limit=10_000)
    headers = await session.fetch_headers(uids, limit=10_000)
    flags = await session.fetch_flags(uids)
    await session.close()
    assert roles["Sent"] == {SpecialUse.SENT}
    assert listing.states["INBOX"].uid_next == selected.uid_next == uid + 1
    assert (metadata.size, metadata.internaldate) == (len(MESSAGE), moment)
    assert bodies.bodies[uid] == MESSAGE
    assert headers.bodies[uid] == MESSAGE.removesuffix(b"body\r\n")
    assert set(flags[uid]) == {"\\Flagged", "Work"}


@pytest.mark.spec("SYNC-29")
@pytest.mark.case("49")
async def test_reading_everything_sends_only_reading_commands_and_moves_no_flag(dovecot: Dovecot, user: str) -> None:
    """The wire shows EXAMINE and BODY.PEEK; \\Seen is where it was."""
    with dovecot.client(user) as other:
        for _ in range(3):
            other.append("INBOX", MESSAGE)
        before = other.flags("INBOX")
    async with Tap(dovecot.ports.plain) as tap:
        settings = account_at(tap.port, user_name=user)
        session = await ReadOnlySession.connect(settings, SECRET)
        await session.list_folders(with_states=True)
        await session.status_all(["INBOX", "Sent"])
        await session.examine("INBOX")
        uids = await session.search(1, None)
        await session.present(uids)
        await session.fetch_metadata(uids)
        await session.fetch_bodies(uids, limit=10_000)
        await session.fetch_headers(uids, limit=10_000)
        await session.fetch_flags(uids)
        await session.fetch_flags(UidSet(((1, 9),)), changed_since=1)
        await session.close()
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == before
    for word in (" STORE", "APPEND", "COPY", "MOVE", "EXPUNGE", "SELECT ", "BODY[", "ENVELOPE", "BODYSTRUCTURE"):
        assert not tap.commands(word), word
    assert tap.commands("EXAMINE")
    assert tap.commands("BODY.PEEK[]")
