"""What a progress bar is told."""

from mailkeep.sync.model import Progress
from mailkeep.sync.progress import Meter


def test_rates_and_time_left_come_from_what_was_stored() -> None:
    """Messages, octets, rate and an estimate; the total never falls below what is done."""
    clock = iter(range(100))
    told: list[Progress] = []
    meter = Meter("anna", told.append, clock=lambda: float(next(clock)))
    meter.expect(folders=2, messages=100)
    meter.stored("INBOX", messages=10, octets=1000)
    meter.folder_done("INBOX")
    last = told[-1]
    assert (last.messages_done, last.messages_total, last.octets_done) == (10, 100, 1000)
    assert (last.folders_done, last.folders_total) == (1, 2)
    assert last.messages_per_second > 0
    assert last.seconds_left is not None
    assert last.seconds_left > 0
    meter.stored("INBOX", messages=200, octets=1)
    assert told[-1].messages_total == 210


def test_an_unknown_total_gives_no_estimate() -> None:
    """None, rather than a guess."""
    told: list[Progress] = []
    meter = Meter("anna", told.append)
    meter.expect(folders=1, messages=None)
    meter.stored("INBOX", messages=1, octets=1)
    assert told[-1].messages_total is None
    assert told[-1].seconds_left is None
