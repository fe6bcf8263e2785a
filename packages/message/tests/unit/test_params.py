"""Parameters: RFC 2231, encoded words and run-on values."""

from __future__ import annotations

import pytest

from mailkeep_message import read
from mailkeep_message.params import parse_value


def name(disposition: str) -> str | None:
    octets = f"Content-Type: image/png\nContent-Disposition: attachment; {disposition}\n\nx".encode()
    return read(octets).attachments[0].file_name


@pytest.mark.case("128")
@pytest.mark.parametrize(
    ("disposition", "expected"),
    [
        ("filename*0*=UTF-8''%e2%82%ac; filename*1*=%e2%82%ac.pdf", "€€.pdf"),
        ("filename*0*=UTF-8''%e2%82; filename*1*=%ac; filename*2=.pdf", "€.pdf"),
        ("filename*1*=%ac.pdf; filename*0*=UTF-8''%e2%82", "€.pdf"),
        ("filename*0=plain; filename*1=%20name.pdf", "plain%20name.pdf"),
        ("filename*=iso-8859-1'de'%fcber.pdf", "über.pdf"),
        ("filename*=%fcber.pdf", "über.pdf"),
        ("filename*=UTF-8''%zz.pdf", "%zz.pdf"),
        ("filename=old.pdf; filename*=UTF-8''n%C3%A9w.pdf", "néw.pdf"),
        ("filename*=bogus''%e2%82%ac.pdf", "€.pdf"),
    ],
)
def test_sections_are_joined_as_octets_and_decoded_once(disposition: str, expected: str) -> None:
    """Characters split between sections, any order, mixed encoded and plain sections."""
    assert name(disposition) == expected


@pytest.mark.case("130")
@pytest.mark.parametrize(
    ("disposition", "expected"),
    [
        ('filename*0="=?utf-8?Q?caf=C3"; filename*1="=A9.pdf?="', "café.pdf"),
        ('filename="=?utf-8?q?caf=C3=A9.pdf?="', "café.pdf"),
        ("filename==?utf-8?q?caf=C3=A9.pdf?=", "café.pdf"),
        ('filename="=?utf-8?q?ca=C3?=\r\n =?utf-8?q?=A9.pdf?="', "caé.pdf"),
    ],
)
def test_encoded_words_in_parameters_are_decoded_last(disposition: str, expected: str) -> None:
    """Sections first, words after."""
    assert name(disposition) == expected


@pytest.mark.parametrize(
    ("disposition", "expected"),
    [
        ("filename=my file (1).pdf", "my file (1).pdf"),
        ('filename="a;b.pdf"', "a;b.pdf"),
        (r'filename="a\"b.pdf"', 'a"b.pdf'),
        ('filename="unclosed.pdf', "unclosed.pdf"),
        ("FILENAME = x.pdf ;size=3", "x.pdf"),
        ("filename=x.pdf size=3", "x.pdf"),
        ("filename=first.pdf; filename=second.pdf", "first.pdf"),
        ("; ; filename=x.pdf", "x.pdf"),
    ],
)
def test_lenient_forms(disposition: str, expected: str) -> None:
    """Unquoted blanks, unclosed quotes, missing semicolons."""
    assert name(disposition) == expected


def test_raw_eight_bit_names_are_decoded() -> None:
    """UTF-8 or windows-1252 without any encoding."""
    for raw in ("ü.pdf".encode(), b"\xfc.pdf"):
        octets = b'Content-Type: image/png; name="' + raw + b'"\n\nx'
        assert read(octets).attachments[0].file_name == "ü.pdf"


def test_the_name_parameter_of_the_type_is_the_fallback() -> None:
    """Disposition first."""
    octets = b"Content-Type: image/png; name=b.png\nContent-Disposition: attachment; filename=a.png\n\nx"
    assert read(octets).attachments[0].file_name == "a.png"
    assert read(octets.replace(b"; filename=a.png", b"")).attachments[0].file_name == "b.png"


def test_endless_parameters_are_bounded() -> None:
    """At most 200 are read."""
    assert len(parse_value(b"a/b" + b"".join(b"; p%d=x" % n for n in range(10_000))).parameters) == 200
