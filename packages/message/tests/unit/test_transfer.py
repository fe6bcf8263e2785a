"""Content transfer encodings of any quality."""

from __future__ import annotations

import base64

import pytest

from mailkeep_message import attachment_payload, read
from mailkeep_message.transfer import decode_base64, decoded_size


def text(encoding: bytes, octets: bytes) -> str:
    return read(b"Content-Transfer-Encoding: " + encoding + b"\n\n" + octets).body.text_before_trimming


def defects(encoding: bytes, octets: bytes) -> frozenset[str]:
    return read(b"Content-Transfer-Encoding: " + encoding + b"\n\n" + octets).defects


@pytest.mark.case("121")
def test_base64_blocks_behind_a_padding_are_decoded() -> None:
    """List software appends a second block; nothing after the first padding is lost."""
    blocks = base64.b64encode(b"body, ") + b"\n" + base64.b64encode(b"footer!") + b"\n" + base64.b64encode(b"!!")
    assert text(b"base64", blocks) == "body, footer!!!"


@pytest.mark.case("121")
def test_plain_text_behind_a_base64_block_stays_text() -> None:
    """A footer that list software appended without encoding is neither lost nor decoded to noise."""
    footer = b"_______________________\nUsers mailing list\nusers@lists.example.org\n"
    for body in (b"hello", b"hello!", b"hello world\n"):
        encoded = base64.encodebytes(body)
        assert text(b"base64", encoded + footer) == body.decode() + "\n" + footer.decode()


@pytest.mark.case("122")
def test_truncated_base64_gives_what_is_there_and_is_marked() -> None:
    """A cut group yields the octets it still determines."""
    whole = base64.b64encode(b"hello world!")
    assert text(b"base64", whole[:-1]) == "hello world"
    assert text(b"base64", whole[:-2]) == "hello worl"
    assert text(b"base64", whole[:-3]) == "hello wor"
    assert defects(b"base64", whole[:-3]) == {"truncated_base64"}
    assert defects(b"base64", whole) == frozenset()


@pytest.mark.case("124")
def test_odd_line_breaks_and_junk_inside_base64_are_skipped() -> None:
    """One bad message must not stop an import."""
    assert text(b"base64", b"aG\r\r\nVs\n \t-bG8\x00g!d29y\xffbGQ=") == "hello world"


@pytest.mark.case("125")
def test_an_encoded_carriage_return_before_a_line_end_is_one_break() -> None:
    """`=0D` and CRLF together are not two line ends."""
    assert text(b"quoted-printable", b"one=0D\r\ntwo=0D=0A=\r\nthree") == "one\ntwo\nthree"


@pytest.mark.case("125")
@pytest.mark.parametrize(("octets", "expected"), [(b"a=ZZb", "a=ZZb"), (b"tail=", "tail"), (b"a=4", "a=4")])
def test_what_is_no_escape_stays_and_the_loss_is_marked(octets: bytes, expected: str) -> None:
    """Lenient, with a marker."""
    assert text(b"quoted-printable", octets) == expected
    assert defects(b"quoted-printable", octets) == {"lossy_quoted_printable"}


@pytest.mark.case("125")
def test_clean_quoted_printable_is_not_marked() -> None:
    """Soft breaks with trailing blanks and lower-case escapes are fine."""
    assert text(b"quoted-printable", b"=c3=a4 soft= \r\nly") == "ä softly"
    assert defects(b"quoted-printable", b"=c3=a4 soft= \r\nly") == frozenset()


@pytest.mark.case("103")
def test_eight_bit_octets_in_any_encoding_do_not_raise() -> None:
    """Raw octets beside other non-ASCII characters, in every encoding."""
    for encoding in (b"7bit", b"8bit", b"quoted-printable", b"base64", b"x-uuencode", b"bogus"):
        message = read(b"Content-Transfer-Encoding: " + encoding + b"\n\n\xff\xe2\x82 \xe4=\xff==\x00")
        assert message.is_fully_read
    assert text(b"8bit", b"\xff \xe4") == "ÿ ä"


@pytest.mark.parametrize("name", [b"BASE64", b"base64;", b" base64 (std)", b'"base64"'])
def test_the_encoding_is_recognised_however_it_is_written(name: bytes) -> None:
    """Case, comments and junk."""
    assert text(name, b"aGk=") == "hi"


def test_a_false_base64_label_leaves_the_text() -> None:
    """Plain text under it is told by its characters; a remark behind the padding is none of it."""
    assert text(b"base64", b"?garbage, really") == "?garbage, really"
    assert defects(b"base64", b"?garbage, really") == {"broken_transfer_encoding"}
    assert text(b"base64", b"aGk= remarks") == "hi"
    assert text(b"base64", b"aGk= aGk=") == "hihi"


def test_an_unknown_encoding_leaves_the_text_and_is_marked() -> None:
    """As it stands."""
    assert text(b"rot13", b"uryyb") == "uryyb"
    assert defects(b"rot13", b"uryyb") == {"broken_transfer_encoding"}


def test_uuencoded_parts_are_decoded() -> None:
    """Also when a line lost its trailing blanks."""
    octets = (
        b"Content-Type: application/x; name=f\nContent-Transfer-Encoding: x-uuencode\n\n"
        b"begin 644 f\n%:&5L;&\\ \n`\nend\n"
    )
    assert attachment_payload(octets, 0) == b"hello"


def test_payloads_survive_any_line_length() -> None:
    """Decoding a random payload gives it back, and its size is told without decoding."""
    payload = bytes(range(256)) * 9000
    encoded = base64.encodebytes(payload)
    octets = b"Content-Type: image/x\nContent-Transfer-Encoding: base64\n\n" + encoded
    assert read(octets).attachments[0].size_octets == len(payload)
    assert attachment_payload(octets, 0) == payload


@pytest.mark.spec("SYNC-102")
def test_sizes_of_large_parts_are_counted_in_windows() -> None:
    """The count equals the decoded length, also with several blocks in one part."""
    one = base64.encodebytes(b"x" * 2_000_001)
    for encoded in (one, one + one, one.replace(b"\n", b"\r\n")):
        assert decoded_size(encoded, 0, len(encoded), "base64") == len(decode_base64(encoded)[0])


def test_a_part_of_paddings_does_not_multiply_memory() -> None:
    """An absurd number of blocks is one block."""
    decoded, defect = decode_base64(b"QQ==" * 50_000)
    assert defect == "truncated_base64"
    assert len(decoded) == 75_000
