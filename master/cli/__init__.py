"""`faultcast`: the commands of CONTRACT 1.

Heavy modules are imported when their command runs, so that help is quick.
"""

import contextlib
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from master.cli.errors import FAILED, REFUSED, CommandError, one_line
from notifier.errors import kind_and_place

# Baidu's CLI takes these bare or as --flag=true|false; the parser knows only flags with a value.
BARE_FLAGS = frozenset(
    {"--enable-fault-tolerance", "--enable-rdma", "--enable-bccl", "--host-network", "--privileged"}
)
# What is imported is kept, and hardly anything of ours goes in circles: garbage that is looked for every 700
# objects, as Python does by itself, costs a start a tenth of its time.
_GARBAGE_AFTER = 20_000
# Of what is printed: the disk behind it is full, or nobody takes it.
_UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
# Typer does not export the base class of its usage errors.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one command and exits: 0, 1, 2 or 3, one line on stderr, never a traceback."""
    gc.set_threshold(_GARBAGE_AFTER)
    from master.cli.app import app  # noqa: PLC0415  the tree is built only when a command is run

    arguments = spell_out(list(sys.argv[1:] if argv is None else argv))
    try:
        _settle_streams()
        code = typer.main.get_command(app).main(arguments, prog_name="faultcast", standalone_mode=False)
        sys.stdout.flush()
    except CommandError as error:
        _end(str(error), error.exit_code)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its words are the help itself
            sys.stderr.write(f"{error}\n")
            sys.exit(REFUSED)
        _end(_usage(error), REFUSED)
    except typer.Abort:
        _end("not done: no answer was given", FAILED)
    except KeyboardInterrupt:
        _end("interrupted", 128 + signal.SIGINT)
    except BrokenPipeError:
        _leave_quietly()
    except Exception as error:  # the border of the command line: never a traceback
        if os.environ.get("FAULTCAST_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITTEN:
            _forget_output()
            _end(f"standard output: {error.strerror}", FAILED)
        _end(f"an error of ours: {kind_and_place(error)} (FAULTCAST_TRACEBACK=1 shows more)", FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def spell_out(arguments: list[str]) -> list[str]:
    """`--enable-rdma` alone as `--enable-rdma=true`."""
    if "job" not in arguments:
        return arguments
    return [f"{part}=true" if part in BARE_FLAGS else part for part in arguments]


def _usage(error: Exception) -> str:
    words = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    return f"{words} (see: {context.command_path} --help)" if context else words


def _end(message: str, code: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"faultcast: {one_line(message)}\n")
    sys.exit(code)


def _settle_streams() -> None:
    """Whatever is to be shown can be: what the terminal's encoding lacks is escaped."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  to the process's end
    if sys.stdout is None:
        raise CommandError("standard output is closed; send it to /dev/null if it is not wanted")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave_quietly() -> None:
    """Whoever read us has gone."""
    _forget_output()
    sys.exit(FAILED)


def _forget_output() -> None:
    """Python's own flush at exit must not complain of what cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
