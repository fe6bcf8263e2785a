"""What the tools that change mail take and give. The names are the wire contract (docs/spec/agents.md section 7)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field, StrictBool, StrictStr

from mailkeep.mcp.arguments import Arguments
from mailkeep.mcp.results import Result
from mailkeep.mutations import KeywordChange

ChangeName = Literal[
    "set-seen", "set-flagged", "set-keywords", "remove-keywords", "add-keywords", "copy", "relocate", "delete"
]

_REQUEST: Final = (
    "A name of your own for this request, at most 128 characters. The same one with the same values again gives the "
    "changes of the first, with their present state, and asks for nothing more; with other values it is refused."
)
_DESTINATION: Final = "The folder, of the emails' own account: an alias as list_accounts names it, or role:<Role>."
_PREVIEW: Final = "true: only say what would be changed and refused; nothing is recorded."


class ChangeState(StrEnum):
    """How far a change is."""

    PENDING = "pending"
    CONVERGING = "converging"
    COMPLETED = "completed"
    DEAD_LETTERED = "dead-lettered"


class SetMailFlagsArguments(Arguments):
    """Arguments of set_mail_flags."""

    stored_email_id: StrictStr = Field(description="An id from list_emails or search_emails.")
    seen: StrictBool | None = Field(default=None, description="Mark as read (true) or unread (false).")
    flagged: StrictBool | None = Field(default=None, description="Star (true) or take the star away (false).")
    keyword_change: KeywordChange | None = Field(
        default=None, description="What to do with keywords; replace leaves exactly those. Goes with keywords."
    )
    keywords: list[StrictStr] | None = Field(
        default=None,
        description='1 to 64 IMAP keywords of 1 to 64 ASCII characters without blanks and ( ) { % * " \\ ]; none, with '
        "replace, clears all.",
    )
    request_id: StrictStr | None = Field(default=None, description=_REQUEST)


class NamedEmails(Arguments):
    """Which messages, and whether it is only a preview."""

    stored_email_ids: list[StrictStr] = Field(
        description="1 to 500 ids from list_emails or search_emails. All are changed or none is."
    )
    preview: StrictBool = Field(default=False, description=_PREVIEW)


class EmailsArguments(NamedEmails):
    """Arguments of archive_emails, trash_emails and delete_emails."""

    request_id: StrictStr | None = Field(default=None, description=_REQUEST)


class MoveEmailsArguments(EmailsArguments):
    """Arguments of move_emails."""

    destination: StrictStr = Field(description=_DESTINATION)


class CopyEmailsArguments(NamedEmails):
    """Arguments of copy_emails."""

    destination: StrictStr = Field(description=_DESTINATION)
    request_id: StrictStr = Field(description=_REQUEST + " Required, since copying twice makes two copies.")


class GetMailChangesArguments(Arguments):
    """Arguments of get_mail_changes."""

    change_record_ids: list[StrictStr] | None = Field(
        default=None, description="1 to 500 change_record_id of earlier answers. Either this or of_request_id."
    )
    of_request_id: StrictStr | None = Field(
        default=None, description="All changes of the call that was answered with this request_id."
    )


class UndoMailChangeArguments(GetMailChangesArguments):
    """Arguments of undo_mail_change."""

    preview: StrictBool = Field(default=False, description=_PREVIEW)


class RecordedChange(Result):
    """One change of set_mail_flags."""

    change: ChangeName
    change_record_id: str
    state: ChangeState


class SetMailFlagsResult(Result):
    """What was recorded, in the order in which it is done."""

    stored_email_id: str
    account_id: str
    folder_alias: str
    recorded_changes: list[RecordedChange]


class MailChange(Result):
    """One recorded change."""

    change_record_id: str
    stored_email_id: str
    account_id: str
    folder_alias: str = Field(description="Where the email was when the change was asked for.")
    change: ChangeName
    state: ChangeState = Field(description="dead-lettered: given up; the owner decides about it.")
    failure_code: int | None = None
    failure: str | None = Field(default=None, description="What the code says.")
    recorded_at: datetime
    undoes_change_record_id: str | None = None


class LeftOutReason(StrEnum):
    """Why an email took no part: it is there already, or an unfinished change takes it elsewhere."""

    ALREADY_THERE = "alreadyThere"
    ALREADY_LEAVING = "alreadyLeaving"


class LeftOut(Result):
    """An email that took no part."""

    stored_email_id: str
    reason: LeftOutReason


class ChangeGroup(Result):
    """What a preview would record in one folder."""

    account_id: str
    folder_alias: str
    change: ChangeName
    count: int
    first_stored_email_ids: list[str]


class ChangeRefusal(Result):
    """Why the whole request would be refused."""

    account_id: str
    count: int
    code: int
    message: str


class MailChangesResult(Result):
    """What was recorded, or with is_preview what would be. Lists name the first 100; counts are of all."""

    is_preview: bool
    request_id: str | None = Field(default=None, description="Names these changes for get_mail_changes and undo.")
    change_count: int
    changes: list[MailChange]
    left_out_count: int
    left_out: list[LeftOut]
    would_change: list[ChangeGroup]
    would_refuse: list[ChangeRefusal]


class StateCount(Result):
    """How many changes are in a state."""

    state: ChangeState
    count: int


class GetMailChangesResult(Result):
    """Changes and their states. The list names the first 100; counts are of all."""

    change_count: int
    states: list[StateCount]
    changes: list[MailChange]


class UndoOutcome(StrEnum):
    """recorded: the way back is a change of its own. withdrawn: it had not begun, and never will."""

    RECORDED = "recorded"
    WITHDRAWN = "withdrawn"
    NOTHING_TO_DO = "nothingToDo"


class UndoneChange(Result):
    """What became of undoing one change."""

    change_record_id: str
    outcome: UndoOutcome
    undone_by: MailChange | None = None


class UndoMailChangeResult(Result):
    """One outcome per change, the first 100; counts are of all."""

    is_preview: bool
    undone_count: int
    undone: list[UndoneChange]
