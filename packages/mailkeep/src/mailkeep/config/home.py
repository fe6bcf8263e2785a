"""The one folder that holds everything of an installation: configuration, secrets and embedded data.

`$MAILKEEP_HOME`, else `~/.mailkeep`. The folder and what lies in it is readable by its owner only.
"""

from __future__ import annotations

import os
from pathlib import Path

from mailkeep.errors import ConfigurationRefused

HOME_VARIABLE = "MAILKEEP_HOME"
SETTINGS_FILE = "mailkeep.toml"
SECRETS_FOLDER = "secrets"


def home() -> Path:
    """The installation's folder, absolute; it need not exist yet."""
    chosen = os.environ.get(HOME_VARIABLE, "").strip()
    return Path(os.path.abspath(Path(chosen).expanduser())) if chosen else Path.home() / ".mailkeep"


def settings_file(folder: Path) -> Path:
    """Where the settings of the installation in `folder` are written."""
    return folder / SETTINGS_FILE


def make_private_folder(folder: Path) -> Path:
    """Create `folder` with its parents, itself accessible to its owner only; an existing folder is left as it is.

    Raises ConfigurationRefused when it cannot be created or is something else than a folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationRefused(f"the folder for mailkeep's data cannot be created: {folder}: {reason}") from error
    return folder
