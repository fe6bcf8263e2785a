"""Charset labels and undecodable octets."""

from __future__ import annotations

import pytest

from mailkeep_message import read
from mailkeep_message.charsets import codec_name, decode


def body(charset: str | None, octets: bytes) -> str:
    header = b"" if charset is None else f'Content-Type: text/plain; charset="{charset}"\n'.encode()
    return read(header + b"\n" + octets).body.text_before_trimming


@pytest.mark.case("106")
@pytest.mark.parametrize(
    ("charset", "octets", "text"),
    [
        ("", "ä".encode(), "ä"),
        ("cp-850", b"\x84", "ä"),
        ("utf-8  euao6y69zh2w", "ä".encode(), "ä"),
        ("utf-8; format=flowed", "ä".encode(), "ä"),
        ("'UTF8'", "ä".encode(), "ä"),
        ("charset=iso-8859-2", b"\xb1", "ą"),
        ("x-unknown", b"\xe4", "ä"),
        ("made-up", b"\xe4", "ä"),
        ("made-up", "ä".encode(), "ä"),
        ("zlib", b"\xe4", "ä"),
        ("punycode", b"\xe4", "ä"),
        ("unicode_escape", b"\\x41\xe4", "\\x41ä"),
    ],
)
def test_junk_labels_decode(charset: str, octets: bytes, text: str) -> None:
    """Empty, unknown, decorated and dangerous labels give text and never an error."""
    assert body(charset, octets) == text


@pytest.mark.case("107")
@pytest.mark.parametrize(
    ("charset", "octets", "text"),
    [
        ("_iso-2022-jp$esc", b"\x1b$B$3$s\x1b(B", "こん"),
        ("windows-874", b"\xa1", "ก"),
        ("ks_c_5601-1987", b"\xc7\xd1", "한"),
        ("gb2312", b"\xd6\xd0", "中"),
        ("iso-8859-1", b"\x93x\x94", "“x”"),
        ("x-sjis", b"\x82\xa0", "あ"),
        ("unicode-1-1-utf-7", b"+AOQ-", "ä"),
        ("koi8_r", b"\xc4\xc1", "да"),
        ("big5", b"\xa4\xa4", "中"),
    ],
)
def test_aliases_and_the_web_table_are_used(charset: str, octets: bytes, text: str) -> None:
    """Labels of the field, and the WHATWG meaning of the common ones."""
    assert body(charset, octets) == text


@pytest.mark.case("107")
def test_vendor_rows_of_iso_2022_jp_are_read() -> None:
    """Circled digits (row 13), IBM's characters (row 89 on) and half-width kana."""
    assert body("iso-2022-jp", b"\x1b$B-!\x1b(B") == "①"
    assert body("iso-2022-jp", b"\x1b$By!\x1b(B") == "纊"
    assert body("iso-2022-jp", b"\x1b(I1\x1b(B") == "ｱ"


def test_undeclared_iso_2022_jp_is_recognised() -> None:
    """ASCII that switches to Japanese is read as Japanese."""
    assert body(None, b"\x1b$B$3$s\x1b(B!") == "こん!"
    assert body("us-ascii", b"\x1b$B$3$s\x1b(B!") == "こん!"


def test_undeclared_eight_bit_text_is_utf8_or_windows_1252() -> None:
    """The commonest truth first."""
    assert body(None, "€ä".encode()) == "€ä"
    assert body(None, b"\x80\xe4") == "€ä"
    assert body("us-ascii", "€ä".encode()) == "€ä"


def test_a_wrong_utf8_label_over_latin_text_is_seen_through() -> None:
    """Not one valid sequence: the label is wrong. Some valid ones: the damage is marked."""
    assert body("utf-8", b"\xe4 \xf6 \xfc \xdf x") == "ä ö ü ß x"
    assert body("utf-8", "äö".encode() + b" \xff") == "äö \ufffd"


def test_a_wrong_legacy_label_over_utf8_is_seen_through() -> None:
    """Octets that the label cannot decode and UTF-8 can."""
    assert body("shift_jis", "“ä”".encode()) == "“ä”"


def test_defects_name_the_damage() -> None:
    """An unknown label and undecodable octets are told apart."""
    assert read(b"Content-Type: text/plain; charset=made-up\n\n\xe4").defects == {"unknown_charset"}
    assert read(b"Content-Type: text/plain; charset=utf-8\n\n\xe4").defects == {"undecodable_characters"}
    assert read(b"Content-Type: text/plain; charset=utf-8\n\nx").defects == frozenset()


def test_no_codec_that_is_no_charset_is_ever_used() -> None:
    """Python's transforms would blow up or run for ever on hostile input."""
    for name in (
        "zlib",
        "bz2",
        "hex",
        "rot13",
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
        "undefined",
    ):
        assert codec_name(name) is None


@pytest.mark.parametrize(
    "label", ["utf-7", "utf-16", "hz", "iso-2022-kr", "gb18030", "euc-jp", "utf-32", "cp037", "\x00"]
)
def test_decoding_never_raises(label: str) -> None:
    """Every octet value under every kind of codec."""
    assert isinstance(decode(bytes(range(256)) * 3, label)[0], str)
