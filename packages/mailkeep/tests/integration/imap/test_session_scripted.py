"""The session against servers that behave as reported from the field."""

import asyncio
from datetime import date

import pytest
from pydantic import SecretStr
from support.accounts import account_at
from support.scripted_imap import PASSWORD, ScriptedImap

from mailkeep.errors import (
    CommandRefused,
    IncompleteAnswer,
    LoginRejected,
    MailServerUnavailable,
    MechanismRefused,
    TooManyFolders,
    TooManyMessages,
)
from mailkeep.imap import LiteralAbandoned, ReadOnlySession, Timeouts, UidSet

pytestmark = pytest.mark.anyio

EXAMINED = r"""
>> EXAMINE "INBOX"*
* 3 EXISTS
* OK [UIDVALIDITY 7] ok
* OK [UIDNEXT 40] ok
OK [READ-ONLY] done
"""
FAST = Timeouts(connect=5, idle=5, command=10, farewell=0.5)


async def connect(server: ScriptedImap, *, timeouts: Timeouts = FAST, **account: object) -> ReadOnlySession:
    settings = account_at(server.port, **account)  # type: ignore[arg-type]
    return await ReadOnlySession.connect(settings, SecretStr(PASSWORD), timeouts=timeouts)


async def examined(server: ScriptedImap, **options: object) -> ReadOnlySession:
    session = await connect(server, **options)  # type: ignore[arg-type]
    await session.examine("INBOX")
    return session


@pytest.mark.case("7")
async def test_a_folder_without_uidnext_is_opened() -> None:
    """UIDNEXT may be missing; that is unknown, not zero."""
    script = """
    > EXAMINE "INBOX"
    * 2 EXISTS
    * OK [UIDVALIDITY 7] ok
    OK done
    """
    async with ScriptedImap(script) as server:
        session = await connect(server)
        selected = await session.examine("INBOX")
        await session.close()
    assert (selected.uid_next, selected.exists, selected.uid_validity) == (None, 2, 7)


@pytest.mark.case("35", "20")
async def test_a_bare_response_code_and_an_absent_modseq_are_read() -> None:
    """A code without text counts; what is not sent stays unknown."""
    script = """
    > EXAMINE "a" (CONDSTORE)
    * 2 EXISTS
    * OK [UIDVALIDITY 7]
    * OK [HIGHESTMODSEQ 123]
    OK
    > EXAMINE "b" (CONDSTORE)
    * OK [UIDVALIDITY 8]
    * OK [NOMODSEQ]
    OK done
    """
    async with ScriptedImap(script, capabilities="IMAP4rev1 condstore") as server:
        session = await connect(server)
        assert (await session.examine("a")).highest_modseq == 123
        assert (await session.examine("b")).highest_modseq is None
        await session.close()
    assert server.unexpected == []


async def test_a_folder_without_uidvalidity_is_refused() -> None:
    """Without UIDVALIDITY no UID means anything."""
    async with ScriptedImap('> EXAMINE "x"\n* 2 EXISTS\nOK done') as server:
        session = await connect(server)
        with pytest.raises(CommandRefused):
            await session.examine("x")
        assert session.is_usable
        await session.close()


@pytest.mark.case("13")
async def test_uids_below_an_open_range_are_dropped() -> None:
    """`n:*` beyond the last message is answered with the last message."""
    async with ScriptedImap(EXAMINED + "> UID SEARCH UID 40:*\n* SEARCH 39\nOK done") as server:
        session = await examined(server)
        assert not await session.search(40, None)
        await session.close()


@pytest.mark.spec("SYNC-54")
async def test_an_earliest_date_joins_the_search() -> None:
    """SINCE with the day spelled as IMAP wants it."""
    script = EXAMINED + "> UID SEARCH UID 1:39 SINCE 5-Mar-2021\n* SEARCH 9 3 3\nOK done"
    async with ScriptedImap(script) as server:
        session = await examined(server)
        assert list(await session.search(1, 39, since=date(2021, 3, 5))) == [3, 9]
        await session.close()


async def test_an_extension_that_is_named_and_not_understood_is_done_without() -> None:
    """BAD to the extended form of LIST, EXAMINE or SEARCH is followed by the plain form, once for the session."""
    script = r"""
    > LIST "" "*" RETURN (SPECIAL-USE)
    BAD what
    >> LIST "" "*"
    * LIST () "/" INBOX
    OK done
    > EXAMINE "INBOX" (CONDSTORE)
    BAD what
    >> EXAMINE "INBOX"
    * OK [UIDVALIDITY 7]
    OK done
    > UID SEARCH RETURN (ALL) UID 1:9
    BAD what
    >> UID SEARCH UID 1:9
    * SEARCH 4
    OK done
    """
    named = "IMAP4rev1 CONDSTORE ESEARCH LIST-EXTENDED SPECIAL-USE"
    async with ScriptedImap(script, capabilities=named) as server:
        session = await connect(server)
        for _ in range(2):
            assert len((await session.list_folders()).folders) == 1
            await session.examine("INBOX")
            assert list(await session.search(1, 9)) == [4]
        await session.close()
    assert server.unexpected == []
    assert len(server.commands) == 13


async def test_an_extended_search_is_used_where_offered() -> None:
    """ESEARCH answers with ranges, also under a capability in lower case."""
    script = EXAMINED + '> UID SEARCH RETURN (ALL) UID 1:39\n* ESEARCH (TAG "x") UID ALL 2:30,39\nOK done'
    async with ScriptedImap(script, capabilities="imap4rev1 esearch") as server:
        session = await examined(server)
        assert (await session.search(1, 39)).ranges == ((2, 30), (39, 39))
        await session.close()


async def test_a_range_of_all_numbers_is_no_answer() -> None:
    """More messages than a folder can hold are refused by name instead of being walked."""
    script = EXAMINED + '> UID SEARCH RETURN (ALL) UID 1:*\n* ESEARCH (TAG "x") UID ALL 1:4294967294\nOK done'
    async with ScriptedImap(script, capabilities="IMAP4rev1 ESEARCH") as server:
        session = await examined(server)
        with pytest.raises(TooManyMessages):
            await session.search(1, None)
        await session.close()


@pytest.mark.case("14")
async def test_metadata_without_a_uid_is_not_taken_for_another_message() -> None:
    """The item is counted as unattributed, the others are used."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 7:8 *
    * 7 FETCH (FLAGS () RFC822.SIZE 3)
    * 8 FETCH (UID 8 FLAGS (\Seen) RFC822.SIZE 4)
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        answer = await session.fetch_metadata(UidSet.of([7, 8]))
        await session.close()
    assert set(answer.messages) == {8}
    assert answer.unattributed == 1


@pytest.mark.case("14")
async def test_a_body_without_a_uid_is_taken_only_when_one_message_was_asked_for() -> None:
    """Nobody guesses between two messages; of one there is nothing to guess."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 7:8 *
    * 7 FETCH (BODY[] {{seven}})
    * 8 FETCH (UID 8 BODY[] {{eight}})
    OK done
    > UID FETCH 7 *
    * 7 FETCH (BODY[] {{seven}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        both = await session.fetch_bodies(UidSet.of([7, 8]), limit=100)
        one = await session.fetch_bodies(UidSet.of([7]), limit=100)
        await session.close()
    assert (dict(both.bodies), both.unattributed) == ({8: b"eight"}, 1)
    assert dict(one.bodies) == {7: b"seven"}


@pytest.mark.case("41", "40")
async def test_very_short_messages_arrive() -> None:
    """One octet, none at all, and a quoted string are messages; the request has its parentheses."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 1:3 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{x}})
    * 2 FETCH (UID 2 BODY[] {{}})
    * 3 FETCH (UID 3 BODY[] "hi")
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        answer = await session.fetch_bodies(UidSet.of([3, 1, 2]), limit=100)
        await session.close()
    assert dict(answer.bodies) == {1: b"x", 2: b"", 3: b"hi"}


@pytest.mark.case("26")
async def test_a_refused_fetch_keeps_what_came_before_the_refusal() -> None:
    """NO is no reason to throw away the messages that did arrive."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 1:2 *
    * 1 FETCH (UID 1 BODY[] {{one}})
    NO Some messages could not be FETCHed (Failure)
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        answer = await session.fetch_bodies(UidSet.of([1, 2]), limit=100)
        assert session.is_usable
        await session.close()
    assert (dict(answer.bodies), answer.refused) == ({1: b"one"}, True)


@pytest.mark.case("28")
async def test_an_empty_answer_means_gone() -> None:
    """OK without a FETCH, and NIL for a body, hold no message and raise nothing."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 1:2 *
    * 2 FETCH (UID 2 BODY[] NIL)
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        answer = await session.fetch_bodies(UidSet.of([1, 2]), limit=100)
        await session.close()
    assert (dict(answer.bodies), answer.refused) == ({}, False)


@pytest.mark.case("44")
@pytest.mark.parametrize(
    "line",
    [
        r"* 1 FETCH (UID 1 BODY[] {{3|Subject: x\r\n* 9 EXPUNGE\r\n}})",
        r"* 1 FETCH (UID 1 BODY[] {{3|abcdefg}})",
        r"* 1 FETCH (UID 1 BODY[] {{5000|abc}})",
        r"K1 FETCH",
        r"garbage",
        r"* 1 FETCH (UID 1 BODY[] ab cd)",
    ],
)
async def test_a_lying_literal_costs_the_connection(line: str) -> None:
    """Mail is never read as protocol: the first thing out of step ends the session, and nothing of it is kept."""
    async with ScriptedImap(EXAMINED + f"> UID FETCH 1 *\n{line}\nOK done\n!cut") as server:
        session = await examined(server)
        with pytest.raises(MailServerUnavailable):
            await session.fetch_bodies(UidSet.of([1]), limit=10_000)
        assert not session.is_usable
        await session.close()
    assert "LOGOUT" not in server.commands


@pytest.mark.spec("SYNC-61")
async def test_a_message_larger_than_the_limit_is_read_over() -> None:
    """An understated size keeps nothing of the message in memory and the connection in step."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 1:2 *
    * 1 FETCH (UID 1 BODY[] {{0123456789}})
    * 2 FETCH (UID 2 BODY[] {{ok}})
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        answer = await session.fetch_bodies(UidSet.of([1, 2]), limit=9)
        await session.close()
    assert dict(answer.bodies) == {2: b"ok"}
    assert dict(answer.oversized) == {1: 10}


@pytest.mark.spec("SYNC-61")
@pytest.mark.case("209")
async def test_a_message_far_larger_than_the_limit_is_abandoned_with_its_connection() -> None:
    """1.4 GB are neither held nor read."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 1:2 *
    * 2 FETCH (UID 2 BODY[] {{1400000000|begin}}
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        with pytest.raises(LiteralAbandoned) as caught:
            await session.fetch_bodies(UidSet.of([1, 2]), limit=1000)
        await session.close()
    assert (caught.value.uid, caught.value.size) == (2, 1_400_000_000)


@pytest.mark.spec("SYNC-73")
async def test_flags_that_are_left_out_are_an_incomplete_answer() -> None:
    """24001, so that silence never passes for a change; unsolicited answers about others do not matter."""
    script = (
        EXAMINED
        + r"""
    > UID FETCH 1:3 (FLAGS UID)
    * 1 FETCH (UID 1 FLAGS (\Seen))
    * 9 FETCH (UID 9 MODSEQ (4))
    * 2 FETCH (UID 2)
    * 2 FETCH (FLAGS (\Deleted))
    OK done
    > UID FETCH 1:3 (FLAGS UID)
    * 1 FETCH (UID 1 FLAGS (\Seen))
    * 9 FETCH (UID 9 FLAGS (\Seen))
    OK done
    """
    )
    async with ScriptedImap(script) as server:
        session = await examined(server)
        with pytest.raises(IncompleteAnswer):
            await session.fetch_flags(UidSet.of([1, 2, 3]))
        assert await session.fetch_flags(UidSet.of([1, 2, 3])) == {1: ("\\Seen",)}
        await session.close()


@pytest.mark.case("38")
async def test_a_refused_id_does_not_matter() -> None:
    """ID is sent with NIL, and BAD to it ends nothing."""
    async with ScriptedImap(
        "> ID *\nBAD Command Argument Error. 11\n" + EXAMINED, capabilities="IMAP4rev1 ID"
    ) as server:
        session = await examined(server)
        await session.close()
    assert server.commands[-3:] == ["ID NIL", 'EXAMINE "INBOX"', "LOGOUT"]


@pytest.mark.case("79")
@pytest.mark.spec("SYNC-17")
async def test_a_broken_line_costs_one_folder_and_is_reported() -> None:
    """The listing goes on, the connection stays, and the number of lost lines is known."""
    script = r"""
    > LIST "" "*"
    * LIST () "/" "INBOX"
    * LIST () "/" "ab"cd"
    * LIST (\Noselect) "/" Box
    * LIST () "/" {{Hell"oh}}
    OK done
    """
    async with ScriptedImap(script) as server:
        session = await connect(server)
        listing = await session.list_folders()
        await session.close()
    assert [folder.path for folder in listing.folders] == ["INBOX", "Box", 'Hell"oh']
    assert listing.unreadable == 1


@pytest.mark.spec("SYNC-17")
async def test_other_namespaces_are_listed_too_and_inbox_always() -> None:
    """What `LIST "" "*"` does not reach is asked for by its prefix; INBOX is asked for when it is not listed."""
    script = r"""
    > NAMESPACE
    * NAMESPACE (("" "/")) NIL (("#shared/" "/"))
    OK done
    > LIST "" "*"
    * LIST () "/" A
    OK done
    > LIST "" "#shared/*"
    * LIST () "/" "#shared/team"
    * LIST () "/" A
    OK done
    > LIST "" "INBOX"
    * LIST () "/" inbox
    OK done
    """
    async with ScriptedImap(script, capabilities="IMAP4rev1 NAMESPACE") as server:
        session = await connect(server)
        listing = await session.list_folders()
        await session.close()
    assert [folder.path for folder in listing.folders] == ["A", "#shared/team", "INBOX"]


@pytest.mark.spec("SYNC-17")
async def test_discovery_ends_at_ten_thousand_folders() -> None:
    """More than that fails naming the limit, before anything is bound."""
    lines = "\n".join(f'* LIST () "/" f{number}' for number in range(10_001))
    async with ScriptedImap(f'> LIST "" "*"\n{lines}\nOK done') as server:
        session = await connect(server)
        with pytest.raises(TooManyFolders, match="10000"):
            await session.list_folders()
        await session.close()


@pytest.mark.case("77", "80", "71", "73")
async def test_names_go_back_as_they_came() -> None:
    """Quotes escaped once, blanks quoted, modified UTF-7 untouched, raw eight-bit octets as a literal."""
    names = [b'Sub "x"', b"[Gmail]/All Mail", b"&BCEEPwQw&-BDw-", "Papelería".encode()]
    script = "".join(
        f"> EXAMINE {pattern}\n* OK [UIDVALIDITY 7]\nOK done\n"
        for pattern in (r'"Sub \"x\""', '"[Gmail]/All Mail"', '"&BCEEPwQw&-BDw-"', "*")
    )
    async with ScriptedImap(script) as server:
        session = await connect(server)
        for name in names:
            await session.examine(name.decode("latin-1"))
        await session.close()
    assert server.unexpected == []
    assert server.commands[-2].endswith("Papelería".encode().decode("latin-1"))


async def test_a_folder_that_refuses_status_is_left_out() -> None:
    """One folder without rights does not fail the states of the others."""
    script = r"""
    > STATUS "a" (MESSAGES UIDNEXT UIDVALIDITY)
    NO permission denied
    > STATUS "b" *
    * STATUS b (UIDNEXT 4 MESSAGES 3 UIDVALIDITY 9 RECENT 1)
    OK done
    """
    async with ScriptedImap(script) as server:
        session = await connect(server)
        states = await session.status_all(["a", "b"])
        await session.close()
    assert set(states) == {"b"}
    assert (states["b"].messages, states["b"].uid_next, states["b"].highest_modseq) == (3, 4, None)


@pytest.mark.spec("SYNC-36")
async def test_a_rejected_password_is_told_from_a_passing_trouble() -> None:
    """21002 for a rejection, 22001 when the server asks for patience; neither repeats the server's text."""
    async with ScriptedImap("> LOGIN *\nNO [AUTHENTICATIONFAILED] anna@example.com is wrong") as server:
        with pytest.raises(LoginRejected) as rejected:
            await connect(server)
    assert "anna" not in str(rejected.value)
    async with ScriptedImap("> LOGIN *\nNO [ALERT] Too many simultaneous connections. (Failure)") as server:
        with pytest.raises(MailServerUnavailable):
            await connect(server)


@pytest.mark.spec("SYNC-32")
async def test_sasl_plain_is_preferred_and_quoting_protects_login() -> None:
    """AUTHENTICATE where it is offered; the LOGIN command quotes both of its arguments."""
    async with ScriptedImap(capabilities="IMAP4rev1 AUTH=PLAIN") as server:
        await (await connect(server)).close()
    assert server.sent("AUTHENTICATE PLAIN")
    async with ScriptedImap() as server:
        await (await connect(server, user_name='a "b"')).close()
    assert server.sent("LOGIN") == [f'LOGIN "a \\"b\\"" "{PASSWORD}"']


@pytest.mark.spec("SYNC-31")
async def test_a_cancelled_command_closes_the_connection_without_logout() -> None:
    """Nobody waits for a dead server's farewell, and the session is of no more use."""
    async with ScriptedImap(EXAMINED + "> UID SEARCH *\n!hang") as server:
        session = await examined(server)
        search = asyncio.create_task(session.search(1, 39))
        await server.received("UID SEARCH")
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert not session.is_usable
        with pytest.raises(MailServerUnavailable):
            await session.search(1, 39)
        await session.close()
    assert "LOGOUT" not in server.commands


@pytest.mark.spec("SYNC-36")
async def test_every_wait_ends() -> None:
    """Silence ends by the idle bound, a trickle by the command's."""
    silent = Timeouts(connect=1, idle=0.2, command=5, farewell=0.1)
    async with ScriptedImap(EXAMINED + "> UID SEARCH *\n!hang") as server:
        session = await examined(server, timeouts=silent)
        with pytest.raises(MailServerUnavailable, match="stopped answering"):
            await session.search(1, 39)
        await session.close()
    trickle = Timeouts(connect=1, idle=5, command=0.3, farewell=0.1)
    lines = "* OK still here\n!wait 0.1\n" * 50
    async with ScriptedImap(EXAMINED + f"> UID SEARCH *\n{lines}OK done") as server:
        session = await examined(server, timeouts=trickle)
        with pytest.raises(MailServerUnavailable, match="too long"):
            await session.search(1, 39)
        await session.close()


@pytest.mark.case("52")
@pytest.mark.spec("SYNC-36")
@pytest.mark.parametrize("end", ["* BYE shutting down\nOK done", "!cut", "* SEARCH 1\n!cut"])
async def test_a_farewell_or_a_dropped_socket_is_transient(end: str) -> None:
    """22001 either way, and the half answer is not used."""
    async with ScriptedImap(EXAMINED + f"> UID SEARCH *\n{end}") as server:
        session = await examined(server)
        with pytest.raises(MailServerUnavailable):
            await session.search(1, 39)
        await session.close()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    """A refused connection and an unfriendly greeting are 22001."""
    async with ScriptedImap() as server:
        port = server.port
    with pytest.raises(MailServerUnavailable):
        await ReadOnlySession.connect(account_at(port), SecretStr("x"), timeouts=FAST)
    async with ScriptedImap(greeting="* BYE too busy") as server:
        with pytest.raises(MailServerUnavailable):
            await connect(server)


@pytest.mark.spec("SYNC-29")
@pytest.mark.parametrize("capabilities", ["IMAP4rev1", "IMAP4rev1 AUTH=PLAIN"])
@pytest.mark.parametrize(
    ("user", "password"),
    [("anna\r\nA1 DELETE INBOX", PASSWORD), ("anna", f"{PASSWORD}\nA1 EXPUNGE"), ("anna", "a\0b"), ("an\rna", "x")],
)
async def test_a_line_break_in_a_name_or_password_never_becomes_a_command(
    capabilities: str, user: str, password: str
) -> None:
    """Neither a pasted name nor a password file of several lines reaches the server at all."""
    async with ScriptedImap(capabilities=capabilities) as server:
        settings = account_at(server.port).model_copy(update={"user_name": user})
        with pytest.raises(MechanismRefused):
            await ReadOnlySession.connect(settings, SecretStr(password), timeouts=FAST)
    assert not [command for command in server.commands if not command.startswith(("CAPABILITY", "LOGOUT"))]
