"""Placing conversations, decided on values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.threads import ThreadInput
from mailkeep.threads.order import reading_order
from mailkeep.threads.plan import StoredMember, ThreadPlan, identifier_hash, plan_parents, plan_threads

T0 = datetime(2024, 1, 1, tzinfo=UTC)


def key(number: int) -> UUID:
    """A key that sorts by its number."""
    return UUID(int=number)


def fresh_ids() -> Iterator[UUID]:
    """New conversation keys: 1000, 1001 and so on."""
    return (key(number) for number in range(1000, 100_000))


def plan(
    *messages: ThreadInput, bound: dict[str, UUID] | None = None, assembled: dict[UUID, datetime] | None = None
) -> ThreadPlan:
    """Plan with identifiers given in the clear."""
    ids = fresh_ids()
    return plan_threads(
        messages,
        bound={identifier_hash(one): thread for one, thread in (bound or {}).items()},
        assembled=assembled or {},
        new_id=lambda: next(ids),
    )


@pytest.mark.spec("SYNC-114")
@pytest.mark.case("184")
def test_identifiers_are_hashed_as_they_stand() -> None:
    """Lower-hex SHA-256, whatever the length; case and inner blanks matter."""
    assert identifier_hash("a@b") == "7508d8b5018ea640b85269861a101203f0c26900555268e930025dac844b0f35"
    assert len({identifier_hash("A@b"), identifier_hash("a@b"), identifier_hash("a @b")}) == 3
    assert len(identifier_hash("x" * 100_000)) == 64


@pytest.mark.spec("SYNC-115")
def test_two_replies_to_an_absent_message_meet() -> None:
    """Identifiers that nobody stored bind too, within a batch."""
    made = plan(
        ThreadInput(key(1), "a", in_reply_to=("gone",)),
        ThreadInput(key(2), "b", references=("root", "gone")),
        ThreadInput(key(3), "c"),
    )
    assert made.thread_of[key(1)] == made.thread_of[key(2)] != made.thread_of[key(3)]
    assert set(made.bindings) == {identifier_hash(one) for one in ("a", "b", "c", "gone", "root")}
    assert made.bindings[identifier_hash("root")] == made.thread_of[key(1)]


@pytest.mark.spec("SYNC-115")
def test_known_conversation_takes_the_message_and_its_new_identifiers() -> None:
    """Bound identifiers are not bound again."""
    made = plan(ThreadInput(key(1), "new", references=("old",)), bound={"old": key(50)}, assembled={key(50): T0})
    assert made == ThreadPlan(thread_of={key(1): key(50)}, bindings={identifier_hash("new"): key(50)})


@pytest.mark.spec("SYNC-115")
def test_of_several_conversations_the_earliest_then_the_lowest_survives() -> None:
    """One message joins four; two of them were assembled at the same first moment."""
    late = T0 + timedelta(days=1)
    made = plan(
        ThreadInput(key(1), "new", references=("p", "q", "r", "s")),
        bound={"p": key(50), "q": key(60), "r": key(70), "s": key(55)},
        assembled={key(50): late, key(60): T0, key(70): T0, key(55): late},
    )
    assert made.thread_of == {key(1): key(60)}
    assert made.merges == {key(70): key(60), key(50): key(60), key(55): key(60)}


@pytest.mark.spec("SYNC-115")
def test_conversations_meet_through_a_chain_of_the_batch() -> None:
    """Three messages of one batch, none of which names both conversations, join them."""
    made = plan(
        ThreadInput(key(1), "x", references=("p",)),
        ThreadInput(key(2), "y", references=("q",)),
        ThreadInput(key(3), "z", references=("x", "y")),
        bound={"p": key(50), "q": key(60)},
        assembled={key(50): T0, key(60): T0},
    )
    assert set(made.thread_of.values()) == {key(50)}
    assert made.merges == {key(60): key(50)}


@pytest.mark.case("91", "94")
def test_replaced_identifier_joins_the_replies_to_either() -> None:
    """A relay replaced the Message-ID; replies to the old and to the new one are one conversation."""
    made = plan(
        ThreadInput(key(1), "new", also_known_as=("old",)),
        ThreadInput(key(2), "r1", in_reply_to=("old",)),
        ThreadInput(key(3), "r2", in_reply_to=("new",)),
    )
    assert len(set(made.thread_of.values())) == 1


@pytest.mark.spec("SYNC-116")
def test_row_without_identifiers_stays_where_it_is() -> None:
    """Reassembling a stored message changes nothing, even when its header names nothing."""
    made = plan(ThreadInput(key(1), None, current_thread_id=key(50)), assembled={key(50): T0})
    assert made == ThreadPlan(thread_of={key(1): key(50)})


@pytest.mark.spec("SYNC-113")
def test_messages_without_identifiers_start_conversations_of_their_own() -> None:
    """Nothing else links: not an equal subject, which the plan does not even see."""
    made = plan(ThreadInput(key(1), None), ThreadInput(key(2), None))
    assert made.thread_of[key(1)] != made.thread_of[key(2)]
    assert made.bindings == {}


names = st.sampled_from("abcdefgh")


@given(
    st.lists(st.tuples(st.none() | names, st.frozensets(names, max_size=3)), min_size=1, max_size=8),
    st.dictionaries(names, st.integers(50, 53).map(key), max_size=6),
)
def test_plan_is_the_transitive_closure_of_shared_identifiers(
    headers: list[tuple[str | None, frozenset[str]]], bound: dict[str, UUID]
) -> None:
    """Whatever the batch: sharing an identifier or a conversation means the same conversation, nothing else does."""
    messages = [ThreadInput(key(n), own, references=tuple(refs)) for n, (own, refs) in enumerate(headers, 1)]
    made = plan(*messages, bound=bound, assembled=dict.fromkeys(bound.values(), T0))
    groups: list[set[object]] = [{one, thread} for one, thread in bound.items()]
    groups += [{message.stored_email_id, *message.identifiers} for message in messages]
    merged = True
    while merged:
        merged = False
        for left in groups:
            for right in groups:
                if left is not right and left & right:
                    left |= right
                    groups.remove(right)
                    merged = True
                    break
            if merged:
                break
    for one in messages:
        for other in messages:
            together = any({one.stored_email_id, other.stored_email_id} <= group for group in groups)
            same = made.thread_of[one.stored_email_id] == made.thread_of[other.stored_email_id]
            assert together == same


def parents(
    *messages: ThreadInput, stored: tuple[StoredMember, ...] = (), above: dict[UUID, UUID | None] | None = None
) -> tuple[dict[UUID, UUID], dict[UUID, UUID]]:
    """Plan parents."""
    return plan_parents(messages, members=stored, ancestors=above or {})


@pytest.mark.spec("SYNC-116")
def test_parent_is_the_lowest_id_that_in_reply_to_names() -> None:
    """Two copies of the answered message: the one stored first is the parent; later identifiers are tried in turn."""
    copies = (StoredMember(key(9), "p", None, None), StoredMember(key(5), "p", None, None))
    edges, _ = parents(ThreadInput(key(20), "r", in_reply_to=("absent", "p"), references=("q",)), stored=copies)
    assert edges == {key(20): key(5)}


@pytest.mark.spec("SYNC-116")
def test_stored_reply_is_adopted_by_the_message_it_answers() -> None:
    """Replies that came first hang below the message that came later, unless they have a parent."""
    orphan = StoredMember(key(5), "r", "p", None)
    settled = StoredMember(key(6), "s", "p", key(1))
    assert parents(ThreadInput(key(20), "p"), stored=(orphan, settled)) == ({}, {key(5): key(20)})


@pytest.mark.spec("SYNC-116")
@pytest.mark.case("139")
def test_edge_that_closes_a_cycle_is_refused() -> None:
    """Two messages that answer each other, a message that answers itself, and a cycle through stored mail."""
    edges, _ = parents(ThreadInput(key(1), "a", in_reply_to=("b",)), ThreadInput(key(2), "b", in_reply_to=("a",)))
    assert edges == {key(1): key(2)}
    assert parents(ThreadInput(key(1), "a", in_reply_to=("a",))) == ({}, {})
    top = StoredMember(key(1), "top", "new", None)
    low = StoredMember(key(2), "low", "top", key(1))
    edges, adoptions = parents(
        ThreadInput(key(9), "new", in_reply_to=("low",)), stored=(top, low), above={key(2): key(1), key(1): None}
    )
    assert (edges, adoptions) == ({key(9): key(2)}, {})


@pytest.mark.spec("SYNC-116")
def test_edge_below_a_thousand_ancestors_is_refused() -> None:
    """The walk to the root is bounded, also when stored rows already form a cycle."""
    chain: dict[UUID, UUID | None] = {key(n): key(n - 1) for n in range(2, 1002)} | {key(1): None}
    deep = StoredMember(key(1001), "deep", None, key(1000))
    fitting = StoredMember(key(999), "fitting", None, key(998))
    reply = ThreadInput(key(5000), "r", in_reply_to=("deep",))
    assert parents(reply, stored=(deep,), above=chain)[0] == {}
    reply = ThreadInput(key(5000), "r", in_reply_to=("fitting",))
    assert parents(reply, stored=(fitting,), above=chain)[0] == {key(5000): key(999)}
    ring: dict[UUID, UUID | None] = {key(1): key(2), key(2): key(1)}
    member = StoredMember(key(1), "x", None, key(2))
    assert parents(ThreadInput(key(9), "r", in_reply_to=("x",)), stored=(member,), above=ring)[0] == {}


@pytest.mark.spec("SYNC-117")
def test_reading_order_is_depth_first_by_time_then_key() -> None:
    """Siblings by the time sent, undated last; a hidden parent makes a root."""
    rows = [
        (key(1), None, T0),
        (key(2), key(1), T0 + timedelta(hours=2)),
        (key(3), key(1), T0 + timedelta(hours=1)),
        (key(4), key(3), T0 + timedelta(hours=9)),
        (key(5), key(1), None),
        (key(6), key(77), T0 - timedelta(hours=1)),
        (key(8), key(1), T0 + timedelta(hours=1)),
    ]
    entries = reading_order(rows)
    assert [(entry.stored_email_id.int, entry.depth) for entry in entries] == [
        (6, 0),
        (1, 0),
        (3, 1),
        (4, 2),
        (8, 1),
        (2, 1),
        (5, 1),
    ]
    assert entries[0].parent_stored_email_id is None
    assert entries[2].parent_stored_email_id == key(1)


@pytest.mark.spec("SYNC-117")
@pytest.mark.case("139")
@given(
    st.dictionaries(
        st.integers(1, 9), st.tuples(st.none() | st.integers(1, 12), st.none() | st.integers(0, 5)), max_size=9
    )
)
def test_reading_order_shows_every_message_once_whatever_the_links(
    links: dict[int, tuple[int | None, int | None]],
) -> None:
    """Cycles, self-links and missing parents never lose or repeat a message."""
    rows = [
        (key(n), None if up is None else key(up), None if at is None else T0 + timedelta(hours=at))
        for n, (up, at) in links.items()
    ]
    assert sorted(entry.stored_email_id for entry in reading_order(rows)) == sorted(row[0] for row in rows)


@pytest.mark.spec("SYNC-117")
def test_cycle_is_cut_at_its_earliest_member() -> None:
    """The message sent first of a ring leads it."""
    rows = [(key(1), key(2), T0 + timedelta(hours=1)), (key(2), key(3), T0), (key(3), key(1), T0 + timedelta(hours=2))]
    assert [(entry.stored_email_id.int, entry.depth) for entry in reading_order(rows)] == [(2, 0), (1, 1), (3, 2)]
