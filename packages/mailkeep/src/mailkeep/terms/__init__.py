"""Words: what of a text is indexed beside PostgreSQL's own words, and how a typed query becomes conditions.

Pure. `index_terms` and `address_terms` serve the writer of search documents, `word_node` and `phrase_node` a search.
Both follow one set of rules, so that what one side cuts apart the other side asks for.
"""

from mailkeep.terms.accents import plain_spellings
from mailkeep.terms.cjk import has_cjk
from mailkeep.terms.index import address_terms, index_terms, term_octets
from mailkeep.terms.pictures import picture_signs
from mailkeep.terms.query import (
    AllOf,
    AnyOf,
    Not,
    Phrase,
    Prefix,
    QueryNode,
    Sign,
    Within,
    Word,
    phrase_node,
    positive_needles,
    word_node,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "Not",
    "Phrase",
    "Prefix",
    "QueryNode",
    "Sign",
    "Within",
    "Word",
    "address_terms",
    "has_cjk",
    "index_terms",
    "phrase_node",
    "picture_signs",
    "plain_spellings",
    "positive_needles",
    "term_octets",
    "word_node",
]
