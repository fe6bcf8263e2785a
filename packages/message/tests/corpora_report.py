"""How far the reader agrees with the expected results of the public mail corpora.

Run as a command it prints one line per source and aspect, and with `--all` one per deviation; the integration test asks
`compare_all`. A file agrees when every aspect of it that its source gives a result for agrees. No mail text is printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mailkeep_message as reader
from mailkeep_message.body import part_text
from mailkeep_message.dates import parse_date, received_date
from mailkeep_message.html import html_to_text
from mailkeep_message.identifiers import identifiers
from mailkeep_message.model import Limits
from mailkeep_message.params import parse_value
from mailkeep_message.structure import EMBEDDED, Entity, Structure, normalized, scan
from mailkeep_message.text import clean_body
from mailkeep_message.transfer import decode_transfer
from mailkeep_message.trim import trim
from mailkeep_message.words import header_text

TARGET = 0.95
Json = Any


@dataclass(frozen=True)
class Finding:
    """One aspect of one corpus file; `note` names what differs without quoting mail."""

    source: str
    file: str
    aspect: str
    agrees: bool
    note: str = ""


def corpora_folder() -> Path | None:
    """The corpora: the variable MAILKEEP_CORPORA, else `../shared/corpora` beside the repository."""
    named = os.environ.get("MAILKEEP_CORPORA")
    folder = Path(named) if named else Path(__file__).resolve().parents[4] / "shared" / "corpora"
    return folder if (folder / "index.tsv").is_file() else None


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", re.sub(r"https?://\S+|mailto:\S+", " ", text)))


def _likeness(ours: str, theirs: str) -> float:
    """Share of the words of both texts that they have in common, 1.0 for two empty ones."""
    left, right = _words(ours), _words(theirs)
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


def _squeezed(text: str | None) -> str:
    return " ".join((text or "").split())


def _same_text(ours: str, theirs: str) -> bool:
    return _squeezed(ours) == _squeezed(clean_body(theirs))


# --- stalwartlabs-mail-parser ------------------------------------------------------------------------------------


def _stalwart_messages(folder: Path) -> Iterator[Finding]:
    for path in sorted(folder.glob("*/*.json")):
        if path.parent.name == "headers":
            continue
        octets = path.with_suffix(".eml").read_bytes()
        expected = json.loads(path.read_text())
        bodies = [part["offset_body"] for part in expected["parts"]]
        if bodies != [entity.body_start for entity in scan(normalized(octets), Limits()).entities]:
            octets = octets.replace(b"\r\n", b"\n")  # some offsets were taken with LF line ends
        yield from _stalwart_message(f"{path.parent.name}/{path.stem}", octets, 0, expected)


def _stalwart_message(name: str, octets: bytes, base: int, expected: Json) -> Iterator[Finding]:
    source = "stalwartlabs-mail-parser"
    structure = scan(normalized(octets), Limits())
    message = reader.read(octets)
    ours = structure.entities
    theirs = expected["parts"]
    shape_ours = [(_kind(e), e.body_start + base) for e in ours]
    shape_theirs = [(_stalwart_kind(p), p["offset_body"]) for p in theirs]
    same = shape_ours == shape_theirs
    yield Finding(source, name, "structure", same, "" if same else f"{shape_ours} / {shape_theirs}")
    yield from _stalwart_header(source, name, message, theirs[0]["headers"])
    if not same:
        return
    for index, (entity, part) in enumerate(zip(ours, theirs, strict=True)):
        kind, body = next(iter(part["body"].items()))
        if kind in ("Text", "Html"):
            agrees = _same_text(part_text(structure, entity, Limits())[0], body)
            yield Finding(source, name, "text", agrees, "" if agrees else f"part {index}")
        elif kind in ("Binary", "InlineBinary"):
            ours_octets = decode_transfer(octets[entity.body_start : entity.end], entity.encoding)[0]
            agrees = ours_octets.strip() == bytes(body).strip()
            yield Finding(source, name, "payload", agrees, "" if agrees else f"part {index}")
        elif kind == "Message" and entity.encoding in ("", "7bit", "8bit", "binary"):
            nested = octets[entity.body_start : entity.end]
            yield from _stalwart_message(f"{name}#{index}", nested, base + entity.body_start, body)
        names = _stalwart_names(part["headers"])
        if names is not None:
            mine = entity.disposition.parameters.get("filename"), entity.parameters.get("name")
            yield Finding(source, name, "names", mine == names, f"part {index}")


def _kind(entity: Entity) -> str:
    if entity.is_multipart:
        return "multipart"
    return "message" if entity.media_type in EMBEDDED else "leaf"


def _stalwart_kind(part: Json) -> str:
    kind = next(iter(part["body"]))
    return {"Multipart": "multipart", "Message": "message"}.get(kind, "leaf")


def _stalwart_names(headers: Json) -> tuple[str | None, str | None] | None:
    found: dict[str, str | None] = {"content_disposition": None, "content_type": None}
    for header in headers:
        if header["name"] in ("content_disposition", "content_type") and "ContentType" in header["value"]:
            for attribute in header["value"]["ContentType"]["attributes"] or []:
                wanted = "filename" if header["name"] == "content_disposition" else "name"
                if attribute["name"] == wanted:
                    found[header["name"]] = attribute["value"]
    return (found["content_disposition"], found["content_type"]) if any(found.values()) else None


def _stalwart_header(source: str, name: str, message: reader.Message, headers: Json) -> Iterator[Finding]:
    roles = {"from": message.from_, "to": message.to, "cc": message.cc, "reply_to": message.reply_to}
    for header in headers:
        field, value = header["name"], header["value"]
        if not isinstance(field, str) or not isinstance(value, dict):
            continue
        if field in roles and "Address" in value:
            agrees = _pairs(roles[field]) == _stalwart_pairs(value["Address"])
            yield Finding(source, name, "addresses", agrees, field)
        elif field == "subject" and "Text" in value:
            agrees = _squeezed(message.subject) == _squeezed(value["Text"])
            yield Finding(source, name, "subject", agrees)
        elif field == "date" and "DateTime" in value:
            yield Finding(source, name, "date", message.sent_at == _stalwart_date(value["DateTime"]))
        elif field == "message_id" and "Text" in value:
            yield Finding(source, name, "identifier", message.message_id == value["Text"])


def _pairs(addresses: tuple[reader.Address, ...]) -> list[tuple[str | None, str]]:
    return [(_squeezed(a.display_name) or None, a.address) for a in addresses]


def _stalwart_pairs(value: Json) -> list[tuple[str | None, str]]:
    members = value.get("List")
    if members is None:
        members = [member for group in value["Group"] for member in group["addresses"]]
    # Names without a domain are no addresses to us (SYNC-95), nor are the URLs of list headers.
    return [(_squeezed(m["name"]) or None, m["address"]) for m in members if _is_mailbox(m["address"])]


def _is_mailbox(address: str | None) -> bool:
    return bool(address and "@" in address and ":" not in address.rpartition("@")[0].lstrip("@"))


def _stalwart_date(value: Json) -> datetime | None:
    sign = "-" if value["tz_before_gmt"] else "+"
    try:
        return datetime.fromisoformat(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}".format(**value)
            + f"{sign}{value['tz_hour']:02}:{value['tz_minute']:02}"
        ).astimezone(UTC)
    except ValueError:
        return None


def _stalwart_headers(folder: Path) -> Iterator[Finding]:
    checks: dict[str, Callable[[bytes, Json], tuple[object, object]]] = {
        "address": lambda raw, want: (_pairs(_addresses(raw)), _stalwart_pairs(want)),
        "content_type": lambda raw, want: (_content_type(raw), _stalwart_content_type(want)),
        "date": lambda raw, want: ((received_date if b";" in raw else parse_date)(raw), _stalwart_date(want)),
        "id": lambda raw, want: (list(identifiers([raw], maximum=256)), want),
        "received": lambda raw, want: (received_date(raw), _stalwart_date(want["date"]) if want.get("date") else None),
        "unstructured": lambda raw, want: (_squeezed(header_text(raw)), _squeezed(want)),
    }
    for kind, check in checks.items():
        for index, case in enumerate(json.loads((folder / "headers" / f"{kind}.json").read_text())):
            raw = _one_field(case["header"])
            expected = case["expected"]
            if expected is None or (kind == "address" and not isinstance(expected, dict)):
                continue
            ours, theirs = check(raw, expected)
            note = "" if ours == theirs else f"{ours!r} / {theirs!r}"
            yield Finding("stalwartlabs-mail-parser headers", f"{kind}[{index}]", kind, ours == theirs, note)


def _one_field(text: str) -> bytes:
    """The value of one field: what follows an unfolded line end is another field."""
    return re.split(rb"\r?\n(?![ \t])", text.encode())[0]


def _addresses(raw: bytes) -> tuple[reader.Address, ...]:
    return reader.read_headers(b"From: " + raw + b"\n\n").from_


def _content_type(raw: bytes) -> tuple[str, dict[str, str]]:
    value, parameters = parse_value(raw)
    kind = value.split("(")[0].rstrip("/")
    return kind if "/" in kind else "text/plain", {
        name: text.strip() for name, text in parameters.items() if text.strip()
    }


def _stalwart_content_type(want: Json) -> tuple[str, dict[str, str]]:
    """A type without a subtype says nothing (RFC 2045 §5.2); the language of a parameter is not kept by us."""
    kind = f"{want['c_type']}/{want['c_subtype']}".lower() if want["c_subtype"] else "text/plain"
    pairs = [(name.lower(), value.strip()) for name, value in want["attributes"] or []]
    return kind, {name: value for name, value in pairs if value and not name.endswith("-language")}


# --- mime4j and MIME-tools: event trees ---------------------------------------------------------------------------

Tree = tuple[str, tuple[Any, ...]]


def _our_tree(octets: bytes, *, depth: int = 0) -> Tree:
    structure = scan(normalized(octets), Limits())
    return ("message", (_entity_tree(structure, structure.root, depth),))


def _entity_tree(structure: Structure, entity: Entity, depth: int) -> Tree:
    if entity.is_multipart or entity.raw_type.startswith("multipart/"):
        return ("multipart", tuple(_entity_tree(structure, child, depth) for child in entity.children))
    if entity.media_type in EMBEDDED and depth < 20:
        inner = decode_transfer(structure.octets[entity.body_start : entity.end], entity.encoding)[0]
        return _our_tree(inner, depth=depth + 1)
    return ("leaf", ())


def _their_tree(element: ElementTree.Element) -> Tree:
    for child in element:
        if child.tag == "multipart":
            return ("multipart", tuple(_their_tree(part) for part in child if part.tag == "body-part"))
        if child.tag == "message":
            return ("message", (_their_tree(child),))
    return ("leaf", ())


def _field_names(octets: bytes) -> list[str]:
    return [field.name.lower() for field in reader.read(octets).headers]


def _event_trees(source: str) -> Callable[[Path], Iterator[Finding]]:
    def compare(folder: Path) -> Iterator[Finding]:
        for path in sorted(folder.glob("**/*_decoded.xml")):
            name = path.name.removesuffix("_decoded.xml")
            octets = path.with_name(name + ".msg").read_bytes()
            root = ElementTree.parse(path).getroot()
            ours, theirs = _our_tree(octets), ("message", (_their_tree(root),))
            yield Finding(source, name, "structure", ours == theirs, "" if ours == theirs else f"{ours} / {theirs}")
            header = root.find("header")
            fields = [(f.text or "").strip() for f in header] if header is not None else []
            names = [field.partition(":")[0].strip().lower() for field in fields]
            mine = _field_names(octets)
            yield Finding(source, name, "fields", mine == names, "" if mine == names else f"{len(mine)} / {len(names)}")
            if ours == theirs:
                yield from _decoded_bodies(source, name, octets, path)

    return compare


def _decoded_bodies(source: str, name: str, octets: bytes, path: Path) -> Iterator[Finding]:
    for body in sorted(path.parent.glob(f"{name}_decoded_1*")):
        steps = [int(step) for step in body.stem.removeprefix(f"{name}_decoded_").split("_")][1:]
        mine = _body_at(octets, steps)
        theirs = body.read_bytes()
        agrees = mine is not None and mine.split() == theirs.split()
        yield Finding(source, name, "payload", agrees, body.suffix + str(steps))


def _body_at(octets: bytes, steps: list[int]) -> bytes | None:
    """The decoded octets of the part at a path of 1-based child numbers, through embedded messages."""
    structure = scan(normalized(octets), Limits())
    entity = structure.root
    while True:
        if entity.media_type in EMBEDDED and not entity.is_multipart and steps:
            inner = decode_transfer(octets[entity.body_start : entity.end], entity.encoding)[0]
            return _body_at(inner, steps[1:])
        if not steps:
            return decode_transfer(octets[entity.body_start : entity.end], entity.encoding)[0]
        if steps[0] > len(entity.children):
            return None
        entity, steps = entity.children[steps[0] - 1], steps[1:]


# --- mailcore2 ----------------------------------------------------------------------------------------------------


def _mailcore_summary(folder: Path) -> Iterator[Finding]:
    source = "mailcore-mailcore2 summary"
    for path in sorted((folder / "summary" / "input").glob("*.eml")):
        expected = (folder / "summary" / "output" / f"{path.stem}.txt").read_text(errors="replace")
        head, _, text = expected.partition("\n\n")
        message = reader.read(path.read_bytes())
        fields = dict(line.split(": ", 1) for line in head.split("\n") if ": " in line)
        if "Subject" in fields:
            agrees = _base_subject(message.subject) == _base_subject(fields["Subject"])
            yield Finding(source, path.name, "subject", agrees)
        if "From" in fields and message.from_:
            first = message.from_[0]
            shown = f"{first.display_name} <{first.address}>" if first.display_name else first.address
            yield Finding(source, path.name, "addresses", _squeezed(shown) == _squeezed(fields["From"]), "from")
        # The expected text was made from the HTML part where there is one.
        html = message.body.html
        shown = html_to_text(html, maximum=1_000_000) if html is not None else message.body.text_before_trimming
        likeness = _likeness(shown, text)
        yield Finding(source, path.name, "text", likeness >= 0.9, f"{likeness:.2f}")


def _base_subject(subject: str | None) -> str:
    """The expected results leave "Re:" out and name a missing subject."""
    return re.sub(r"^(?:Re: )+", "", _squeezed(subject)) or "No Subject"


def _mailcore_parser(folder: Path) -> Iterator[Finding]:
    source = "mailcore-mailcore2 parser"
    for path in sorted(p for p in (folder / "parser" / "output").glob("**/*") if p.is_file()):
        relative = path.relative_to(folder / "parser" / "output")
        octets = (folder / "parser" / "input" / relative).read_bytes()
        expected = json.loads(path.read_text())
        header = expected["header"]
        message = reader.read(octets)
        name = str(relative)
        structure = scan(normalized(octets), Limits())
        mine = _mailcore_ours(structure, structure.root)
        theirs = _mailcore_tree(expected["mainPart"])
        yield Finding(source, name, "structure", mine == theirs, "" if mine == theirs else f"{mine} / {theirs}")
        yield Finding(source, name, "subject", _squeezed(message.subject) == _squeezed(header.get("subject")))
        if "messageID" in header and "message-id" in _field_names(octets):
            yield Finding(source, name, "identifier", message.message_id == header["messageID"])
        for role, ours in (("to", message.to), ("cc", message.cc)):
            items = header.get(role, {}).get("items", [])
            yield Finding(source, name, "addresses", _same_addresses(ours, items), role)
        if "from" in header:
            yield Finding(source, name, "addresses", _same_addresses(message.from_[:1], [header["from"]]), "from")
        if "date" in header and "date" in _field_names(octets):
            stamp = int(message.sent_at.timestamp()) if message.sent_at else None
            yield Finding(source, name, "date", stamp == int(header["date"]), f"{stamp} / {header['date']}")
        if "references" in header:
            yield Finding(source, name, "references", list(message.references) == header["references"])


def _same_addresses(ours: tuple[reader.Address, ...], items: list[Json]) -> bool:
    """Names in comments are read by us only, and a name without a domain is no address to us."""
    wanted = [item for item in items if _is_mailbox(item.get("mailbox"))]
    return [a.address for a in ours] == [item["mailbox"] for item in wanted] and all(
        "displayName" not in item or _squeezed(item["displayName"]) == _squeezed(a.display_name)
        for a, item in zip(ours, wanted, strict=True)
    )


def _mailcore_tree(part: Json) -> Any:
    if part["partType"] == "single":
        return (part.get("mimeType", "").lower(), part.get("filename"))
    if part["partType"] == "message":
        return "message/rfc822"
    return [_mailcore_tree(child) for child in part.get("parts", {}).get("items", [])]


def _mailcore_ours(structure: Structure, entity: Entity) -> Any:
    if entity.is_multipart:
        return [_mailcore_ours(structure, child) for child in entity.children]
    if entity.media_type == "message/rfc822":
        return entity.media_type
    return (entity.media_type, entity.disposition.parameters.get("filename") or entity.parameters.get("name"))


# --- MimeKit ------------------------------------------------------------------------------------------------------


def _mimekit_offsets(folder: Path) -> Iterator[Finding]:
    """Byte offsets of every part of the messages in an mbox, with LF and with CRLF line ends."""
    for path in sorted((folder / "mbox").glob("*-offsets.json")):
        octets = (folder / "mbox" / f"{path.name.partition('.')[0]}.mbox.txt").read_bytes().replace(b"\r\n", b"\n")
        if ".dos-" in path.name:
            octets = octets.replace(b"\n", b"\r\n")
        for index, expected in enumerate(json.loads(path.read_text())):
            begin = expected["beginOffset"]
            parts = reader.read(octets[begin : expected["endOffset"]]).parts
            # The end of a multipart is a matter of taste: with its epilogue or without.
            mine = [
                (
                    p.media_type,
                    begin + p.offset_header,
                    begin + p.offset_body,
                    None if p.is_multipart else p.size_raw_octets,
                )
                for p in parts
            ]
            theirs = _mimekit_flat(expected["body"])
            note = "" if mine == theirs else f"{mine} / {theirs}"
            yield Finding("jstedfast-mimekit mbox", f"{path.name}[{index}]", "offsets", mine == theirs, note)


def _mimekit_flat(part: Json) -> list[tuple[str, int, int, int | None]]:
    children = part.get("children")
    own = (part["mimeType"], part["beginOffset"], part["headersEndOffset"], None if children else part["octets"])
    return [own, *(row for child in children or [] for row in _mimekit_flat(child))]


# --- Apache James -------------------------------------------------------------------------------------------------


def _james(folder: Path) -> Iterator[Finding]:
    source = "apache-james-project"
    for path in sorted(folder.glob("**/*.json")):
        expected = json.loads(path.read_text())
        eml = path.with_suffix(".eml")
        if not eml.is_file():
            eml = path.with_name(re.sub(r"Without\w*$", "", path.stem) + ".eml")
        if not eml.is_file() or not isinstance(expected, dict) or "from" not in expected:
            continue
        name = str(path.relative_to(folder))
        message = reader.read(eml.read_bytes())
        for role, ours in (("from", message.from_), ("to", message.to), ("cc", message.cc), ("bcc", message.bcc)):
            wanted = [item["address"] for item in expected[role]]
            mine = [a.address for a in ours]
            yield Finding(source, name, "addresses", mine == [w for w in wanted if "@" in w], role)
        # The expected subject is split at brackets for its index: compare the words.
        subject = " ".join(expected["subject"])
        yield Finding(source, name, "subject", _words(message.subject or "") == _words(subject))
        if expected.get("textBody") and message.body.source is reader.TextSource.PlainTextBodyPart:
            likeness = _likeness(message.body.text_before_trimming, expected["textBody"])
            yield Finding(source, name, "text", likeness >= 0.95, f"{likeness:.2f}")
        if expected.get("attachments") and "Without" not in path.stem:
            wanted_names = {a["fileName"] for a in expected["attachments"] if a.get("fileName")}
            have = {a.file_name for a in (*message.attachments, *message.inline_resources)}
            yield Finding(source, name, "names", wanted_names <= have, f"{len(wanted_names - have)} missing")


# --- reply trimming -----------------------------------------------------------------------------------------------


def _discourse(folder: Path) -> Iterator[Finding]:
    for path in sorted((folder / "emails").glob("*.txt")):
        wanted = (folder / "trimmed" / path.name).read_text()
        ours = trim(clean_body(path.read_text()))
        same = _squeezed(ours) == _squeezed(wanted)
        note = "" if same else f"{len(ours)} characters / {len(wanted)}"
        yield Finding("discourse-email-reply-trimmer", path.name, "trimmed", same, note)


def _talon(folder: Path) -> Iterator[Finding]:
    source = "mailgun-talon"
    for path in sorted((folder / "standard_replies").glob("*.eml")):
        answer = path.with_name(path.stem + "_reply_text")
        wanted = answer.read_text() if answer.is_file() else "Hello"
        text = reader.read(path.read_bytes()).body.text
        yield Finding(source, path.name, "trimmed", _squeezed(text) == _squeezed(wanted), f"{len(text)} characters")
    for path in sorted((folder / "html_replies").glob("*.html")):
        octets = b"Content-Type: text/html; charset=utf-8\n\n" + path.read_bytes()
        text = reader.read(octets).body.text
        agrees = _squeezed(text) == "Hi. I am fine. Thanks, Alex"
        yield Finding(source, path.name, "trimmed html", agrees, f"{len(text)} characters")


SOURCES: dict[str, list[Callable[[Path], Iterator[Finding]]]] = {
    "stalwartlabs-mail-parser": [_stalwart_messages, _stalwart_headers],
    "apache-james-mime4j": [_event_trees("apache-james-mime4j")],
    "mime-tools-testmsgs": [_event_trees("mime-tools-testmsgs")],
    "mailcore-mailcore2": [_mailcore_summary, _mailcore_parser],
    "apache-james-project": [_james],
    "jstedfast-mimekit": [_mimekit_offsets],
    "discourse-email-reply-trimmer": [_discourse],
    "mailgun-talon": [_talon],
}


def compare_all(folder: Path) -> list[Finding]:
    """Compare every source that has expected results."""
    return [finding for name, checks in SOURCES.items() for check in checks for finding in check(folder / name)]


def agreement(findings: list[Finding]) -> dict[str, tuple[int, int]]:
    """Per source: how many files agree in every aspect, and how many there are."""
    files: dict[tuple[str, str], bool] = {}
    for finding in findings:
        key = finding.source, finding.file.partition("#")[0]
        files[key] = files.get(key, True) and finding.agrees
    totals: dict[str, tuple[int, int]] = {}
    for (source, _), agrees in files.items():
        good, count = totals.get(source, (0, 0))
        totals[source] = good + agrees, count + 1
    return totals


def main(arguments: list[str]) -> int:
    """Print the agreement; `--all` adds each deviation, a further word limits it to sources containing the word."""
    folder = corpora_folder()
    if folder is None:
        print("corpora not found: set MAILKEEP_CORPORA", file=sys.stderr)
        return 2
    findings = compare_all(folder)
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    if "--all" in arguments:
        for finding in findings:
            if not finding.agrees and (not wanted or wanted[0] in finding.source):
                print(f"{finding.source}\t{finding.file}\t{finding.aspect}\t{finding.note[:600]}")
    aspects: dict[tuple[str, str], list[int]] = {}
    for finding in findings:
        tally = aspects.setdefault((finding.source, finding.aspect), [0, 0])
        tally[0] += finding.agrees
        tally[1] += 1
    for (source, aspect), (good, count) in aspects.items():
        print(f"{source:36} {aspect:14} {good:5} of {count:5}")
    totals = agreement(findings)
    for source, (good, count) in totals.items():
        print(f"{source:36} {'files':14} {good:5} of {count:5}  {good / count:.1%}")
    good, count = (sum(column) for column in zip(*totals.values(), strict=True))
    print(f"{'all':36} {'files':14} {good:5} of {count:5}  {good / count:.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
