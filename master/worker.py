"""`faultcast worker`: the notifier's worker as a process of ours, ended by SIGTERM or SIGINT."""

from sqlalchemy.exc import DBAPIError

from master import logs
from master.cli.errors import FAILED, REFUSED, CommandError
from master.database import not_usable
from master.stopping import stop_on_signals
from notifier.exposition import serve
from notifier.migrations import SchemaError
from notifier.settings import Settings, SettingsError
from notifier.worker import run_worker


def run(settings: Settings, concurrency: int, metrics_at: str | None = None) -> int:
    """Sends until told to stop; what is on its way is finished first."""
    logs.configure(settings.log_format)
    if metrics_at is not None:
        _show_figures(metrics_at)
    try:
        run_worker(settings, concurrency=concurrency, stop=stop_on_signals())
    except SettingsError as error:
        raise CommandError(str(error), REFUSED) from None
    except SchemaError as error:
        raise CommandError(str(error), FAILED) from None
    except DBAPIError as error:
        raise not_usable(error) from None
    return 0


def _show_figures(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise CommandError("--metrics: give HOST:PORT, for example 127.0.0.1:9642")
    try:
        serve(host.strip("[]"), int(port))
    except OSError as error:
        raise CommandError(
            f"--metrics: {address}: {error.strerror}; stop what uses it, or choose another", FAILED
        ) from None
