"""What a mail server says, by where in the transaction it says so.

An enhanced status (RFC 3463) goes before the code: its class digit decides whether it is for good.

Sources:
    [RFC 5321] SMTP and its replies, [RFC 3463] enhanced status codes, [RFC 4954] AUTH, [RFC 3207] STARTTLS,
    [RFC 1870] SIZE; prometheus/alertmanager#3496 for one bad address among good ones
"""

import re
from dataclasses import dataclass

from channels.answers import BROKEN, DELIVERED, REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.smtp import Reply, Stage

_MAIL = frozenset({Stage.SENDER, Stage.RECIPIENT, Stage.CONTENT})
_ALL = frozenset(Stage)


@dataclass(frozen=True)
class Row:
    """`code` and `status` are whole patterns of a reply's code and enhanced status ("" where it has none)."""

    code: str
    status: str
    verdict: Verdict
    stages: frozenset[Stage] = _ALL

    def fits(self, stage: Stage, reply: Reply) -> bool:
        return (
            stage in self.stages
            and re.fullmatch(self.code, str(reply.code)) is not None
            and re.fullmatch(self.status, reply.enhanced) is not None
        )


_ANY = ".*"
_RECIPIENT = frozenset({Stage.RECIPIENT})
_LATER = frozenset({Stage.RECIPIENT, Stage.CONTENT})
TABLE = (
    # code, enhanced status, what it means, where     source
    Row("530", _ANY, BROKEN),  #                      [RFC 4954] authentication required
    Row(_ANY, r"5\.7\.(8|9|11)", BROKEN),  #          [RFC 4954] wrong password, too weak or open a login
    Row("2..", r"(2\..*)?", DELIVERED),  #            [RFC 5321] 250, 251
    Row(_ANY, r"4\..*", TEMPORARY),  #                [RFC 3463] 4.2.2, 4.7.1 …, whatever the code
    Row("4..", "", TEMPORARY),  #                     [RFC 5321] 421, 450, 451, 452; [RFC 3207] 454
    Row("552", "", TEMPORARY, _RECIPIENT),  #         [RFC 5321] 4.5.3.1.10: too many recipients, as 452
    Row(_ANY, r"5\.(3\.4|2\.3)", TOO_LONG, _MAIL),  # [RFC 3463] too big for the system, for the mailbox
    Row("552|523", "", TOO_LONG, _MAIL),  #           [RFC 1870] over the fixed maximum size
    Row("5..", _ANY, REFUSED, _LATER),  #             [RFC 5321] 550, 551, 553, 554; [RFC 3463] 5.1.1 …
    Row("5..", _ANY, BROKEN),  #                      [RFC 5321] the server will not have us: 535, 550, 554
)  # fmt: skip


def look_up(stage: Stage, reply: Reply) -> Verdict:
    """The verdict on a reply; one that the table does not know is no success."""
    return next((row.verdict for row in TABLE if row.fits(stage, reply)), TEMPORARY)
