"""Texts in pieces."""

from __future__ import annotations

import pytest

from mailkeep.attachments.segments import SEGMENT_CHARACTERS, segments_of

LINES = "\n".join(f"line {number} of the text" for number in range(1_000))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "x" * 10_000,
        LINES,
        "word " * 5_000,
        "花見の予定です。" * 2_000,
        "\n" * 5_000,
        "a" * SEGMENT_CHARACTERS,
    ],
)
def test_pieces_join_to_the_text_and_know_their_places(text: str) -> None:
    """Nothing is lost at a border, and no piece is empty or too long."""
    pieces = list(segments_of(text))
    assert "".join(piece.text for piece in pieces) == text
    assert all(0 < len(piece.text) <= SEGMENT_CHARACTERS for piece in pieces)
    assert all(text.startswith(piece.text, piece.starts_at) for piece in pieces)


def test_borders_lie_between_lines_else_between_words_else_between_sentences() -> None:
    """A word that is cut in two is found by neither half."""
    assert all(piece.text.endswith("\n") for piece in list(segments_of(LINES))[:-1])
    assert all(piece.text.endswith(" ") for piece in segments_of("word " * 5_000))
    assert all(piece.text.endswith("。") for piece in segments_of("花見の予定です。" * 2_000))
