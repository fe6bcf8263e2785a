"""Searching by meaning on a real database: ranking, scopes, the index and its shortfalls, fusion, states, extracts."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from support.embedding import Machine, answer, endpoint, hosted, scripted_endpoint, settings_with, status
from support.mail import message
from support.store import rows
from support.stored import folder, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.embeddings import Meaning, Profile, SemanticState
from mailkeep.embeddings.index import create_statement
from mailkeep.embeddings.profiles import living_profiles
from mailkeep.mailbox import SpecialUse, resolve_scope
from mailkeep.search import Filters, RetrievalMode, SearchRequest, SearchResult, SemanticSearch, search_emails, semantic
from mailkeep.search.run import selection_of

pytestmark = pytest.mark.anyio
WIDTH = 16
BULK = 5_000


async def search(machine: Machine, text: str, **more: Any) -> SearchResult:
    request = SearchRequest(query_text=text, **more)
    return await search_emails(machine.db, machine.settings, request, embeddings=machine.embeddings)


def subjects(result: SearchResult) -> list[str | None]:
    return [match.summary.subject for match in result.matches]


async def active(db: Database) -> Profile:
    async with db.connection() as connection:
        profile, _ = await living_profiles(connection)
    assert profile is not None
    return profile


@pytest.mark.spec("FIND-46", "FIND-50")
@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("Cosine", ["same way", "near", "far"]),
        ("InnerProduct", ["near", "same way", "far"]),
        ("EuclideanDistance", ["near", "same way", "far"]),
    ],
)
async def test_messages_are_ranked_by_their_nearest_passage_with_the_metric_s_operator(
    db: Database, metric: str, expected: list[str]
) -> None:
    """The minimum over a message's passages counts; mail without a vector is absent, not distant."""
    vectors = {"same": [0.1, 0.0, 0.0, 0.0], "near": [1.1, 0.2, 0.0, 0.0], "far": [0.0, 0.0, 1.0, 0.0]}

    def of(text: str) -> list[float]:
        return next((vector for word, vector in vectors.items() if text.startswith(word)), [1.0, 0.0, 0.0, 0.0])

    async with scripted_endpoint() as server:
        server.script = lambda body: answer(body, vector=of)
        machine = Machine(db, settings_with(hosted(server.port, distance_metric=metric, normalize_vectors=False)))
        mails = [message("far", body="far"), message("same way", body="same"), message("near", body="near")]
        await store(db, await folder(db, "home"), mails)
        await machine.build()
        await store(db, await folder(db, "home"), [message("unembedded", body="near as well")], first_uid=9)
        result = await search(machine, "wxyz")
        await machine.embeddings.close()
    assert subjects(result) == expected
    assert result.retrieval_mode is RetrievalMode.HYBRID
    assert result.semantic_search is SemanticSearch.AVAILABLE


@pytest.mark.spec("FIND-46")
async def test_the_nearest_of_several_passages_speaks_for_the_message_and_is_shown(db: Database) -> None:
    """A long message is found by its last passage; without the query's words that passage's beginning is its extract."""
    filler = "Nothing of interest stands in this sentence at all. " * 40

    def of(text: str) -> list[float]:
        return [1.0, 0.0, 0.0, 0.0] if "harbour" in text or "departure" in text else [0.0, 1.0, 0.0, 0.0]

    async with scripted_endpoint() as server:
        server.script = lambda body: answer(body, vector=of)
        machine = Machine(db, settings_with(hosted(server.port)))
        long = f"{filler}\n\nFrom the harbour at eight. {filler}"
        await store(db, await folder(db, "home"), [message("Other", body=filler), message("Long", body=long)])
        await machine.build()
        result = await search(machine, "departure")
        lexical = await search(machine, "harbour")
        await machine.embeddings.close()
    assert subjects(result)[0] == "Long"
    shown = result.matches[0].nearest_passage
    assert shown is not None
    (nearest,) = await rows(db, "SELECT text FROM email_chunks WHERE text LIKE '%%harbour%%' ORDER BY ordinal LIMIT 1")
    assert " ".join(nearest[0].split()).startswith(shown.removesuffix("…"))
    assert len(shown.split()) <= 2 * 24
    assert result.matches[0].snippets == ()
    assert lexical.matches[0].snippets
    assert lexical.matches[0].nearest_passage is None


@pytest.mark.spec("FIND-46", "FIND-6", "FIND-7", "FIND-48")
async def test_mail_outside_the_selection_never_takes_part(db: Database) -> None:
    """Junk, other folders, filtered and hidden mail neither appear nor move anything in the fused order."""
    machine = Machine(db, settings_with(endpoint(dimension=64)))
    inbox, quiet = await folder(db, "home"), await folder(db, "home", "QUIET")
    junk = await folder(db, "home", "JUNK", special_use=SpecialUse.JUNK)
    await store(db, inbox, [message("a", body="ferry island"), message("b", body="ferry harbour morning")])
    await store(db, quiet, [message("c", body="ferry island")])
    await store(db, junk, [message("d", body="ferry island")])
    await machine.build()
    alone = await search(machine, "ferry", folders=("INBOX",))
    assert set(subjects(alone)) == {"a", "b"}
    assert set(subjects(await search(machine, "ferry"))) == {"a", "b", "c"}
    await rows(db, "UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE subject = 'c' RETURNING 1")
    after = await search(machine, "ferry")
    assert [(m.summary.subject, m.relevance_rank) for m in after.matches] == [
        (m.summary.subject, m.relevance_rank) for m in alone.matches
    ]
    dated = await search(machine, "ferry", filters=Filters(subject_fragment="b"))
    assert subjects(dated) == ["b"]


@pytest.mark.spec("FIND-46")
async def test_quoted_excluded_and_field_words_bind_messages_found_by_meaning(db: Database) -> None:
    """`-word`, "a phrase" and subject: hold for every match; plain words need not stand in the mail."""
    machine = Machine(db, settings_with(endpoint(dimension=64)))
    mails = [message("red", body="ferry blue island"), message("green", body="ferry black island")]
    await store(db, await folder(db, "home"), mails)
    await machine.build()
    assert set(subjects(await search(machine, "ferries"))) == {"red", "green"}
    assert subjects(await search(machine, "ferries -blue")) == ["green"]
    assert subjects(await search(machine, 'ferries "black island"')) == ["green"]
    assert subjects(await search(machine, "ferries subject:red")) == ["red"]


@pytest.mark.spec("FIND-48")
async def test_a_message_in_both_rankings_wins_over_one_in_either(db: Database) -> None:
    """Scores are sums of 1/(60 + place); identical requests give identical answers."""
    machine = Machine(db, settings_with(endpoint(dimension=64)))
    mails = [message("both", body="ferry island"), message("none", body="budget table"), message("words", body="ferry")]
    await store(db, await folder(db, "home"), mails)
    await machine.build()
    result = await search(machine, "ferry island")
    assert subjects(result)[0] == "both"
    assert result.matches[0].relevance_rank == pytest.approx(1 / 61 + 1 / 61)
    assert [m.relevance_rank for m in (await search(machine, "ferry island")).matches] == [
        m.relevance_rank for m in result.matches
    ]


@pytest.mark.spec("FIND-35", "FIND-50")
async def test_a_query_of_signs_alone_still_ranks_by_meaning_and_fields_alone_do_not(db: Database) -> None:
    """What holds no word matches nothing lexically; a query of fields has nothing to be embedded."""
    async with scripted_endpoint() as server:
        machine = Machine(db, settings_with(hosted(server.port)))
        await store(db, await folder(db, "home"), [message("a", body="ferry island")])
        await machine.build()
        asked = len(server.requests)
        assert subjects(await search(machine, "??")) == ["a"]
        assert len(server.requests) == asked + 1
        fields = await search(machine, "from:ann")
        assert fields.retrieval_mode is RetrievalMode.LEXICAL
        assert fields.semantic_search is SemanticSearch.AVAILABLE
        assert len(server.requests) == asked + 1
        await machine.embeddings.close()


@pytest.mark.spec("FIND-49", "FIND-51", "FIND-52", "FIND-53")
async def test_states_follow_the_provider_and_a_failure_is_left_alone_for_a_minute(db: Database) -> None:
    """Inactive without vectors; lexical and degraded while the provider fails, asked again once a minute has passed."""
    async with scripted_endpoint() as server:
        machine = Machine(db, settings_with(hosted(server.port)))
        await store(db, await folder(db, "home"), [message("a", body="ferry island")])
        before = await search(machine, "ferry")
        assert (before.retrieval_mode, before.semantic_search) == (RetrievalMode.LEXICAL, SemanticSearch.INACTIVE)
        assert server.requests == []
        await machine.build()
        machine.clock.move(minutes=1)
        server.script = status(503)
        asked = len(server.requests)
        for _ in range(3):
            result = await search(machine, "ferry")
            assert subjects(result) == ["a"]
            assert (result.retrieval_mode, result.semantic_search) == (RetrievalMode.LEXICAL, SemanticSearch.DEGRADED)
        assert len(server.requests) == asked + 1
        other = Machine(db, machine.settings, clock=machine.clock)
        assert (await search(other, "ferry")).semantic_search is SemanticSearch.DEGRADED
        assert len(server.requests) == asked + 1
        server.script = answer
        machine.clock.move(seconds=61)
        assert (await search(machine, "ferry")).retrieval_mode is RetrievalMode.HYBRID
        assert len(server.requests) == asked + 2
        assert await machine.embeddings.state() is SemanticState.AVAILABLE
        await machine.embeddings.close()
        await other.embeddings.close()


@pytest.mark.spec("FIND-95", "FIND-35")
async def test_no_query_passage_or_vector_is_logged(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Building, failing and searching at every level of logging leave no words of mail or query."""
    caplog.set_level(1)
    async with scripted_endpoint() as server:
        machine = Machine(db, settings_with(hosted(server.port)))
        await store(db, await folder(db, "home"), [message("a", body="xyzzyferry island")])
        await machine.build()
        await search(machine, "plughquery")
        machine.clock.move(minutes=5)
        server.script = status(400)
        await search(machine, "plughquery")
        await machine.embeddings.close()
    told = " ".join(
        f"{record.getMessage()} {record.__dict__}" for record in caplog.records if "mailkeep" in record.name
    )
    assert "embedding provider changed" in told
    for secret in ("xyzzyferry", "plughquery", "ann@example.com", str(server.port)):
        assert secret not in told


async def bulk(db: Database, settings: Settings) -> list[tuple[float, ...]]:
    """BULK messages with clustered vectors, written in one go: 0.1% in TINY, a sender of 25, two accounts. Queries."""
    machine = Machine(db, settings)
    boxes = [
        await folder(db, account, alias) for account, alias in (("home", "INBOX"), ("work", "INBOX"), ("home", "TINY"))
    ]
    _, profile = await machine.embeddings.activate()
    random = Random(5)
    centres = [[random.gauss(0, 1) for _ in range(WIDTH)] for _ in range(60)]

    def near() -> tuple[float, ...]:
        vector = [number + random.gauss(0, 0.35) for number in centres[random.randrange(60)]]
        length = math.sqrt(sum(number * number for number in vector))
        return tuple(number / length for number in vector)

    async with db.connection() as connection:
        await connection.execute(
            "INSERT INTO stored_emails (id, mailbox_account_id, mail_folder_id, uid_validity, uid, received_at, size_octets,"
            " content_availability, to_addresses, cc_addresses, reply_to_addresses, thread_references, attachment_count,"
            " inline_resource_count, attachment_total_size_octets, is_encrypted, carries_unverified_signature,"
            " contains_unexpanded_tnef_part, is_structurally_read, stored_at, sender_normalized_address)"
            " SELECT gen_random_uuid(), CASE WHEN n %% 2 = 0 THEN 'home' ELSE 'work' END,"
            " CASE WHEN n %% 1000 = 0 THEN %s WHEN n %% 2 = 0 THEN %s ELSE %s END, 1, n,"
            " timestamptz '2026-01-01Z' + n * interval '1 minute', 1, 'Available', '{}', '{}', '{}', '{}', 0, 0, 0, false,"
            " false, false, true, now(), CASE WHEN n %% 200 = 3 THEN 'greta@example.com' ELSE 'x@example.com' END"
            " FROM generate_series(1, %s) n",
            [boxes[2].folder_id, boxes[0].folder_id, boxes[1].folder_id, BULK],
        )
        await connection.execute(
            "INSERT INTO email_chunks SELECT gen_random_uuid(), id, 0, 0, 'text', repeat('0', 64), 1, false, now()"
            " FROM stored_emails"
        )
        chunks = [row[0] for row in await (await connection.execute("SELECT id FROM email_chunks")).fetchall()]
        await connection.execute(f"DROP INDEX ix_email_embeddings_hnsw_{profile.id.hex}")
        async with connection.cursor().copy("COPY email_embeddings FROM STDIN") as copy:
            for chunk in chunks:
                await copy.write_row((chunk, profile.id, WIDTH, "[" + ",".join(map(repr, near())) + "]", "2026-01-01Z"))
        await connection.execute(create_statement(profile))
        await connection.execute("UPDATE embedding_profiles SET lifecycle_state = 'Active'")
    async with db.connection() as connection:
        await connection.execute("ANALYZE")
    return [near() for _ in range(12)]


@pytest.mark.spec("FIND-47", "FIND-46")
async def test_recall_stays_above_095_in_every_scope_and_broad_ones_walk_the_index(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unscoped, one account, one folder of 0.1% and one sender, each against comparing everything."""
    accounts = [{"account_id": one, "display_name": one.title(), "kind": "local"} for one in ("home", "work")]
    base = settings_with(endpoint(dimension=WIDTH))
    section = base.mail_synchronization.model_validate({"accounts": accounts})
    settings = base.model_copy(update={"mail_synchronization": section})
    queries = await bulk(db, settings)
    profile = await active(db)
    walked: list[bool] = []
    by_index = semantic.VectorSearch.by_index

    async def noted(self: semantic.VectorSearch, connection: Any, *, limit: int) -> Any:
        found = await by_index(self, connection, limit=limit)
        walked.append(found is not None)
        return found

    monkeypatch.setattr(semantic.VectorSearch, "by_index", noted)
    scopes: dict[str, tuple[dict[str, Any], Filters, bool]] = {
        "unscoped": ({}, Filters(), True),
        "account": ({"accounts": ("work",)}, Filters(), True),
        "folder": ({"folders": ("TINY",)}, Filters(), False),
        "sender": ({}, Filters(sender_address="greta@example.com"), False),
    }
    for name, (named, filters, is_broad) in scopes.items():
        walked.clear()
        selection = selection_of(settings, await resolve_scope(db, settings, **named), filters)
        found = wanted = 0
        for vector in queries:
            async with db.connection() as connection:
                exact = await semantic.VectorSearch(selection, profile, vector, None).exactly(connection, limit=20)
            async with db.connection() as connection:
                meaning = Meaning(SemanticState.AVAILABLE, profile, vector)
                ranked = await semantic.rank(connection, selection, meaning, strict=None, limit=80)
            ids = {hit.stored_email_id for hit in ranked[:20]}
            found += sum(hit.stored_email_id in ids for hit in exact)
            wanted += len(exact)
        assert wanted == min(20, {"folder": 5, "sender": 25}.get(name, BULK)) * len(queries)
        assert found / wanted >= (0.95 if is_broad else 1.0), name
        assert walked == [True] * len(queries) * is_broad, name


@pytest.mark.spec("FIND-47")
async def test_a_walk_that_ends_early_is_made_good_by_comparing_everything(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bound of one tuple the index gives too few messages, and the answer is the exact one all the same."""
    settings = settings_with(endpoint(dimension=WIDTH))
    (query, *_) = await bulk(db, settings)
    profile = await active(db)
    monkeypatch.setattr(semantic, "MAX_SCAN_TUPLES", 1)
    monkeypatch.setattr(semantic, "EF_SEARCH", 10)
    selection = selection_of(settings, await resolve_scope(db, settings), Filters())
    async with db.connection() as connection:
        exact = await semantic.VectorSearch(selection, profile, query, None).exactly(connection, limit=80)
    async with db.connection() as connection:
        meaning = Meaning(SemanticState.AVAILABLE, profile, query)
        found = await semantic.rank(connection, selection, meaning, strict=None, limit=80)
    assert [hit.stored_email_id for hit in found] == [hit.stored_email_id for hit in exact]
    async with db.connection() as connection:
        short = await semantic.VectorSearch(selection, profile, query, None).by_index(connection, limit=80)
    assert short is None
