"""`faultcast worker`: the notifier's worker as a process of ours, ended by SIGTERM or SIGINT."""

import signal
import threading

from sqlalchemy.exc import DBAPIError

from master import logs
from master.cli.errors import REFUSED, CommandError
from master.database import not_usable
from notifier.settings import Settings, SettingsError
from notifier.worker import run_worker


def run(settings: Settings, concurrency: int) -> int:
    """Sends until told to stop; what is on its way is finished first."""
    logs.configure(settings.log_format)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        run_worker(settings, concurrency=concurrency, stop=stop)
    except SettingsError as error:
        raise CommandError(str(error), REFUSED) from None
    except DBAPIError as error:
        raise not_usable(error) from None
    return 0
