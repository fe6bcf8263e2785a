"""What of a query is looked for in attachments."""

from __future__ import annotations

import pytest

from mailkeep.search.found import positive
from mailkeep.terms import AllOf, AnyOf, Not, Prefix, QueryNode, Word

A, B = Word("a"), Prefix("b")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (A, A),
        (Not(A), None),
        (AllOf((A, Not(B))), A),
        (AllOf((A, B, Not(B))), AllOf((A, B))),
        (AnyOf((A, AllOf((B, Not(A))))), AnyOf((A, B))),
        (AllOf((Not(A), Not(B))), None),
    ],
)
def test_exclusions_are_left_out(node: QueryNode, expected: QueryNode | None) -> None:
    """A message that holds an excluded word is no match already; a file is asked for what is wanted."""
    assert positive(node) == expected
