"""What may be asked: terms are exactly those of their mutation, or they are refused (MUT-10, MUT-28). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mailkeep.errors import MailChangeInvalid
from mailkeep.mutations.model import (
    MAX_IDENTITY_CHARACTERS,
    MAX_KEYWORD_CHARACTERS,
    MAX_KEYWORDS,
    MAX_PATH_CHARACTERS,
    Mutation,
    Terms,
)

_NOT_IN_ATOMS: Final = frozenset('(){%*"\\]')
_PARAMETERS: Final = {
    Mutation.RELOCATE: ({"destination_folder_path"}, {"destination_hierarchy_delimiter", "local_disposition"}),
    Mutation.COPY: ({"destination_folder_path"}, {"destination_hierarchy_delimiter"}),
    Mutation.DELETE: ({"local_disposition"}, set[str]()),
    Mutation.SET_SEEN: ({"desired_seen_state"}, set[str]()),
    Mutation.SET_FLAGGED: ({"desired_flagged_state"}, set[str]()),
    Mutation.ADD_KEYWORDS: ({"keywords"}, set[str]()),
    Mutation.REMOVE_KEYWORDS: ({"keywords"}, set[str]()),
    Mutation.SET_KEYWORDS: ({"keywords"}, set[str]()),
}
"""Per mutation: what it must have, and what it may have."""


def refuse_malformed(terms: Terms) -> None:
    """Raise MailChangeInvalid unless the parameters are exactly the mutation's own."""
    given = {
        name
        for name in (
            "destination_folder_path",
            "destination_hierarchy_delimiter",
            "desired_seen_state",
            "desired_flagged_state",
            "keywords",
            "local_disposition",
        )
        if getattr(terms, name) is not None
    }
    required, permitted = _PARAMETERS[terms.mutation]
    if missing := required - given:
        raise MailChangeInvalid(f"{terms.mutation} needs {', '.join(sorted(missing))}")
    if surplus := given - required - permitted:
        raise MailChangeInvalid(f"{terms.mutation} takes no {', '.join(sorted(surplus))}")
    if terms.creates_destination and not terms.mutation.places:
        raise MailChangeInvalid(f"{terms.mutation} has no folder to create")
    if terms.destination_folder_path is not None and not 1 <= len(terms.destination_folder_path) <= MAX_PATH_CHARACTERS:
        raise MailChangeInvalid(f"a folder's path has 1 to {MAX_PATH_CHARACTERS} characters")
    if terms.keywords is not None:
        if not terms.keywords and terms.mutation is not Mutation.SET_KEYWORDS:
            raise MailChangeInvalid(f"{terms.mutation} needs at least one keyword")
        refuse_keywords(terms.keywords)


def refuse_keywords(keywords: Sequence[str]) -> None:
    """Raise MailChangeInvalid unless each is an IMAP atom, of at most 64 characters, and they are at most 64."""
    if len(keywords) > MAX_KEYWORDS:
        raise MailChangeInvalid(f"at most {MAX_KEYWORDS} keywords are changed at once")
    for keyword in keywords:
        if not 1 <= len(keyword) <= MAX_KEYWORD_CHARACTERS:
            raise MailChangeInvalid(f"a keyword has 1 to {MAX_KEYWORD_CHARACTERS} characters")
        if any(not "!" <= character <= "~" or character in _NOT_IN_ATOMS for character in keyword):
            raise MailChangeInvalid(
                'a keyword is of printable ASCII without blanks and without any of ( ) { % * " \\ ] (RFC 9051 atom)'
            )


def checked_identity(text: str, *, part: str) -> str:
    """The identity of a request, trimmed. `part` names what its caller can shorten (MUT-15)."""
    identity = text.strip()
    if not identity:
        raise MailChangeInvalid(f"{part} is blank")
    if len(identity) > MAX_IDENTITY_CHARACTERS:
        raise MailChangeInvalid(f"{part} has more than {MAX_IDENTITY_CHARACTERS} characters; shorten it")
    if not identity.isprintable():
        raise MailChangeInvalid(f"{part} holds control characters")
    return identity


def same_request(left: Terms, right: Terms) -> bool:
    """Whether two askings under one identity ask for the same (MUT-16). How it is disposed of here is not asked."""
    return (
        left.mutation is right.mutation
        and left.destination_folder_path == right.destination_folder_path
        and left.desired_seen_state == right.desired_seen_state
        and left.desired_flagged_state == right.desired_flagged_state
        and _folded(left.keywords) == _folded(right.keywords)
    )


def _folded(keywords: Sequence[str] | None) -> frozenset[str] | None:
    return None if keywords is None else frozenset(keyword.casefold() for keyword in keywords)
