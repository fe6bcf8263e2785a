"""Files: the five steps of sorting, names, sizes and payloads."""

from __future__ import annotations

import pytest

from mailkeep_message import Limits, TextSource, attached_files, attachment_payload, read


def multipart(kind: str, *parts: bytes) -> bytes:
    body = b"".join(b"--seam\n" + part + b"\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary=seam\n\n".encode() + body + b"--seam--\n"


TEXT = b"Content-Type: text/plain\n\nwords"
FILE = b"Content-Type: application/zip; name=a.zip\n\nPK"


@pytest.mark.spec("SYNC-98")
def test_encrypted_multiparts_with_a_protocol_show_no_child() -> None:
    """Encrypted, no file, no text; without protocol it is an ordinary multipart."""
    parts = (b"Content-Type: application/pgp-encrypted\n\nVersion: 1", b"Content-Type: application/octet-stream\n\nx")
    message = read(multipart("encrypted; protocol=application/pgp-encrypted", *parts))
    assert message.is_encrypted
    assert (message.attachments, message.body.source) == ((), TextSource.EncryptedBody)
    plain = read(multipart("encrypted", TEXT, FILE))
    assert not plain.is_encrypted
    assert plain.body.text == "words"
    assert [a.file_name for a in plain.attachments] == ["a.zip"]


@pytest.mark.spec("SYNC-98")
def test_signed_multiparts_show_their_first_child_and_skip_the_second() -> None:
    """Child 0 is the body, child 1 the signature, extras are files; without protocol nothing is skipped."""
    signature = b"Content-Type: text/x-made-up; name=sig.bin\n\nsig"
    message = read(multipart("signed; protocol=application/pgp-signature", TEXT, signature, FILE))
    assert message.carries_unverified_signature
    assert message.body.text == "words"
    assert [a.file_name for a in message.attachments] == ["a.zip"]
    plain = read(multipart("signed", TEXT, signature, FILE))
    assert not plain.carries_unverified_signature
    assert [a.file_name for a in plain.attachments] == ["sig.bin", "a.zip"]


@pytest.mark.spec("SYNC-99")
@pytest.mark.parametrize(
    "media_type", ["pkcs7-signature", "x-pkcs7-signature", "pgp-signature", "pgp-encrypted", "pkcs7-mime"]
)
def test_cryptographic_leaves_count_nowhere(media_type: str) -> None:
    """Neither file nor body."""
    message = read(multipart("mixed", TEXT, f"Content-Type: application/{media_type}; name=x.p7s\n\nx".encode()))
    assert (message.attachments, message.inline_resources) == ((), ())


@pytest.mark.spec("SYNC-99")
@pytest.mark.parametrize(
    ("kind", "encrypted", "signed"),
    [
        ("enveloped-data", True, False),
        ("authEnveloped-data", True, False),
        ("Signed-Data", False, True),
        ("certs-only", False, False),
    ],
)
def test_the_smime_type_marks_the_message(kind: str, encrypted: bool, signed: bool) -> None:
    """Enveloped means encrypted, signed-data a signature."""
    message = read(f"Content-Type: application/pkcs7-mime; smime-type={kind}\n\nx".encode())
    assert (message.is_encrypted, message.carries_unverified_signature) == (encrypted, signed)
    in_second_place = read(
        multipart("mixed", TEXT, b"Content-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nx")
    )
    assert in_second_place.is_encrypted
    assert in_second_place.body.source is TextSource.PlainTextBodyPart


RELATED = multipart(
    "related",
    b'Content-Type: text/html\n\n<img src="cid:pic%40x">',
    b"Content-Type: image/png\nContent-ID: <pic@x>\n\nPNG",
    b"Content-Type: image/gif\nContent-ID: <other@x>\n\nGIF89",
)


@pytest.mark.spec("SYNC-101")
def test_resources_the_html_refers_to_are_inline() -> None:
    """Others are attachments; so is a referenced one whose disposition says attachment."""
    message = read(RELATED)
    assert [(a.position, a.media_type, a.content_id) for a in message.attachments] == [(0, "image/gif", "other@x")]
    assert [(a.position, a.media_type, a.content_id) for a in message.inline_resources] == [(1, "image/png", "pic@x")]
    marked = RELATED.replace(b"Content-ID: <pic@x>", b"Content-ID: <pic@x>\nContent-Disposition: attachment")
    assert [a.media_type for a in read(marked).attachments] == ["image/png", "image/gif"]
    assert read(marked).inline_resources == ()


@pytest.mark.spec("SYNC-136")
def test_a_position_names_the_same_octets_in_both_calls() -> None:
    """The walk that lists is the walk that fetches; a position outside is a LookupError."""
    assert attachment_payload(RELATED, 0) == b"GIF89"
    assert attachment_payload(RELATED, 1) == b"PNG"
    for position in (2, -1, 10**9):
        with pytest.raises(LookupError):
            attachment_payload(RELATED, position)


@pytest.mark.spec("SYNC-102")
def test_sizes_are_decoded_octets() -> None:
    """Base64 and quoted-printable are counted after decoding."""
    base64 = b"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\naGVs\nbG8="
    quoted = b"Content-Type: text/csv; name=a.csv\nContent-Transfer-Encoding: quoted-printable\n\n=41=\n=42"
    message = read(multipart("mixed", TEXT, base64, quoted))
    assert [a.size_octets for a in message.attachments] == [5, 2]


@pytest.mark.spec("SYNC-102")
@pytest.mark.case("131")
@pytest.mark.parametrize(
    "part",
    [
        b"Content-Type: application/ms-tnef\n\nx",
        b"Content-Type: application/vnd.ms-tnef; name=x\n\nx",
        b"Content-Type: application/octet-stream; name=WINMAIL.DAT\n\nx",
    ],
)
def test_tnef_is_one_marked_file(part: bytes) -> None:
    """Unexpanded, its octets kept."""
    message = read(multipart("mixed", TEXT, part))
    assert message.contains_unexpanded_tnef_part
    assert [a.size_octets for a in message.attachments] == [1]
    assert not read(multipart("mixed", TEXT, FILE)).contains_unexpanded_tnef_part


@pytest.mark.spec("SYNC-102")
def test_an_embedded_message_in_base64_is_one_file() -> None:
    """Its decoded octets are the message."""
    octets = multipart(
        "mixed", TEXT, b"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogaQoKeA=="
    )
    assert [a.media_type for a in read(octets).attachments] == ["message/rfc822"]
    assert read(attachment_payload(octets, 0)).subject == "i"


@pytest.mark.spec("SYNC-103")
@pytest.mark.parametrize(
    ("raw", "expected", "altered"),
    [
        ("plan.pdf", "plan.pdf", False),
        ("../../etc/passwd", "passwd", True),
        ("C:\\\\dir\\\\plan.pdf", "plan.pdf", True),
        ("a:b:plan.pdf", "plan.pdf", True),
        ("plan.pdf. . .", "plan.pdf", True),
        ("  plan.pdf  ", "plan.pdf", True),
        ("in\u202evoice.fdp", "invoice.fdp", True),
        ("zero\u200bwidth\ufeff.pdf", "zerowidth.pdf", True),
        ("...", None, True),
        ("dir/", None, True),
        ("a" * 300 + ".pdf", "a" * 196 + ".pdf", True),
        ("a" * 300, "a" * 200, True),
        ("プラン.pdf", "プラン.pdf", False),
    ],
)
def test_file_names_are_made_safe_and_flagged(raw: str, expected: str | None, altered: bool) -> None:
    """Last part of a path, no control or format characters, no trailing dots, at most 200 characters."""
    octets = f'Content-Type: image/png\nContent-Disposition: attachment; filename="{raw}"\n\nx'.encode()
    attachment = read(octets).attachments[0]
    assert (attachment.file_name, attachment.was_file_name_normalized) == (expected, altered)


@pytest.mark.spec("SYNC-103")
def test_a_file_without_a_name_is_unnamed() -> None:
    """And not flagged."""
    attachment = read(b"Content-Type: image/png\n\nx").attachments[0]
    assert (attachment.file_name, attachment.was_file_name_normalized) == (None, False)


def test_attached_files_are_those_of_the_reading_with_octets_and_charset_labels() -> None:
    """One walk gives every attachment in order; inline pictures are none, and the first label stands in for a lack."""
    message = multipart(
        "mixed",
        b"Content-Type: text/plain; charset=koi8-r\n\nwords",
        b"Content-Type: text/csv; charset=gb2312; name=a.csv\nContent-Transfer-Encoding: base64\n\n1tDOxA==",
        FILE,
    )
    found = list(attached_files(message))
    assert [file.about for file in found] == list(read(message).attachments)
    assert [(file.charset, file.charset_hint, file.octets) for file in found] == [
        ("gb2312", "koi8-r", b"\xd6\xd0\xce\xc4"),
        (None, "koi8-r", b"PK"),
    ]
    assert [file.octets for file in found] == [attachment_payload(message, place) for place in (0, 1)]
    assert list(attached_files(message, limits=Limits(max_part_count=2))) == []
