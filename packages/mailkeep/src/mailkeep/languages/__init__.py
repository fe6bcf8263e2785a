"""Languages: what a message is written in, worked out after its arrival, and what its words are called besides.

`LanguageStage` is the work; `STEMMED` says in which languages PostgreSQL stems, `stemmed_languages` in which of those
there is mail, so that a query is stemmed in just these.
"""

from mailkeep.languages.configurations import LANGUAGE_MARK, STEMMED
from mailkeep.languages.queries import stemmed_languages
from mailkeep.languages.stage import LanguageStage

__all__ = ["LANGUAGE_MARK", "STEMMED", "LanguageStage", "stemmed_languages"]
