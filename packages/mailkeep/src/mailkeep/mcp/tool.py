"""What a tool is: its words, arguments, results and hints, whether it is offered, and the call that serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from pydantic import BaseModel

from mailkeep.app import App
from mailkeep.config import Settings
from mailkeep.mcp.arguments import Arguments
from mailkeep.mutations import Permission, is_offered


@dataclass(frozen=True, slots=True)
class Hints:
    """All four are always sent (MCP-87). Destructive is what takes something away or cannot be undone."""

    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False


READING = Hints()
CHANGING = Hints(read_only=False, destructive=True, open_world=True)
ADDING = Hints(read_only=False, open_world=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `holds_mail` says that its answer quotes mail and is fenced.

    It is offered while an account permits any of `needs`; without needs, always. The use case asks again.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[BaseModel]
    call: Callable[[App, Any], Awaitable[BaseModel]]
    holds_mail: bool
    hints: Hints = READING
    needs: tuple[Permission, ...] = ()

    def is_offered(self, settings: Settings) -> bool:
        """Whether it is listed and answers; one that is not does not exist for its caller (MCP-80)."""
        return not self.needs or is_offered(settings, *self.needs)

    def descriptor(self) -> types.Tool:
        """What `tools/list` says of it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=_schema(self.arguments, mode="validation"),
            output_schema=_schema(self.result, mode="serialization"),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.hints.read_only,
                destructive_hint=self.hints.destructive,
                idempotent_hint=self.hints.idempotent,
                open_world_hint=self.hints.open_world,
            ),
        )


def _schema(model: type[BaseModel], *, mode: Any) -> dict[str, Any]:
    schema: dict[str, Any] = _without_titles(model.model_json_schema(mode=mode))
    return schema


def _without_titles(node: Any) -> Any:
    """Generated titles repeat the property names; a property that is itself called `title` stays."""
    if isinstance(node, list):
        return [_without_titles(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))
    }
