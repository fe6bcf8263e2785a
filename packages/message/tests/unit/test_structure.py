"""The structural scan: delimiters, ranges, nesting and limits."""

from __future__ import annotations

import pytest

from mailkeep_message import Limits, TextSource, attachment_payload, read


def types(octets: bytes) -> list[str]:
    return [part.media_type for part in read(octets).parts]


def nested_multiparts(depth: int) -> bytes:
    return b"".join(
        b'Content-Type: multipart/mixed; boundary="level%d"\n\n--level%d\n' % (level, level) for level in range(depth)
    )


MIXED = (
    b"From: ann@example.org\nSubject: two parts\nMIME-Version: 1.0\n"
    b"Content-Type: multipart/mixed; boundary=seam\n\n"
    b"preamble\n--seam\nContent-Type: text/plain\n\nhello\n--seam\n"
    b"Content-Type: application/pdf; name=plan.pdf\nContent-Transfer-Encoding: base64\n\nJVBERg==\n--seam--\nepilogue\n"
)


@pytest.mark.spec("SYNC-91")
def test_parts_are_ranges_of_the_octets_read() -> None:
    """Each part names where its header and body lie, and the octets there are its own."""
    message = read(MIXED)
    root, text, pdf = message.parts
    assert (root.media_type, root.is_multipart, root.depth) == ("multipart/mixed", True, 0)
    assert MIXED[text.offset_body : text.offset_end] == b"hello"
    assert MIXED[text.offset_header : text.offset_body] == b"Content-Type: text/plain\n\n"
    assert MIXED[pdf.offset_body : pdf.offset_end] == b"JVBERg=="
    assert (pdf.size_raw_octets, pdf.size_decoded_octets, pdf.depth) == (8, 4, 1)


@pytest.mark.spec("SYNC-91")
def test_crossing_the_part_limit_keeps_the_envelope_and_stops_there() -> None:
    """A message of too many parts is a result: unreadable, its header fields read."""
    parts = b"--seam\n\nx\n" * 40
    octets = b"Subject: many\nFrom: ann@example.org\nContent-Type: multipart/mixed; boundary=seam\n\n" + parts
    limits = Limits(max_part_count=20)
    message = read(octets, limits=limits)
    assert not message.is_fully_read
    assert message.subject == "many"
    assert message.author is not None
    assert message.author.address == "ann@example.org"
    assert message.body.source is TextSource.BodyNotExtracted
    assert (message.parts, message.attachments) == ((), ())
    assert "structure_limit_crossed" in message.defects
    assert read(octets).is_fully_read


@pytest.mark.spec("SYNC-91")
def test_every_entity_counts_against_the_part_limit() -> None:
    """The root, both leaves and the limit of three: exactly three entities are allowed, and two are not."""
    assert read(MIXED, limits=Limits(max_part_count=3)).is_fully_read
    assert not read(MIXED, limits=Limits(max_part_count=2)).is_fully_read


@pytest.mark.spec("SYNC-91")
def test_multiparts_and_embedded_messages_count_against_the_depth_limit() -> None:
    """Levels are opened by a multipart and by an embedded message alike."""
    assert not read(nested_multiparts(40)).is_fully_read
    assert read(nested_multiparts(25)).is_fully_read
    embedded = b"Content-Type: message/rfc822\n\n"
    assert not read(embedded * 40).is_fully_read
    assert read(embedded * 25 + b"\nx").is_fully_read


@pytest.mark.spec("SYNC-91")
def test_a_careless_depth_limit_does_not_exhaust_the_stack() -> None:
    """Beyond 200 levels no limit reaches."""
    message = read(nested_multiparts(5000), limits=Limits(max_part_count=10_000, max_nesting_depth=10_000))
    assert not message.is_fully_read
    assert "reader_failure" not in message.defects


@pytest.mark.spec("SYNC-91")
@pytest.mark.parametrize("filler", [b"--seam x\n", b"--seamless\n"])
def test_endless_false_delimiters_stop_the_scan(filler: bytes) -> None:
    """A scan that would take too long ends as a crossed limit."""
    octets = b"Subject: slow\nContent-Type: multipart/mixed; boundary=seam\n\n" + filler * 110_000
    message = read(octets)
    assert not message.is_fully_read
    assert message.subject == "slow"


@pytest.mark.case("127")
def test_a_boundary_in_the_middle_of_a_line_is_text() -> None:
    """Only a whole line is a delimiter."""
    octets = MIXED.replace(b"hello", b"see --seam\nand\n--seam--More\nand\n--seamless\nhello")
    assert types(octets) == ["multipart/mixed", "text/plain", "application/pdf"]
    assert read(octets).body.text.endswith("--seamless\nhello")


@pytest.mark.case("127")
def test_an_inner_boundary_that_begins_with_the_outer_one_is_kept_apart() -> None:
    """Inner boundary = outer boundary with dashes before it or letters after it."""
    octets = (
        b'Content-Type: multipart/mixed; boundary="B"\n\n--B\nContent-Type: multipart/alternative; boundary="--B"\n\n'
        b"----B\nContent-Type: text/plain\n\none\n----B\nContent-Type: text/html\n\n<p>one\n----B--\n--B\n"
        b"Content-Type: image/png\n\nx\n--B--\n"
    )
    assert types(octets) == ["multipart/mixed", "multipart/alternative", "text/plain", "text/html", "image/png"]


@pytest.mark.case("127")
def test_blanks_after_a_delimiter_are_ignored() -> None:
    """Transport adds blanks at line ends."""
    octets = MIXED.replace(b"--seam\n", b"--seam \t \n").replace(b"--seam--\n", b"--seam-- \n")
    assert types(octets) == ["multipart/mixed", "text/plain", "application/pdf"]


EMBEDDED = (
    b"Subject: outer\nContent-Type: multipart/report; boundary=o; report-type=delivery-status\n\n--o\n\nouter text\n--o\n"
    b"Content-Type: message/delivery-status\n\nStatus: 5.1.1\n--o\nContent-Type: message/rfc822\n\n"
    b"Subject: inner\nContent-Type: multipart/mixed; boundary=i\n\n--i\n\ninner text\n--i\n"
    b"Content-Type: text/plain; name=inner.txt\n\nx\n--i--\n\n--o--\n"
)


@pytest.mark.case("118", "119")
@pytest.mark.spec("SYNC-102")
def test_an_embedded_message_is_one_attachment_with_its_own_octets() -> None:
    """Its text stays out of the outer body, it is listed once, and its range is exact."""
    message = read(EMBEDDED)
    assert types(EMBEDDED) == ["multipart/report", "text/plain", "message/delivery-status", "message/rfc822"]
    assert message.body.text == "outer text"
    assert [a.media_type for a in message.attachments] == ["message/delivery-status", "message/rfc822"]
    inner = attachment_payload(EMBEDDED, 1)
    assert inner.startswith(b"Subject: inner\n")
    assert inner.endswith(b"--i--\n")
    assert message.attachments[1].size_octets == len(inner)
    assert read(inner).body.text == "inner text"
    assert [a.file_name for a in read(inner).attachments] == ["inner.txt"]


@pytest.mark.case("118")
def test_an_embedded_message_without_end_stops_at_the_outer_delimiter() -> None:
    """An unclosed inner multipart does not swallow the outer parts behind it."""
    octets = EMBEDDED.replace(b"--i--\n\n--o--\n", b"--o\nContent-Type: image/gif\n\nGIF\n--o--\n")
    assert types(octets)[-2:] == ["message/rfc822", "image/gif"]
    assert "missing_boundary_end" in read(octets).defects


def test_members_of_a_digest_are_messages_by_default() -> None:
    """RFC 2046 §5.1.5: without a Content-Type a digest's part is an embedded message."""
    octets = b"Content-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: one\n\nx\n--d--\n"
    assert types(octets) == ["multipart/digest", "message/rfc822"]


@pytest.mark.case("89")
def test_a_stray_empty_line_ends_the_header_and_nothing_is_lost() -> None:
    """What follows the empty line is body text, and the message is read."""
    message = read(b"To: bob@example.org\n\nFrom: ann@example.org\nSubject: late\nMessage-ID: <a@b>\n\nhello\n")
    assert [a.address for a in message.to] == ["bob@example.org"]
    assert (message.subject, message.message_id, message.author) == (None, None, None)
    assert "Subject: late" in message.body.text_before_trimming
    assert "hello" in message.body.text_before_trimming


@pytest.mark.spec("SYNC-91")
@pytest.mark.parametrize(
    ("octets", "text", "defect"),
    [
        (b"Content-Type: multipart/mixed; boundary=b\n\njust text\n", "just text", "missing_boundary_start"),
        (b"Content-Type: multipart/mixed\n\njust text\n", "just text", "missing_boundary"),
        (b"Content-Type: multipart/mixed\n\n--g\n\nfound\n--g--\n", "found", "missing_boundary"),
        (b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nopen end", "open end", "missing_boundary_end"),
        (b"Subject: x\nno colon here and no empty line\n", "no colon here and no empty line", "missing_header_end"),
    ],
)
def test_broken_structure_is_named_and_its_text_shown(octets: bytes, text: str, defect: str) -> None:
    """Whatever a broken multipart holds is text, not nothing."""
    message = read(octets)
    assert message.body.text == text
    assert defect in message.defects
    assert message.is_fully_read


def test_a_broken_field_is_skipped_when_the_header_goes_on() -> None:
    """A line with an 8-bit name between fields does not end the header."""
    message = read(b"Subject: x\nInval\xfcd: y\nFrom: ann@example.org\n\nbody\n")
    assert message.author is not None
    assert message.body.text == "body"
    assert "broken_header_line" in message.defects


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_each_kind_of_line_end_is_read(line_end: bytes) -> None:
    """LF, CRLF and bare CR give the same message."""
    octets = MIXED.replace(b"\n", line_end)
    message = read(octets)
    assert [part.media_type for part in message.parts] == ["multipart/mixed", "text/plain", "application/pdf"]
    assert message.body.text == "hello"
    assert attachment_payload(octets, 0) == b"%PDF"


def test_an_mbox_line_and_empty_lines_before_the_header_are_skipped() -> None:
    """The header begins behind them."""
    assert read(b"\r\n\r\nFrom ann Mon Jan  1 00:00:00 2024\nSubject: x\n\ny").subject == "x"
    assert read(b"\xef\xbb\xbfSubject: x\n\ny").subject == "x"


def test_a_message_without_header_is_all_body() -> None:
    """An empty line first: no fields; nothing at all: an empty message."""
    assert read(b"\nhello").body.text == "hello"
    empty = read(b"")
    assert (empty.headers, empty.subject, empty.body.text) == ((), None, "")
    assert empty.is_fully_read


def test_a_part_whose_header_runs_into_a_delimiter_is_empty() -> None:
    """No empty line before the next delimiter: the part has no body and takes nothing of the next one."""
    octets = b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: image/png\n--b\n\ntext\n--b--\n"
    message = read(octets)
    assert types(octets) == ["multipart/mixed", "image/png", "text/plain"]
    assert message.attachments[0].size_octets == 0


@pytest.mark.parametrize("value", ["text", "", ";charset=utf-8", "x"])
def test_a_content_type_without_subtype_is_plain_text(value: str) -> None:
    """RFC 2045 §5.2."""
    assert types(f"Content-Type: {value}\n\nhello".encode()) == ["text/plain"]


def test_of_two_content_types_the_later_is_the_senders() -> None:
    """A gateway puts its own on top."""
    assert types(b"Content-Type: text/plain\nContent-Type: text/html\n\n<p>x") == ["text/html"]


def test_an_invalid_media_type_is_octets() -> None:
    """What is no media type is told as application/octet-stream, never passed on."""
    message = read(b'Content-Type: im<ag>e/"png\nContent-Disposition: attachment; filename=x\n\nhello')
    assert message.attachments[0].media_type == "application/octet-stream"
