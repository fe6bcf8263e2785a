"""The query language: what is read out of a typed query, where it is refused, and that any text is taken."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailkeep.search.grammar import Field, parse, render
from mailkeep.search.language import QueryMalformed, TypedQuery, read_query
from mailkeep.search.model import Filters
from mailkeep.terms import AllOf, AnyOf, Not, Phrase, Prefix, Sign, Within, Word

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(f"{field.value}:" for field in Field), "OR", "-", "(", ")", '"', " ", " ", "*", ":", "ann", "report",
                "a@example.com", "unread", "2026-01-01", "5M", "7d", "inbox", "快乐", "🎉", "über", "--", "-(", "\\",
            ]
        ),
        st.text(max_size=3),
    ),
    max_size=24,
).map("".join)  # fmt: skip


def read(text: str) -> TypedQuery:
    return read_query(text, now=NOW, zone=BERLIN)


@pytest.mark.spec("FIND-35")
@given(st.one_of(st.text(max_size=80), PIECES))
@example('-"(" OR (a -(b OR "c d"))')
@example("((((((((((((((((((((((((a))))))))))))))))))))))))")
@example("--(a b) -(")
def test_any_text_is_read_or_refused_at_one_of_its_characters(text: str) -> None:
    """Nothing but QueryMalformed is raised, and its place lies in the text."""
    refusal = None
    try:
        read(text)
    except QueryMalformed as error:
        refusal = error
    assert refusal is None or (0 <= refusal.position <= len(text) and refusal.code == 51002)


@given(st.one_of(st.text(max_size=80), PIECES))
def test_a_rendered_query_reads_as_the_same_tree(text: str) -> None:
    """Saved searches can be shown and read again."""
    tree = parse(text)
    if tree is not None:
        assert parse(render(tree)) == tree


@pytest.mark.spec("FIND-35")
@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("from:ann@example.com", Filters(sender_address="ann@example.com")),
        ("to:ann@example.com", Filters(recipient_address="ann@example.com")),
        ("cc:ann@example.com", Filters(cc_address="ann@example.com")),
        ("is:unread", Filters(is_remotely_seen=False)),
        ("IS:Read", Filters(is_remotely_seen=True)),
        ("is:flagged is:answered", Filters(is_remotely_flagged=True, is_remotely_answered=True)),
        ("is:draft", Filters(is_remotely_draft=True)),
        ("has:attachment", Filters(has_attachments=True)),
        ("filename:plan.pdf", Filters(attachment_name="plan.pdf")),
        ('filename:"the plan"', Filters(attachment_name="the plan")),
        ("keyword:$Label1", Filters(keyword="$Label1")),
        ("larger:5M", Filters(size_at_least=5 << 20)),
        ("smaller:20kb", Filters(size_below=20 << 10)),
        ("after:2026-03-31", Filters(received_on_or_after=datetime(2026, 3, 30, 23, tzinfo=UTC))),
        ("before:2026/3", Filters(received_before=datetime(2026, 2, 28, 23, tzinfo=UTC))),
        ("after:7d", Filters(received_on_or_after=NOW - timedelta(days=7))),
        ("after:today", Filters(received_on_or_after=datetime(2026, 11, 29, 23, tzinfo=UTC))),
        ("-is:unread", Filters(excluding=(Filters(is_remotely_seen=False),))),
        (
            "is:flagged OR larger:1k",
            Filters(any_of=((Filters(is_remotely_flagged=True), Filters(size_at_least=1024)),)),
        ),
        (
            "-(is:flagged has:attachment)",
            Filters(excluding=(Filters(is_remotely_flagged=True, has_attachments=True),)),
        ),
        ("keyword:a keyword:b", Filters(keyword="a", any_of=((Filters(keyword="b"),),))),
    ],
)
def test_fields_become_the_filters_of_a_request(text: str, filters: Filters) -> None:
    """The same values that other callers give as arguments."""
    assert read(text) == TypedQuery(filters=filters, narrowing=read(text).narrowing)


def test_people_by_part_are_narrowed_through_the_index() -> None:
    """The index knows words of people; which role they have is the filter's matter."""
    assert read("from:ann").filters == Filters(sender_text="ann")
    assert read("from:ann").narrowing == Word("ann")
    assert read('cc:"ann lee"').narrowing == AllOf((Word("ann"), Word("lee")))
    assert read("-from:ann") == TypedQuery(filters=Filters(excluding=(Filters(sender_text="ann"),)))
    assert read("from:ann OR to:bo").narrowing == AnyOf((Word("ann"), Word("bo")))


def test_words_subject_and_language_stay_a_tree_for_the_index() -> None:
    """Brackets group, OR binds weaker than standing side by side, minus excludes."""
    assert read("subject:ferry").words == Within(Word("ferry"), "A")
    assert read('subject:"the ferry"').words == Within(Phrase("the ferry"), "A")
    assert read("a1 (b1 OR c1) -(d1 e1)").words == AllOf(
        (Word("a1"), AnyOf((Word("b1"), Word("c1"))), Not(AllOf((Word("d1"), Word("e1")))))
    )
    assert read("subject:a1 OR b1*").words == AnyOf((Within(Word("a1"), "A"), Prefix("b1")))
    assert read("lang:de haus").words == AllOf((Sign("\x01lde"), Word("haus")))


def test_places_name_folders_accounts_and_junk() -> None:
    """Names that people use for roles are roles; several are alternatives; junk is looked into when it is named."""
    assert read("in:inbox in:Projects").folders == ("role:Inbox", "Projects")
    assert read("in:inbox OR in:sent").folders == ("role:Inbox", "role:Sent")
    assert read("-in:trash").excluded_folders == ("role:Trash",)
    assert read('in:"REISEN & ZÜGE"').folders == ("REISEN & ZÜGE",)
    assert read("account:work").accounts == ("work",)
    assert read("in:spam").includes_junk
    assert read("in:anywhere") == TypedQuery(includes_junk=True)


@pytest.mark.parametrize(
    "text", ["re:invoice", "12:30", "http://example.com/x", "note:", "smile :(", "f(x)", "a ) b", "OR", "*"]
)
def test_what_is_no_field_and_no_bracket_is_text(text: str) -> None:
    """People paste what they find."""
    query = read(text)
    assert query.filters == Filters()
    assert query.folders == ()


@pytest.mark.spec("FIND-35")
@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("report is:purple", 10), ("has:wings", 4), ("before:soon", 7), ("after:2026-13-01", 6), ("larger:big", 7),
        ("from:", 5), ('x subject:""', 10), ("from:***", 5), ("lang:german", 5), ("report OR from:ann", 0),
        ("in:inbox OR report", 0), ("-(in:inbox in:sent)", 0), ("in:a OR account:b", 5),
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused_at_its_place(text: str, position: int) -> None:
    """The place is that of the value or of the part, and nothing of the query is repeated."""
    with pytest.raises(QueryMalformed) as refused:
        read(text)
    assert refused.value.position == position
    assert f"character {position + 1}" in refused.value.message
    assert "purple" not in refused.value.message
