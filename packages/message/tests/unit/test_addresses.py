"""Address lists, groups, ambiguity and the comparison form."""

from __future__ import annotations

import pytest

from mailkeep_message import Address, Limits, comparison_form, read, read_headers


def parsed(value: bytes | str) -> list[tuple[str | None, str]]:
    octets = value.encode() if isinstance(value, str) else value
    return [(a.display_name, a.address) for a in read_headers(b"To: " + octets + b"\n\n").to]


@pytest.mark.case("100")
def test_a_comma_inside_an_encoded_name_does_not_split_the_sender() -> None:
    """Syntax first, words after; also where the comma or bracket stands raw in the word."""
    name = "=?utf-8?b?0JjQvNGPLCDQpNCw0LzQuNC70LjRjw==?="
    assert parsed(f"{name} <a@example.org>") == [("Имя, Фамилия", "a@example.org")]
    assert parsed("=?utf-8?q?One,_Two_:)?= <a@example.org>, b@example.org") == [
        ("One, Two :)", "a@example.org"),
        (None, "b@example.org"),
    ]


@pytest.mark.case("115")
@pytest.mark.spec("SYNC-95")
def test_groups_are_flattened_and_leave_their_name() -> None:
    """Members of several groups and addresses beside them stay in header order; an empty group gives none."""
    message = read_headers(
        b"To: A Group:Ed <c@a.test>,joe@b.test;, x@y.test; Empty:;, =?utf-8?q?B=C3=A4?=: d@e.test;\n\n"
    )
    assert message.to == (
        Address("Ed", "c@a.test", "C@A.TEST", "A Group"),
        Address(None, "joe@b.test", "JOE@B.TEST", "A Group"),
        Address(None, "x@y.test", "X@Y.TEST", None),
        Address(None, "d@e.test", "D@E.TEST", "Bä"),
    )
    assert parsed("undisclosed-recipients:;") == []


@pytest.mark.case("116")
@pytest.mark.parametrize(
    "value",
    [
        "alice@example.org)<bob@example.com>",
        "alice@example.org(<bob@example.com>",
        "<alice@example.org><bob@example.com>",
        "alice@example.org>",
        "<alice@example.org",
        "alice@example.org <bob@example.com",
    ],
)
def test_an_ambiguous_address_yields_none(value: str) -> None:
    """Two readings are possible: no address is trusted, and the next one is still read."""
    assert parsed(value) == []
    assert parsed(value + ", carol@example.net") == [(None, "carol@example.net")]


@pytest.mark.case("116")
def test_a_name_that_looks_like_an_address_is_only_a_name() -> None:
    """The angle bracket decides."""
    assert parsed('"alice@example.org" <bob@example.com>') == [("alice@example.org", "bob@example.com")]
    assert parsed("alice@example.org <bob@example.com>") == [("alice@example.org", "bob@example.com")]


@pytest.mark.spec("SYNC-95")
@pytest.mark.parametrize(
    "value",
    [
        "nobody",
        "@example.org",
        "ann@",
        "ann bob@example.org",
        "ann@exam ple.org",
        "a@b@c.example",
        "Ann <ann>",
        "<>",
        "ann@example.org\x07",
        '"unclosed@example.org',
        "a\u00adb <c@d\u2028.e>",
        "=?utf-8?q?ann=40example.org?=",
    ],
)
def test_malformed_addresses_are_dropped_never_repaired(value: str) -> None:
    """No guess, no half of it."""
    assert parsed(value) == []


@pytest.mark.spec("SYNC-95")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"John  Q. Public" <john@example.org>', ("John  Q. Public", "john@example.org")),
        ('"a b@c"@example.org', (None, '"a b@c"@example.org')),
        ("Ann <@relay.test,@b.test:ann@example.org>", ("Ann", "ann@example.org")),
        ("ann@example.org (Ann (A.) Smith)", ("Ann (A.) Smith", "ann@example.org")),
        ("pete(his account)@silly.test(host)", ("host", "pete@silly.test")),
        ("jdoe@test  . example", (None, "jdoe@test.example")),
        (r'"Joe \"J\" D" <j@example.org>', ('Joe "J" D', "j@example.org")),
        ("Who? <one@y.test>", ("Who?", "one@y.test")),
        ("ann@[192.0.2.1]", (None, "ann@[192.0.2.1]")),
        ("Jörg <jörg@müller.example>", ("Jörg", "jörg@müller.example")),
        ('"=?utf-8?q?J=C3=B6rg?=" <j@example.org>', ("Jörg", "j@example.org")),
        ("'ann' <ann@example.org>", ("'ann'", "ann@example.org")),
        ('Joe "the" Smith <j@example.org>', ("Joe the Smith", "j@example.org")),
        ('"Joe <j@example.org>', ("Joe", "j@example.org")),
    ],
)
def test_forms_of_one_address(value: str, expected: tuple[str | None, str]) -> None:
    """RFC 5322 with its obsolete forms; quoted local parts keep spaces, the domain follows the last @."""
    assert parsed(value) == [expected]


def test_lists_are_read_in_order_with_either_separator() -> None:
    """Commas, Outlook's semicolons, empty members and several fields of one role."""
    assert parsed("a@x.test; b@x.test, , c@x.test,") == [(None, "a@x.test"), (None, "b@x.test"), (None, "c@x.test")]
    message = read_headers(b"Cc: a@x.test\nCc: b@x.test\n\n")
    assert [a.address for a in message.cc] == ["a@x.test", "b@x.test"]


@pytest.mark.spec("SYNC-95")
@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("Ann@Example.org", "ANN@EXAMPLE.ORG"),
        ("straße@x.test", "STRAßE@X.TEST"),
        ("ın@x.test", "ıN@X.TEST"),
        ("ſ@x.test", "ſ@X.TEST"),
        ("ﬁ@x.test", "ﬁ@X.TEST"),
        ("élan@x.test", "ÉLAN@X.TEST"),
    ],
)
def test_the_comparison_form_keeps_strangers_apart(address: str, form: str) -> None:
    """One character to one, never a non-ASCII letter to an ASCII one."""
    assert comparison_form(address) == form


@pytest.mark.spec("SYNC-94")
def test_the_author_is_the_first_usable_from_else_the_sender() -> None:
    """A From without an address gives way to the Sender."""
    from_first = read_headers(b"From: Nobody, Ann <ann@x.test>, b@x.test\nSender: s@x.test\n\n")
    assert from_first.author == Address("Ann", "ann@x.test", "ANN@X.TEST", None)
    sender = read_headers(b"From: Nobody\nSender: s@x.test\n\n").author
    assert sender is not None
    assert sender.address == "s@x.test"
    assert read_headers(b"From: Nobody\n\n").author is None


@pytest.mark.spec("SYNC-94", "SYNC-96")
def test_roles_are_bounded_and_keep_the_first() -> None:
    """256 addresses a role; an address beyond 320 octets is dropped, not cut."""
    many = b", ".join(b"u%d@x.test" % n for n in range(400))
    message = read(b"To: " + many + b"\nReply-To: r@x.test\nBcc: h@x.test\n\n", limits=Limits())
    assert len(message.to) == 256
    assert message.to[-1].address == "u255@x.test"
    assert [a.address for a in message.reply_to + message.bcc] == ["r@x.test", "h@x.test"]
    fitting, long = "a" * 313 + "@x.test", "a" * 314 + "@x.test"
    assert parsed(f"{long}, {fitting}") == [(None, fitting)]
    assert parsed("ä" * 160 + "@x.test") == []


def test_a_field_cut_by_its_bound_loses_its_last_address() -> None:
    """The end of a cut list could be the beginning of somebody else's address."""
    value = b"x" * 131_060 + b" <ann@example.organisation.example>"
    assert parsed(value) == []
