"""What is wrong just now, found without writing anything: a full disk must not hide itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipelines.holds import held_key
from queue_config.queue import QUEUE_ERRORS, Queue
from workers.resources import Resources
from workers.tasks import paused_key

_LITTLE_SPACE = 5_000_000
# The watcher speaks every five seconds, unless it is busy with a first scan.
_SILENCE_SECONDS = 60.0


def find_problems(resources: Resources, queue: Queue) -> list[str]:
    """Return a sentence a problem: what happened, to what, and what to do."""
    return [*_of_the_vault(resources), *_of_the_machine(resources, queue)]


def _of_the_vault(resources: Resources) -> Iterator[str]:
    if error := resources.registry().error:
        yield f"{error} (the last good one stays in force)"
    if not resources.present():
        yield f"the vault {resources.root} is not there; answers show what was indexed last, nothing is deleted"
    for domain in resources.domains():
        if paused := resources.state().heard(paused_key(domain.slug)):
            yield (
                f"{domain.slug} is paused since {paused.value['since']}: what is saved there is noticed, and indexed"
                " when an operator resumes it (`/ops`)"
            )
        if held := resources.state().heard(held_key(domain.slug)):
            yield (
                f"{domain.slug}: {held.value['count']} notes vanished at once ({held.value['examples'][0]!r} is one);"
                " they are kept until `everindex confirm-deletions`, or for an hour"
            )


def storage_problem(folder: Path) -> str | None:
    """Say why nothing can be written into the state folder just now, or None where it can."""
    if shutil.disk_usage(folder).free < _LITTLE_SPACE:
        return f"the disk of {folder} is full: saves wait until there is space again"
    if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"the state folder {folder} cannot be written: saves wait until it can"
    return None


def _of_the_machine(resources: Resources, queue: Queue) -> Iterator[str]:
    if problem := storage_problem(resources.place.state):
        yield problem
    try:
        queue.storage.queue_size()
    except QUEUE_ERRORS as error:
        yield f"the queue cannot be reached ({error}): saves wait until it can"
    workers = resources.workers()
    if workers and not any(workers.values()):
        yield (
            f"the worker ({list(workers)[-1]}) ended without a word: what is saved is noticed, and indexed when one"
            " runs again; `up` and systemd start it by themselves, and its log says why it ended"
        )
    watcher = resources.state().heard("watcher")
    if watcher and watcher.age_s > _SILENCE_SECONDS:
        yield f"the watcher has said nothing for {watcher.age_s:.0f} s: is `everindex watch` running?"
    elif watcher and watcher.value["mode"] == "polling":
        yield f"the vault is compared every few seconds instead of watched: {watcher.value['polling_because']}"
