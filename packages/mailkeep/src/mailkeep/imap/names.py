"""Folder names between the server's octets and people's eyes (RFC 3501 §5.1.3, modified UTF-7).

The key of a folder is always what the server sent, octet for octet, held as latin-1 text: servers were seen that encode
names wrongly (an ampersand inside a base64 run), and a decoded name encoded again then names nothing. Decoding serves
display only, never fails, and only `&` shifts: `+` is an ordinary character here.
"""

from __future__ import annotations

import binascii
import re

_SHIFTED = re.compile(r"&([^-]*)(-|$)")


def display_name(path: str) -> str:
    """The name as people read it. What does not decode is shown as it stands; control characters are dropped."""
    shown = _printable(_SHIFTED.sub(_decode_run, path) if path.isascii() else _eight_bit(path))
    return shown if shown.strip() else path


def key_of_octets(octets: bytes) -> str:
    """The server's octets as the text by which a folder is known; `octets_of_key` gives them back unchanged."""
    return octets.decode("latin-1")


def octets_of_key(path: str) -> bytes:
    """The octets a key stands for. Text that no server can have sent (beyond latin-1) is encoded as a name."""
    try:
        return path.encode("latin-1")
    except UnicodeEncodeError:
        return encode_name(path)


def encode_name(text: str) -> bytes:
    """Modified UTF-7 of a name a person typed. The one place that encodes; never applied to a server's own octets."""
    out = bytearray()
    pending: list[str] = []

    def flush() -> None:
        if pending:
            run = binascii.b2a_base64("".join(pending).encode("utf-16-be", "surrogatepass"), newline=False)
            out.extend(b"&" + run.rstrip(b"=").replace(b"/", b",") + b"-")
            pending.clear()

    for character in text:
        if " " <= character <= "~":
            flush()
            out.extend(b"&-" if character == "&" else character.encode("ascii"))
        else:
            pending.append(character)
    flush()
    return bytes(out)


def quote(octets: bytes) -> bytes | None:
    """An IMAP quoted string, with quotes and backslashes escaped; None when only a literal can carry the octets."""
    if any(octet < 32 or octet > 126 for octet in octets):
        return None
    return b'"' + octets.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _decode_run(match: re.Match[str]) -> str:
    run = match[1]
    if not run:
        return "&"
    padded = run.replace(",", "/") + "=" * (-len(run) % 4)
    try:
        return binascii.a2b_base64(padded, strict_mode=True).decode("utf-16-be")
    except (binascii.Error, ValueError):
        return match.group()


def _eight_bit(path: str) -> str:
    octets = octets_of_key(path)
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return path


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
