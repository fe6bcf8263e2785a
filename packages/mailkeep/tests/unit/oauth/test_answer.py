"""Reading the answers of authorization servers."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from mailkeep.errors import AccessTokenUnavailable
from mailkeep.oauth.answer import device_answer, read_answer, token_answer

SECRET = "secret-token"


def refused(status: int, octets: bytes | None) -> AccessTokenUnavailable:
    """The failure that an answer becomes."""
    with pytest.raises(AccessTokenUnavailable) as caught:
        read_answer(status, octets)
    return caught.value


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize("status", [200, 302, 400, 401, 429, 500, 503])
def test_an_error_value_is_final_whatever_the_status(status: int) -> None:
    """The server has decided; asking again only spends its rate limit."""
    error = refused(status, json.dumps({"error": "invalid_grant", "error_description": SECRET}).encode())
    assert (error.code, error.reason, error.retryable) == (13001, "invalid_grant", False)
    assert "invalid_grant" in error.message
    assert SECRET not in error.message


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 599])
@pytest.mark.parametrize("octets", [b"", b"<html>", b"[]", b"{}", b'{"error": null}', None])
def test_without_an_error_value_these_statuses_may_pass(status: int, octets: bytes | None) -> None:
    """Overload and outages are not decisions."""
    assert refused(status, octets).retryable


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize(
    ("status", "octets"),
    [
        (200, b""),
        (200, b"<html><body>sign in</body></html>"),
        (200, b'["access_token"]'),
        (200, b"\xff\xfe"),
        (200, b"[" * 60000),
        (200, None),
        (301, b'{"access_token": "t"}'),
        (404, b"{}"),
        (403, b""),
    ],
)
def test_any_other_unreadable_answer_is_final(status: int, octets: bytes | None) -> None:
    """A page, a redirect, a list: something is set up wrongly, and waiting does not mend it."""
    error = refused(status, octets)
    assert (error.retryable, error.reason) == (False, None)


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize("value", [SECRET, "x" * 200, "Bad\x1b[2J", 7, {"code": SECRET}, ["invalid_grant"]])
def test_an_error_code_of_another_form_is_not_repeated(value: object) -> None:
    """A server that puts a token where the code belongs does not get it into our log."""
    error = refused(400, json.dumps({"error": value}).encode())
    assert (error.reason, error.retryable) == (None, False)
    assert SECRET not in error.message
    assert error.message.isprintable()


@pytest.mark.spec("SYNC-42")
@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [(None, 3600), ("absent", 3600), (1800, 1800), ("1800", 1800), (-5, 3600), (0, 3600), (True, 3600), (1e300, 3600)],
)
def test_a_missing_or_senseless_lifetime_means_an_hour(expires_in: object, seconds: int) -> None:
    """Numbers count, also as text; everything else is as if it were missing."""
    payload = {"access_token": "t"} | ({} if expires_in == "absent" else {"expires_in": expires_in})
    assert token_answer(payload).lifetime == timedelta(seconds=seconds)


@pytest.mark.spec("SYNC-44")
@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"access_token": ""},
        {"access_token": 5},
        {"access_token": "a\x01b"},
        {"access_token": "a\r\nb"},
        {"access_token": "t", "token_type": "mac"},
    ],
)
def test_a_token_that_cannot_be_presented_is_refused(payload: dict[str, object]) -> None:
    """What would break out of the sign-in's own separators never gets that far."""
    with pytest.raises(AccessTokenUnavailable):
        token_answer(payload)


@pytest.mark.spec("SYNC-44")
def test_tokens_do_not_show() -> None:
    """Neither answer prints what it holds."""
    tokens = token_answer({"access_token": SECRET, "refresh_token": SECRET, "token_type": "bearer"})
    device = device_answer({"device_code": SECRET, "user_code": "A", "verification_uri": "https://e.example"})
    assert SECRET not in repr(tokens) + repr(device)
    assert device.interval == timedelta(seconds=5)
