"""`POST /agent/reports`: what agents saw comes in, what the master wants of them rides on the answer."""

from fastapi import APIRouter

from master import intake
from master.api.deps import AgentToken, Mastered
from master.reports import ReplyDocument, ReportBody
from notifier.api.deps import Served
from notifier.api.openapi import PREFIX
from notifier.clock import utcnow

router = APIRouter(prefix=f"{PREFIX}/agent", tags=["agents"])


@router.post("/reports")
def take(body: ReportBody, principal: AgentToken, services: Served, controller: Mastered) -> ReplyDocument:
    """Agent tokens only. The same report again is answered alike and counts once."""
    with services.store.write() as session:
        taken = intake.take(session, principal, body, utcnow())
    if taken.is_urgent:
        controller.wake()
    return taken.reply
