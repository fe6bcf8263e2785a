"""HTML to text: readable, and bounded in time and depth."""

from __future__ import annotations

import time

import pytest

from mailkeep_message.html import html_to_text, referenced_content_ids


def shown(source: str) -> str:
    return html_to_text(source, maximum=100_000)


@pytest.mark.spec("SYNC-108")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<title>t</title><script>s('<p>')</script><style>p{}</style>hello", "hello"),
        ("a<!-- <p>no</p> -->b", "ab"),
        ("a<!-- never closed", "a never closed"),
        ("a<script>never closed", "a"),
        ("a<![if !mso]>b<![endif]>c", "abc"),
        ("one<br>two<BR/>three", "one\ntwo\nthree"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a\n\nb"),
        ("<li>one<li>two", "one\ntwo"),
        ("in<b>li</b>ne", "inline"),
        ("a  \n\t b&nbsp;&nbsp;c", "a b c"),
        ("a<br><br><br><br>b", "a\n\nb"),
        ("&lt;b&gt; &amp;amp; &eacute; &#8364; &#x1F600;", "<b> &amp; é € 😀"),
        ("&#0;&#xD800;&#99999999999;&#x110000;x", "x"),
        ('<a title="a>b" href=x>link</a>', "link"),
        ("2 < 3 and 4 > 3", "2 < 3 and 4 > 3"),
        ("<p>unclosed <b", "unclosed"),
        ("zero\u200bwidth\u00adhyphen", "zerowidthhyphen"),
        ("", ""),
    ],
)
def test_html_becomes_readable_text(source: str, expected: str) -> None:
    """Hidden content goes, blocks break lines, references are decoded, white space is collapsed."""
    text = shown(source).replace("\ufffd", "")
    assert text == expected


@pytest.mark.spec("SYNC-108")
def test_quoting_blocks_are_marked_as_in_plain_mail() -> None:
    """So that trimming sees them; other blocks are not."""
    assert shown('a<blockquote type="cite">b<blockquote type=cite>c</blockquote></blockquote>d') == "a\n> b\n>> c\n\nd"
    assert shown("a<blockquote>b</blockquote>c") == "a\nb\nc"


@pytest.mark.spec("SYNC-108")
@pytest.mark.parametrize(
    "source",
    [
        "<div>" * 300 + "deep" + "</div>" * 300,
        "<div>" * 200_000 + "deep",
        "<" * 500_000 + " deep",
        "<a " * 300_000 + ">deep",
        "<a '" * 200_000 + "'>deep",
        "<!--" * 200_000 + "-->deep",
        "<title>" * 50_000 + "</title>deep",
        "&#" * 200_000 + "deep",
        " " * 500_000 + "deep",
        "<blockquote type=cite>" * 20_000 + "deep",
    ],
    ids=["300 deep", "200000 deep", "<", "<a", "<a quote", "<!--", "<title>", "&#", "blanks", "blockquotes"],
)
def test_hostile_html_takes_linear_time(source: str) -> None:
    """Neither depth nor unclosed markup multiplies the work."""
    start = time.process_time()
    text = html_to_text(source, maximum=1_000_000)
    assert time.process_time() - start < 3
    assert text.endswith("deep")


@pytest.mark.spec("SYNC-107")
def test_cost_follows_the_bound_not_the_source() -> None:
    """Five megabytes of HTML are read as far as twenty times the wanted text."""
    source = "<p>word</p>" * 450_000
    assert len(html_to_text(source, maximum=1000)) < 20_000


@pytest.mark.spec("SYNC-101")
def test_content_ids_are_found_in_attributes_and_styles_only() -> None:
    """Percent-decoded, whatever the case; text that mentions one is no reference."""
    source = (
        '<img src="cid:one%40x"><td background=CID:two><div style="background:url(cid:three)">'
        "<style>p{background:url('cid:four')}</style><p>see cid:five"
    )
    assert referenced_content_ids(source) == {"one@x", "two", "three", "four"}
