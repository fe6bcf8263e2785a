"""The pages as text: escaped, neutralised, complete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from mailkeep.app import AccountReport, FolderReport, QuarantineEntry
from mailkeep.following import SettingsNotice
from mailkeep.http import pages

NOW = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
EVIL = '"><script>alert(1)</script>\x1b[31m\u202e'


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes.extend(attrs)


def assert_harmless(text: str) -> None:
    """No script, no handler, nothing loaded from elsewhere, nothing a terminal or browser reorders."""
    tags = Tags(text)
    assert not {"script", "img", "iframe", "object", "style", "base"} & set(tags.names)
    for name, value in tags.attributes:
        assert not name.startswith("on")
        if name in ("href", "src", "action"):
            assert (value or "").startswith("/")
    assert not set(text) & set("\x1b\u202e")


def folder(**changes: object) -> FolderReport:
    """A folder's counts."""
    values: dict[str, object] = {
        "folder": EVIL,
        "path": EVIL,
        "role": None,
        "server": 10,
        "stored": 7,
        "quarantined": 1,
        "skipped": 1,
        "skipped_by_reason": {"ExceededSizeLimit": 1},
        "missing": 1,
        "unreadable": 0,
        "gone": 0,
        "observed_at": NOW,
        "synchronized_at": NOW - timedelta(seconds=65),
    }
    return FolderReport(**(values | changes))  # type: ignore[arg-type]


def test_the_status_page_shows_every_count_and_reason_harmlessly() -> None:
    """Hostile names are text; counts, reasons, freshness and the quarantine are all there."""
    account = AccountReport(EVIL, EVIL, "imap", (folder(),), "WaitingForNextRun", NOW + timedelta(minutes=2), 3)
    entry = QuarantineEntry(EVIL, EVIL, 7, "StorageRefused", EVIL, None, 2, NOW, NOW)
    text = pages.status_page([account], [entry], now=NOW, mcp_enabled=True)
    assert_harmless(text)
    for shown in (
        "1 ExceededSizeLimit",
        "1 min 5 s ago",
        "next run in 2 min 0 s",
        "3 failed runs",
        "StorageRefused",
        "/mcp",
    ):
        assert shown in text
    assert "account add" in pages.status_page([], [], now=NOW, mcp_enabled=False)


def test_phases_and_failures_read_as_words() -> None:
    """A person reads what happens, not the name of a state, and one failure is not many."""
    account = AccountReport("a", "A", "imap", (folder(),), "WaitingForNextRun", NOW + timedelta(minutes=2), 1)
    text = pages.status_page([account], [], now=NOW, mcp_enabled=True)
    assert "WaitingForNextRun" not in text
    assert "1 failed run in a row" in text


@pytest.mark.spec("SYNC-34")
def test_a_server_that_is_left_alone_is_said_to_be() -> None:
    """An open breaker shows in words, closed ones do not."""
    for state, is_shown in (("Closed", False), ("Open", True), ("HalfOpen", True)):
        account = AccountReport("a", "A", "imap", (), "WaitingForNextRun", breakers={"mailbox_data_retrieval": state})
        text = pages.status_page([account], [], now=NOW, mcp_enabled=True)
        assert ("left alone" in text) is is_shown


def test_unknown_counts_are_not_shown_as_zero() -> None:
    """A folder that was never compared says so."""
    text = pages.status_page(
        [AccountReport("a", "a", "imap", (folder(server=None, missing=None, synchronized_at=None),))],
        [],
        now=NOW,
        mcp_enabled=False,
    )
    assert text.count("<td class=n>?</td>") == 2
    assert "never" in text


def test_search_results_mark_words_after_escaping() -> None:
    """Matched words are marked; markup of a mail stays text, and odd asterisks mark nothing."""
    assert pages.snippet("a **<b>** c") == "a <mark>&lt;b&gt;</mark> c"
    assert pages.snippet("2 ** 3 <b>") == "2 ** 3 &lt;b&gt;"
    block = pages.result_block(
        email_id="id", subject=EVIL, sender=EVIL, when="now", place=EVIL, snippets=[pages.snippet(EVIL)]
    )
    assert_harmless(pages.search_page(EVIL, [block], notes=[EVIL], more="cursor=a&q=b"))
    assert "Nothing found" in pages.search_page("x", [], notes=[], more=None)


def test_a_message_is_plain_text() -> None:
    """Body, fields, attachment names and notes are escaped, lines kept."""
    line = pages.attachment_line("id", 0, EVIL, remark=EVIL, has_text=True)
    text = pages.message_page(
        subject=EVIL,
        fields=[("From", EVIL), ("Cc", "")],
        body=f"one\n{EVIL}\ntwo",
        attachments=[line],
        notes=[EVIL],
        alike="like=id",
    )
    assert_harmless(text)
    assert '<a href="/message/id/attachment/0">' in text
    assert "<a" not in pages.attachment_line("id", 0, "photo.jpg", remark="found by name only", has_text=False)
    assert_harmless(pages.attachment_page("id", EVIL, EVIL, EVIL, is_cut=True))
    hit = pages.attachment_hit("id", 3, EVIL, [f"**{EVIL}**"])
    assert_harmless(pages.search_page("q", [hit], notes=[], more=None))
    assert 'in attachment <a href="/message/id/attachment/3">' in hit
    assert "one\n" in text
    assert "<th>Cc" not in text
    assert "no subject" in pages.message_page(subject=None, fields=[], body="", attachments=[], notes=[], alike="")
    assert_harmless(pages.error_page(EVIL, EVIL))


@pytest.mark.spec("SYNC-2")
def test_the_status_page_says_why_changed_settings_are_not_in_use_and_what_waits() -> None:
    """Harmlessly, and nothing while there is nothing to say."""
    broken = pages.status_page(
        [], [], now=NOW, mcp_enabled=True, notice=SettingsNotice(trouble="<b>: is not a setting")
    )
    assert "not in use" in broken
    assert "&lt;b&gt;: is not a setting" in broken
    waiting = pages.status_page([], [], now=NOW, mcp_enabled=True, notice=SettingsNotice(needs_restart=("http",)))
    assert "Waiting for a restart: http" in waiting
    assert "Settings" not in pages.status_page([], [], now=NOW, mcp_enabled=True, notice=SettingsNotice())
