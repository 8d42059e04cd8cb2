"""How a command ends when it cannot do what was asked: one line on stderr and an exit code (CONTRACT 1)."""

FAILED = 1  # the thing asked for failed
REFUSED = 2  # wrong usage or refused input
UNREACHABLE = 3  # the server cannot be reached


class CommandError(Exception):
    """Ends the command; the message names what is wrong and the mend.

    Attributes:
        status: what the server answered, 0 where it was not asked; `faults`: the fields that it names.
    """

    def __init__(self, message: str, exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.status = 0
        self.faults: tuple[tuple[str, str], ...] = ()


def one_line(text: str) -> str:
    """Whatever came from outside as one printable line: no escape sequence reaches the terminal."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in line)
