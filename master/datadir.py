"""The data dir: made for us alone where it is missing, else taken as it is and never changed."""

import os
from pathlib import Path

from master.cli.errors import CommandError

_OTHERS_WRITE = 0o002
_OTHERS_READ = 0o077


def ready(folder: Path) -> str:
    """Sees that the folder is there; answers a warning, "" where there is none.

    Raises:
        CommandError: it cannot be used, and the mend.
    """
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        return _as_it_is(folder)
    except OSError as error:
        raise _refused(folder, f"{error.strerror}; name a folder you may write") from None
    return ""


def _as_it_is(folder: Path) -> str:
    if not folder.is_dir():
        raise _refused(folder, "is no folder; name one")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(folder, "Permission denied; name a folder you may write")
    mode = folder.stat().st_mode
    if mode & _OTHERS_WRITE:
        raise _refused(folder, "everybody may write there; name a folder below it, which will be yours alone")
    if mode & _OTHERS_READ:
        return f"others of this machine may look into {folder}: chmod 700 {folder}"
    return ""


def _refused(folder: Path, why: str) -> CommandError:
    return CommandError(f"--data-dir: {folder}: {why}")
