"""Stands for the adapter of a package that is not installed any more: that channel is broken, no other."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict

from channels.base import Adapter, Answer, ChannelConfig, Message, Outcome, Part
from channels.transport import Network


class AbsentConfig(ChannelConfig):
    """Takes whatever is stored and shows none of it: nobody knows which of it is secret."""

    model_config = ConfigDict(extra="ignore")


class Absent(Adapter):
    """Sends nothing and says why, so that the channel fails aloud and its fallback is told."""

    kind: ClassVar[str] = "absent"
    Config: ClassVar[type[ChannelConfig]] = AbsentConfig

    def __init__(self, kind: str) -> None:
        self._why = f"no installed package brings channels of kind {kind}: install it where workers run"

    def parts(self, message: Message, config: Any) -> list[Part]:  # noqa: ARG002  the seam's form
        return [Part(1, 1, {}, message)]

    def send(
        self,
        part: Part,  # noqa: ARG002
        config: Any,  # noqa: ARG002
        network: Network,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        only: frozenset[str] | None = None,  # noqa: ARG002
    ) -> Answer:
        return Answer(Outcome.CHANNEL_BROKEN, code="no_adapter", message=self._why)
