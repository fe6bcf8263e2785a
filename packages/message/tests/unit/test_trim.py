"""Quoted replies and signatures."""

from __future__ import annotations

import time

import pytest

from mailkeep_message.trim import trim


@pytest.mark.spec("SYNC-109")
@pytest.mark.parametrize(
    "words",
    [
        "Original Message",
        "Forwarded message",
        "Weitergeleitete Nachricht",
        "Oorspronkelijk bericht",
        "Ursprüngliche Nachricht",
        "Message d'origine",
        "Mensaje original",
        "Исходное сообщение",
        "原始邮件",
    ],
)
def test_everything_from_the_topmost_separator_is_cut(words: str) -> None:
    """Between runs of two or more dashes, in several languages."""
    assert trim(f"mine\n\n--- {words} ---\ntheirs\n-----{words}-----\nolder") == "mine"
    assert trim(f"mine\n- {words} -\nalso mine") == f"mine\n- {words} -\nalso mine"
    assert trim(f"see the --{words}-- line\nmine") == f"see the --{words}-- line\nmine"


@pytest.mark.spec("SYNC-109")
@pytest.mark.parametrize(
    "attribution",
    [
        "On Mon, 2 Jan 2023 at 10:00, Ann <ann@x.test> wrote:",
        "On 2 Jan 2023, at 10:00, Ann wrote:",
        "Am 02.01.2023 um 10:00 schrieb Ann:",
        "Le lun. 2 janv. 2023 à 10:00, Ann <ann@x.test> a écrit :",
        "El lun, 2 ene 2023 a las 10:00, Ann (<ann@x.test>) escribió:",
        "Il giorno lun 2 gen 2023 alle ore 10:00 Ann <ann@x.test> ha scritto:",
        "Em seg., 2 de jan. de 2023 às 10:00, Ann <ann@x.test> escreveu:",
        "Op ma 2 jan. 2023 om 10:00 schreef Ann <ann@x.test>:",
        "Den mån 2 jan. 2023 kl 10:00 skrev Ann <ann@x.test>:",
        "2023-01-02 10:00 GMT+01:00 Ann <ann@x.test>:",
        "пн, 2 янв. 2023 г. в 10:00, Ann <ann@x.test>:",
        "On Mon, 2 Jan 2023 at 10:00, Ann With A Long Name <\nann@x.test> wrote:",
        "Ann Smith wrote:",
    ],
)
def test_a_trailing_quote_goes_with_its_attribution(attribution: str) -> None:
    """One line or its wrap, in many languages."""
    assert trim(f"mine\n\n{attribution}\n\n> theirs\n>\n> more\n") == "mine"


@pytest.mark.spec("SYNC-109")
def test_only_the_end_is_cut() -> None:
    """Answers between and below quotes are the author's, and so is a quote that reaches the first line."""
    between = "On 2 Jan 2023, Ann wrote:\n> question\nanswer\n> another\nanswer two"
    assert trim(between) == between
    only = "> all of it\n> quoted"
    assert trim(only) == only
    assert trim("On 2 Jan 2023, Ann wrote:\n> q") == "On 2 Jan 2023, Ann wrote:\n> q"


@pytest.mark.case("148")
def test_blanks_before_the_quote_mark_are_accepted() -> None:
    """Half of the quote must not show as new text."""
    assert trim("mine\n\n > theirs\n>\n  > more\n\t> most") == "mine"


@pytest.mark.case("145")
def test_a_line_that_begins_like_an_attribution_is_text() -> None:
    """It must be one attribution line: "On ..." here and "wrote:" far below are two."""
    text = "On your host you can run:\n\n  make all\n\nas the manual\nof 2023 at 10:00 by Ann wrote:\n> use make"
    assert trim(text).startswith("On your host you can run:\n\n  make all\n\nas the manual")
    command = "On your host you can run:\n  make all"
    assert trim(command) == command


@pytest.mark.case("146")
@pytest.mark.parametrize(
    "block",
    [
        "From: Ann <ann@x.test>\nSent: Monday, 2 January 2023 10:00\nTo: Bob\nSubject: Re: plan",
        "________________________________\nVon: Ann\nGesendet: Montag, 2. Januar 2023 10:00\nAn: Bob\nBetreff: Plan",
        "*From:* Ann\n*Sent:* Monday\n*To:* Bob\n*Cc:* Eve\n*Subject:* plan",
        "De : Ann\nEnvoyé : lundi 2 janvier\nÀ : Bob\nObjet : plan",
        "发件人: Ann\n发送时间: 2023年1月2日\n收件人: Bob\n主题: plan",
        "> From: Ann\n> Date: Monday\n> To: Bob\n> Subject: plan",
    ],
)
def test_outlooks_header_block_begins_the_quote(block: str) -> None:
    """No quote marks; the block and all below it are the old message."""
    assert trim(f"mine\n\n{block}\n\ntheirs, unmarked\nto the end") == "mine"


@pytest.mark.case("146")
def test_a_line_that_begins_with_from_is_no_block() -> None:
    """Without date, recipient and subject lines below it."""
    text = "mine\n\nFrom: the beginning we knew\nTo: the end"
    assert trim(text) == text


@pytest.mark.spec("SYNC-109")
def test_a_quote_without_marks_below_a_dated_attribution_is_cut() -> None:
    """Telephones quote without marks; a reply that also quotes with marks below is left alone."""
    assert trim("mine\n\nOn Mon, 2 Jan 2023 at 10:00, Ann <ann@x.test> wrote:\n\ntheirs\nmore") == "mine"
    kept = "mine\n\nOn Mon, 2 Jan 2023 at 10:00, Ann <ann@x.test> wrote:\n\ntheirs\n> marked\nmine again"
    assert trim(kept) == kept


@pytest.mark.spec("SYNC-110")
def test_a_signature_of_twenty_lines_goes_and_a_longer_block_stays() -> None:
    """From the last "--" line, separator included, not when it is the first line."""
    assert trim("mine\n-- \nAnn\nPhone") == "mine"
    assert trim("mine\n--\nmore\n-- \nAnn") == "mine\n--\nmore"
    twenty = "mine\n-- \n" + "\n".join(["line"] * 19)
    assert trim(twenty) == "mine"
    longer = twenty + "\nline"
    assert trim(longer) == longer
    assert trim("-- \nAnn") == "-- \nAnn"
    assert trim("mine\n---\nnot a signature") == "mine\n---\nnot a signature"


@pytest.mark.spec("SYNC-109", "SYNC-110")
def test_a_signature_below_the_quote_hides_neither() -> None:
    """Quote, then signature: both go."""
    assert trim("mine\n\nOn 2 Jan 2023, Ann wrote:\n> theirs\n-- \nBob") == "mine"


@pytest.mark.spec("SYNC-110")
def test_an_empty_result_restores_everything() -> None:
    """A message that is only a forward keeps its text."""
    for text in (
        "---- Forwarded message ----\nFrom: Ann\n\nall",
        "\n\n-----Original Message-----\nx",
        "\n-- \nAnn",
        "   ",
    ):
        assert trim(text) == text


def test_a_devices_line_is_a_signature() -> None:
    """At the end only."""
    assert trim("mine\n\nSent from my telephone") == "mine"
    assert trim("mine\nGesendet von meinem Telefon\nSent from my iPad\n") == "mine"
    kept = "Sent from my desk to yours:\nmine"
    assert trim(kept) == kept


@pytest.mark.spec("SYNC-110")
@pytest.mark.parametrize(
    "text",
    [
        "x\n" + "-" * 100_000,
        "x\n" + "--\n" * 33_000,
        "x\n" + "> " * 50_000,
        "x\n" + " " * 100_000 + ">",
        "x\n" + ("On 10:00 " + "wrote " * 45 + ":\n") * 350 + "> q",
        "x\n" + "From: x\nTo: x\n" * 7000,
        "x\n" + "Sent from my x\n" * 6600,
        "x\n" + ":\n" * 50_000,
        "x\n" + "On " * 33_000 + "wrote:\n> q",
        "x\n" + "--Original Message" * 5500,
    ],
    ids=["dashes", "separators", "marks", "blanks", "attributions", "from", "sent", "colons", "on", "original"],
)
def test_pattern_time_is_bounded(text: str) -> None:
    """200 ms for a text at the bound, whatever it holds."""
    start = time.process_time()
    trim(text)
    assert time.process_time() - start < 0.2
