"""Which terms a text is found by beside PostgreSQL's own words, and what a typed query asks for."""

import time
from datetime import UTC, datetime

import pytest

from mailkeep.search.language import read_query
from mailkeep.terms import (
    AllOf,
    AnyOf,
    Not,
    Phrase,
    Prefix,
    QueryNode,
    Word,
    address_terms,
    index_terms,
    positive_needles,
)


def build_query(text: str) -> QueryNode | None:
    """The words that a typed query asks for."""
    return read_query(text, now=datetime.now(UTC), zone=UTC).words


@pytest.mark.case("191")
def test_a_cjk_run_becomes_its_pairs_and_its_last_character() -> None:
    """Every character begins exactly one term, so a query of any length finds its run."""
    assert index_terms("祝你们新年快乐") == "祝你 你们 们新 新年 年快 快乐 乐"
    assert index_terms("東京タワー と 서울에서") == "東京 京タ タワ ワー ー と 서울 울에 에서 서"
    assert index_terms("𠀀𠀁") == "𠀀𠀁 𠀁"


@pytest.mark.case("191")
def test_half_width_katakana_is_one_spelling_with_full_width() -> None:
    """Index and query fold the width of a run alike."""
    assert index_terms("ｶﾞｲﾄﾞ") == "ガイ イド ド"
    assert build_query("ｶﾞｲﾄﾞ") == build_query("ガイド") == AllOf((Word("ガイ"), Word("イド")))


@pytest.mark.case("191")
def test_a_cjk_query_asks_for_pairs_and_a_quoted_one_for_their_order() -> None:
    """One character is a beginning, a longer run all its pairs, a quoted run its pairs one after another."""
    assert build_query("快") == Prefix("快")
    assert build_query("快乐") == Word("快乐")
    assert build_query("新年快乐") == AllOf((Word("新年"), Word("年快"), Word("快乐")))
    assert build_query('"新年快乐"') == Phrase("新年 年快 快乐")


@pytest.mark.case("191")
def test_latin_letters_beside_a_cjk_run_are_words_of_their_own() -> None:
    """`iPhone手机` is found by either half, and a query of both asks for both."""
    assert index_terms("iPhone手机版") == "手机 机版 版 iPhone"
    assert build_query("iPhone手机") == AllOf((Word("iPhone"), Word("手机")))


def test_an_address_is_found_by_its_parts() -> None:
    """The local part, its words, the domain, its parents and its labels are terms."""
    terms = (address_terms(["ann.lee+lists@mail.example.com"]) or "").split()
    parts = {"ann", "lee", "ann.lee", "lists", "mail", "example", "com", "mail.example.com", "example.com"}
    assert set(terms) == parts


def test_parts_of_addresses_file_names_and_links_in_a_text_are_terms() -> None:
    """What PostgreSQL keeps as one host or path word is found by the words in it."""
    terms = set(
        (index_terms("see https://www.example.com/plans/report_2024-final.pdf, ask bob@acme.example") or "").split()
    )
    assert {"example", "www.example.com", "example.com", "plans", "report", "final", "pdf", "bob", "acme"} <= terms


def test_plain_prose_needs_no_extra_terms() -> None:
    """Ordinary words, well-known hyphens and decimal numbers of ASCII cost nothing."""
    assert index_terms("Well-known words, three of them; all plain.") is None


def test_a_number_behind_a_hyphen_is_a_term() -> None:
    """PostgreSQL reads `-19` as a negative number, so `19` would not be found."""
    assert "19" in (index_terms("covid-19") or "").split()


@pytest.mark.case("188")
def test_the_beginning_of_an_over_long_word_is_a_term() -> None:
    """A link that PostgreSQL drops for its length is found by how it starts."""
    link = "https://example.com/start/" + "x" * 5000
    beginning = (index_terms(f"see {link} there") or "").split()[-1]
    assert beginning == link[:255]
    assert build_query(link) == Prefix(link[len("https://") : 255])
    assert build_query("https://example.com/sta") == Prefix("example.com/sta")


@pytest.mark.case("188")
def test_terms_of_a_megabyte_without_blanks_take_no_time() -> None:
    """Neither pattern looks back over a long run of letters: a tenfold input takes about tenfold time."""
    hostile = ["a" * 1_000_000, "a." * 500_000, "-" * 1_000_000, "@" * 1_000_000, "a_" * 500_000, "漢" * 300_000]
    started = time.process_time()
    for text in hostile:
        index_terms(text)
        address_terms([text[:320]])
    assert time.process_time() - started < 10


@pytest.mark.spec("FIND-35")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("invoice", Word("invoice")),
        ("invoice march", AllOf((Word("invoice"), Word("march")))),
        ("a OR b c", AnyOf((Word("a"), AllOf((Word("b"), Word("c")))))),
        ("invoice -draft", AllOf((Word("invoice"), Not(Word("draft"))))),
        ('-"old draft"', Not(Phrase("old draft"))),
        ('"annual report" 2024', AllOf((Phrase("annual report"), Word("2024")))),
        ("OR invoice OR", Word("invoice")),
        ('"unclosed words', AllOf((Word("unclosed"), Word("words")))),
        ("- ! & | () '", None),
        ('""', None),
        ("or", Word("or")),
    ],
)
def test_the_query_grammar_has_words_phrases_or_and_minus(typed: str, expected: object) -> None:
    """Everything that is not one of the four forms is words, and no input fails."""
    assert build_query(typed) == expected


@pytest.mark.case("193")
def test_a_star_at_the_end_of_a_word_asks_for_its_beginning() -> None:
    """`license*` finds licenses and licensed; one letter alone stays a word."""
    assert build_query("license*") == Prefix("license")
    assert build_query("-license*") == Not(Prefix("license"))
    assert build_query("l*") == Word("l*")
    assert build_query("*") is None


def test_needles_leave_out_what_was_excluded() -> None:
    """Only words that the message is to hold are shown in an extract, the longest first."""
    node = build_query('report -draft "year end" lic*')
    assert positive_needles(node) == (("report", False), ("year", False), ("end", False), ("lic", True))
    assert positive_needles(None) == ()
