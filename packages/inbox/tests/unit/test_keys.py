"""Idempotency keys, minted msg-ids and row ids."""

import re

import pytest

from mailkeep_inbox import generate_mailbox_message_id, mailbox_key
from mailkeep_inbox.keys import RowIds


@pytest.mark.spec("INBOX-31", "INBOX-32")
def test_key_formats_byte_for_byte() -> None:
    """The length counts UTF-16 code units of the source; brackets stay in transport keys."""
    assert mailbox_key.inbox("a:b", "c") == "inbox2:3:a:b:c"
    assert mailbox_key.inbox("😀", "x") == "inbox2:2:😀:x"
    assert mailbox_key.inbox("", "") == "inbox2:0::"
    assert (mailbox_key.gate("7"), mailbox_key.run("8")) == ("gate:7", "run:8")
    assert mailbox_key.transport("<a@b>", "ann", "inbound") == "transport:mid:<a@b>:ann"
    assert mailbox_key.transport("<a@b>", "ann", "outbound") == "transport:mid:<a@b>:ann:outbound"
    digest = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
    assert mailbox_key.raw(b"hello world", "ann") == f"transport:raw:{digest}:ann"


@pytest.mark.spec("INBOX-32")
def test_pairs_of_source_and_id_never_share_a_key() -> None:
    """Moving a colon between source and id gives another key, also where the source is a number."""
    pairs = [("a", "b:c"), ("a:b", "c"), ("", "a:b:c"), ("3", "a:b"), ("3:a", "b"), ("ü", ""), ("", "ü")]
    assert len({mailbox_key.inbox(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.spec("INBOX-29")
@pytest.mark.parametrize(
    ("sender", "domain"),
    [
        ("bot@x.example", "x.example"),
        ("Bot <bot@x.example>", "x.example"),
        ("odd@name@x.example", "x.example"),
        ("nobody", "nobody"),
        ("bot@", "hub.invalid"),
        ("", "hub.invalid"),
        ("<a@b c>", "hub.invalid"),
    ],
)
def test_minted_id_takes_the_domain_of_the_bare_address(sender: str, domain: str) -> None:
    """A display name never gets into a minted id; an unusable domain becomes one that is never routed."""
    minted = generate_mailbox_message_id(sender)
    assert re.fullmatch(rf"<[0-9a-f]{{8}}-[0-9a-f]{{4}}-4[0-9a-f-]{{21}}@{re.escape(domain)}>", minted)


@pytest.mark.spec("INBOX-39")
def test_row_ids_ascend_and_are_canonical_uuids() -> None:
    """Rows of one transaction keep the order in which they were given."""
    ids = RowIds()
    made = [ids.next() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", each) for each in made
    )
