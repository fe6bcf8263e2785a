"""HTML for people, made harmless: allow-listed elements, a handful of attributes, no way out (SYNC-134)."""

from __future__ import annotations

from typing import Final

_ELEMENTS: Final = frozenset(
    (
        "a", "abbr", "address", "article", "aside", "b", "bdi", "bdo", "big", "blockquote", "br", "caption", "center",
        "cite", "code", "col", "colgroup", "dd", "del", "details", "dfn", "div", "dl", "dt", "em", "figcaption",
        "figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "i", "ins", "kbd", "li", "main",
        "mark", "ol", "p", "pre", "q", "s", "samp", "section", "small", "span", "strike", "strong", "sub", "summary",
        "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr", "tt", "u", "ul", "var", "wbr",
    )
)  # fmt: skip
_ATTRIBUTES: Final = frozenset(("alt", "colspan", "dir", "lang", "rowspan", "title"))
_DROPPED_WITH_CONTENT: Final = frozenset(
    (
        "applet", "audio", "button", "canvas", "embed", "form", "frameset", "head", "iframe", "input", "label",
        "listing", "map", "math", "noembed", "noframes", "noscript", "object", "option", "plaintext", "script",
        "select", "style", "svg", "template", "textarea", "title", "video", "xmp",
    )
)  # fmt: skip


def sanitize_html(html: str, *, max_characters: int) -> tuple[str, bool]:
    """Return harmless HTML of at most `max_characters` and whether anything of the source was cut for the bound.

    No URI scheme, style, `cid:` or template survives; the source is cut first and shrunk until the result fits.
    """
    import nh3  # loaded when first needed: the mirror never does

    cut = len(html) > max_characters
    source = html[:max_characters]
    while True:
        clean = nh3.clean(
            source,
            tags=set(_ELEMENTS),
            clean_content_tags=set(_DROPPED_WITH_CONTENT),
            attributes={"*": set(_ATTRIBUTES)},
            url_schemes=set(),
            strip_comments=True,
            link_rel=None,
        )
        if len(clean) <= max_characters:
            return clean, cut
        cut = True
        source = source[: min(len(source) - 1, len(source) * max_characters // len(clean))]
