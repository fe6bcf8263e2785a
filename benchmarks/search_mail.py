"""Synthetic mail for the search benchmark: any number of messages with the word frequencies of an archive.

Deterministic for a seed. The terms that are measured have known places: rare ones, common ones that go on, common ones
that ended years ago, CJK words, names. `write_maildir` gives other programs the same mail.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from itertools import accumulate
from pathlib import Path

NEWEST = datetime(2026, 11, 1, tzinfo=UTC)
YEARS = 10
VOCABULARY = 60_000
CJK_CHARACTERS = 3_000
OLD_SHARE = 0.4  # the oldest 40% of the mail hold the words that nobody writes any more

RARE = "zebrawood"  # in one of 10,000 messages
COMMON = "meeting"  # in 30%
COMMON_OLD = "teleprinter"  # in 90% of the oldest 40%, in none since
CJK_RARE = "新年快乐"
FOLDERS = (("INBOX", 0.5), ("ARCHIVE", 0.349), ("SENT", 0.1), ("JUNK", 0.05), ("TINY", 0.001))

_ONSETS = (*"bcdfghjklmnprstvwz", "st", "tr", "pl", "ch")
_SYLLABLES = [onset + vowel for onset in _ONSETS for vowel in ("a", "e", "i", "o", "u", "ai", "ea")]
_FIRST = ("Ann", "Bela", "Carlos", "Dana", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Lars", "Mina")
_LAST = ("Lee", "Novak", "Ortiz", "Petersen", "Kaya", "Adeyemi", "Lind", "Moreau", "Silva", "Weber", "Ito", "Jensen")


@dataclass(frozen=True, slots=True)
class SyntheticMail:
    """One message before it takes a form: `number` counts from the oldest, `folder` indexes FOLDERS."""

    number: int
    folder: int
    received_at: datetime
    from_name: str
    from_address: str
    to_address: str
    subject: str
    body: str

    def octets(self) -> bytes:
        """The message as RFC 5322 octets with LF line ends, as a Maildir holds it."""
        message = EmailMessage()
        message["From"] = f"{self.from_name} <{self.from_address}>"
        message["To"] = self.to_address
        message["Subject"] = self.subject
        message["Date"] = format_datetime(self.received_at)
        message["Message-ID"] = f"<{self.number}@bench.example>"
        message.set_content(self.body)
        return message.as_bytes()


def mail(count: int, *, seed: int = 7) -> Iterator[SyntheticMail]:
    """`count` messages, oldest first, spread evenly over ten years, about 1.2 kB of text each."""
    dice = random.Random(seed)
    words = _vocabulary(dice)
    weights = list(accumulate(1.0 / (rank + 12) for rank in range(len(words))))
    han = [chr(0x4E00 + at) for at in dice.sample(range(20_000), CJK_CHARACTERS)]
    han_weights = list(accumulate(1.0 / (rank + 5) for rank in range(len(han))))
    people = [
        (f"{f} {last}", f"{f}.{last}{n}@{org}.example".lower())
        for f in _FIRST
        for last in _LAST
        for n, org in ((1, "acme"), (2, "globex"), (3, "initech"))
    ]
    folder_numbers, folder_weights = range(len(FOLDERS)), list(accumulate(share for _, share in FOLDERS))
    step = timedelta(days=365 * YEARS) / count
    for number in range(count):
        length = min(3_000, max(8, int(dice.lognormvariate(4.6, 0.9))))
        text = dice.choices(words, cum_weights=weights, k=length)
        text += _planted(dice, number / count)
        if dice.random() < 0.03:
            text += ["".join(dice.choices(han, cum_weights=han_weights, k=dice.randint(4, 40))) for _ in range(12)]
            if dice.random() < 0.01:
                text.append(f"祝你们{CJK_RARE}万事如意")
        dice.shuffle(text)
        sender, recipient = dice.choice(people), dice.choice(people)
        yield SyntheticMail(
            number=number,
            folder=dice.choices(folder_numbers, cum_weights=folder_weights)[0],
            received_at=NEWEST - (count - number) * step,
            from_name=sender[0],
            from_address=sender[1],
            to_address=recipient[1],
            subject=" ".join(text[: dice.randint(3, 8)])[:200],
            body=_lines(text),
        )


def write_maildir(folder: Path, messages: Iterable[SyntheticMail]) -> int:
    """Write the messages into one Maildir (`cur`, read), times set to `received_at`; returns how many."""
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    written = 0
    for item in messages:
        (folder / "cur" / f"{int(item.received_at.timestamp())}.{item.number}.bench:2,S").write_bytes(item.octets())
        written += 1
    return written


def _planted(dice: random.Random, age: float) -> list[str]:
    """The measured terms of one message; `age` is 0 for the oldest and 1 for the newest."""
    found = [
        f"ref{dice.randrange(10**9)}",
        f"https://www.{dice.choice(_LAST).lower()}.example/item/{dice.randrange(10**7)}",
    ]
    if dice.random() < 0.0001:
        found.append(RARE)
    if dice.random() < 0.3:
        found.append(COMMON)
    if age < OLD_SHARE and dice.random() < 0.9:
        found.append(COMMON_OLD)
    return found


def _vocabulary(dice: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(dice.choices(_SYLLABLES, k=dice.randint(1, 4)))] = None
    return list(words)


def _lines(words: list[str]) -> str:
    return "\n".join(" ".join(words[at : at + 12]) for at in range(0, len(words), 12))
