"""Every check, in the order in which their findings are shown."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import metadata
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import psutil

from pipelines import domains
from pipelines.context.recipes import CONTEXTS_FILE, read_recipes
from pipelines.domains import DOMAINS_FILE
from pipelines.embedding.embedder import Embedder
from pipelines.embedding.endpoints import EmbeddingEndpoint
from pipelines.embedding.models import (
    EMBEDDED_MODEL,
    MULTILINGUAL_MODEL,
    NO_MODEL,
    ModelInfo,
    find_downloaded,
    find_model,
)
from pipelines.embedding.remote import ask_dimension
from pipelines.errors import (
    BadVectorError,
    ChatModelError,
    ConfigurationError,
    ContextsFileError,
    DomainsFileError,
    EverindexError,
    JudgedQueriesError,
    ModelNotAllowedError,
    ModelUnavailableError,
    ScopesFileError,
    SqliteTooOldError,
    VaultIdError,
)
from pipelines.formats import FORMATS, SCANNED, install_command
from pipelines.indexing.ingest import chunking_of
from pipelines.indexing.languages import Languages, languages_by_domain
from pipelines.maintenance.databases import current_caches, damage, meta_of, record_ids_of, try_library
from pipelines.model import Domain
from pipelines.search.evaluate import QUERIES_FILE, read_judged
from pipelines.search.scopes import SCOPES_FILE, read_scopes
from pipelines.state.state import STATE_FILE
from pipelines.tagging import vocabulary
from pipelines.vault.files import is_note, path_on_disk
from pipelines.vault.identity import DOT_FOLDER, ID_FILE, read_id
from pipelines.vault.paths import walk
from queue_config.queue import QUEUE_FILE
from queue_config.secrets import SECRETS, NotPrivateError, check_owner, check_secrets
from queue_config.settings import Settings, unknown_variables
from service.runtime.client import running
from service.runtime.listeners import listener, service_on
from service.runtime.sockets import bind
from service.runtime.systemd import MODULE, UnitPaths, unit_folder
from service.runtime.watch_limits import count_folders, inotify_in_use, network_file_system, read_limit
from service.usecases.status import MOST_SHARED_IDS, describe_change, shared_ids, storage_problem
from service.usecases.text import counted, sharing
from workers.endpoints import endpoints_of, try_chat
from workers.models import chosen_chunking, recorded_model
from workers.resources import GOOD_DOMAINS_FILE
from workers.vault_paths import VaultPaths, remembered, was_indexed, why_not_indexed
from workers.watchers import watchers

# What a check finds, and what it looks at.


Level = Literal["ok", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact of one check, and what to do about it: `cure` is empty where nothing is wrong."""

    check: str
    level: Level
    message: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """What is examined: the settings, the vault's folder, and where its state lies; None: not known."""

    settings: Settings
    root: Path | None = None
    place: VaultPaths | None = None


def ok(check: str, message: str) -> Finding:
    """Return a finding that nothing is wrong."""
    return Finding(check, "ok", message)


def warning(check: str, message: str, cure: str) -> Finding:
    """Return a finding that Everindex works with, less well."""
    return Finding(check, "warning", message, cure)


def failure(check: str, message: str, cure: str) -> Finding:
    """Return a finding that keeps something from working, or lets others read the notes."""
    return Finding(check, "failure", message, cure)


def cured(error: Exception) -> tuple[str, str]:
    """Return the message of one of our errors in two parts: what happened, and what to do."""
    message, _, cure = str(error).rpartition("; ")
    return (message, cure) if message else (cure, "run `everindex status`, which may say more")


# Checks of the machine: Python, the environment, SQLite, memory and the clock.


_LITTLE_MEMORY = 1_000_000_000
"""The three processes of a vault of some thousand notes hold about as much, in bytes."""
_CGROUP = Path("/sys/fs/cgroup")
_CLASSIFIER = "Programming Language :: Python :: "
_OLDEST_YEAR = 2024
"""No version of Everindex is older: a clock that says so was never set."""


def check_python(_: Installation) -> Iterator[Finding]:
    """Compare the version of Python with those that this version of Everindex was tested with."""
    classifiers = metadata("everindex").get_all("Classifier") or []
    tested = [one.removeprefix(_CLASSIFIER) for one in classifiers if one.startswith(_CLASSIFIER)]
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running in tested:
        yield ok("python", f"Python {running}")
    else:
        versions = ", ".join(tested)
        yield warning(
            "python",
            f"Everindex was not tested with Python {running}",
            f"if something fails, install it with one of: {versions} (`uv tool install --python {tested[-1]} ...`)",
        )


def check_environment(_: Installation) -> Iterator[Finding]:
    """Find variables of the environment that are misspelled settings."""
    for unknown in unknown_variables():
        yield warning(
            "environment", unknown, "correct its name, or unset it; `everindex config` lists the settings"
        )


def check_sqlite(_: Installation) -> Iterator[Finding]:
    """Try full-text search and the vector extension in a database in memory."""
    try:
        library = try_library()
    except (ConfigurationError, SqliteTooOldError) as error:
        yield failure("sqlite", *cured(error))
    else:
        yield ok("sqlite", f"SQLite {library.sqlite} with full-text search, sqlite-vec {library.vectors}")


def check_memory(_: Installation) -> Iterator[Finding]:
    """Compare the free memory, or what a container leaves of it, with what the processes need."""
    free = min(psutil.virtual_memory().available, _left_in_container())
    if free < _LITTLE_MEMORY:
        yield warning(
            "memory",
            f"{free / 1e6:.0f} MB of memory are free; the three processes need about 1 GB",
            "close other programs, or give the container more memory",
        )
    else:
        yield ok("memory", f"{free / 1e9:.1f} GB free")


def _left_in_container() -> float:
    """Return the memory that this process's container may still take; infinity outside of one."""
    try:
        most = int((_CGROUP / "memory.max").read_text())
        return most - int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return float("inf")


def check_clock(_: Installation) -> Iterator[Finding]:
    """Say whether the clock was ever set."""
    year = time.localtime().tm_year
    if year < _OLDEST_YEAR:
        yield failure(
            "clock",
            f"the clock says that it is {year}",
            "set it: `timedatectl set-ntp true`, or `date --set`",
        )
    else:
        yield ok("clock", time.strftime("%Y-%m-%d %H:%M"))


# Checks of the embedding models: on the disk, unchanged, and able to compute.


_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_models(looked_at: Installation) -> Iterator[Finding]:
    """Load each model that the settings or the vault's domains name, and compute a vector. Nothing is fetched.

    Of a model that endpoints serve, each of them is asked for a vector.
    """
    for name in _names(looked_at):
        served = endpoints_of(looked_at.settings, name)
        yield from (_ask_endpoint(name, one) for one in served)
        if not served:
            yield _examine(name, chosen=looked_at.settings.chosen_models)


def check_chat(looked_at: Installation) -> Iterator[Finding]:
    """Have the model that answers in conversations say a word."""
    if looked_at.settings.chat is None:
        return
    try:
        yield ok("chat", f"{try_chat(looked_at.settings)} answers")
    except ChatModelError as error:
        yield warning("chat", str(error), "correct `chat` in the settings, or start its server")


def _ask_endpoint(model: str, endpoint: EmbeddingEndpoint) -> Finding:
    """Have an endpoint embed a sentence that is no note's."""
    try:
        dimension = ask_dimension(model, [endpoint])
    except ModelUnavailableError as error:
        return warning("model", str(error).partition(", so how")[0], "start it, or correct its settings")
    return ok("model", f"{model}: {endpoint.name} answers, {dimension} numbers per vector")


def _names(looked_at: Installation) -> list[str]:
    """Return the models that are wanted, each once."""
    chosen = looked_at.settings.embedding_model
    known = [chosen] if chosen else [domain.embedding for domain in _domains_of(looked_at.root)]
    names = [find_model(None).name if name is None else name for name in known or [None]]
    return [name for name in dict.fromkeys(names) if name != NO_MODEL]


def _domains_of(root: Path | None) -> tuple[Domain, ...]:
    """Return the domains of a vault; none without a vault, or if their file is wrong, which `check_files` says."""
    try:
        return domains.load(root).domains if root else ()
    except DomainsFileError:
        return ()


def _examine(name: str, chosen: frozenset[str]) -> Finding:
    try:
        # Only a folder is found this way: a name would be fetched.
        is_folder = name in chosen and Path(name).expanduser().is_dir()
        info = find_model(name) if is_folder else find_downloaded(name)
        if (file := _changed_since_download(info)) is not None:
            return failure(
                "model",
                f"{file} is not what was downloaded",
                "delete the file and run `everindex up`, which fetches it again",
            )
        return ok("model", f"{name}: loads, {_dimension(info)} finite numbers per vector")
    except ModelNotAllowedError as error:
        if name in chosen:
            return warning(
                "model",
                f"the model {name!r} is not on this machine yet",
                "connect to the internet for the next `everindex up`, which downloads it",
            )
        return warning("model", *_parts(error))
    except ModelUnavailableError as error:
        return failure("model", *cured(error))
    except BadVectorError as error:
        return failure("model", str(error), "install the model again, or choose another with EMBEDDING_MODEL")


def _parts(error: ModelNotAllowedError) -> tuple[str, str]:
    message, _, cure = str(error).partition(": ")
    return message, cure


def _changed_since_download(info: ModelInfo) -> Path | None:
    """Return a weights file that differs from the SHA-256 under which a hub's client stored it, or None.

    The weights of the embedded model are compared with those that were published when it is loaded.
    """
    for file in sorted(info.folder.glob("*.safetensors")):
        stored = file.resolve()
        if _SHA256.fullmatch(stored.name):
            with stored.open("rb") as weights:
                if hashlib.file_digest(weights, "sha256").hexdigest() != stored.name:
                    return stored
    return None


def _dimension(info: ModelInfo) -> int:
    """Return how many numbers a vector has. Raises ModelUnavailableError, BadVectorError."""
    vector = Embedder(info, threads=1).encode_query("soil")
    return len(vector)


# Checks of the queue: its file, or the Redis that the settings name.


def check_queue(looked_at: Installation) -> Iterator[Finding]:
    """Ask the Redis of the settings, or read the queue's file."""
    url = looked_at.settings.redis_url
    if url is not None:
        yield from _of_redis(url.get_secret_value())
    elif looked_at.place is not None:
        file = looked_at.place.state / QUEUE_FILE
        if problem := damage(file):
            yield warning(
                "queue",
                f"{file} is damaged ({problem})",
                "Everindex creates it again, within a minute while it runs or when you start it; nothing is lost",
            )
        elif file.exists():
            yield ok("queue", f"SQLite file {file}")


def _of_redis(url: str) -> Iterator[Finding]:
    from redis.exceptions import RedisError  # noqa: PLC0415 - most installations have none

    from queue_config.inspect import read_facts  # noqa: PLC0415

    try:
        facts = read_facts(url)
    except RedisError as error:
        yield failure(
            "queue",
            f"Redis cannot be reached ({error})",
            "start Redis, or correct REDIS_URL (`everindex config` shows where it was set)",
        )
        return
    if facts.eviction and facts.eviction.startswith("allkeys"):
        yield warning(
            "queue",
            f"Redis deletes the queue when its memory is full (maxmemory-policy {facts.eviction})",
            "set the policy: `redis-cli config set maxmemory-policy noeviction`, and in redis.conf",
        )
    else:
        yield ok("queue", f"Redis {facts.version}")


# Checks of what runs: the port, this vault's service, others that are in its way, and systemd units.


def check_port(looked_at: Installation) -> Iterator[Finding]:
    """Say who listens on the port of the settings."""
    port = looked_at.settings.port
    mine = running(looked_at.place.state) if looked_at.place else None
    if mine is not None or not port:
        return  # what runs has its port
    try:
        bind(port).close()
    except ConfigurationError:
        used = f"port {port} is used by {listener(port)}"
        if looked_at.place is None and service_on(port):
            yield ok("port", used)  # no vault was chosen, so that it is in nobody's way
        else:
            yield failure("port", used, "choose another with --port or EVERINDEX_PORT, or end that program")
    else:
        yield ok("port", f"{port} is free")


def check_service(looked_at: Installation) -> Iterator[Finding]:
    """Ask the vault's service, if one runs, for its problems. It has to prove that it knows the token first."""
    place = looked_at.place
    service = running(place.state) if place else None
    if place is None or service is None:
        return
    try:
        check_secrets(place.state)
        problems = service.call("GET", "/health")["problems"]
    except NotPrivateError:
        return  # its own check says so
    except EverindexError as error:
        yield failure("service", *cured(error))
        return
    for problem in problems:
        yield warning("service", problem, "see `everindex status`")
    if not problems:
        yield ok("service", f"{service.address} (process {service.pid})")


def check_others(looked_at: Installation) -> Iterator[Finding]:
    """Look for other state folders of this vault, and for services that use them."""
    place = looked_at.place
    if place is None:
        return
    others = others_running(place)
    for folder in sorted({*remembered(place.root), *others} - {place.state}):
        if process := others.get(folder):
            yield failure(
                "services",
                f"another Everindex (process {process}) runs on {place.root}, with its state in {folder}",
                "stop one of the two: both apply accepted tags to the same notes",
            )
        else:
            yield warning(
                "services",
                f"{folder} is another state folder of {place.root}",
                f"delete it if you do not need its history, or choose it with `--state {folder}`",
            )


def others_running(place: VaultPaths) -> dict[Path, int]:
    """Return the processes that serve or watch this vault with another state folder, by that folder."""
    serving = {folder: service.pid for folder in remembered(place.root) if (service := running(folder))}
    found = serving | watchers(place.root)
    return {folder: pid for folder, pid in found.items() if folder != place.state}


def check_units(looked_at: Installation) -> Iterator[Finding]:  # noqa: ARG001 - every check takes it
    """Look for systemd units that start what is no longer there."""
    for file in sorted(unit_folder().glob("everindex-*.service")):
        try:
            named = UnitPaths.read(file)
        except (OSError, ValueError, LookupError) as error:
            yield warning(
                "units", f"{file} cannot be read ({error})", "run `everindex service install` again"
            )
            continue
        gone = [path for path in (named.python, named.vault, named.state) if not path.exists()]
        if gone:
            yield warning(
                "units",
                f"the unit {file.name} needs {gone[0]}, which does not exist",
                f"remove it: `systemctl --user disable --now {file.name}`, then `rm {file}`; "
                "`everindex service install VAULT` makes new ones",
            )
        elif named.module != MODULE:
            yield warning(
                "units",
                f"the unit {file.name} starts {named.module}, which only earlier versions have",
                f"write it anew: `everindex service install {shlex.quote(str(named.vault))}`",
            )


# Checks of the state folder: whose it is, who may read it, its secrets, its databases, its disk.


_LITTLE_SPACE = 1_000_000_000
_OTHERS = 0o077


def check_state(looked_at: Installation) -> Iterator[Finding]:
    """Say whether the vault has a state folder that its user alone may read."""
    place = looked_at.place
    if place is None:
        return
    if not place.state.is_dir() or not was_indexed(place, named=looked_at.settings.state is not None):
        yield warning("state", *why_not_indexed(place))
        return
    try:
        check_owner(place.state, vault=place.root)
    except NotPrivateError as error:
        yield failure("state", *cured(error))
        return
    mode = stat.S_IMODE(place.state.stat().st_mode)
    if mode & _OTHERS:
        yield failure(
            "state",
            f"other users may open the state folder {place.state} (mode {mode:o})",
            f"close it: `chmod 700 {place.state}`",
        )
    else:
        yield ok("state", str(place.state))


def check_private_files(looked_at: Installation) -> Iterator[Finding]:
    """Check the token and the queue's key, where they are made."""
    place = looked_at.place
    if place is None or not place.state.is_dir():
        return
    for secret in SECRETS:
        try:
            check_secrets(place.state, [secret])
        except NotPrivateError as error:
            yield failure("secrets", *cured(error))


def check_database(looked_at: Installation) -> Iterator[Finding]:
    """Read the database of decisions and history."""
    place = looked_at.place
    if place is not None and (problem := damage(place.state / STATE_FILE)):
        yield failure(
            "database",
            f"{place.state / STATE_FILE} is damaged ({problem})",
            "stop Everindex, then `everindex restore FILE`; without a backup `everindex index --rebuild`",
        )


def check_indexes(looked_at: Installation) -> Iterator[Finding]:
    """Read the index of each domain."""
    place = looked_at.place
    if place is None:
        return
    for file in current_caches(place.state, [domain.slug for domain in _domains_of(place.root)]):
        if problem := damage(file):
            yield failure(
                "index",
                f"{file} is damaged ({problem})",
                "run `everindex index --rebuild`, which builds a new one from the notes",
            )


def check_passages(looked_at: Installation) -> Iterator[Finding]:
    """Compare how each domain's index splits and embeds notes with the settings."""
    place = looked_at.place
    if place is None:
        return
    known = _domains_of(place.root)
    for domain, file in zip(known, current_caches(place.state, [one.slug for one in known]), strict=True):
        meta = meta_of(file)
        if meta is None:
            continue  # never indexed, or damaged, which another check says
        with suppress(ModelUnavailableError):  # likewise
            info = recorded_model(looked_at.settings, meta, place.root)
            wanted = chosen_chunking(looked_at.settings, info, domain)
            if change := describe_change(chunking_of(meta.pipeline), wanted):
                yield warning(
                    "passages",
                    f"{domain.slug}: {change}",
                    "run `everindex reembed`; `everindex status` says what it costs",
                )


def check_languages(looked_at: Installation) -> Iterator[Finding]:
    """Say which domains have many notes in languages that the model of their index does not know."""
    place = looked_at.place
    known = _domains_of(place.root) if place else ()
    if place is None or looked_at.settings.embedding_model or not known:
        return
    found: dict[str, Languages] = {}
    for domain, file in zip(known, current_caches(place.state, [one.slug for one in known]), strict=True):
        meta = meta_of(file)
        if domain.embedding is None and meta is not None and meta.model == EMBEDDED_MODEL:
            found = found or languages_by_domain(place.root, domains.load(place.root))
            if found[domain.slug].need_multilingual:
                yield warning(
                    "languages",
                    f"{domain.slug}: {found[domain.slug].described()}, and its model knows English",
                    f"write `embedding: {MULTILINGUAL_MODEL}` in {domains.DOMAINS_FILE} and run `everindex reembed`, "
                    f"or keep the model by `embedding: {EMBEDDED_MODEL}`",
                )


def check_record_ids(looked_at: Installation) -> Iterator[Finding]:
    """Look for records that have the same id."""
    place = looked_at.place
    if place is None:
        return
    files = current_caches(place.state, [domain.slug for domain in _domains_of(place.root)])
    shared = shared_ids(place.root, chain.from_iterable(map(record_ids_of, files)))
    for identity, paths in islice(shared.items(), MOST_SHARED_IDS):
        yield warning("ids", sharing(identity, paths), "give each record an id of its own")


def check_disk(looked_at: Installation) -> Iterator[Finding]:
    """Say whether the state folder can be written, and how much space its disk has."""
    place = looked_at.place
    if place is None or not place.state.is_dir():
        return
    free = shutil.disk_usage(place.state).free
    if problem := storage_problem(place.state):
        yield failure("disk", problem, "free some space, or make the folder writable")
    elif free < _LITTLE_SPACE:
        yield warning("disk", f"{free / 1e6:.0f} MB are free on the disk of {place.state}", "free some space")
    else:
        yield ok("disk", f"{free / 1e9:.0f} GB free")


# Checks of the vault: its id, its own files, what can be watched, and the times of its notes.


_A_DAY = 86_400.0


def check_id(looked_at: Installation) -> Iterator[Finding]:
    """Read the id that ties the vault to its state folder."""
    root, place = looked_at.root, looked_at.place
    if root is None:
        yield warning("vault", "no vault was examined", "name one: `everindex doctor VAULT`")
        return
    file = root / DOT_FOLDER / ID_FILE
    try:
        found = read_id(root)
    except VaultIdError:
        if place is not None:
            yield warning(
                "id",
                f"{file} is damaged",
                f"run `everindex up {root}`, which writes {place.identity.vault_id} again",
            )
        else:
            yield failure(
                "id",
                f"{file} is damaged, and no state folder remembers what was in it",
                "write the name of the vault's state folder into it, or delete it to index the vault from scratch",
            )
        return
    if found:
        yield ok("id", f"{root} is {found}")
    elif not os.access(root, os.W_OK):
        yield warning(
            "id",
            f"{root} cannot be written: the vault is known by its path alone, and no tag can be accepted",
            "make the folder writable, or leave it: searching needs nothing more",
        )
    elif place is not None and was_indexed(place, named=looked_at.settings.state is not None):
        yield warning("id", f"{file} is lost", f"run `everindex up {root}`, which writes it again")


def check_files(looked_at: Installation) -> Iterator[Finding]:
    """Read the files with which a vault configures Everindex, as the services would."""
    root = looked_at.root
    if root is None:
        return
    try:
        known = domains.load(root).domains
        yield ok("domains", ", ".join(domain.slug for domain in known))
    except DomainsFileError as error:
        place = looked_at.place
        is_remembered = place is not None and (place.state / GOOD_DOMAINS_FILE).is_file()
        until = "the last valid one is in force" if is_remembered else "Everindex does not start again"
        yield failure("domains", str(error), f"correct {DOMAINS_FILE}; until then {until}")
        known = ()
    for domain in known:
        if problem := vocabulary.load(root, path_on_disk(root, domain.within(domain.taxonomy))).error:
            yield failure(
                "taxonomy",
                "; ".join(problem.splitlines()),
                "correct the file; until then the last good vocabulary is in force",
            )
    if os.path.lexists(root / QUERIES_FILE):
        try:
            read_judged(root)
        except JudgedQueriesError as error:
            yield failure("queries", str(error), f"correct {QUERIES_FILE}; `everindex eval` needs it")
    try:
        read_scopes(root)
    except ScopesFileError as error:
        yield failure("scopes", str(error), f"correct {SCOPES_FILE}; until then no scope can be used")
    try:
        read_recipes(root)
    except ContextsFileError as error:
        yield failure("contexts", str(error), f"correct {CONTEXTS_FILE}; until then no recipe can be used")


def check_readers(looked_at: Installation) -> Iterator[Finding]:
    """Look for the libraries that read the formats that the vault's domains name."""
    if looked_at.root is None:
        return
    try:
        named = {name for domain in domains.load(looked_at.root).domains for name in domain.formats or ()}
    except DomainsFileError:
        return  # `check_files` says what is wrong with the file
    missing: dict[str, list[str]] = {}
    for form in FORMATS:
        if form.name in named and (extra := form.lacks):
            missing.setdefault(extra, []).append(form.name)
    for extra, names in missing.items():
        yield warning(
            "readers",
            f"{DOMAINS_FILE} names {', '.join(names)}, but no reader is installed, so such files are ignored",
            f"run: {install_command(extra)}",
        )
    if SCANNED.name in named and not missing and (extra := SCANNED.lacks):
        cure = f"to read them: {install_command(extra)}"
        yield ok("readers", f"scanned pages of {SCANNED.name} files are not read; {cure}")


def check_watching(looked_at: Installation) -> Iterator[Finding]:
    """Compare the vault with what can be watched."""
    root = looked_at.root
    if root is None:
        return
    if kind := network_file_system(root):
        yield warning(
            "watcher",
            f"{root} lies on a network file system ({kind}), so it is compared every two seconds instead of watched",
            "to have saves found at once, keep the vault on a local disk",
        )
        return
    folders, watches, instances = (
        count_folders(root),
        read_limit("max_user_watches"),
        read_limit("max_user_instances"),
    )
    instances_used, watches_used = inotify_in_use()
    if watches is not None and folders > watches:
        yield _raise_limit(
            "max_user_watches", watches, f"{root} has {counted(folders, 'folder')}", 2 * folders
        )
    elif watches is not None and watches_used >= watches:
        yield _raise_limit("max_user_watches", watches, "your programs use all watches", 2 * watches)
    if instances is not None and instances_used >= instances:
        yield _raise_limit("max_user_instances", instances, "your programs use all instances", 2 * instances)


def _raise_limit(name: str, limit: int, why: str, wanted: int) -> Finding:
    return warning(
        "watcher",
        f"{why}, and fs.inotify.{name} is {limit}",
        f"raise it: `sudo sysctl fs.inotify.{name}={wanted}`, and write that line into /etc/sysctl.d/90-inotify.conf",
    )


def check_times(looked_at: Installation) -> Iterator[Finding]:
    """Look for notes that were saved in the future: the clock, or they, are wrong."""
    if looked_at.root is None:
        return
    late = sorted(_from_the_future(looked_at.root, time.time() + _A_DAY), reverse=True)
    if late:
        latest, path = late[0]
        try:
            day = datetime.fromtimestamp(latest).astimezone().strftime("%Y-%m-%d")
        except (ValueError, OverflowError, OSError):  # no calendar has it
            day = "an impossible day"
        yield warning(
            "clock",
            f"{counted(len(late), 'note was', 'notes were')} saved in the future, the latest on {day} ({path})",
            "set the clock (`timedatectl set-ntp true`); if it is right, `touch` these notes",
        )


def _from_the_future(root: Path, now: float) -> Iterator[tuple[float, str]]:
    for folder, descriptor, names in walk(root):
        for name in filter(is_note, names):
            with suppress(OSError):  # deleted meanwhile
                changed = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mtime
                if changed > now:
                    yield changed, f"{folder}/{name}" if folder else name


_CHECKS: tuple[Callable[[Installation], Iterator[Finding]], ...] = (
    check_python,
    check_environment,
    check_sqlite,
    check_memory,
    check_clock,
    check_times,
    check_models,
    check_chat,
    check_id,
    check_files,
    check_readers,
    check_watching,
    check_state,
    check_private_files,
    check_database,
    check_indexes,
    check_passages,
    check_languages,
    check_record_ids,
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
