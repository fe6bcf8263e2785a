"""The mail of the mailbox that acceptance tests read."""

from support.mail import File, message

PLAIN = message(
    "Quarterly figures", body="The numbers of the third quarter are attached.\n", message_id="m1@example.com"
)
GARDEN = message(
    "Garden party",
    from_="Zoë Quill <zoe@example.net>",
    body="Bring lanterns.\n",
    html="<p>Bring <b>lanterns</b>.</p><script>alert(1)</script>",
    message_id="m2@example.com",
)
FILES = message(
    "Two files",
    body="See the files.\n",
    message_id="m3@example.com",
    files=[File("../../evil.txt", "text/plain", b"first\n"), File("../../evil.txt", "text/plain", b"second\n")],
)
HOSTILE = message(
    "Hostile",
    from_="Red \u202ereder <red@example.com>",
    body="before \x1b[2J after \u202egnp.exe\n",
    message_id="m4@example.com",
)
SENT = message("What I sent", from_="Anna <anna@example.org>", to="zoe@example.net", message_id="m5@example.com")
INBOX = (PLAIN, GARDEN, FILES, HOSTILE)
