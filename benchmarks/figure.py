"""One measured figure, and how it is printed: a JSON object a line, so that any tool can read a run."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A value beside its rival's; `ratio` is ours over theirs, so below one is better for times and sizes."""

    name: str
    value: float
    unit: str
    rival: str | None = None
    rival_value: float | None = None

    def line(self) -> str:
        """Return the figure as one line of JSON, numbers with four significant digits."""
        ratio = self.value / self.rival_value if self.rival_value else None
        return json.dumps(
            {
                "name": self.name,
                "value": _short(self.value),
                "unit": self.unit,
                "rival": self.rival,
                "rival_value": _short(self.rival_value),
                "ratio": _short(ratio),
            },
            ensure_ascii=False,
        )


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
