# ruff: noqa: E501 - letters keep the lines their writers gave them
"""The words of the demo mailbox: invented people, invented letters, in the languages people write in.

Every conversation is a list of (who, text); "me" is the owner of the mailbox. Nothing here is real mail.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """A display name and an address under a reserved domain."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Letters that answer each other, oldest first, filed in one folder (the owner's own letters lie in Sent)."""

    folder: str
    subject: str
    reply_prefix: str
    days_ago: int
    letters: tuple[tuple[str, str], ...]


OWNER = Person("Robin Winter", "robin@mail.example")

PEOPLE = {
    "me": OWNER,
    "ann": Person("Ann Lee", "ann@example.com"),
    "juergen": Person("Jürgen Müller", "j.mueller@example.de"),
    "zoe": Person("Zoë Lefèvre", "zoe.lefevre@example.fr"),
    "hanako": Person("山田 花子", "hanako@example.jp"),
    "wei": Person("李伟", "liwei@example.cn"),
    "olena": Person("Олена Шевченко", "olena@example.ua"),
    "samir": Person("سمير حداد", "samir@example.org"),
    "lucia": Person("Lucía Ibáñez", "lucia@example.es"),
    "nikos": Person("Νίκος Παππάς", "nikos@example.gr"),
    "tom": Person("Tom O'Brien", "tom.obrien@example.com"),
    "mira": Person("Mira Kowalska, PhD", "mira@example.pl"),
}

CONVERSATIONS = (
    Conversation(
        "Reisen & Züge",
        "Ferry to the island",
        "Re: ",
        6,
        (
            ("ann", "Shall we take the ferry on Saturday? The forecast is calm and Tom wants to come along."),
            ("me", "Yes, gladly. Can you book three seats, and one bicycle for me?"),
            (
                "ann",
                "Booked! The ferry leaves at 07:45 from pier 4, not from the main harbour. Boarding closes ten minutes\n"
                "earlier, so let us meet at 07:15 by the red crane. I have the tickets on my phone.",
            ),
            ("tom", "07:15 it is. I bring coffee."),
            ("me", "Perfect. I will be the one with the yellow bicycle."),
        ),
    ),
    Conversation(
        "Reisen & Züge",
        "Zugverbindung nach Görlitz",
        "AW: ",
        19,
        (
            (
                "juergen",
                "Hallo Robin,\n\nder Zug um 9:12 Uhr ab Gleis 7 ist ausgebucht. Wollen wir die Regionalbahn über Cottbus\n"
                "nehmen? Die Fahrkarte kostet nur die Hälfte, dafür müssen wir zweimal umsteigen.\n\nGrüße\nJürgen",
            ),
            ("me", "Lieber zweimal umsteigen als stehen. Buchst du die Plätze mit Steckdose?"),
            (
                "juergen",
                "Gebucht: Wagen 3, Plätze 41 und 42. Die Rückfahrt ist offen, falls wir länger bleiben möchten.",
            ),
        ),
    ),
    Conversation(
        "INBOX",
        "La recette de la tarte",
        "RE: ",
        33,
        (
            (
                "zoe",
                "Coucou Robin,\n\nvoici la recette de ma grand-mère : six pommes, cent grammes de beurre, de la crème fraîche\n"
                "et surtout pas de cannelle. Laisse reposer la pâte une nuit entière.\n\nBises,\nZoë",
            ),
            ("me", "Merci ! Et si je n'ai pas de moule ?"),
            ("zoe", "Une poêle en fonte suffit. Ça colle un peu, mais c'est meilleur."),
        ),
    ),
    Conversation(
        "INBOX",
        "来週の花見について",
        "Re: ",
        12,
        (
            (
                "hanako",
                "ロビンさん\n\n来週の土曜日、上野公園で花見をしませんか。桜はちょうど満開の予報です。\n"
                "お弁当は私が用意しますので、飲み物だけお願いします。\n\n山田",
            ),
            ("me", "Lovely! 何時に集合ですか。"),
            ("hanako", "午前十時に公園の入口で待っています。雨の場合は美術館に変更しましょう。"),
        ),
    ),
    Conversation(
        "INBOX",
        "关于新书的翻译合同",
        "回复: ",
        25,
        (
            (
                "wei",
                "罗宾，你好！\n\n附件是新书的翻译合同草稿。请在本月底之前确认稿费和交稿日期。\n如果有问题，我们可以下周开电话会议讨论。\n\n李伟",
            ),
            ("me", "谢谢。The delivery date works for me; let us talk about the fee on Tuesday."),
            ("wei", "好的，星期二上午九点北京时间。出版社已经同意提高百分之十。"),
        ),
    ),
    Conversation(
        "INBOX",
        "Квитки на концерт",
        "Re: ",
        9,
        (
            (
                "olena",
                "Привіт, Робіне!\n\nЯ купила два квитки на концерт у філармонії в п'ятницю. Початок о сьомій вечора,\n"
                "зустрінемося біля входу. Гратимуть Лисенка і трохи Баха.\n\nОлена",
            ),
            ("me", "Дякую! I have never heard Lysenko live."),
            ("olena", "Тобі сподобається. Після концерту підемо на каву."),
        ),
    ),
    Conversation(
        "INBOX",
        "موعد الاجتماع القادم",
        "رد: ",
        15,
        (
            (
                "samir",
                "مرحبا روبن،\n\nهل يناسبك موعد الاجتماع يوم الأربعاء في الساعة العاشرة صباحا؟ سأرسل لك جدول الأعمال مع التقرير\n"
                "المالي قبل الموعد بيوم.\n\nتحياتي،\nسمير",
            ),
            ("me", "Wednesday at ten is fine. شكرا!"),
            ("samir", "ممتاز، نلتقي في المكتب الجديد بجانب المكتبة."),
        ),
    ),
    Conversation(
        "INBOX",
        "Alquiler de la casa en Cádiz",
        "RV: ",
        41,
        (
            (
                "lucia",
                "Hola Robin:\n\nla casa está libre la primera semana de septiembre. Son 80 euros por noche, sábanas incluidas.\n\nUn saludo,\nLucía",
            ),
            ("me", "¡Perfecto! Transfiero la señal mañana."),
        ),
    ),
    Conversation(
        "INBOX",
        "Φωτογραφίες από το φεστιβάλ",
        "Απ: ",
        52,
        (
            (
                "nikos",
                "Γεια σου Ρόμπιν,\n\nανέβασα τις φωτογραφίες από το φεστιβάλ στη Σύρο. Διάλεξε όποιες θέλεις για το άλμπουμ.\n\nΝίκος",
            ),
        ),
    ),
    Conversation(
        "Projekte/Überblick",
        "Garden shed: which roof?",
        "Re: ",
        17,
        (
            ("tom", "Slate is too heavy for those beams. Cedar shingles last thirty years and I can get them at cost."),
            ("me", "Cedar then. What about the gutter?"),
            ("tom", "Zinc, half round. The carpenter asks for the drawings before the end of the month."),
            (
                "mira",
                "I checked the load: the beams carry cedar and half a metre of wet snow. Drawings attached in the other mail.",
            ),
            ("me", "Thank you both. Drawings go to the carpenter today."),
        ),
    ),
    Conversation(
        "Projekte/Überblick",
        "Umfrage zum Straßenfest",
        "AW: ",
        29,
        (
            ("juergen", "Bisher haben 47 Haushalte geantwortet. Die meisten wünschen sich Musik, aber nur bis 22 Uhr."),
            ("mira", "Ich übernehme den Kuchenstand. Wer leiht uns Bierbänke?"),
            ("me", "Die Feuerwehr hat zwanzig Garnituren, ich frage nach."),
        ),
    ),
    Conversation(
        "INBOX",
        "Reading group: next book",
        "Re: ",
        22,
        (
            ("mira", "I propose the Lem biography. Four hundred pages, but the chapters on Kraków are short."),
            ("ann", "Fine with me. Whose turn is it to host?"),
            ("me", "Mine. Thursday at eight; the doorbell is broken, so please knock."),
            ("tom", "Thursday clashes with choir. Could we start at half past eight?"),
            ("me", "Half past eight it is."),
        ),
    ),
    Conversation(
        "INBOX",
        "Lost umbrella",
        "Re: ",
        3,
        (
            ("ann", "Did I leave a green umbrella at your place on Thursday?"),
            ("me", "You did. It has been adopted by the cat; I will bring it on Saturday."),
        ),
    ),
    Conversation(
        "Archive",
        "Boiler inspection",
        "Re: ",
        140,
        (
            ("tom", "The inspector found a hairline crack in the heat exchanger. The warranty covers it until March."),
            ("me", "Please order the part; the invoice goes to the cooperative."),
            ("tom", "Part ordered, delivery in six weeks. Until then keep the pressure below 1.5 bar."),
        ),
    ),
    Conversation(
        "Archive",
        "Tax return",
        "Re: ",
        200,
        (
            ("mira", "I still need the receipts for the train season ticket and the donation to the animal shelter."),
            ("me", "Scans attached. The donation receipt is number 2024-118."),
        ),
    ),
)

NEWSLETTERS = (
    (
        "The Slow Gardener",
        "news@slowgardener.example",
        "Issue {n}: what to sow in week {n}",
        "Sow broad beans, prune nothing, and leave the fallen leaves to the hedgehogs. Week {n} is for sharpening spades.",
    ),
    (
        "Kino um die Ecke",
        "programm@kino.example",
        "Programm der Woche {n}",
        "Diese Woche: ein Stummfilm mit Klavier, zwei Dokumentarfilme und das Kinderkino am Sonntag. Karten ab {n} Euro.",
    ),
    (
        "Tidal Times",
        "letter@tidal.example",
        "High water and other news, no. {n}",
        "Spring tides are due around the {n}th. The lighthouse opens for visitors; bring boots and a torch.",
    ),
)

BOOK_TITLES = (
    "The Quiet Harbour",
    "Salz und Zucker",
    "Un été en fonte",
    "Maps for Rainy Days",
    "Die letzte Fähre",
    "Cedar and Snow",
)

SPAM_SUBJECTS = (
    "You have WON a yacht",
    "Cheap pills, no doctor",
    "Your parcel could not be deliverd",
    "Re: invoice overdue!!!",
    "Hot single spreadsheets near you",
    "Congratulations dear beneficiary",
    "Lose 20 kilos by reading mail",
)

# As bad clients make them, line by line.
BROKEN_LETTERS: tuple[tuple[bytes, ...], ...] = (
    (b"Subject: no date, no sender, no end",),
    (
        b"From: ann@example.com",
        b"Subject: 8-bit \xfcmlauts declared nowhere",
        b"",
        b"Gr\xfc\xdfe aus K\xf6ln, die T\xfcr klemmt.",
        b"",
    ),
    (
        b"From: Tom <tom.obrien@example.com>",
        b"Subject: =?utf-8?Q?half_an_encoded_w=C3?=",
        b"Date: yesterday",
        b"",
        b"The date is a word.",
        b"",
    ),
    (
        b"From: a@example.com",
        b"Subject: boundary that never comes",
        b'Content-Type: multipart/mixed; boundary="never"',
        b"",
        b"The parts were lost on the way.",
        b"",
    ),
    (
        b"From: b@example.com",
        b"Subject: base64 with a hole",
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Transfer-Encoding: base64",
        b"",
        b"VGhlIHNoZWQgaGFzIGEgcm9vZiBub3c!!LiBUaGUgZW5k",
        b"",
    ),
    (
        b"From: c@example.com",
        b"Subject: unknown charset",
        b"Content-Type: text/plain; charset=x-klingon",
        b"",
        b"Plain words under a strange label.",
        b"",
    ),
    (
        b'From: "unclosed <d@example.com>',
        b"To: undisclosed recipients:;",
        b"Subject: a quote without an end",
        b"",
        b"Still readable.",
        b"",
    ),
    (b"", b"A body without any header.", b""),
    (
        b"From: e@example.com",
        b"Subject: attachment named twice",
        b"Content-Type: multipart/mixed; boundary=x",
        b"",
        b"--x",
        b"Content-Type: text/plain",
        b"",
        b"See the file.",
        b"--x",
        b'Content-Type: application/octet-stream; name="../../etc/passwd"',
        b"Content-Disposition: attachment; filename*0*=utf-8''r%C3%A9sum; filename*1*=%C3%A9.txt",
        b"",
        b"nothing",
        b"--x--",
        b"",
    ),
    (b"From: f@example.com", b"Subject: a line that goes on", b"", b"long " * 4000, b""),
)
