"""The worker process: resources, tasks, a sweep in the background, and huey's consumer."""

from __future__ import annotations

import threading

import structlog
from redis.exceptions import RedisError

from pipelines.errors import EverindexError
from queue_config.settings import Settings
from workers.resources import Resources
from workers.tasks import make_tasks, sweep

SWEEP_SECONDS = 2.0
_STOP_SECONDS = 8.0

log = structlog.get_logger()


def run_worker(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT; the running slice is finished first. Call it in the main thread."""
    resources = Resources(settings)
    resources.check_models()
    huey = resources.queue()
    tasks = make_tasks(huey, resources)
    stopped = threading.Event()

    def sweeper() -> None:
        refused: dict[str, int] = {}
        while not stopped.wait(SWEEP_SECONDS):
            try:
                sweep(huey, tasks, resources)
                if huey.refused != refused:
                    refused = dict(huey.refused)
                    resources.state().say("refused", refused)
            except (EverindexError, OSError, RedisError) as error:
                log.warning("sweep failed; it is tried again", error=str(error))
            except Exception:
                log.exception("sweep failed; it is tried again")

    threading.Thread(target=sweeper, name="sweep", daemon=True).start()
    log.info("worker started", vault=str(resources.root))
    consumer = huey.create_consumer(
        workers=1,
        # An SQLite queue is polled: its answer must not wait for huey's ten seconds. A Redis is waited on, and
        # a delay only follows an error.
        initial_delay=0.01,
        max_delay=1.0 if settings.redis_url else 0.05,
        periodic=False,
        graceful_signal="TERM",
        shutdown_timeout=_STOP_SECONDS,
    )
    consumer.run()
    stopped.set()
    log.info("worker stopped")
