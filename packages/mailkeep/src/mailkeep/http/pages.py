"""The pages as text. Pure: values in, HTML out; everything that is not a literal here passes `_text`.

Mail is foreign text: it is escaped, its control and bidirectional characters are replaced, and it appears as plain
text only. The HTML of a mail is never shown. No page loads anything but `/style.css`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlencode

from mailkeep.app import AccountReport, FolderReport, QuarantineEntry
from mailkeep.display import counted, duration, neutralise, size
from mailkeep.following import SettingsNotice
from mailkeep.stages import StageStatus

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
nav { display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; padding: .5rem 0; }
nav input { font: inherit; min-width: 20rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #8883; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.bad td { background: #c003; }
td.acts { white-space: nowrap; }
td.acts form { display: inline-block; margin: 0 .3rem .2rem 0; }
button { font: inherit; }
.quiet { opacity: .7; }
.match { border-bottom: 1px solid #8883; padding: .6rem 0; }
mark { background: #fc08; color: inherit; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 14px/1.5 ui-monospace, monospace; }
@media (max-width: 44rem) {
  nav form { display: flex; gap: .3rem; width: 100%; }
  nav input { min-width: 0; flex: 1; }
  table { display: block; overflow-x: auto; }
  table.blocks, .blocks tbody, .blocks tr, .blocks td { display: block; overflow-wrap: anywhere; }
  .blocks thead { display: none; }
  .blocks tr { border-bottom: 1px solid #8888; padding: .4rem 0; }
  .blocks td { border: 0; padding: .1rem .3rem; }
  .blocks td[data-head]::before { content: attr(data-head) ": "; opacity: .7; }
  td.acts { white-space: normal; }
}
""".strip()


def _text(value: object, *, lines: bool = False) -> str:
    return html.escape(neutralise(str(value), lines=lines), quote=True)


def escaped(value: object) -> str:
    """Any value as text of a page: harmless to terminals, then to HTML."""
    return _text(value)


def page(title: str, body: str, *, query: str = "") -> str:
    """A whole document with the navigation and search box."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{_text(title)} · mailkeep</title><link rel="stylesheet" href="/style.css"></head><body>'
        '<nav><strong>mailkeep</strong><a href="/">Status</a><a href="/changes">Changes</a><a href="/jobs">Jobs</a>'
        '<form action="/search" method="get" role="search">'
        f'<input type="search" name="q" aria-label="Search mail" value="{_text(query)}" placeholder="Search mail">'
        f"<button>Search</button></form></nav><main>{body}</main></body></html>"
    )


def status_page(
    accounts: Sequence[AccountReport],
    quarantine: Sequence[QuarantineEntry],
    *,
    now: datetime,
    mcp_enabled: bool,
    stages: Sequence[StageStatus] = (),
    notice: SettingsNotice | None = None,
    stopped_jobs: int = 0,
) -> str:
    """Counts and freshness per folder, what is quarantined and why, work after arrival, and how to connect."""
    none = "<p>No account yet. Add one with <code>mailkeep account add</code>.</p>"
    body = _notice_section(notice) + ("".join(_account_section(account, now) for account in accounts) or none)
    if stopped_jobs:
        body += f'<p><a href="/jobs">{counted(stopped_jobs, "job")} given up</a></p>'
    body += _quarantine_section(quarantine) + _stages_section(stages)
    if mcp_enabled:
        body += (
            "<h2>Connect</h2><p>MCP endpoint: <code>/mcp</code> on this address, or <code>mailkeep mcp</code> "
            "over stdio.</p>"
        )
    return page("Status", body)


def _notice_section(notice: SettingsNotice | None) -> str:
    """What an operator should know of the settings file; nothing while it is in use."""
    if notice is None:
        return ""
    if notice.trouble is not None:
        trouble = _text(notice.trouble, lines=True)
        return f"<h2>Settings</h2><p class=bad>The changed settings are not in use.</p><pre>{trouble}</pre>"
    if notice.needs_restart:
        return f"<h2>Settings</h2><p>Waiting for a restart: {_text(', '.join(notice.needs_restart))}</p>"
    return ""


def _account_section(account: AccountReport, now: datetime) -> str:
    heading = f"<h2>{named(account.name, account.account)}</h2>"
    phase = "" if account.phase is None else f"<p class=quiet>{_text(_phase_sentence(account, now))}</p>"
    phase += _changes_line(account, now)
    rows = "".join(_folder_row(folder, now) for folder in account.folders)
    if not rows:
        return heading + phase + "<p>Nothing mirrored yet.</p>"
    head = (
        "<tr><th>Folder<th class=n>On the server<th class=n>Stored<th class=n>Quarantined<th class=n>Skipped"
        "<th class=n>Missing<th>Synchronized<th>Compared with the server</tr>"
    )
    return f"{heading}{phase}<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def named(name: str, account_id: str) -> str:
    """An account as HTML: its name, and its id where that is another."""
    return _text(name) if name == account_id else f"{_text(name)} <span class=quiet>{_text(account_id)}</span>"


def _changes_line(account: AccountReport, now: datetime) -> str:
    """What was asked of the mailbox and is not done, with a link; nothing while there is none."""
    counts, parts = account.changes, []
    if counts.unfinished:
        parts.append(f"{counted(counts.unfinished, 'change')} waiting, the oldest asked {age(counts.oldest_at, now)}")
    if counts.dead_lettered:
        parts.append(f"{counted(counts.dead_lettered, 'change')} given up")
    return f'<p><a href="/changes">{_text("; ".join(parts))}</a></p>' if parts else ""


_PHASES = {
    "NotStarted": "starting",
    "WaitingForNextRun": "waiting",
    "WaitingForRunSlot": "waiting for its turn",
    "Running": "mirroring now",
}
"""How the phases of SYNC-11 read on a page."""


def _phase_sentence(account: AccountReport, now: datetime) -> str:
    parts = [_PHASES.get(str(account.phase), str(account.phase))]
    if account.next_run_at is not None and account.next_run_at > now:
        parts.append(f"next run in {duration((account.next_run_at - now).total_seconds())}")
    if account.pause_reason is not None:
        parts.append(f"the mail server asked for patience ({account.pause_reason})")
    if any(state != "Closed" for state in account.breakers.values()):
        parts.append("left alone for a moment after one failure after the other")
    if account.push is not None:
        parts.append(f"push by {account.push}, {account.watched_folders} folders watched")
    if account.failure_count:
        parts.append(f"{counted(account.failure_count, 'failed run')} in a row")
    return ", ".join(parts)


def _folder_row(folder: FolderReport, now: datetime) -> str:
    holes = folder.proof is not None and folder.proof.holes
    bad = " class=bad" if folder.quarantined or folder.missing or folder.damaged or holes else ""
    skipped = str(folder.skipped)
    if folder.skipped_by_reason:
        skipped += " " + ", ".join(f"{count} {reason}" for reason, count in sorted(folder.skipped_by_reason.items()))
    cells = "".join(
        f"<td class=n>{_text(value)}</td>"
        for value in (
            "?" if folder.server is None else folder.server,
            folder.stored,
            folder.quarantined,
            skipped,
            "?" if folder.missing is None else folder.missing,
        )
    )
    times = f"<td>{_text(age(folder.synchronized_at, now))}</td><td>{_text(_proof(folder, now))}</td>"
    return f"<tr{bad}><td>{_text(folder.folder)}</td>{cells}{times}</tr>"


def _proof(folder: FolderReport, now: datetime) -> str:
    """What the last comparison found, and what content is damaged."""
    parts = []
    if (proof := folder.proof) is not None:
        surplus = f", {proof.surplus} surplus" if proof.surplus else ""
        parts.append(f"{age(proof.proved_at, now)}: {proof.holes} holes{surplus}")
    if folder.damaged:
        parts.append(f"{folder.damaged} damaged, {folder.unrepairable} tried in vain")
    return "; ".join(parts) or "never"


def age(when: datetime | None, now: datetime) -> str:
    """How long ago, in words."""
    if when is None:
        return "never"
    passed = now - when
    return "just now" if passed < timedelta(seconds=5) else f"{duration(passed.total_seconds())} ago"


def _quarantine_section(entries: Sequence[QuarantineEntry]) -> str:
    if not entries:
        return ""
    rows = "".join(
        f"<tr><td>{_text(entry.account)}</td><td>{_text(entry.folder)}</td><td class=n>{entry.uid}</td>"
        f"<td>{_text(entry.reason)}{': ' + _text(entry.detail) if entry.detail else ''}</td>"
        f"<td class=n>{_text('?' if entry.size is None else size(entry.size))}</td>"
        f"<td class=n>{entry.attempts}</td><td>{_text(entry.last_attempt_at.isoformat(timespec='seconds'))}</td></tr>"
        for entry in entries
    )
    head = "<tr><th>Account<th>Folder<th class=n>UID<th>Reason<th class=n>Size<th class=n>Attempts<th>Last attempt</tr>"
    return (
        "<h2>Quarantined</h2><p>These messages could not be stored. Retry with "
        f"<code>mailkeep sync --retry-quarantined</code>.</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>"
    )


def _stages_section(stages: Sequence[StageStatus]) -> str:
    if not stages:
        return ""
    rows = "".join(
        f"<tr><td>{_text(one.name)}</td><td class=n>{one.done}</td><td class=n>{one.outstanding}</td>"
        f"<td class=n>{one.failed}</td></tr>"
        for one in stages
    )
    head = "<tr><th>Stage<th class=n>Done<th class=n>Outstanding<th class=n>Impossible</tr>"
    return f"<h2>Work after arrival</h2><table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def result_block(
    *, email_id: str, subject: str | None, sender: str, when: str, place: str, snippets: Iterable[str]
) -> str:
    """One search result; `snippets` are HTML made by `snippet`."""
    shown = _text(subject) if subject else "<em>no subject</em>"
    lines = "".join(f"<div>{snippet}</div>" for snippet in snippets)
    return (
        f'<div class=match><a href="/message/{_text(email_id)}">{shown}</a>'
        f"<div class=quiet>{_text(sender)} · {_text(when)} · {_text(place)}</div>{lines}</div>"
    )


def search_page(
    query: str, blocks: Sequence[str], *, notes: Sequence[str], more: str | None, saved: Sequence[str] = ()
) -> str:
    """Results in the order given; `more` is the query string of the next page, `saved` the names of kept searches."""
    body = _saved_links(saved)
    body += "".join(blocks) or ("<p>Nothing found.</p>" if query else "<p>Type words, names or addresses.</p>")
    body += "".join(f"<p class=quiet>{_text(note)}</p>" for note in notes)
    if more is not None:
        body += f'<p><a href="/search?{_text(more)}">More</a></p>'
    return page(f"Search: {query}" if query else "Search", body, query=query)


def _saved_links(saved: Sequence[str]) -> str:
    if not saved:
        return ""
    links = " · ".join(f'<a href="/search?{_text(query_string(saved=name))}">{_text(name)}</a>' for name in saved)
    return f"<p class=quiet>Saved: {links}</p>"


def malformed_page(query: str, problem: str, position: int) -> str:
    """A query that cannot be understood, with a mark under the character."""
    before = neutralise(query[:position])
    pointer = " " * len(before) + "^"
    return page(
        "Search",
        f"<p>{_text(problem)}</p><pre>{_text(query)}\n{_text(pointer)}</pre>",
        query=query,
    )


def message_page(
    *,
    subject: str | None,
    fields: Sequence[tuple[str, str]],
    body: str,
    attachments: Sequence[str],
    notes: Sequence[str],
    alike: str,
) -> str:
    """One message as plain text.

    `attachments` are lines made by `attachment_line`, `alike` is the query string of a search for mail like this.
    """
    rows = "".join(f"<tr><th>{_text(name)}<td>{_text(value)}</tr>" for name, value in fields if value)
    listed = "".join(f"<li>{line}</li>" for line in attachments)
    noted = "".join(f"<p class=quiet>{_text(note)}</p>" for note in notes)
    return page(
        subject or "Message",
        f"<h1>{_text(subject) if subject else '<em>no subject</em>'}</h1><table>{rows}</table>{noted}"
        f'<p class=quiet><a href="/search?{_text(alike)}">More like this</a></p>'
        f"<pre>{_text(body, lines=True)}</pre>" + (f"<h2>Attachments</h2><ul>{listed}</ul>" if listed else ""),
    )


def attachment_line(email_id: str, position: int, label: str, *, remark: str, has_text: bool) -> str:
    """One attachment of a message: a link to its text where there is some, and whether it can be searched."""
    shown = _text(label)
    if has_text:
        shown = f'<a href="{_attachment_path(email_id, position)}">{shown}</a>'
    return f"{shown} <span class=quiet>{_text(remark)}</span>"


def attachment_hit(email_id: str, position: int, name: str, snippets: Iterable[str]) -> str:
    """Where in a match's attachments the words stand."""
    lines = "".join(f"<div>{snippet(text)}</div>" for text in snippets)
    return f'in attachment <a href="{_attachment_path(email_id, position)}">{_text(name)}</a>{lines}'


def attachment_page(email_id: str, name: str, subject: str | None, text: str, *, is_cut: bool) -> str:
    """The text of one attachment."""
    cut = "<p class=quiet>Only the beginning is shown.</p>" if is_cut else ""
    return page(
        name,
        f'<h1>{_text(name)}</h1><p>In <a href="/message/{_text(email_id)}">'
        f"{_text(subject) if subject else 'no subject'}</a></p>{cut}<pre>{_text(text, lines=True)}</pre>",
    )


def _attachment_path(email_id: str, position: int) -> str:
    return f"/message/{_text(email_id)}/attachment/{position}"


def error_page(title: str, sentence: str) -> str:
    """A failure in one sentence that quotes nothing of the request."""
    return page(title, f"<h1>{_text(title)}</h1><p>{_text(sentence)}</p>")


def query_string(**values: str | None) -> str:
    """The query string of a link, without what is None."""
    return urlencode({name: value for name, value in values.items() if value is not None})


def snippet(text: str) -> str:
    """A snippet of a search as HTML: escaped first, then its `**words**` marked."""
    parts = text.split("**")
    if len(parts) % 2 == 0:
        return _text(text)
    return "".join(f"<mark>{_text(part)}</mark>" if at % 2 else _text(part) for at, part in enumerate(parts))
