"""Frequent words, old words, prefixes and small folders: what a search reads, and that it loses nothing (case 215)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from support.stored import settings_for

from mailkeep.db import Connection, Database
from mailkeep.db.embedded import EmbeddedServer
from mailkeep.mailbox import AccountId, FolderId
from mailkeep.search import Filters, SearchRequest, lexical, queries, search_emails
from mailkeep.search.language import read_query
from mailkeep.search.queries import FolderNames, Selection

pytestmark = [pytest.mark.anyio, pytest.mark.case("215")]

COUNT = 24_000
FILL = f"""
INSERT INTO mailbox_accounts (id) VALUES ('home');
INSERT INTO mail_folders (id, mailbox_account_id, alias, resolution_generation, remote_path)
VALUES (1, 'home', 'INBOX', 1, 'INBOX'), (2, 'home', 'SMALL', 1, 'Small');
INSERT INTO stored_emails (id, mailbox_account_id, mail_folder_id, uid_validity, uid, subject, received_at, size_octets,
    content_availability, to_addresses, cc_addresses, reply_to_addresses, thread_references, attachment_count,
    inline_resource_count, attachment_total_size_octets, is_encrypted, carries_unverified_signature,
    contains_unexpanded_tnef_part, is_structurally_read, stored_at)
SELECT md5(n::text)::uuid, 'home', CASE WHEN n % 1000 = 0 THEN 2 ELSE 1 END, 1, n + 1, 'subject ' || n,
    CASE WHEN n % 500 <> 499 THEN timestamptz '2016-01-01 00:00Z' + n * interval '4 hours' END,
    100, 'Available', '{{}}', '{{}}', '{{}}', '{{}}', 0, 0, 0, false, false, false, true, now()
FROM generate_series(0, {COUNT - 1}) n;
INSERT INTO email_search_documents (stored_email_id, mail_folder_id, received_at, extracted_at, indexed_body_characters,
    text_source, body_text)
SELECT e.id, e.mail_folder_id, e.received_at, now(), 1000, 'PlainTextBodyPart',
    concat_ws(' ', 'everywhere', 'filler' || (e.uid % 97), CASE WHEN e.uid <= {COUNT} * 0.4 THEN 'bygone' END,
        CASE WHEN e.uid % 4000 = 1 THEN 'seldom' END, 'first second', CASE WHEN e.uid % 3 = 0 THEN 'second first' END)
FROM stored_emails e;
ANALYZE email_search_documents, stored_emails;
SELECT gin_clean_pending_list('ix_email_search_documents_search_vector');
"""


@pytest.fixture(scope="module")
def filled_once(postgres_server: EmbeddedServer, template_database: str) -> str:
    """The name of a database with 24,000 messages over eleven years, some undated, a thousandth in a small folder."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE filled_once TEMPLATE {template_database}")
    with psycopg.connect(make_conninfo(postgres_server.dsn, dbname="filled_once"), autocommit=True) as connection:
        connection.execute(FILL)
    return "filled_once"


@pytest.fixture
def filled(postgres_server: EmbeddedServer, filled_once: str) -> str:
    """That database, for tests that only read."""
    return make_conninfo(postgres_server.dsn, dbname=filled_once)


@pytest.fixture
def filled_copy(postgres_server: EmbeddedServer, filled_once: str) -> Iterator[str]:
    """A copy of it to change."""
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE filled_copy TEMPLATE {filled_once} STRATEGY file_copy")
        yield make_conninfo(postgres_server.dsn, dbname="filled_copy")
        connection.execute("DROP DATABASE filled_copy WITH (FORCE)")


class Recorder:
    """A connection that notes the statements it carries out."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.statements: list[tuple[Any, Any]] = []

    async def execute(self, statement: Any, parameters: Any = None, **keywords: Any) -> Any:
        self.statements.append((statement, parameters))
        return await self.connection.execute(statement, parameters, **keywords)


def scan_nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of a plan that reads a relation or an index."""
    children = [node for child in plan.get("Plans", ()) for node in scan_nodes(child)]
    return [plan, *children] if "Scan" in plan["Node Type"] else children


EVERYTHING = Filters()
BOTH = {
    FolderId(1): FolderNames(AccountId("home"), "Home", "INBOX"),
    FolderId(2): FolderNames(AccountId("home"), "Home", "SMALL"),
}


async def find(
    dsn: str,
    text: str,
    *,
    folders: dict[FolderId, FolderNames] = BOTH,
    filters: Filters = EVERYTHING,
    languages: tuple[str, ...] = (),
) -> tuple[lexical.Window, list[dict[str, Any]]]:
    """Search, and return the window with the scans that the ranking statements made, measured."""
    node = read_query(text, now=datetime.now(UTC), zone=UTC).words
    assert node is not None
    async with Database(dsn) as db, db.connection() as connection:
        recorder = Recorder(connection)
        query = await queries.compile_query(connection, node, configuration="simple", languages=languages)
        assert query is not None
        window = await lexical.find(
            cast(Connection, recorder),
            Selection(folders=folders, filters=filters),
            query,
            limit=20,
            names_scope=folders is not BOTH,
        )
        scans: list[dict[str, Any]] = []
        for statement, parameters in recorder.statements:
            if "email_search_documents" in str(statement):
                cursor = await connection.execute(
                    f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters, prepare=False
                )
                row = await cursor.fetchone()
                assert row is not None
                scans += scan_nodes(row[0][0]["Plan"])
    return window, scans


def heap_rows(scans: list[dict[str, Any]]) -> float:
    """Rows of documents that were read in all statements."""
    return sum(node["Actual Rows"] for node in scans if node["Node Type"] == "Bitmap Heap Scan")


@pytest.mark.parametrize("text", ["seldom", "everywhere", "bygone", "every*", "bygo*", "seld*", "everywhere bygone"])
async def test_every_kind_of_word_enters_by_its_index(filled: str, text: str) -> None:
    """Rare, common, common but old, beginnings: the words' index, then rows by key; never the whole store."""
    _, scans = await find(filled, text)
    names = {node.get("Index Name") for node in scans}
    assert "ix_email_search_documents_search_vector" in names
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"]


@pytest.mark.spec("FIND-108")
@pytest.mark.parametrize("text", ["seldom", "everywhere", "bygone", "subject:everywhere"])
async def test_stems_in_many_languages_and_places_enter_by_the_same_index(filled: str, text: str) -> None:
    """A word, its stems with the marks of their languages, and its place: one walk through the words' index."""
    _, scans = await find(filled, text, languages=("de", "en", "es", "fr", "it", "nl"))
    assert "ix_email_search_documents_search_vector" in {node.get("Index Name") for node in scans}
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"]
    assert heap_rows(scans) < COUNT / 2


@pytest.mark.parametrize(("text", "matching"), [("everywhere", COUNT), ("bygone", COUNT * 0.4), ("bygo*", COUNT * 0.4)])
async def test_of_a_frequent_word_a_bounded_number_of_rows_is_read(filled: str, text: str, matching: int) -> None:
    """The newest thousand are ranked, the count is an estimate and says so, most matches are never touched."""
    window, scans = await find(filled, text)
    assert window.ranked.ranked == lexical.RANKED
    assert not window.match_count.is_exact
    assert matching * 0.6 < window.match_count.count < matching * 1.4
    assert heap_rows(scans) < 5_000


@pytest.mark.parametrize("text", ["everywhere", "bygone", "every*", "bygo*"])
async def test_the_ranked_matches_are_the_newest_ones(filled: str, text: str) -> None:
    """Equal ranks leave the timeline order, so the window is the newest twenty matches, as a full sort gives them."""
    window, _ = await find(filled, text)
    with psycopg.connect(filled) as connection:
        expected = connection.execute(
            "SELECT stored_email_id FROM email_search_documents WHERE search_vector @@ to_tsquery('simple', %s)"
            " ORDER BY ts_rank(search_vector, to_tsquery('simple', %s)) DESC, received_at DESC NULLS LAST,"
            " stored_email_id DESC LIMIT 20",
            [text.replace("*", ":*")] * 2,
        ).fetchall()
    assert [found for found, _ in window.ranked.best] == [row[0] for row in expected]


async def test_rare_words_are_ranked_whole_and_counted_exactly(filled: str) -> None:
    """All six messages are found, the undated ones included."""
    window, _ = await find(filled, "seldom")
    assert (window.ranked.ranked, window.match_count.count, window.match_count.is_exact) == (6, 6, True)


@pytest.mark.parametrize(("text", "expected"), [("everywhere", 24), ("bygone", 10), ("every*", 24), ("seldom", 6)])
async def test_a_folder_with_a_thousandth_of_the_mail_loses_no_hit(filled: str, text: str, expected: int) -> None:
    """The folder's mark is part of the query, so its matches are found without reading the others'."""
    window, scans = await find(filled, text, folders={FolderId(2): BOTH[FolderId(2)]})
    assert window.ranked.ranked == expected
    assert window.match_count.is_exact
    assert heap_rows(scans) < 200


async def test_tombstones_do_not_crowd_out_what_is_visible(filled_copy: str) -> None:
    """When the newest thousand matches are all hidden, the next ones are ranked (number 20,000 is undated)."""
    with psycopg.connect(filled_copy, autocommit=True) as connection:
        connection.execute("UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE uid > 20000")
    window, _ = await find(filled_copy, "everywhere")
    assert window.ranked.ranked == lexical.RANKED
    with psycopg.connect(filled_copy) as connection:
        row = connection.execute(
            "SELECT max(uid) FROM stored_emails WHERE id = ANY(%s)", [list(dict(window.ranked.best))]
        )
        assert (row.fetchone() or (None,))[0] == 19_999


async def test_a_selective_filter_is_the_way_in(filled_copy: str) -> None:
    """Of a frequent word and a rare sender, the sender is read first and every match is ranked."""
    with psycopg.connect(filled_copy, autocommit=True) as connection:
        connection.execute(
            "UPDATE stored_emails SET sender_normalized_address = 'ANN@EXAMPLE.COM' WHERE uid % 2000 = 1"
        )
    window, scans = await find(filled_copy, "everywhere", filters=Filters(sender_address="ANN@EXAMPLE.COM"))
    assert (window.ranked.ranked, window.match_count.is_exact) == (12, True)
    assert "pk_email_search_documents" in {node.get("Index Name") for node in scans}


async def test_a_phrase_of_frequent_words_is_found_wherever_it_is(filled: str) -> None:
    """Positions are checked on the rows; no match is given up for speed."""
    window, _ = await find(filled, '"second second"')
    assert window.ranked.ranked == lexical.RANKED
    missing, _ = await find(filled, '"first first"')
    assert missing.match_count == lexical.MatchCount(0, is_exact=True)


@pytest.mark.spec("FIND-29")
async def test_the_result_says_when_only_the_newest_were_ranked(filled: str) -> None:
    """`ranked_among` below the count is never silent."""
    async with Database(filled) as db:
        common = await search_emails(db, settings_for("home"), SearchRequest(query_text="everywhere"))
        rare = await search_emails(db, settings_for("home"), SearchRequest(query_text="seldom"))
    assert common.ranked_among == 1_000 < common.match_count.count
    assert rare.ranked_among == 6 == rare.match_count.count
    assert [entry.was_synchronized for entry in common.folder_freshness] == [False, False]
