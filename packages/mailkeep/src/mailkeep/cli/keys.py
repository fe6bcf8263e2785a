"""`mailkeep keys create | list`: the key ring, made by a person and never by itself."""

from __future__ import annotations

from typing import Annotated

import typer

from mailkeep.app import App
from mailkeep.cli.exits import run
from mailkeep.cli.terminal import say, show_json, table
from mailkeep.config import Settings, home, load_settings
from mailkeep.config.edit import add_key
from mailkeep.config.secrets import create_key_file, forget_secret
from mailkeep.errors import ConfigurationRefused

app = typer.Typer(no_args_is_help=True, help="The keys that seal what the database must not hold in the clear.")


@app.command("create")
def create(
    key_id: Annotated[str | None, typer.Option("--id", help="Id of the key; key-1, key-2 … when left out.")] = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Make a further key the active one. The older keys stay and still open.")
    ] = False,
) -> None:
    """Make a random key in an owner-only file, name it in the settings and let it seal from now on.

    Refresh tokens of OAuth are kept in the database under such a key. Back the key up apart from the database: whoever
    has both can sign in as you, and without the key everyone has to sign in again. No key is ever made by itself, and
    none is ever overwritten.
    """
    settings = load_settings(home())
    if settings.data_encryption.keys and not rotate:
        raise ConfigurationRefused("there is a key already; --rotate makes a further one the active one")
    chosen = key_id or _next_id(settings)
    if any(key.key_id == chosen for key in settings.data_encryption.keys):
        raise ConfigurationRefused("there is a key of that id already")
    reference = create_key_file(chosen, home())
    try:
        add_key(home(), chosen, reference)
    except BaseException:
        forget_secret(reference, home())  # nothing has been sealed with it
        raise
    say(f"Made the key {chosen} in {home() / reference.removeprefix('file:')}; it seals from now on.")
    say("Back it up, and not together with the database: what it sealed cannot be opened without it.")


@app.command("list")
def list_keys(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the keys and how many refresh tokens each still seals; one that seals none may be removed by hand."""
    settings = load_settings(home())
    counts = run(_counts())
    ring = settings.data_encryption
    ids = [key.key_id for key in ring.keys]
    keys = [
        {
            "id": key_id,
            "active": key_id == ring.active_key_id,
            "missing": key_id not in ids,
            "seals": counts.get(key_id, 0),
        }
        for key_id in (*ids, *sorted(counts.keys() - set(ids)))
    ]
    if as_json:
        show_json({"keys": keys})
        return
    if not keys:
        say("No key yet. Make one with: mailkeep keys create")
        return
    states = {True: "missing", False: ""}
    table(
        ("key", "state", "refresh tokens"),
        [
            (str(key["id"]), "active" if key["active"] else states[bool(key["missing"])], str(key["seals"]))
            for key in keys
        ],
        right=(2,),
    )


async def _counts() -> dict[str, int]:
    async with App.open(home()) as mailkeep:
        return await mailkeep.tokens_by_key()


def _next_id(settings: Settings) -> str:
    taken = {key.key_id for key in settings.data_encryption.keys}
    number = len(taken) + 1
    while f"key-{number}" in taken:
        number += 1
    return f"key-{number}"
