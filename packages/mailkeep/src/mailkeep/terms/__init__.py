"""Words: what of a text is indexed beside PostgreSQL's own words, and how a typed query becomes conditions.

Pure. `index_terms` and `address_terms` serve the writer of search documents, `build_query` serves search; both follow
one set of rules, so that what one side cuts apart the other side asks for.
"""

from mailkeep.terms.accents import plain_spellings
from mailkeep.terms.cjk import has_cjk
from mailkeep.terms.index import address_terms, index_terms, term_octets
from mailkeep.terms.pictures import picture_signs
from mailkeep.terms.query import AllOf, AnyOf, Not, Phrase, Prefix, QueryNode, Sign, Word, build_query, positive_needles

__all__ = [
    "AllOf",
    "AnyOf",
    "Not",
    "Phrase",
    "Prefix",
    "QueryNode",
    "Sign",
    "Word",
    "address_terms",
    "build_query",
    "has_cjk",
    "index_terms",
    "picture_signs",
    "plain_spellings",
    "positive_needles",
    "term_octets",
]
