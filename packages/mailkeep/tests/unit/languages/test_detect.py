"""Telling languages apart, and the spellings that are added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailkeep.languages.configurations import STEMMED
from mailkeep.languages.detect import detect_language
from mailkeep.languages.folds import folded_vector
from mailkeep.terms import picture_signs, plain_spellings


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Hi Ann, are you coming to the harbour tomorrow? We leave at seven."),
        ("de", "Kannst du mir bitte die Rechnung schicken?"),
        ("fr", "Bonjour, je vous envoie les factures du mois dernier."),
        ("es", "Hola, ¿puedes llamarme mañana por la tarde?"),
        ("it", "Ciao, ti mando le foto delle vacanze"),
        ("nl", "Hallo, ik kom morgen wat later naar kantoor"),
        ("pl", "Cześć, przesyłam fakturę za ostatni miesiąc"),
        ("ru", "Привет, завтра встреча в офисе в десять утра"),
        ("ja", "来週の土曜日、上野公園で花見をしませんか"),
        ("th", "สวัสดีครับ พรุ่งนี้ประชุมสิบโมง"),
        ("ar", "مرحبا، هل يمكننا الاجتماع غدا صباحا؟"),
    ],
)
def test_one_sentence_is_enough(language: str, text: str) -> None:
    """Mail is short; a sentence must do."""
    detected = detect_language(text)
    assert detected is not None
    assert detected.language == language
    assert 0.6 <= detected.confidence <= 1


@pytest.mark.parametrize("text", ["", "ok", "12345 67890", "Re: 4711", "\x00\ud800\ufffe"])
def test_too_little_says_nothing(text: str) -> None:
    """A wrong language is worse than none."""
    assert detect_language(text) is None


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    """Neither detection nor folding ever fails on a text, and no added term needs quoting."""
    detect_language(text)
    vector = folded_vector(subject=text, names=text, body=text)
    assert vector is None or vector.count("'") == 2 * len(vector.split(" "))


def test_spellings_and_signs() -> None:
    """Plain spellings by base letter and by digraph; other scripts stay; signs without their dressing."""
    assert plain_spellings("Müller") == ("muller", "mueller")
    assert plain_spellings("plain") == ()
    assert plain_spellings("हिन्दी") == ()
    assert plain_spellings("がくせい") == ()
    assert picture_signs("a 👍🏽 b 👩‍💻 🇩🇪🇫🇷") == ["👍", "👩", "💻", "🇩🇪", "🇫🇷"]
    assert set(STEMMED) >= {"en", "de", "fr", "es", "it", "ru"}
