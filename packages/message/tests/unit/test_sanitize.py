"""Harmless HTML."""

from __future__ import annotations

import re

import pytest

from mailkeep_message import sanitize_html

HOSTILE = (
    '<p style="color:red" onclick="x()" title="t" id="app">a<script>steal()</script><a href="https://evil.test">link</a>'
    '<img src="cid:x" alt="pic"><img src="https://t.test/p.gif"><form action="/x"><input name=q></form>'
    '<template><b>t</b></template><style>@import url(//t.test)</style><label for="send">send</label>'
    '<table><tr><td colspan="2" background="//t.test/x">cell</td></tr></table><svg><a xlink:href="javascript:x">s</a></svg>'
)


@pytest.mark.spec("SYNC-134")
def test_only_allow_listed_elements_and_attributes_survive() -> None:
    """Structure and words stay; handlers, ids, styles and labels go."""
    clean, was_cut = sanitize_html(HOSTILE, max_characters=10_000)
    assert not was_cut
    assert '<p title="t">a' in clean
    assert '<td colspan="2">cell</td>' in clean
    names = set(re.findall(r"\s([a-z:-]+)=", clean))
    assert names <= {"alt", "colspan", "dir", "lang", "rowspan", "title"}


@pytest.mark.spec("SYNC-134")
@pytest.mark.parametrize(
    "forbidden",
    [
        "evil.test",
        "t.test",
        "cid:",
        "javascript",
        "style",
        "template",
        "steal",
        "<script",
        "<form",
        "<label",
        "@import",
    ],
)
def test_no_way_out_survives(forbidden: str) -> None:
    """No URI of any scheme, style, cid or template, and disallowed elements go with their content."""
    assert forbidden not in sanitize_html(HOSTILE, max_characters=10_000)[0]


@pytest.mark.spec("SYNC-134")
def test_the_result_fits_and_the_cut_is_told() -> None:
    """The source is cut first, then shrunk until the escaped result fits."""
    clean, was_cut = sanitize_html("<p>" + "&" * 1000, max_characters=100)
    assert was_cut
    assert 0 < len(clean) <= 100
    assert sanitize_html("x" * 50, max_characters=50) == ("x" * 50, False)
    assert sanitize_html("", max_characters=0) == ("", False)
    assert len(sanitize_html("<b><i>" * 50, max_characters=30)[0]) <= 30
