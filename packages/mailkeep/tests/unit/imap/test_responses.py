"""Reading responses: what servers send, and what they should not send."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.config import SpecialUse
from mailkeep.imap.lexer import Unreadable, announced_literal, parse_values
from mailkeep.imap.model import FolderState
from mailkeep.imap.responses import (
    FetchItem,
    Interned,
    code_number,
    parse_esearch,
    parse_fetch,
    parse_list,
    parse_namespaces,
    parse_search,
    parse_status,
    parse_vanished,
    response_code,
)
from mailkeep.imap.uidset import UidSet


def fetch(*pieces: bytes) -> FetchItem:
    return parse_fetch(pieces, 0, {})


def test_metadata_of_one_message() -> None:
    """UID, size, flags and date come out of one response, in whatever order and case."""
    item = fetch(b'(uid 12 RFC822.SIZE 345 INTERNALDATE " 7-Feb-2024 21:52:25 -0800" FLAGS (\\Seen \\Recent $Work))')
    assert (item.uid, item.size, item.flags) == (12, 345, ("\\Seen", "$Work"))
    assert item.internaldate == datetime(2024, 2, 8, 5, 52, 25, tzinfo=UTC)


@pytest.mark.case("43")
def test_a_missing_size_is_unknown() -> None:
    """A FETCH answer without RFC822.SIZE is an answer all the same."""
    assert fetch(b"(UID 3 FLAGS ())").size is None


@pytest.mark.parametrize("size", [b"-1", b"NIL", b"99999999999999999999", b"x"])
def test_an_unusable_size_is_unknown(size: bytes) -> None:
    """Sizes that are no sizes do not fail the message."""
    assert fetch(b"(UID 3 RFC822.SIZE " + size + b")").size is None


@pytest.mark.case("41")
@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ((b"(UID 4 BODY[] {1}", b"x", b")"), b"x"),
        ((b"(UID 4 BODY[] {0}", b"", b")"), b""),
        ((b'(UID 4 BODY[] "ab")',), b"ab"),
        ((b"(BODY[HEADER] {3}", b"a)b", b" UID 4)"), b"a)b"),
        ((b"(UID 4 BODY[]<0> {2}", b"hi", b")"), b"hi"),
        ((b"(UID 4 BODY[] NIL)",), None),
    ],
)
def test_a_body_is_known_by_its_place_not_by_its_length(pieces: tuple[bytes, ...], body: bytes | None) -> None:
    """Literals of any length, quoted strings and NIL are told apart by the structure of the response."""
    item = fetch(*pieces)
    assert item.uid == 4
    assert item.body == body


@pytest.mark.parametrize(
    "text",
    [b"(UID 4", b"UID 4)", b"(UID 4))", b"(UID)", b'(UID 4 BODY[] "x)', b"((UID 4) 3 x)", b"", b"(() 4)"],
)
def test_broken_structure_is_refused_whole(text: bytes) -> None:
    """Nothing is guessed from a response that does not close."""
    with pytest.raises(Unreadable):
        fetch(text)


def test_nesting_is_bounded() -> None:
    """A response of brackets alone cannot exhaust the stack."""
    with pytest.raises(Unreadable, match="deeply"):
        parse_values([b"(" * 10_000 + b")" * 10_000])


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_any_octets_are_read_or_refused(pieces: list[bytes]) -> None:
    """Garbage ends in Unreadable and in nothing else."""
    for parse in (lambda: fetch(*pieces), lambda: parse_list(pieces, 0), lambda: parse_status(pieces, 0)):
        try:
            parse()
        except Unreadable:
            continue


@pytest.mark.parametrize(
    "text",
    [b'"7-Foo-2024 21:52:25 +0000"', b'"32-Jan-2024 00:00:00 +0000"', b'"x"', b"NIL", b'"1-Jan-2024 00:00:00 +9959"'],
)
def test_an_impossible_date_is_no_date(text: bytes) -> None:
    """INTERNALDATE that cannot be read leaves the rest of the answer usable."""
    item = fetch(b"(UID 3 INTERNALDATE " + text + b")")
    assert item.uid == 3
    assert item.internaldate is None


def test_equal_flag_lists_are_one_value_in_memory() -> None:
    """A folder of a hundred thousand messages has few distinct flag lists."""
    interned: Interned = {}
    first = parse_fetch([b"(UID 1 FLAGS (\\Seen a))"], 0, interned)
    second = parse_fetch([b"(UID 2 FLAGS (\\Seen a))"], 0, interned)
    assert first.flags is second.flags


@given(
    st.integers(1, 2**32 - 1),
    st.lists(st.sampled_from(["\\Seen", "\\Recent", "$Work", "[odd]", "a.b"]), max_size=4),
    st.integers(0, 10**12),
    st.sampled_from([" 7-Feb-2024 21:52:25 -0800", "17-Feb-2024 21:52:25 +0000", "nonsense"]),
)
def test_the_usual_shape_and_any_other_read_alike(uid: int, flags: list[str], size: int, date: str) -> None:
    """Answers in the order of asking take a short way to the same values."""
    parts = [f"UID {uid}", f"FLAGS ({' '.join(flags)})", f'INTERNALDATE "{date}"', f"RFC822.SIZE {size}"]
    usual, other = (fetch(f"({' '.join(order)})".encode()) for order in (parts, parts[::-1]))
    assert usual == other
    body = (f"(UID {uid} BODY[] {{2}}".encode(), b"hi")
    assert fetch(*body, b")") == fetch(*body, b" )")


@pytest.mark.case("76")
@pytest.mark.parametrize(
    ("pieces", "path"),
    [
        ((b'() "/" {7}', b'Hell"oh', b""), 'Hell"oh'),
        ((b'() "/" Archive',), "Archive"),
        ((b'(\\HasNoChildren) "." "A.B"',), "A.B"),
        ((b"() NIL inbox",), "INBOX"),
        ((b'() "/" [Gmail]',), "[Gmail]"),
    ],
)
def test_folder_names_come_as_literal_atom_or_quoted_string(pieces: tuple[bytes, ...], path: str) -> None:
    """LIST may spell a name in three ways."""
    assert parse_list(pieces, 0).path == path


@pytest.mark.case("77")
def test_quotes_in_a_folder_name_are_unescaped() -> None:
    """The backslashes are the string's, not the name's."""
    assert parse_list([b'() "/" "Sub \\"x\\" \\\\y"'], 0).path == 'Sub "x" \\y'


@pytest.mark.case("79")
@pytest.mark.parametrize("line", [b'() "/" "ab"cd"', b'() "/" "ab"cd', b'() "/" Sent Items', b'() "//" x', b'() "/"'])
def test_a_list_line_with_broken_quoting_is_refused_alone(line: bytes) -> None:
    """No name is guessed from a line that can be read in two ways."""
    with pytest.raises(Unreadable):
        parse_list([line], 0)


@pytest.mark.case("82")
@pytest.mark.spec("SYNC-17")
def test_a_name_that_holds_the_delimiter_is_one_name() -> None:
    """Identity is the whole path; the delimiter is only noted."""
    folder = parse_list([b'() "/" "test1/test2"'], 0)
    assert (folder.path, folder.delimiter) == ("test1/test2", "/")


def test_blanks_around_a_name_are_kept() -> None:
    """Path text is not trimmed."""
    assert parse_list([b'() "/" " x "'], 0).path == " x "


@pytest.mark.spec("SYNC-17")
def test_names_with_controls_cannot_be_used() -> None:
    """An unnameable entry is left out by itself."""
    with pytest.raises(Unreadable):
        parse_list([b'() "/" {3}', b"a\nb", b""], 0)


def test_roles_and_selectability_come_from_attributes() -> None:
    """Attributes count in any case; INBOX has its role by name."""
    assert parse_list([b'(\\HasNoChildren \\sent) "/" S'], 0).roles == {SpecialUse.SENT}
    assert parse_list([b'() "/" INBOX'], 0).roles == {SpecialUse.INBOX}
    assert not parse_list([b'(\\Noselect) "/" x'], 0).is_selectable
    assert not parse_list([b'(\\NonExistent) "/" x'], 0).is_selectable


def test_extended_data_behind_a_name_is_passed_over() -> None:
    """RFC 5258 puts lists behind the name."""
    assert parse_list([b'() "/" x ("CHILDINFO" ("SUBSCRIBED"))'], 0).path == "x"


@pytest.mark.case("19")
def test_a_mod_sequence_of_zero_means_that_there_is_none() -> None:
    """Zero in STATUS and in a response code reads as unknown."""
    path, state = parse_status([b'"Old mail" (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 9 HIGHESTMODSEQ 0)'], 0)
    assert (path, state) == ("Old mail", FolderState(0, 1, 9, None))
    assert code_number(b"0", 2**63 - 1) is None


@pytest.mark.case("25")
@pytest.mark.spec("SYNC-74")
def test_mod_sequences_keep_all_63_bits() -> None:
    """No float comes near them; one bit more than fits is no sequence."""
    assert code_number(b"9223372036854775807", 2**63 - 1) == 9223372036854775807
    assert code_number(b"9007199254740993", 2**63 - 1) == 9007199254740993
    assert code_number(b"9223372036854775808", 2**63 - 1) is None


@pytest.mark.case("35")
def test_a_response_code_needs_no_text_behind_it() -> None:
    """`* OK [HIGHESTMODSEQ 123]` is complete."""
    assert response_code(b"[HIGHESTMODSEQ 123]") == (b"HIGHESTMODSEQ", b"123")
    assert response_code(b"[uidnext 4] predicted") == (b"UIDNEXT", b"4")
    assert response_code(b"no code") == (b"", b"")


def test_search_answers() -> None:
    """SEARCH lists numbers; what CONDSTORE adds behind them is not one."""
    assert parse_search(b"2 5 7 (MODSEQ 917)") == [2, 5, 7]
    assert parse_search(b"") == []
    assert list(parse_esearch(b'(TAG "K1") UID ALL 2:4,9')) == [2, 3, 4, 9]
    assert not parse_esearch(b'(TAG "K1") UID')
    with pytest.raises(Unreadable):
        parse_esearch(b'(TAG "K1") UID ALL x')


@pytest.mark.case("16", "17")
def test_vanished_responses() -> None:
    """Earlier or just now, one set each; what is no set of UIDs is unreadable, `*` and sequence zero included."""
    assert parse_vanished(b"(EARLIER) 41,43:116") == (True, UidSet(((41, 41), (43, 116))))
    assert parse_vanished(b"405") == (False, UidSet(((405, 405),)))
    for broken in (b"(EARLIER)", b"(EARLIER) 1:*", b"(earlier) ", b"", b"0", b"4,,5", b"(EARLIER) NIL", b"99999999999"):
        with pytest.raises(Unreadable):
            parse_vanished(broken)


def test_namespaces() -> None:
    """Prefixes of all three groups, as far as they can be read."""
    assert parse_namespaces([b'(("" "/")) (("~" "/")) (("#shared/" "/"))'], 0) == ("", "~", "#shared/")
    assert parse_namespaces([b"NIL NIL NIL"], 0) == ()


def test_only_a_line_end_announces_a_literal() -> None:
    """Braces elsewhere are text."""
    assert announced_literal(b"* 1 FETCH (BODY[] {12}") == 12
    assert announced_literal(b"* 1 FETCH (BINARY[] ~{12}") == 12
    assert announced_literal(b"x {12} y") is None
    assert announced_literal(b"x {a}") is None
