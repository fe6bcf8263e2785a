"""The HTTP reference as Markdown, from the OpenAPI document. `python -m mailkeep_inbox.reference FILE` renews it.

The text between the two marks of the file is replaced; everything else there is somebody's writing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from mailkeep_inbox.openapi import mailbox_openapi
from mailkeep_inbox.vocabulary import MailboxVocabulary

BEGIN: Final = "<!-- the HTTP reference, written from the OpenAPI document: begin -->\n"
END: Final = "<!-- the HTTP reference: end -->\n"
_EXAMPLE: Final = MailboxVocabulary(("urgent", "normal", "low"), ("open", "done"))


def http_reference() -> str:
    """Every operation with its parameters, body and answers. The words of priority and status are an example host's."""
    document = mailbox_openapi(_EXAMPLE)
    parts = [
        _operation(method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return "\n".join(parts)


def renewed(page: str) -> str:
    """The page with the text between the marks replaced. Raises ValueError when it has no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the HTTP reference")
    return before + BEGIN + "\n" + http_reference() + "\n" + END + after


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    lines = [f"### {method} `{path}`", "", f"{operation['summary']}.", ""]
    parameters = operation.get("parameters", [])
    if parameters:
        lines += ["| Parameter | In | Value |", "|---|---|---|"]
        for each in parameters:
            name = f"`{each['name']}`" + (", required" if each["required"] and each["in"] == "query" else "")
            lines.append(f"| {name} | {each['in']} | {_shape(each['schema'])} |")
        lines.append("")
    if "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        lines += [f"Body: {_shape(content['schema'])}", ""]
    for status, answer in operation["responses"].items():
        ((media_type, content),) = answer["content"].items()
        is_json = media_type == "application/json" and status == "200"
        lines.append(f"- {status}: " + (_shape(content["schema"]) if is_json else _other(status, media_type, answer)))
    return "\n".join([*lines, ""])


def _other(status: str, media_type: str, answer: dict[str, Any]) -> str:
    return f"`{media_type}`" if status == "200" else f'{answer["description"]}: `{{"error": "..."}}`'


def _shape(schema: dict[str, Any]) -> str:
    """A shape in one line."""
    return f"`{_kind(schema)}`" + _bounds(schema)


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " / ".join(str(word).lower() if isinstance(word, bool) else str(word) for word in schema["enum"])
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if types == ["object"]:
        required = schema.get("required", ())
        fields = (f"{name}{'' if name in required else '?'}: {_kind(s)}" for name, s in schema["properties"].items())
        return "{" + ", ".join(fields) + "}"
    if types == ["array"]:
        return f"[{_kind(schema['items'])}]"
    return " or ".join(schema.get("format", kind) if kind == "string" else kind for kind in types)


def _bounds(schema: dict[str, Any]) -> str:
    names = {"minimum": "from", "maximum": "to", "maxLength": "at most characters:", "default": "default"}
    given = [f"{word} {schema[key]}" for key, word in names.items() if key in schema]
    return f", {', '.join(given)}" if given else ""


def main() -> None:
    """Renew the page named on the command line."""
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
