"""Which parts are the body, and what it says."""

from __future__ import annotations

import pytest

from mailkeep_message import Limits, TextSource, preview, read


def multipart(kind: str, *parts: bytes) -> bytes:
    body = b"".join(b"--seam\n" + part + b"\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary=seam\n\n".encode() + body + b"--seam--\n"


def text(words: bytes, kind: bytes = b"plain", extra: bytes = b"") -> bytes:
    return b"Content-Type: text/" + kind + b"\n" + extra + b"\n" + words


def nested(outer: bytes) -> bytes:
    return outer.replace(b"seam", b"inner")


@pytest.mark.spec("SYNC-106")
def test_plain_text_is_preferred_to_html() -> None:
    """Both are in the alternative; the HTML source is kept beside."""
    message = read(multipart("alternative", text(b"plain words"), text(b"<p>html words", b"html")))
    assert (message.body.text, message.body.source) == ("plain words", TextSource.PlainTextBodyPart)
    assert message.body.html == "<p>html words"
    assert message.attachments == ()


@pytest.mark.case("133")
@pytest.mark.spec("SYNC-106")
def test_html_alone_is_turned_into_text() -> None:
    """Not an empty body."""
    message = read(text(b"<h1>Hello</h1><p>you &amp; me", b"html"))
    assert (message.body.text, message.body.source) == ("Hello\n\nyou & me", TextSource.DerivedFromHtmlBodyPart)


@pytest.mark.spec("SYNC-106")
@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b" \r\n\t\n",
        b"View this email in your browser: https://news.example/x",
        b"Your mail program does not support HTML messages.",
        b"This message is in HTML.",
        b"Diese E-Mail im Browser ansehen",
    ],
)
def test_an_empty_or_pointing_plain_part_gives_way_to_html(plain: bytes) -> None:
    """A stub does not hide the full body ("Beyond" 6)."""
    message = read(multipart("alternative", text(plain), text(b"<p>" + b"the whole newsletter " * 20, b"html")))
    assert message.body.source is TextSource.DerivedFromHtmlBodyPart
    assert message.body.text.startswith("the whole newsletter")


@pytest.mark.spec("SYNC-106")
def test_a_short_plain_part_that_says_as_much_as_the_html_stays() -> None:
    """Also when it speaks of a browser."""
    words = b"Please view it in your browser tomorrow."
    message = read(multipart("alternative", text(words), text(b"<p>" + words, b"html")))
    assert message.body.source is TextSource.PlainTextBodyPart


@pytest.mark.spec("SYNC-106")
def test_sources_of_text_are_told() -> None:
    """Nothing textual, and an encrypted body."""
    assert read(b"Content-Type: image/png\n\nx").body.source is TextSource.NoTextualBodyPart
    encrypted = (
        b"Content-Type: multipart/encrypted; protocol=application/pgp-encrypted; boundary=b\n\n--b\n\nx\n--b--\n"
    )
    assert read(encrypted).body.source is TextSource.EncryptedBody
    enveloped = b"Content-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nx"
    assert read(enveloped).body.source is TextSource.EncryptedBody


@pytest.mark.spec("SYNC-100")
def test_the_body_of_a_mixed_is_its_first_child() -> None:
    """A second text is a file, also without a name."""
    message = read(multipart("mixed", text(b"one"), text(b"two")))
    assert message.body.text == "one"
    assert [(a.media_type, a.size_octets) for a in message.attachments] == [("text/plain", 3)]


@pytest.mark.spec("SYNC-100")
def test_the_body_of_a_related_is_its_start_or_first_child() -> None:
    """The start parameter names a Content-ID."""
    picture = b"Content-Type: text/html\nContent-ID: <one>\n\n<p>first"
    root = b"Content-Type: text/html\nContent-ID: <two>\n\n<p>second"
    assert read(multipart("related", picture, root)).body.text == "first"
    chosen = multipart("related", picture, root).replace(b"boundary=seam", b'boundary=seam; start="<two>"', 1)
    assert read(chosen).body.text == "second"


@pytest.mark.spec("SYNC-100", "SYNC-106")
def test_every_member_of_an_alternative_is_body() -> None:
    """Nested branches too; several texts are joined by a newline."""
    inner = nested(multipart("related", text(b"<p>three", b"html"), b"Content-Type: image/png\n\nx"))
    message = read(multipart("alternative", text(b"one"), text(b"two"), inner))
    assert message.body.text_before_trimming == "one\ntwo"
    assert message.body.html == "<p>three"
    assert [a.media_type for a in message.attachments] == ["image/png"]


def test_when_a_picture_comes_first_the_text_behind_it_is_found() -> None:
    """Without any text on the body branch the first unnamed inline text is the body."""
    message = read(multipart("mixed", b"Content-Type: image/png\n\nx", text(b"words"), text(b"more")))
    assert message.body.text == "words"
    assert [a.media_type for a in message.attachments] == ["image/png", "text/plain"]


def test_a_text_marked_as_attachment_is_no_body() -> None:
    """But a lone nameless text is what the sender wrote."""
    marked = b"Content-Disposition: attachment; filename=a.txt\n"
    message = read(multipart("mixed", text(b"file", b"plain", marked), text(b"words")))
    assert (message.body.text, [a.file_name for a in message.attachments]) == ("words", ["a.txt"])
    assert read(text(b"words", b"plain", b"Content-Disposition: attachment\n")).body.text == "words"
    assert read(text(b"words", b"plain", marked)).body.source is TextSource.NoTextualBodyPart


@pytest.mark.spec("SYNC-106")
def test_attachments_are_never_opened_for_text() -> None:
    """No word of a file gets into the body."""
    message = read(multipart("mixed", text(b"words"), text(b"secret", b"plain", b"Content-Disposition: attachment\n")))
    assert "secret" not in message.body.text_before_trimming


@pytest.mark.spec("SYNC-107")
def test_line_ends_become_lf_and_controls_vanish() -> None:
    """LF and TAB stay; CR, CRLF, CRCRLF are one LF; C0, DEL, C1 and surrogates are gone."""
    message = read(
        b"Content-Type: text/plain; charset=utf-8\n\na\rb\r\nc\r\r\nd\te\x00f\x1bg\x7fh\xc2\x85i\x0bj\xed\xa0\x80"
    )
    body = message.body.text_before_trimming
    assert body.startswith("a\nb\nc\nd\tefghij")
    assert not any("\ud800" <= c <= "\udfff" for c in body)


@pytest.mark.spec("SYNC-107")
@pytest.mark.parametrize("kind", [b"plain", b"html"])
def test_the_text_is_bounded_while_it_is_read(kind: bytes) -> None:
    """The bound counts characters, the cut is told, and the original length too."""
    message = read(text(b"word " * 1000, kind), limits=Limits(max_text_characters=100))
    assert len(message.body.text_before_trimming) == 100
    assert message.body.was_cut
    assert message.body.original_character_count > 100
    whole = read(text(b"word", kind), limits=Limits(max_text_characters=100)).body
    assert (whole.was_cut, whole.original_character_count) == (False, 4)


@pytest.mark.spec("SYNC-107")
def test_the_html_source_is_bounded() -> None:
    """Four times the text bound."""
    body = read(text(b"<p>" * 5000, b"html"), limits=Limits(max_text_characters=100)).body
    assert body.html is not None
    assert len(body.html) == 400


def test_a_text_part_of_megabytes_costs_its_bound() -> None:
    """Thirty megabytes of text are cut before they are decoded as text."""
    message = read(text(b"\xc3\xa4" * 15_000_000, b"plain; charset=utf-8"))
    assert message.body.text_before_trimming == "ä" * 100_000
    assert message.parts[0].size_decoded_octets == 30_000_000


@pytest.mark.case("134")
def test_html_under_a_plain_label_is_read_as_html() -> None:
    """The reader sees words, not markup."""
    assert read(text(b"<!DOCTYPE html><html><body><p>Hello</p></body></html>")).body.text == "Hello"


@pytest.mark.case("134")
def test_a_preview_is_readable_text() -> None:
    """No tracking links, rules or quoted lines; one line, cut at a word."""
    words = (
        "> old\nBig sale ( https://t.example/c?id=1 ) today\n-------\nhttps://t.example/"
        + "x" * 60
        + "\n[https://a.b]\nonly"
    )
    assert preview(words) == "Big sale today only"
    assert preview("one two three four", max_characters=10) == "one two…"
    assert preview("> only a quote") == "> only a quote"
