"""Folder names between octets and eyes."""

import pytest

from mailkeep.imap.names import display_name, encode_name, key_of_octets, octets_of_key, quote


@pytest.mark.case("71")
def test_an_ampersand_inside_a_base64_run_keeps_the_servers_octets_as_the_key() -> None:
    """A name that does not decode is still reachable, because its key gives back exactly what the server sent."""
    octets = b"&BCEEPwQw&-BDw-"
    key = key_of_octets(octets)
    assert octets_of_key(key) == octets
    assert display_name(key)


@pytest.mark.case("73")
def test_an_encoded_name_is_not_encoded_again() -> None:
    """Going back to the server leaves `&-` alone: only names that people typed are ever encoded."""
    assert octets_of_key(key_of_octets(b"Tom &- Jerry")) == b"Tom &- Jerry"
    assert encode_name("Tom & Jerry") == b"Tom &- Jerry"


@pytest.mark.case("74")
def test_plus_does_not_shift() -> None:
    """Only `&` begins a base64 run in modified UTF-7."""
    assert display_name("2020/1200+1201+1202") == "2020/1200+1201+1202"


@pytest.mark.parametrize(
    ("encoded", "shown"),
    [
        ("Entw&APw-rfe", "Entwürfe"),
        ("&BB4EQgQ,BEAEMAQyBDsENQQ9BD0ESwQ1-", "Отправленные"),
        ("&ZeVnLIqe-", "日本語"),
        ("&2D3eAA-", "😀"),
        ("&-", "&"),
        ("a&-b&-c", "a&b&c"),
        ("&Jjo", "☺"),
    ],
)
def test_names_are_shown_decoded(encoded: str, shown: str) -> None:
    """Modified UTF-7 becomes text, also where a server forgot the closing dash."""
    assert display_name(encoded) == shown


@pytest.mark.parametrize("broken", ["&ABC-", "&!!!!-", "&2D0-", "&", "x&A-"])
def test_what_does_not_decode_is_shown_as_it_stands(broken: str) -> None:
    """Display never fails and never loses a name."""
    assert display_name(broken) == broken


def test_raw_eight_bit_names_are_shown_as_utf_8_and_keep_their_octets() -> None:
    """Servers that send UTF-8 without being asked are shown right and addressed by the same octets."""
    octets = "Papelería".encode()
    key = key_of_octets(octets)
    assert display_name(key) == "Papelería"
    assert octets_of_key(key) == octets
    assert display_name(key_of_octets(b"caf\xe9")) == "café"


@pytest.mark.parametrize("text", ["Entwürfe", "日本語/メール", "a&b", "plain", "😀 fun", ""])
def test_a_typed_name_survives_encoding(text: str) -> None:
    """What is encoded for a server reads the same afterwards."""
    assert display_name(encode_name(text).decode("ascii")) == text


@pytest.mark.case("77", "80")
def test_names_are_always_quoted_and_escaped() -> None:
    """Blanks, quotes and backslashes reach the server inside one quoted string."""
    assert quote(b"[Gmail]/All Mail") == b'"[Gmail]/All Mail"'
    assert quote(b'Sub "x"') == b'"Sub \\"x\\""'
    assert quote(b"a\\b") == b'"a\\\\b"'


def test_octets_that_no_quoted_string_can_carry_need_a_literal() -> None:
    """Eight-bit octets and controls are left to a literal."""
    assert quote("Papelería".encode()) is None
    assert quote(b"a\tb") is None
