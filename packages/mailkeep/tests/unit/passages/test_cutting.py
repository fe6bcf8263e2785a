"""Cutting texts into passages: offsets, clusters, separators, hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from mailkeep.passages import RULES, cut

FAMILY = "\U0001f468‍\U0001f469‍\U0001f467"
PIECES = [
    "a",
    "b ",
    "e\u0301",
    "\u00e9",
    FAMILY,
    "\U0001f1e9\U0001f1ea",
    "\u82b1",
    "\r\n",
    "\n\n",
    "\n",
    " ",
    "\u1100\u1161\u11a8",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=1500).map("".join)


def boundaries(text: str) -> set[int]:
    return {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}


@pytest.mark.spec("FIND-56")
@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_offsets_round_trip_and_boundaries_fall_between_clusters(text: str) -> None:
    """Each passage stands in its source where it says, between grapheme clusters, over emoji, marks, CJK and Hangul."""
    clusters = boundaries(text)
    for passage in cut(text, is_lossy=False):
        end = passage.start_offset + len(passage.text)
        assert text[passage.start_offset : end] == passage.text
        assert {passage.start_offset, end} <= clusters


@pytest.mark.spec("FIND-55")
@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_nothing_but_blanks_is_left_out(text: str) -> None:
    """Every letter of a text is in some passage, and ordinals count from 0 without gaps."""
    passages = cut(text, is_lossy=False)
    covered = {at for one in passages for at in range(one.start_offset, one.start_offset + len(one.text))}
    assert all(at in covered or character.isspace() for at, character in enumerate(text))
    assert [one.ordinal for one in passages] == list(range(len(passages)))


@pytest.mark.spec("FIND-55")
def test_the_strongest_separator_past_the_minimum_ends_a_passage() -> None:
    """A paragraph's end at 300 wins over later lines and blanks, one at 200 is too early, and overlap is 200."""
    late = "x" * 298 + "\n\n" + "y y\n" * 400
    first, second, *_ = cut(late, is_lossy=False)
    assert first.text == "x" * 298 + "\n\n"
    assert second.start_offset == 300 - RULES.overlap
    early = "x" * 198 + "\n\n" + "y y\n" * 400
    assert cut(early, is_lossy=False)[0].text.endswith("y y\n")
    assert 996 <= len(cut(early, is_lossy=False)[0].text) <= RULES.target


@pytest.mark.spec("FIND-55")
def test_a_text_without_separators_is_cut_at_the_window_s_end() -> None:
    """A line of 2,500 letters gives windows of 1,000 that share 200."""
    assert [(one.start_offset, len(one.text)) for one in cut("z" * 2500, is_lossy=False)] == [
        (0, 1000),
        (800, 1000),
        (1600, 900),
    ]


@pytest.mark.spec("FIND-56")
def test_a_cluster_longer_than_a_window_is_taken_whole() -> None:
    """A letter with 1,500 accents stays one piece, and cutting goes on behind it."""
    monster = "a" + "́" * 1500
    passages = cut(monster + "b" * 1200, is_lossy=False)
    assert passages[0].text == monster
    assert passages[-1].text.endswith("b")


@pytest.mark.spec("FIND-55")
def test_a_window_of_blanks_takes_no_ordinal() -> None:
    """5,000 blanks between two words leave two passages, numbered 0 and 1."""
    passages = cut("one" + " " * 5000 + "two", is_lossy=False)
    assert [one.ordinal for one in passages] == [0, 1]
    assert passages[1].text.strip() == "two"


@pytest.mark.spec("FIND-57")
def test_hashes_cover_text_rules_and_the_lossy_marker() -> None:
    """A change of any of them changes the hash; the same again does not."""
    (plain,) = cut("Hello there.", is_lossy=False)
    assert cut("Hello there.", is_lossy=False)[0].content_hash == plain.content_hash
    others = [
        cut("Hello there!", is_lossy=False),
        cut("Hello there.", is_lossy=True),
        *(
            cut("Hello there.", is_lossy=False, rules=replace(RULES, **{key: 99}))
            for key in ("version", "target", "minimum", "overlap")
        ),
    ]
    assert len({one[0].content_hash for one in others} | {plain.content_hash}) == 7
