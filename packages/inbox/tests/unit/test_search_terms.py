"""What a query asks, and what is marked."""

import pytest

from mailkeep_inbox import MailboxRangeError
from mailkeep_inbox.search_terms import highlight_pattern, indexed_text, parse_query, term_arrays


@pytest.mark.spec("INBOX-102")
def test_words_phrases_prefixes_and_absences() -> None:
    """Each term goes where the statement takes it; ideographs are taken one by one."""
    arrays = term_arrays(parse_query('word "two words" pre* -not 日本'))
    assert arrays == {"phrases": ["word", "two words", " 日  本 "], "absent": ["not"], "prefixes": ["'pre':*"]}


@pytest.mark.spec("INBOX-102")
@pytest.mark.parametrize("query", ["", " ", "-only", "!!", "a\0", "x" * 1001, "a " * 33])
def test_queries_without_a_word_are_refused(query: str) -> None:
    """An empty, negative, unstorable or endless query is an error, not every message."""
    with pytest.raises(MailboxRangeError):
        parse_query(query)


@pytest.mark.spec("INBOX-102")
def test_marks_follow_whole_words_and_prefixes() -> None:
    """A word inside another is not marked; a prefix marks the whole word."""
    text = "reports reporter Report: café"
    assert [match.group() for match in highlight_pattern(parse_query("report")).finditer(text)] == ["Report"]
    assert len(highlight_pattern(parse_query("report*")).findall(text)) == 3
    assert [match.group() for match in highlight_pattern(parse_query("café")).finditer(text)] == ["café"]


@pytest.mark.spec("INBOX-102")
def test_indexed_text_is_bounded() -> None:
    """Subjects, senders and texts of any size, and words of any length, leave less than PostgreSQL's bound."""
    text = indexed_text(subject="s" * 10**6, from_address="f" * 10**6, body="日" * 10**6 + "x" * 5000)
    assert len(text) <= 100_000
