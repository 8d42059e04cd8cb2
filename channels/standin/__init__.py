"""Stand-in providers: real servers on this machine that take, check and refuse as the real ones do.

with StandIn() as providers:
    robot = providers.robot("dingtalk", secret="SEC…")
    …  # send to robot.url
    (message,) = providers.wait(1, "dingtalk")
"""

from channels.standin.command import main
from channels.standin.journal import Received
from channels.standin.providers import StandIn
from channels.standin.robots import Robot
from channels.standin.server import Scripted
from channels.standin.smtp import MailRules
from channels.standin.telecom import Account, Fate

__all__ = ["Account", "Fate", "MailRules", "Received", "Robot", "Scripted", "StandIn", "main"]
