"""Locating and reading stored mail: one scope, one set of filters, one order.

`list_emails` gives a page of the timeline, `search_emails` the best matches of a typed query, `read_emails` the content
of what they named, `list_accounts` what there is. All validate before they read and raise the ReaderErrors of
docs/spec/agents.md section 8.
"""

from mailkeep.search.language import QueryMalformed
from mailkeep.search.matching import matching_emails
from mailkeep.search.model import (
    AccountOverview,
    AttachmentHit,
    AttachmentSummary,
    Conversation,
    ConversationEntry,
    Direction,
    Facet,
    FacetKind,
    Filters,
    FolderFreshness,
    Grouping,
    ListRequest,
    Match,
    MatchCount,
    Page,
    RetrievalMode,
    SearchRequest,
    SearchResult,
    SemanticSearch,
    Summary,
)
from mailkeep.search.overview import list_accounts, read_conversation
from mailkeep.search.reading import ReadEmails, ReadRequest, parse_id, read_emails
from mailkeep.search.run import list_emails, search_emails
from mailkeep.search.saved import (
    SavedSearch,
    list_saved_searches,
    remove_saved_search,
    save_search,
    saved_search,
)

__all__ = [
    "AccountOverview",
    "AttachmentHit",
    "AttachmentSummary",
    "Conversation",
    "ConversationEntry",
    "Direction",
    "Facet",
    "FacetKind",
    "Filters",
    "FolderFreshness",
    "Grouping",
    "ListRequest",
    "Match",
    "MatchCount",
    "Page",
    "QueryMalformed",
    "ReadEmails",
    "ReadRequest",
    "RetrievalMode",
    "SavedSearch",
    "SearchRequest",
    "SearchResult",
    "SemanticSearch",
    "Summary",
    "list_accounts",
    "list_emails",
    "list_saved_searches",
    "matching_emails",
    "parse_id",
    "read_conversation",
    "read_emails",
    "remove_saved_search",
    "save_search",
    "saved_search",
    "search_emails",
]
