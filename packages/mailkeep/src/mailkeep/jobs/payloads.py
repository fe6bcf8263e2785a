"""Payloads as JSON documents: references only, bounded, and read back strictly (JOB-8, JOB-11, JOB-26)."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from mailkeep.config import JobType
from mailkeep.errors import JobPayloadTooLarge
from mailkeep.jobs.model import Payload

MAX_OCTETS: Final = 4096
PAYLOADS: Final[Mapping[JobType, type[Payload]]] = {kind.JOB_TYPE: kind for kind in get_args(Payload)}


def encode(payload: Payload) -> str:
    """The document of a payload. Raises JobPayloadTooLarge: size is the alarm for content being copied in."""
    text = json.dumps(asdict(payload), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_OCTETS:
        raise JobPayloadTooLarge(f"the payload of a {payload.JOB_TYPE.value} job is larger than {MAX_OCTETS} octets")
    return text


def decode(job_type: JobType, document: object) -> Payload:
    """The payload of a stored document. Raises ValueError for one that is not exactly its type's."""
    kind = PAYLOADS[job_type]
    if not isinstance(document, dict):
        raise ValueError("the payload is no object")  # noqa: TRY004  -- one error for every unreadable document
    hints = get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    if set(document) != names:
        raise ValueError("the payload has other fields than its type")
    for name, value in document.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"the payload's {name} is of another kind")
    return kind(**document)


def _fits(value: object, hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    return type(value) is hint
