"""Every check, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipelines.errors import EverindexError
from service.usecases.doctor.finding import Finding, Installation, failure
from service.usecases.doctor.machine import (
    check_clock,
    check_environment,
    check_memory,
    check_python,
    check_sqlite,
)
from service.usecases.doctor.models import check_models
from service.usecases.doctor.queues import check_queue
from service.usecases.doctor.services import check_others, check_port, check_service, check_units
from service.usecases.doctor.state import (
    check_database,
    check_disk,
    check_indexes,
    check_passages,
    check_private_files,
    check_state,
)
from service.usecases.doctor.vault import check_files, check_id, check_readers, check_times, check_watching

_CHECKS: tuple[Callable[[Installation], Iterator[Finding]], ...] = (
    check_python,
    check_environment,
    check_sqlite,
    check_memory,
    check_clock,
    check_times,
    check_models,
    check_id,
    check_files,
    check_readers,
    check_watching,
    check_state,
    check_private_files,
    check_database,
    check_indexes,
    check_passages,
    check_disk,
    check_queue,
    check_port,
    check_service,
    check_others,
    check_units,
)


def examine(looked_at: Installation) -> Iterator[Finding]:
    """Yield what every check finds; one that cannot be finished is a finding, too."""
    for check in _CHECKS:
        try:
            yield from check(looked_at)
        except (EverindexError, OSError) as error:
            name = check.__name__.removeprefix("check_")
            yield failure(
                name, f"this could not be checked ({error})", "correct that, and run `everindex doctor` again"
            )
