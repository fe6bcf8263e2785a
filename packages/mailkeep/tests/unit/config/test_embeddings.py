"""Settings of embeddings: what a chain may be, what an endpoint may hold."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.embedding import endpoint, hosted, settings_with

from mailkeep.config import posture_warnings


def defects(*endpoints: dict[str, Any], **section: Any) -> str:
    """All that is refused, as one text."""
    with pytest.raises(ValidationError) as raised:
        settings_with(*endpoints, **section)
    return str([error.get("ctx") for error in raised.value.errors()])


@pytest.mark.spec("FIND-77", "ASK-65")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("provider", "other"),
        ("model", "other"),
        ("model_version", "2"),
        ("dimension", 8),
        ("distance_metric", "InnerProduct"),
        ("input_character_limit", 99),
        ("passage_instruction", "find my secret: "),
        ("normalize_vectors", False),
    ],
)
def test_a_chain_into_two_spaces_is_refused_naming_both_and_the_property(key: str, value: object) -> None:
    """The text of an instruction is not repeated."""
    told = defects(hosted(1, "near"), hosted(1, "far", **{key: value}))
    assert f"endpoints[1].{key}" in told
    assert "differs between near and far" in told
    assert "secret" not in told


@pytest.mark.spec("ASK-65")
def test_an_alias_used_twice_is_refused() -> None:
    """Circuits, keys and logs go by it."""
    assert "is used twice" in defects(hosted(1, "same"), hosted(1, "same"))


@pytest.mark.spec("ASK-66", "ASK-67")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"unauthenticated": False}, "exactly one"),
        ({"api_key": "env:KEY"}, "exactly one"),
        ({"api_key": "env:KEY", "unauthenticated": False}, "cross the network readable"),
        ({"address": "ftp://example.com"}, "absolute http or https"),
        ({"address": "https://user:pass@example.com"}, "holds a credential"),
    ],
)
def test_addresses_and_credentials_are_judged_at_the_start(changes: dict[str, object], told: str) -> None:
    """Plain http with a key, none or two credentials, and other schemes are refused."""
    assert told in defects(hosted(1, **changes))


@pytest.mark.spec("ASK-66")
def test_plain_http_is_warned_about_by_its_alias() -> None:
    """The warning names the alias and what crosses, never the address."""
    (warning,) = posture_warnings(settings_with(hosted(4711, "near")))
    assert "near" in warning
    assert "readable" in warning
    assert "4711" not in warning


@pytest.mark.spec("FIND-65")
def test_a_width_over_2000_needs_the_opt_in() -> None:
    """Such a width is never indexed."""
    assert "allow_trim_vectors" in defects(hosted(1, dimension=2001))
    assert settings_with(hosted(1, dimension=2001), allow_trim_vectors=True).embeddings.endpoints[0].dimension == 2001


@pytest.mark.spec("FIND-82")
def test_the_deterministic_generator_goes_by_its_own_provider_name() -> None:
    """It cannot pass for a vendor's model, nor a vendor's model for it."""
    assert "provider" in defects(endpoint(provider="openai"))
    assert "provider" in defects(hosted(1, provider="deterministic"))


@pytest.mark.spec("FIND-61", "FIND-62")
def test_the_fingerprint_covers_the_geometry_and_nothing_else() -> None:
    """Addresses, rates and query instructions cost no new vectors; each identity property does."""
    from mailkeep.embeddings.identity import declared_identity

    def fingerprint(**changes: Any) -> str:
        return declared_identity(settings_with(hosted(1, **changes)).embeddings.endpoints[0]).fingerprint

    assert fingerprint() == fingerprint(address="http://127.0.0.1:9/v1", query_instruction="query: ", alias="x")
    others = [
        fingerprint(provider="p"),
        fingerprint(model="m"),
        fingerprint(model_version="1"),
        fingerprint(dimension=5),
        fingerprint(distance_metric="InnerProduct"),
        fingerprint(input_character_limit=7),
        fingerprint(passage_instruction="1"),
        fingerprint(normalize_vectors=False),
    ]
    assert len({fingerprint(), *others}) == 9
