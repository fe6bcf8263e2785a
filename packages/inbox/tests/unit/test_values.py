"""Recipients, refs, vocabularies, labels of senders, and who answers whom."""

import logging
from datetime import datetime, timedelta

import pytest

from mailkeep_inbox import (
    MailboxRangeError,
    MailboxRef,
    MailboxVocabulary,
    RecipientPrefixes,
    assert_mailbox_vocabulary,
    extract_sender_mailbox_address,
    parse_address_list,
    resolve_mailbox_recipients,
)
from mailkeep_inbox.ancestry import Carriers, Node, candidates_of, parent_ids
from mailkeep_inbox.refs import StoredLists, require_refs


@pytest.mark.spec("INBOX-52")
def test_address_list_splits_outside_quotes_and_brackets() -> None:
    """Commas in names and brackets stay; empty entries go; names stay."""
    assert parse_address_list('"A, B" <a@x>, , <b,c@x> ,d@x') == ['"A, B" <a@x>', "<b,c@x>", "d@x"]
    assert parse_address_list("") == []


@pytest.mark.spec("INBOX-53")
@pytest.mark.parametrize(
    ("entry", "principal"),
    [
        ("usr_ann@acme.example", "ann"),
        ("Ann <USR_Ann@ACME.example>", "ann"),
        ("bob@acme.example", "bob"),
        ("ins_1@acme.example", None),
        ("usr_@acme.example", None),
        ("ann@elsewhere.example", None),
        ("", None),
        ("ann", None),
        ("a@b@acme.example", None),
        ('"ann"@acme.example', None),
        ('"Ann <ann@acme.example>', None),
        ("ann@acme.example, bob@acme.example", None),
        ("<ann@acme.example> x", None),
        ("an n@acme.example", None),
        ("an\0n@acme.example", None),
    ],
)
def test_recipient_resolution(entry: str, principal: str | None) -> None:
    """One address of the domain names one principal; whatever could be read in two ways names none."""
    found = resolve_mailbox_recipients([entry], domain=" Acme.Example ")
    assert [each.principal_id for each in found] == ([] if principal is None else [principal])


@pytest.mark.spec("INBOX-53")
def test_repeated_principal_keeps_its_first_address() -> None:
    """Two addresses of one principal are one copy; prefixes are the host's choice."""
    found = resolve_mailbox_recipients(["usr_a@x", "a@x", "b@x"], domain="x")
    assert [(each.principal_id, each.address) for each in found] == [("a", "usr_a@x"), ("b", "b@x")]
    found = resolve_mailbox_recipients(["p-a@x", "usr_b@x"], domain="x", prefixes=RecipientPrefixes("p-", "q-"))
    assert [each.principal_id for each in found] == ["a", "usr_b"]


@pytest.mark.spec("INBOX-54")
def test_label_key_is_the_bare_address() -> None:
    """Between the first and the last bracket, trimmed, case kept; else the whole header."""
    assert extract_sender_mailbox_address("Bo < Bo@X > ") == "Bo@X"
    assert extract_sender_mailbox_address(" bo@x ") == "bo@x"


@pytest.mark.spec("INBOX-5")
@pytest.mark.parametrize("words", [[], [""], ["a", "a"], "ab", ["\0"]])
def test_unusable_vocabularies_are_refused(words: list[str]) -> None:
    """Empty lists, empty words, repeated words and a text in place of a list."""
    with pytest.raises(MailboxRangeError):
        assert_mailbox_vocabulary(MailboxVocabulary(words, {"open"}))
    with pytest.raises(MailboxRangeError):
        assert_mailbox_vocabulary(MailboxVocabulary(["high"], words))


@pytest.mark.spec("INBOX-34")
def test_refs_beyond_twenty_are_cut_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The first twenty stay; the log names key, received and kept."""
    with caplog.at_level(logging.WARNING):
        kept = require_refs([{"kind": "case", "id": str(n)} for n in range(22)], key="k-1")
    assert kept == tuple(MailboxRef("case", str(n)) for n in range(20))
    assert [record.getMessage() for record in caplog.records] == ["mailbox refs cut: key=k-1 received=22 kept=20"]


@pytest.mark.spec("INBOX-34")
@pytest.mark.parametrize(
    "refs", ["x", {"kind": "a", "id": "b"}, [1], [{"kind": "a"}], [{"kind": "a", "id": 1}], [None],
             [{"kind": "a", "id": "b", "label": 1}], [{"kind": "a", "id": "b", "x": "c"}], [MailboxRef("a", "\0")]],
)  # fmt: skip
def test_refs_of_a_bad_shape_are_refused(refs: object) -> None:
    """A ref has a kind, an id and perhaps a label, all texts."""
    with pytest.raises(MailboxRangeError):
        require_refs(refs, key="k")  # type: ignore[arg-type]


MALFORMED = [
    "1", "{}", '"x"', "true", "[1]", "[null]", '["x"]', "[[]]", "[{}]", '[{"kind":"a"}]', '[{"id":"a"}]',
    '[{"kind":1,"id":"b"}]', '[{"kind":"a","id":null}]', '[{"kind":"a","id":"b","label":2}]',
    '[{"kind":"a","id":"b"},{"kind":"a"}]', '[{"kind":"a","id":"b","extra":"c"}]', "[" * 5000, "nonsense",
]  # fmt: skip


@pytest.mark.spec("INBOX-58")
def test_malformed_stored_refs_degrade_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """One bad element drops its row's list; the log has one line with count, five ids and the first reason."""
    stored = StoredLists()
    with caplog.at_level(logging.WARNING):
        assert [stored.refs(f"r{n}", blob) for n, blob in enumerate(MALFORMED)] == [()] * len(MALFORMED)
        assert stored.refs("good", '[{"kind":"a","id":"b"}]') == (MailboxRef("a", "b"),)
        stored.report()
    (record,) = caplog.records
    assert f"count={len(MALFORMED)} sample=['r0', 'r1', 'r2', 'r3', 'r4'] reason=not a list" in record.getMessage()


EPOCH = datetime(2026, 1, 1)  # noqa: DTZ001 -- as the column holds it


def node(name: str, *answers: str, at: int = 0, message_id: str | None = None) -> Node:
    """A message `name` with msg-id `<name>`, answering others."""
    return Node(name, message_id or f"<{name}>", tuple(f"<{each}>" for each in answers), EPOCH + timedelta(seconds=at))


def parents(*nodes: Node) -> dict[str, str | None]:
    """The parents when every carrier is known."""
    known: dict[str, Node | None] = {}
    for each in sorted(nodes, key=lambda item: item.age):
        known.setdefault(str(each.message_id), each)
    for each in nodes:
        for candidate in each.candidates:
            known.setdefault(candidate, None)
    return parent_ids({each.id: each for each in nodes}, Carriers(known))


@pytest.mark.spec("INBOX-70")
def test_nearest_present_candidate_is_the_parent() -> None:
    """In-Reply-To first, then References from the newest; what is missing is skipped, nothing is invented."""
    assert candidates_of("<r>", ["<old>", "<new>", "<r>"]) == ("<r>", "<new>", "<old>")
    assert parents(node("old"), node("c", "gone", "old", at=2)) == {"old": None, "c": "old"}
    assert parents(node("c", "gone")) == {"c": None}


@pytest.mark.spec("INBOX-71")
def test_carriers_of_one_id() -> None:
    """The oldest carrier wins; nobody is its own parent, but a copy may hang below the older one."""
    first, second = node("a1", message_id="<a>"), node("a2", "a", at=5, message_id="<a>")
    assert parents(first, second, node("c", "a", at=1)) == {"a1": None, "a2": "a1", "c": "a1"}
    assert parents(node("s", "s")) == {"s": None}
    assert parents(node("child", "late"), node("late", at=9)) == {"child": "late", "late": None}


@pytest.mark.spec("INBOX-73")
def test_cycle_is_cut_at_its_youngest_member() -> None:
    """Only the later-created member loses its parent; a tie goes to the larger id; a tail keeps its link."""
    assert parents(node("a", "c", at=1), node("b", "a", at=3), node("c", "b", at=2), node("t", "b", at=9)) == {
        "a": "c", "b": None, "c": "b", "t": "b",
    }  # fmt: skip
    assert parents(node("x", "y"), node("y", "x")) == {"x": "y", "y": None}


@pytest.mark.spec("INBOX-74")
def test_unfetched_nearer_candidate_gives_no_farther_parent() -> None:
    """Where the walk stopped short, the parent is unknown, not the next best."""
    far = node("far")
    child = node("child", "near", "far", at=1)
    assert parent_ids({"far": far, "child": child}, Carriers({"<far>": far})) == {"far": None, "child": None}
