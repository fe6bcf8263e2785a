"""How good the first ten results are: nDCG@10 and success@5 on judged queries, beside `mu find` and `notmuch search`.

Judged are real messages (see corpus.py), by rules that no program of the three had a part in: a subject asks for the
other messages of its conversation (by References alone), quoted words for the messages whose own text has them, a name
for what that person wrote, and a paraphrase of ours for the conversation that it describes. Rivals give the newest
first, as they do by default; ours are the best first, in the mode that the installation searches in: by words, or by
words and meaning once a model was activated for it (`mailkeep embeddings activate` with MAILKEEP_HOME at its folder).
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mailkeep.app import App
from mailkeep.config.edit import add_account
from mailkeep.search import SearchRequest
from mailkeep_message import Message, read

from . import rivals
from .corpus import WORK, messages
from .figure import Figure

DEPTH: Final = 10
SUCCESS_DEPTH: Final = 5
SAMPLE: Final = 60
SEED: Final = 7
ACCOUNT_ID: Final = "judged"

# In our own words, with the place in the corpus of a message of the conversation that is meant.
PARAPHRASES: Final = (
    ("reading the list as usenet groups", 2819),
    ("rock from space striking our planet", 3229),
    ("authorities threaten people who swap music files", 76),
    ("mail broken apart at lines that begin with from", 1174),
    ("making a licence code that cannot be cracked", 1407),
    ("music player that a small child can operate", 422),
    ("computer without fans for the bedroom", 2529),
    ("fees demanded for a picture format", 3171),
    ("how lizards stick to walls", 340),
    ("turning fat into a gem", 27),
    ("laptop bay adapter for a burner", 205),
    ("finding rich partners in recovery groups", 628),
    ("my machine contacts an unknown address by itself", 2995),
    ("package of the disc burning program", 1234),
    ("automatic reply about an absence with a legal notice", 2543),
    ("ethernet stopped working after a new kernel", 2752),
    ("system freezes when writing discs", 2827),
    ("keys cannot be verified any more", 969),
    ("boot loader on a spare drive", 2661),
    ("choosing among several sign-offs by keyboard", 389),
    ("forest fires and environmentalists", 3435),
    ("paying for encrypted search under censorship", 733),
    ("discussion lists for people who learn programming", 2667),
    ("keep system folders read only against intruders", 1622),
)
_REPLY: Final = re.compile(r"^(?:(?:re|fwd?|aw)\s*:|\[[^\]]*\])\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Judged:
    """A query with the Message-IDs that answer it."""

    kind: str
    query: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Mail:
    """A message of the corpus: its place there, its octets and what is read of it."""

    place: int
    octets: bytes
    message_id: str
    message: Message


def measure() -> Iterator[Figure]:
    """Yield both measures for each kind of query and for all of them; larger is better."""
    mails = list(_mails())
    queries = list(judged(mails))
    ours = asyncio.run(_search_ours(_prepared_home(mails), queries))
    them = _prepared_rivals(mails)
    theirs = {"mu find": _rival(them, queries, _mu), "notmuch search": _rival(them, queries, _notmuch)}
    kinds = [*dict.fromkeys(query.kind for query in queries), "all"]
    for kind in kinds:
        chosen = [at for at, query in enumerate(queries) if kind in (query.kind, "all")]
        for mode, found in ours.items():
            for measure_name, score in (("ndcg10", ndcg), ("success5", success)):
                value = _mean(score(found[at], queries[at].relevant) for at in chosen)
                for rival, rival_found in theirs.items():
                    rival_value = _mean(score(rival_found[at], queries[at].relevant) for at in chosen)
                    name = f"relevance_{kind}_{mode}_{measure_name}_{len(chosen)}"
                    yield Figure(name, value, measure_name, rival, rival_value)


def ndcg(found: Sequence[str], relevant: frozenset[str]) -> float:
    """Discounted gain of the first ten against the best possible order, 0 to 1; every relevant message gains one."""
    gained = sum(1 / math.log2(rank + 2) for rank, one in enumerate(found[:DEPTH]) if one in relevant)
    best = sum(1 / math.log2(rank + 2) for rank in range(min(len(relevant), DEPTH)))
    return gained / best if best else 0.0


def success(found: Sequence[str], relevant: frozenset[str]) -> float:
    """1 when one of the first five is relevant."""
    return float(any(one in relevant for one in found[:SUCCESS_DEPTH]))


def judged(mails: Sequence[Mail]) -> Iterator[Judged]:
    """All queries, always the same ones."""
    chance = random.Random(SEED)
    conversations = _conversations(mails)
    yield from _subjects(conversations, chance)
    yield from _quotes(mails, chance)
    yield from _names(mails, chance)
    by_place = {mail.place: mail for mail in mails}
    for query, place in PARAPHRASES:
        meant = next(one for one in conversations if by_place[place].message_id in one)
        yield Judged("paraphrase", query, frozenset(meant))


def _mails() -> Iterator[Mail]:
    """The corpus, each Message-ID once."""
    seen: set[str] = set()
    for place, octets in enumerate(messages()):
        message = read(octets)
        if message.message_id and message.message_id not in seen:
            seen.add(message.message_id)
            yield Mail(place, octets, message.message_id, message)


def _conversations(mails: Sequence[Mail]) -> list[dict[str, Mail]]:
    """Messages connected through References and In-Reply-To, also by way of messages that are not here."""
    leader: dict[str, str] = {}

    def find(one: str) -> str:
        while leader.setdefault(one, one) != one:
            one = leader[one]
        return one

    for mail in mails:
        for other in (*mail.message.references, *mail.message.in_reply_to):
            leader[find(other)] = find(mail.message_id)
    found: dict[str, dict[str, Mail]] = defaultdict(dict)
    for mail in mails:
        found[find(mail.message_id)][mail.message_id] = mail
    return list(found.values())


def _subjects(conversations: Sequence[Mapping[str, Mail]], chance: random.Random) -> Iterator[Judged]:
    fitting = [one for one in conversations if 3 <= len(one) <= 20]
    for conversation in chance.sample(fitting, min(SAMPLE, len(fitting))):
        first = next(iter(conversation.values()))
        words = re.findall(r"[^\W_]{2,}", _bare(first.message.subject or ""))
        if len(words) >= 2:
            yield Judged("subject", " ".join(words[:6]), frozenset(conversation))


def _bare(subject: str) -> str:
    while (shorter := _REPLY.sub("", subject)) != subject:
        subject = shorter
    return subject


def _quotes(mails: Sequence[Mail], chance: random.Random) -> Iterator[Judged]:
    own = {mail.message_id: _own_text(mail) for mail in mails}
    long_enough = [one for one, text in own.items() if len(text.split()) > 60]
    for message_id in chance.sample(long_enough, min(SAMPLE, len(long_enough))):
        words = own[message_id].split()
        for at in range(30, len(words) - 6):
            quote = words[at : at + 6]
            if all(re.fullmatch(r"[a-z]{2,}", word) for word in quote):
                sentence = " ".join(quote)
                yield Judged(
                    "quote", f'"{sentence}"', frozenset(one for one, text in own.items() if f" {sentence} " in text)
                )
                break


def _own_text(mail: Mail) -> str:
    lines = [line for line in (mail.message.body.text or "").splitlines() if not line.lstrip().startswith((">", "|"))]
    return f" {' '.join(' '.join(lines).lower().split())} "


def _names(mails: Sequence[Mail], chance: random.Random) -> Iterator[Judged]:
    by_author: dict[str, list[Mail]] = defaultdict(list)
    for mail in mails:
        if mail.message.author is not None:
            by_author[mail.message.author.normalized_address].append(mail)
    fitting = [
        written
        for written in by_author.values()
        if 3 <= len(written) <= 40 and re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", _name_of(written[0]))
    ]
    for written in chance.sample(fitting, min(SAMPLE, len(fitting))):
        yield Judged("name", _name_of(written[0]), frozenset(mail.message_id for mail in written))


def _name_of(mail: Mail) -> str:
    return (mail.message.author and mail.message.author.display_name) or ""


def _prepared_home(mails: Sequence[Mail]) -> Path:
    home = WORK / "relevance" / "home"
    if not (home / "filled").exists():
        shutil.rmtree(home, ignore_errors=True)
        add_account(home, {"account_id": ACCOUNT_ID, "display_name": "Judged", "kind": "local"})
        box = home / "box"
        box.mkdir()
        for mail in mails:
            (box / f"{mail.place:05}.eml").write_bytes(mail.octets)
        asyncio.run(_import(home, box))
        shutil.rmtree(box)
        (home / "filled").touch()
    return home


async def _import(home: Path, box: Path) -> None:
    async with App.open(home) as app:
        await app.import_path(box, ACCOUNT_ID, alias="INBOX")
        await app.derive()


async def _search_ours(home: Path, queries: Sequence[Judged]) -> dict[str, list[list[str]]]:
    async with App.open(home) as app:
        found = [await app.search(SearchRequest(query_text=query.query, result_limit=DEPTH)) for query in queries]
    modes = {result.retrieval_mode.value for result in found}
    mode = modes.pop() if len(modes) == 1 else "mixed"
    return {mode: [[match.summary.internet_message_id or "" for match in result.matches] for result in found]}


def _prepared_rivals(mails: Sequence[Mail]) -> rivals.Rivals:
    them = rivals.Rivals(WORK / "relevance" / "rivals")
    if not (them.home / "indexed").exists():
        shutil.rmtree(them.home, ignore_errors=True)
        for name in ("cur", "new", "tmp"):
            (them.maildir / "INBOX" / name).mkdir(parents=True)
        for mail in mails:
            (them.maildir / "INBOX" / "cur" / f"{mail.place}.bench:2,S").write_bytes(mail.octets)
        rivals.prepare_notmuch(them)
        rivals.mu_init(them)
        rivals.mu_index(them)
        rivals.notmuch_new(them)
        (them.home / "indexed").touch()
    return them


def _rival(them: rivals.Rivals, queries: Sequence[Judged], command: Callable[[str], list[str]]) -> list[list[str]]:
    return [_lines(them, command(query.query)) for query in queries]


def _mu(query: str) -> list[str]:
    return ["mu", "find", "--fields=i", "--sortfield=date", "--reverse", f"--maxnum={DEPTH}", query]


def _notmuch(query: str) -> list[str]:
    return ["notmuch", "search", "--output=messages", "--sort=newest-first", f"--limit={DEPTH}", query]


def _lines(them: rivals.Rivals, command: Sequence[str]) -> list[str]:
    """The Message-IDs that a rival prints; none when it finds nothing, which mu calls a failure."""
    done = subprocess.run(list(command), env=them.environment, capture_output=True, text=True, timeout=60, check=False)
    return [line.strip().removeprefix("id:") for line in done.stdout.splitlines() if line.strip()]


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
