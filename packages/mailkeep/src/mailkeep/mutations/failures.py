"""Why a change was given up, in a sentence for whoever asked for it; the error reference has the whole."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mailkeep import errors

_SENTENCES: Final[Mapping[int, str]] = MappingProxyType(
    {
        errors.FolderRecreated.code: "its folder was made anew on the server, so that the message could not be told",
        errors.MutationUnsupported.code: "the server or the folder has no safe way to do it",
        errors.MutationOutcomeUnknown.code: "the server's answer was lost; it may have happened, and is not repeated",
        errors.MutationAttemptsExhausted.code: "all attempts were spent",
        errors.MutationFailedUnexpectedly.code: "the attempts failed for a reason without a name",
        errors.DestinationMissing.code: "the folder it was to go to is not on the server",
        errors.SourceMissing.code: "the message was not in its folder any more",
        errors.SourceDiffers.code: "another message was found in its place",
        errors.MutationWithdrawn.code: "it was taken back before anything was sent",
        errors.FolderCreationRefused.code: "the server refused to create the folder it was to go to",
    }
)


def failure_sentence(code: int) -> str:
    """What a failure code says."""
    return _SENTENCES.get(code, "the server or the way to it failed; the error reference has the code")
