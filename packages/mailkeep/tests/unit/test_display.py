"""How values look to people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.display import counted, duration, neutralise, size

DANGEROUS = (
    "\x1b\x07\x08\x7f\x9b\x85\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\ud800\ufeff\u2028"
)


@given(st.text())
def test_nothing_a_terminal_acts_on_gets_through(text: str) -> None:
    """Escape sequences, C1 controls, bidi overrides and line separators never survive, in any mixture."""
    for shown in (neutralise(text), neutralise(text, lines=True)):
        assert not set(shown) & set(DANGEROUS)
        shown.encode("utf-8")
    assert "\n" not in neutralise(text)


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    """Accents, CJK, right-to-left words and joined emoji are not touched."""
    text = "Zoë 日本語 עברית العربية 👩‍👩‍👧 – „quoted“"
    assert neutralise(text) == text
    assert neutralise("a\r\nb\tc", lines=True) == "a\nb\tc"
    assert neutralise("a\nb\x1b[31m") == "a b␛[31m"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (5 << 40, "5120.0 GiB")],
)
def test_sizes_read_well(value: int, expected: str) -> None:
    """Powers of 1024 with one decimal."""
    assert size(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(0.4, "0 s"), (59, "59 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")])
def test_spans_read_well(value: float, expected: str) -> None:
    """The two largest units that matter."""
    assert duration(value) == expected


def test_a_count_agrees_with_its_noun() -> None:
    """One message, no messages, two messages."""
    assert [counted(number, "message") for number in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
