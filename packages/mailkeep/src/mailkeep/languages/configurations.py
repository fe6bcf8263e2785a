"""PostgreSQL's own text search configurations by ISO 639 code; the search vector repeats them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

STEMMED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "da": "danish", "nl": "dutch",
        "en": "english", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi",
        "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali",
        "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "es": "spanish",
        "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
    }
)  # fmt: skip
"""Those that PostgreSQL 16 and later ship; a language that is not here is recorded and its words stay as they are."""

LANGUAGE_MARK: Final = "\x01l"
"""What the search vector writes before the code of a message's language, as a word that no mail holds."""
