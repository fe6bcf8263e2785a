"""The wire contract of section 11, byte for byte, on three hosts and both drivers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from inbox_support.hosts import HOSTS, Client, client_of, make_host
from inbox_support.mail import ANN, ODA, RecordingBus, rows, write
from sqlalchemy.ext.asyncio import AsyncEngine

pytestmark = pytest.mark.anyio

NIL = "00000000-0000-0000-0000-000000000000"
VERBS = ("read", "unread", "trash", "archive", "restore")
WITH_BODY = {
    "enrich": {"priority": "urgent"},
    "assign": {"assignee": "bob"},
    "snooze": {"until": "2099-01-01T00:00:00Z"},
    "labels": {"add": ["x"]},
}


@pytest.fixture
def bus() -> RecordingBus:
    return RecordingBus()


@pytest.fixture(params=HOSTS)
async def client(engine: AsyncEngine, bus: RecordingBus, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of each kind of host, on each driver."""
    async with client_of(make_host(request.param, engine, bus=bus)) as client:
        yield client


def error(text: str) -> bytes:
    return json.dumps({"error": text}, separators=(",", ":")).encode()


@pytest.mark.spec("INBOX-2", "INBOX-3", "INBOX-9", "INBOX-55", "INBOX-57", "INBOX-106")
async def test_list_and_detail_have_the_documented_bytes(client: Client, engine: AsyncEngine) -> None:
    """A message as listed and as read, key order included."""
    message_id = await write(
        engine, ANN, subject="Héllo", body="text\nmore", message_id="<a@x.example>", priority="urgent"
    )
    ((created,),) = await rows(engine, "SELECT created_at FROM mailbox.principal_mail")
    moment = created.strftime("%Y-%m-%dT%H:%M:%S.") + f"{created.microsecond // 1000:03d}Z"
    listed = (
        f'{{"messages":[{{"id":"{message_id}","from":"Bo <bo@x.example>","to":["usr_ann@acme.example"],'
        f'"subject":"Héllo","date":"{moment}","read":false,"messageId":"<a@x.example>","snippet":"text\\nmore",'
        '"priority":"urgent"}]}'
    )
    assert (await client.get("")).body.decode() == listed
    detail = await client.get(f"/{message_id}")
    assert detail.status == 200
    assert list(detail.json)[-1] == "body"
    assert detail.json["body"] == "text\nmore"
    assert detail.json["date"] == moment[:-4] + "000Z" or detail.json["date"] == moment  # Date has whole seconds
    assert detail.headers["content-type"] == "application/json"


@pytest.mark.spec("INBOX-82")
async def test_nobody_has_an_empty_inbox_and_may_name_nothing(client: Client) -> None:
    """An inbox is empty for nobody; naming or streaming an identity is refused."""
    nobody = client.as_(None)
    assert (await nobody.get("")).body == b'{"messages":[]}'
    assert (await nobody.get("/unread-count")).body == b'{"unread":0}'
    assert (await nobody.get("/search?q=word")).body == b'{"messages":[]}'
    assert (await nobody.get("/thread?kind=a&id=b")).body == b'{"messages":[]}'
    refused = [await nobody.get("/events"), await nobody.get(f"/{NIL}"), await nobody.get(f"/{NIL}/attachments/1")]
    refused += [await nobody.post(f"/{NIL}/{verb}") for verb in VERBS]
    refused += [await nobody.post(f"/{NIL}/{name}", body) for name, body in WITH_BODY.items()]
    refused += [
        await nobody.post("/bulk", {"action": "trash", "ids": []}),
        await nobody.post("/bulk-by-filter", {"action": "trash"}),
        await nobody.post("/mark-all-read"),
    ]
    assert {(answer.status, answer.body) for answer in refused} == {(403, error("No resolvable principalId"))}


BAD_LISTS = [
    ("limit=", "limit must be a positive integer"),
    ("limit=0", "limit must be a positive integer"),
    ("limit=-1", "limit must be a positive integer"),
    ("limit=1.0", "limit must be a positive integer"),
    ("limit=%2B1", "limit must be a positive integer"),
    ("limit=%D9%A1", "limit must be a positive integer"),
    ("limit=201", "limit must be at most 200"),
    ("limit=" + "9" * 5000, "limit must be at most 200"),
    ("view=", "invalid inbox view"),
    ("view=ALL", "invalid inbox view"),
    ("sort=", "invalid inbox sort"),
    ("sort=rank", "invalid inbox sort"),
    ("priority=", "unknown priority"),
    ("priority=other", "unknown priority"),
    ("status=", "unknown status"),
    ("status=other", "unknown status"),
    ("classification=" + "x" * 257, "invalid inbox filter"),
    ("assignee=" + "x" * 257, "invalid inbox filter"),
    ("cursor=", "malformed cursor"),
    ("cursor=%21", "malformed cursor"),
    ("limit=0&view=x&sort=x&priority=x&status=x&cursor=x", "limit must be a positive integer"),
    ("view=x&sort=x&priority=x&status=x&cursor=x", "invalid inbox view"),
    ("sort=x&priority=x&status=x&cursor=x", "invalid inbox sort"),
    ("priority=x&status=x&cursor=x", "unknown priority"),
    ("status=x&cursor=x", "unknown status"),
    ("assignee=%00&cursor=x", "invalid inbox filter"),
]


@pytest.mark.spec("INBOX-83")
@pytest.mark.parametrize("who", ["acme/ann", None])
async def test_list_refuses_the_first_fault_before_it_asks_who_it_is(client: Client, who: str | None) -> None:
    """Every refusal of the list with its text, in the documented order, for somebody and for nobody."""
    for query, text in BAD_LISTS:
        answer = await client.as_(who).get("?" + query)
        assert (answer.status, answer.body) == (400, error(text)), query


@pytest.mark.spec("INBOX-67", "INBOX-83")
async def test_cursor_serves_only_the_list_that_gave_it(client: Client, engine: AsyncEngine) -> None:
    """Another view, sort, filter or ordering is refused by name; the same list goes on."""
    for number in range(3):
        await write(engine, ANN, subject=str(number))
    first = (await client.get("?limit=2")).json
    cursor = first["nextCursor"]
    rest = (await client.get(f"?limit=2&cursor={cursor}")).json
    assert "nextCursor" not in rest
    assert len(first["messages"]) + len(rest["messages"]) == 3
    for change, text in (
        ("view=unread", "cursor does not match inbox view"),
        ("sort=priority", "cursor does not match inbox sort"),
        ("assignee=x", "cursor does not match inbox filter"),
    ):
        assert (await client.get(f"?{change}&cursor={cursor}")).body == error(text)
    ranked = (await client.get("?limit=2&sort=priority")).json["nextCursor"]
    other = make_host("starlette", engine, vocabulary=type_of_other_order())
    async with client_of(other) as stranger:
        answer = await stranger.get(f"?sort=priority&cursor={ranked}")
    assert answer.body == error("cursor does not match inbox priority ordering")


def type_of_other_order() -> Any:
    from mailkeep_inbox import MailboxVocabulary

    return MailboxVocabulary(("normal", "urgent", "low"), ("open", "done"))


@pytest.mark.spec("INBOX-83")
async def test_first_occurrence_counts_and_unknown_parameters_do_not(client: Client) -> None:
    """A repeated parameter is its first value; others are ignored."""
    assert (await client.get("?limit=5&limit=0&colour=%00")).status == 200
    assert (await client.get("?limit=0&limit=5")).status == 400


@pytest.mark.spec("INBOX-3")
async def test_trailing_slash_is_not_found_and_other_methods_are_refused(client: Client) -> None:
    """No host redirects below the root."""
    for path in ("/", "/unread-count/", f"/{NIL}/read/", "/a/b/c"):
        assert ((await client.get(path)).status, (await client.get(path)).body) == (404, error("Not Found")), path
    for method, path, allow in (
        ("DELETE", "", "GET"),
        ("POST", "/unread-count", "GET"),
        ("GET", f"/{NIL}/read", "POST"),
        ("HEAD", "", "GET"),
    ):
        answer = await client.send(method, path)
        assert answer.status == 405, (method, path)
        assert allow in answer.headers["allow"]


@pytest.mark.spec("INBOX-84", "INBOX-77")
async def test_id_is_checked_before_the_principal_and_absence_is_not_found(client: Client) -> None:
    """A path that is no UUID is 400 for anybody; one that matches nothing is 404."""
    for bad in ("x", "0" * 32, NIL + "0", NIL[:-1] + "g", "%00"):
        for who in (client, client.as_(None)):
            answers = [await who.get(f"/{bad}")]
            answers += [await who.post(f"/{bad}/{verb}") for verb in VERBS]
            answers += [await who.post(f"/{bad}/{name}", b"{") for name in WITH_BODY]
            assert {(each.status, each.body) for each in answers} == {(400, error("Message id must be a UUID"))}
    answers = [await client.get(f"/{NIL}")] + [await client.post(f"/{NIL}/{verb}") for verb in VERBS]
    answers += [await client.post(f"/{NIL}/{name}", body) for name, body in WITH_BODY.items()]
    assert {(each.status, each.body) for each in answers} == {(404, error("Message not found"))}
    assert (await client.get(f"/{NIL}/attachments/1")).body == error("Attachment not found")


@pytest.mark.spec("INBOX-76", "INBOX-88")
async def test_verbs_change_publish_and_answer(client: Client, engine: AsyncEngine, bus: RecordingBus) -> None:
    """Each verb answers the id, is announced once under its own name, and shows in the lists."""
    message_id = await write(engine, ANN)
    done = f'{{"id":"{message_id}","ok":true}}'.encode()
    for verb in ("read", "unread", "archive", "restore", "trash"):
        assert (await client.post(f"/{message_id}/{verb}")).body == done
    assert (await client.post(f"/{message_id}/archive")).status == 404
    assert [op for _, _, op in bus.wire] == ["mark_read", "mark_unread", "archive", "restore", "trash"]
    assert [each["id"] for each in (await client.get("?view=trash")).json["messages"]] == [message_id]
    assert (await client.get("/unread-count")).body == b'{"unread":0}'


BAD_ENRICHMENTS: list[tuple[object, str]] = [
    (b"", "invalid JSON body"),
    (b"{", "invalid JSON body"),
    (b"null", "invalid JSON body"),
    (b"\xff", "invalid JSON body"),
    (b'{"priority":NaN}', "invalid JSON body"),
    (b"[" * 100_00, "invalid JSON body"),
    ([], "invalid mailbox enrichment"),
    ("x", "invalid mailbox enrichment"),
    ({"priority": 1}, "invalid mailbox enrichment"),
    ({"classification": "x" * 257}, "invalid mailbox enrichment"),
    ({"priority": "other"}, "unknown priority"),
    ({"status": "other"}, "unknown status"),
    ({"priority": "other", "status": "other"}, "unknown priority"),
]


@pytest.mark.spec("INBOX-85")
async def test_enrichment_is_refused_in_the_documented_order(client: Client, engine: AsyncEngine) -> None:
    """JSON, shape and vocabulary before the principal; emptiness after it; absence last."""
    message_id = await write(engine, ANN, priority="low")
    for body, text in BAD_ENRICHMENTS:
        for who in (client, client.as_(None)):
            answer = await who.post(f"/{message_id}/enrich", body)
            assert (answer.status, answer.body) == (400, error(text)), body
    assert (await client.as_(None).post(f"/{message_id}/enrich", {})).status == 403
    empty = error("enrichment must set at least one of priority, classification, status")
    assert (await client.post(f"/{NIL}/enrich", {"colour": 1})).body == empty
    answer = await client.post(f"/{message_id}/enrich", {"priority": None, "status": "open", "colour": 1})
    assert answer.status == 200
    (listed,) = (await client.get("")).json["messages"]
    assert "priority" not in listed
    assert listed["status"] == "open"


@pytest.mark.spec("INBOX-112")
async def test_body_of_64_kib_is_read_and_a_larger_one_refused(client: Client) -> None:
    """The bound of a body, for every route that takes one."""
    for path in (*(f"/{NIL}/{name}" for name in WITH_BODY), "/bulk", "/bulk-by-filter"):
        assert (await client.post(path, b" " * 65_536)).body == error("invalid JSON body")
        refused = await client.post(path, b" " * 65_537)
        assert (refused.status, refused.body) == (413, error("request body too large"))


@pytest.mark.spec("INBOX-86")
async def test_assignment_needs_its_key(client: Client, engine: AsyncEngine) -> None:
    """A text or null; nothing else."""
    message_id = await write(engine, ANN)
    for body in ({}, {"assignee": 1}, [], {"assignee": "x" * 257}):
        assert (await client.post(f"/{message_id}/assign", body)).body == error("invalid mailbox assignment")
    assert (await client.post(f"/{message_id}/assign", {"assignee": "bob"})).status == 200
    assert (await client.get("?assignee=bob")).json["messages"][0]["assignee"] == "bob"
    assert (await client.post(f"/{message_id}/assign", {"assignee": None})).status == 200
    assert (await client.get("?assignee=bob")).json["messages"] == []


@pytest.mark.spec("INBOX-79", "INBOX-87", "INBOX-88")
async def test_bulk_answers_each_id_and_publishes_each_success(
    client: Client, engine: AsyncEngine, bus: RecordingBus
) -> None:
    """Partial success is normal; the refusals come in order."""
    one, two = await write(engine, ANN), await write(engine, ANN)
    answer = await client.post("/bulk", {"action": "archive", "ids": [one, NIL, two, one]})
    ok = [(one, True), (NIL, False), (two, True), (one, True)]
    assert answer.json == {"updated": 3, "results": [{"id": each, "ok": is_ok} for each, is_ok in ok]}
    assert bus.wire == [("ann", one, "archive"), ("ann", two, "archive"), ("ann", one, "archive")]
    assert (await client.post("/bulk", {"action": "trash", "ids": []})).body == b'{"updated":0,"results":[]}'
    for body, text in (
        (b"null", "invalid JSON body"),
        ({"action": "enrich", "ids": []}, "invalid bulk inbox request"),
        ({"action": "trash"}, "invalid bulk inbox request"),
        ({"action": "trash", "ids": [1]}, "invalid bulk inbox request"),
        ({"action": "trash", "ids": ["x"] * 51}, "each id must be a UUID"),
        ({"action": "trash", "ids": [NIL] * 51}, "bulk mailbox action accepts at most 50 ids"),
    ):
        answer = await client.post("/bulk", body)
        assert (answer.status, answer.body) == (400, error(text)), body
    assert (await client.as_(None).post("/bulk", {"action": "trash", "ids": [NIL] * 51})).status == 403


@pytest.mark.spec("INBOX-91", "INBOX-88")
async def test_failing_bus_costs_no_answer(engine: AsyncEngine) -> None:
    """The change is committed, so it is answered."""
    message_id = await write(engine, ANN)
    async with client_of(make_host("asgi", engine, bus=RecordingBus(RuntimeError("down")))) as client:
        assert (await client.post(f"/{message_id}/read")).status == 200
        assert (await client.post("/bulk", {"action": "trash", "ids": [message_id]})).json["updated"] == 1


@pytest.mark.spec("INBOX-16")
async def test_nul_and_lone_surrogates_are_refused_everywhere(client: Client, engine: AsyncEngine) -> None:
    """In each query parameter and each text of a body, raw or escaped, 400 and never a driver's error."""
    message_id = await write(engine, ANN)
    octets = ("%00", "a%00b", "%ED%A0%80", "%FF")
    for name in ("limit", "view", "sort", "priority", "status", "classification", "assignee", "label", "cursor"):
        for value in octets:
            assert (await client.get(f"?{name}={value}")).status == 400, (name, value)
    for value in octets:
        for query in (f"/search?q={value}", f"/thread?kind={value}&id=x", f"/thread?kind=x&id={value}"):
            assert (await client.get(query)).status == 400, query
        for name in ("direction", "cursor", "limit"):
            assert (await client.get(f"/thread?kind=x&id=x&{name}={value}")).status == 400
        for name in ("limit", "view", "priority", "status", "classification", "assignee", "label", "cursor"):
            assert (await client.get(f"/search?q=x&{name}={value}")).status == 400
    for bad in ("\\u0000", "\\ud800", "x\\udfff"):
        for path, body in (
            ("enrich", '{"priority":"%s"}'), ("enrich", '{"classification":"%s"}'), ("enrich", '{"status":"%s"}'),
            ("assign", '{"assignee":"%s"}'), ("snooze", '{"until":"%s"}'), ("labels", '{"add":["%s"]}'),
            ("labels", '{"remove":["%s"]}'),
        ):  # fmt: skip
            assert (await client.post(f"/{message_id}/{path}", (body % bad).encode())).status == 400, (path, body)
        for path, body in (
            ("bulk", '{"action":"%s","ids":[]}'), ("bulk", '{"action":"trash","ids":["%s"]}'),
            ("bulk-by-filter", '{"action":"%s"}'), ("bulk-by-filter", '{"action":"trash","view":"%s"}'),
            ("bulk-by-filter", '{"action":"trash","before":"%s"}'),
            ("bulk-by-filter", '{"action":"trash","filter":{"label":"%s"}}'),
            ("bulk-by-filter", '{"action":"trash","filter":{"assignee":"%s"}}'),
        ):  # fmt: skip
            assert (await client.post(f"/{path}", (body % bad).encode())).status == 400, (path, body)


@pytest.mark.spec("INBOX-102", "INBOX-104", "INBOX-108", "INBOX-112")
async def test_routes_beyond_the_contract(client: Client, engine: AsyncEngine, bus: RecordingBus) -> None:
    """Search, threads with both sides, sent mail, snooze, labels, mark all as read, bulk by filter."""
    from mailkeep_inbox import MailboxRef

    ref = MailboxRef("order", "7")
    asked = await write(engine, ANN, subject="Zebra order", refs=[ref], message_id="<q@x.example>")
    sent = await write(engine, ANN, subject="Answer", refs=[ref], direction="outbound", in_reply_to="<q@x.example>")
    (hit,) = (await client.get("/search?q=zebra")).json["messages"]
    assert hit["id"] == asked
    assert hit["highlights"]
    thread = (await client.get("/thread?kind=order&id=7")).json["messages"]
    assert [(each["id"], each["parentId"]) for each in thread] in (
        [(asked, None), (sent, asked)],
        [(sent, asked), (asked, None)],
    )
    assert [each["id"] for each in (await client.get("?view=sent")).json["messages"]] == [sent]
    assert (await client.get(f"/{sent}")).json["direction"] == "outbound"
    assert (await client.post(f"/{asked}/labels", {"add": ["blue"]})).status == 200
    assert [each["id"] for each in (await client.get("?label=blue")).json["messages"]] == [asked]
    assert (await client.post("/mark-all-read")).body == b'{"updated":1}'
    assert (await client.post(f"/{asked}/snooze", {"until": "2099-01-01T00:00:00Z"})).status == 200
    assert (await client.get("")).json["messages"] == []
    assert (await client.post(f"/{asked}/snooze", {"until": None})).status == 200
    moved = await client.post("/bulk-by-filter", {"action": "archive", "filter": {"label": "blue"}})
    assert moved.body == b'{"updated":1}'
    assert [each[2] for each in bus.wire] == ["label", "mark_read", "snooze", "snooze", "archive"]
    for body in ({"until": "soon"}, {"until": "2099-01-01T00:00:00"}, {}):
        assert (await client.post(f"/{asked}/snooze", body)).body == error("invalid mailbox snooze")


@pytest.mark.spec("INBOX-11", "INBOX-77")
async def test_another_tenant_with_equal_ids_sees_counts_and_changes_nothing(
    client: Client, engine: AsyncEngine, bus: RecordingBus
) -> None:
    """Every route, asked by the principal id of Ann under another tenant, and by a neighbour who knows her ids."""
    from mailkeep_inbox import MailboxRef

    message_id = await write(engine, ANN, subject="secret", refs=[MailboxRef("order", "7")])
    await write(engine, ODA, subject="other")
    before = await rows(engine, "SELECT * FROM mailbox.mailbox ORDER BY id")
    for who in ("other/ann", "acme/bob"):
        stranger = client.as_(who)
        assert (await stranger.get("")).body == b'{"messages":[]}'
        assert (await stranger.get("/unread-count")).body == b'{"unread":0}'
        assert (await stranger.get("/search?q=secret")).body == b'{"messages":[]}'
        assert (await stranger.get("/thread?kind=order&id=7")).body == b'{"messages":[]}'
        assert (await stranger.get(f"/{message_id}")).status == 404
        assert (await stranger.get(f"/{message_id}/attachments/1")).status == 404
        for verb in VERBS:
            assert (await stranger.post(f"/{message_id}/{verb}")).status == 404
        for name, body in WITH_BODY.items():
            assert (await stranger.post(f"/{message_id}/{name}", body)).status == 404
        bulk = await stranger.post("/bulk", {"action": "trash", "ids": [message_id]})
        assert bulk.json["results"] == [{"id": message_id, "ok": False}]
        assert (await stranger.post("/bulk-by-filter", {"action": "trash"})).body == b'{"updated":0}'
        assert (await stranger.post("/mark-all-read")).body == b'{"updated":0}'
    assert await rows(engine, "SELECT * FROM mailbox.mailbox ORDER BY id") == before
    assert bus.published == []
