"""What servers' words about load and quota come to."""

from datetime import timedelta

import pytest

from mailkeep.imap import PauseReason
from mailkeep.imap.advice import read_advice


@pytest.mark.case("56", "58", "59")
@pytest.mark.parametrize(
    ("text", "reason", "wait"),
    [
        (
            b"Request is throttled. Suggested Backoff Time: 299609 milliseconds",
            "Throttled",
            timedelta(milliseconds=299609),
        ),
        (b"Suggested backoff time: 12 seconds", "Throttled", timedelta(seconds=12)),
        (b"Suggested Backoff Time: 999999999999 ms", "Throttled", timedelta(days=1)),
        (b"[THROTTLED] slow down", "Throttled", timedelta(minutes=5)),
        (b"[ALERT] Too many simultaneous connections. (Failure)", "TooManyConnections", timedelta(minutes=2)),
        (b"Maximum number of connections from user+IP exceeded", "TooManyConnections", timedelta(minutes=2)),
        (b"[OVERQUOTA] Account exceeded command or bandwidth limits", "QuotaExhausted", timedelta(hours=1)),
        (b"[UNAVAILABLE] Temporary authentication failure", "Busy", None),
        (b"[INUSE] mailbox is locked, try again", "Busy", None),
    ],
)
def test_the_time_a_server_names_is_taken_and_others_have_one_by_their_kind(
    text: bytes, reason: str, wait: timedelta | None
) -> None:
    """A busy moment pauses nothing but the folder in hand."""
    advice = read_advice(text)
    assert (advice.reason, advice.wait) == (PauseReason(reason), wait)
