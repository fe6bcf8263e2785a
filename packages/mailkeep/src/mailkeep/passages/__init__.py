"""Passages: messages cut into pieces of about a thousand characters, which vectors are made of.

`cut` is pure; the stage `passages` keeps the pieces beside the mail. `embedding_folders` says whose mail takes part.
"""

from mailkeep.passages.cutting import RULES, Passage, content_hash, cut
from mailkeep.passages.folders import embedding_folders
from mailkeep.passages.queries import UncutMail, uncut_mail
from mailkeep.passages.stage import PassageStage

__all__ = [
    "RULES",
    "Passage",
    "PassageStage",
    "UncutMail",
    "content_hash",
    "cut",
    "embedding_folders",
    "uncut_mail",
]
