"""What may be asked for: complete, within its bounds, keywords as IMAP atoms, refused where it is written."""

from __future__ import annotations

import pytest

from mailkeep.errors import MailChangeInvalid
from mailkeep.mutations import KeywordChange, Lifecycle, Mark, Mutation, Stage, Terms, mark_of
from mailkeep.mutations.terms import refuse_malformed
from mailkeep.mutations.wishes import checked_mark


@pytest.mark.spec("MUT-1", "MUT-21")
def test_the_closed_sets_are_spelled_as_they_are_published() -> None:
    """Eight mutations, four lifecycles, and each stage in one of them."""
    assert {one.value for one in Mutation} == {
        *("relocate", "copy", "delete", "set-seen", "set-flagged", "add-keywords", "remove-keywords", "set-keywords")
    }
    with pytest.raises(ValueError, match="set-answered"):
        Mutation("set-answered")
    assert {stage: Lifecycle.of(stage).value for stage in Stage} == {
        Stage.RECORDED: "pending",
        Stage.PLACEMENT_ISSUED: "converging",
        Stage.PLACEMENT_CONFIRMED: "converging",
        Stage.SOURCE_FLAGGED_DELETED: "converging",
        Stage.COMPLETED: "completed",
        Stage.ABANDONED: "dead-lettered",
    }


@pytest.mark.spec("MUT-58")
@pytest.mark.parametrize(
    ("change", "keywords"),
    [(KeywordChange.ADD, None), (None, ["A"]), (None, None)],
    ids=["half", "other half", "nothing"],
)
def test_half_a_pair_and_nothing_are_refused(change: KeywordChange | None, keywords: list[str] | None) -> None:
    with pytest.raises(MailChangeInvalid):
        mark_of(seen=None, flagged=None, change=change, keywords=keywords)


@pytest.mark.spec("MUT-58")
def test_keywords_are_counted_as_sent_and_then_named_once_each() -> None:
    """The bound holds for the raw list; the author's first spelling goes on."""
    sixty_five = mark_of(seen=None, flagged=None, change=KeywordChange.ADD, keywords=["Same"] * 65)
    with pytest.raises(MailChangeInvalid, match="64"):
        checked_mark(sixty_five)
    mark = mark_of(seen=True, flagged=None, change=KeywordChange.ADD, keywords=["Work", "WORK", "Later", "work"])
    assert checked_mark(mark).add_keywords == ("Work", "Later")
    with pytest.raises(MailChangeInvalid, match="both added and removed"):
        checked_mark(Mark(add_keywords=("A",), remove_keywords=("a",)))
    with pytest.raises(MailChangeInvalid, match="beside"):
        checked_mark(Mark(set_keywords=(), add_keywords=("A",)))


@pytest.mark.spec("MUT-28", "MUT-2")
@pytest.mark.parametrize(
    "keyword", ["", "a b", "\\Seen", "\\Deleted", "a(b", "a]", "x" * 65, "ü", 'a"', "a*", "a%", "{5"]
)
def test_a_keyword_is_an_atom(keyword: str) -> None:
    """Whatever is none is refused, never escaped or dropped; a system flag is none, so it cannot be set this way."""
    with pytest.raises(MailChangeInvalid):
        refuse_malformed(Terms(Mutation.ADD_KEYWORDS, keywords=(keyword,)))
    refuse_malformed(Terms(Mutation.ADD_KEYWORDS, keywords=("$Label1", "NonJunk", "x" * 64)))


@pytest.mark.spec("MUT-10", "MUT-58")
def test_an_empty_list_clears_and_does_nothing_else() -> None:
    refuse_malformed(Terms(Mutation.SET_KEYWORDS, keywords=()))
    for mutation in (Mutation.ADD_KEYWORDS, Mutation.REMOVE_KEYWORDS):
        with pytest.raises(MailChangeInvalid):
            refuse_malformed(Terms(mutation, keywords=()))
    with pytest.raises(MailChangeInvalid):
        refuse_malformed(Terms(Mutation.DELETE))
    with pytest.raises(MailChangeInvalid):
        refuse_malformed(Terms(Mutation.SET_SEEN, desired_seen_state=True, keywords=("A",)))
