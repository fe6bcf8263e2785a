"""The guide shows the routes as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailkeep_inbox import MailboxEventOp, MailboxVocabulary, mailbox_openapi
from mailkeep_inbox.reference import http_reference, renewed

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "inbox.md"


@pytest.mark.spec("INBOX-89")
def test_http_reference_of_the_guide_is_written_from_the_document() -> None:
    """`python -m mailkeep_inbox.reference docs/guide/inbox.md` would change nothing; no route is left out."""
    page = GUIDE.read_text("utf-8")
    assert renewed(page) == page
    for path, methods in mailbox_openapi(MailboxVocabulary(("a",), ("b",)))["paths"].items():
        for method in methods:
            assert f"### {method.upper()} `{path}`" in http_reference()


@pytest.mark.spec("INBOX-96")
def test_client_contract_is_documented_with_every_op() -> None:
    """Reconnect and fetch again; every op that a stream may carry is named."""
    contract = GUIDE.read_text("utf-8").partition("## The contract of events")[2].partition("\n## ")[0]
    assert "After any disconnection reconnect and fetch again" in contract
    assert "missed, repeated" in contract
    for op in MailboxEventOp:
        assert f"`{op}`" in contract
