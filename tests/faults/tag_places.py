"""The life of tags, and a death at every place in it: proposed, reviewed, promoted, taken back, renamed.

Each act is what a person or the service does once. After a death in it everything restarts; then the vault, the
queue and the decisions must be what they are without a death, or, of a command, what they were before it or
are when it is repeated.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

from pipelines.errors import EverindexError
from pipelines.model import Suggestion
from pipelines.tagging.propose import ProposalContext
from pipelines.vault import in_folder
from service.schemas.notes import NewNote
from service.usecases.changes import write_note
from service.usecases.search import View
from workers.tag_context import TaggingContext
from workers.tag_sweep import TagSweep
from workers.tagging import make_tag_tasks, review_now, take_back

from . import places
from .life import Service, World, make_models
from .stage import in_child, quick_folder

MODULES = (
    "pipelines.vault.write",
    "pipelines.vault.in_folder",
    "pipelines.state.tags",
    "pipelines.tagging",
    "workers.tag_context",
    "workers.tag_sweep",
    "workers.tagging",
)
RENAMES = "pipelines.state.tags.RenameLog."
"""tests/workers/test_tagging.py dies at each of the steps of a rename."""

_TAXONOMY = "# Tags\n\n- soil: what plants grow in\n- compost: leaves\n- bread: flour\n\n## Renames\n\n- dirt -> soil\n"
_STATES = ("waiting", "addition", "accepted", "applied", "rejected", "refused")
_TURNS = 300


class FakeProposer:
    """A fake proposer: it suggests the same two tags for every note."""

    def propose(self, _note: object, _threshold: object = None) -> tuple[Suggestion, ...]:
        return (Suggestion("soil", 0.9), Suggestion("compost", 0.8))


class FakeProposerContext(TaggingContext):
    """The real context, with the fake proposer."""

    def proposing(self, domain: Any) -> ProposalContext:
        return replace(super().proposing(domain), local=FakeProposer)


class TagService(Service):
    """A process that also tags; its sweep's clock advances, so that no test has to wait for quiet."""

    def __init__(self, world: World) -> None:
        super().__init__(world.settings({"inbox": "Inbox"}))
        self.context = FakeProposerContext(self.resources)
        self.tag_tasks = make_tag_tasks(self.queue, self.context)
        self.time = 0.0
        self.sweep_tags = TagSweep(self.context, self.queue, self.tag_tasks, clock=lambda: self.time)

    def live(self) -> None:
        """Start, and work until no note and no tag has pending work."""
        self.begin()
        quiet = 0
        for _ in range(_TURNS):
            self.time += 31.0  # the sweep also looks at what seems unchanged every half minute
            self.carry_on(self.sweep_tags)
            worked = False
            while (task := self.queue.dequeue()) is not None:
                worked = True
                self.queue.execute(task)
            self.compare()
            self.work()
            quiet = 0 if worked else quiet + 1
            if quiet > 2:
                return
        raise AssertionError("tags are never quiet")


# The acts: what is done before the service lives on


def _begin(world: World, service: TagService) -> None:
    world.write("_taxonomy.md", _TAXONOMY)
    world.write("old.md", "---\ntags: [dirt]\n---\nAn old note. #dirt/deep\n")
    service.live()


def _save(world: World, service: TagService) -> None:
    world.write("bed.md", "---\nauthor: Ann # me\n---\nThe garden.\n")
    world.write("pot.md", "The market, and a river.\n")
    service.live()


def _decide(world: World, service: TagService) -> None:
    page = (world.vault / "_review-queue.md").read_text()
    first, second = re.findall(r"^- \[ \] `soil`.*$", page, re.MULTILINE)[:2]
    page = page.replace(first, first.replace("[ ]", "[x]") + "\n- [x] bread\n- [x] mulch")
    page = page.replace(second, second.replace("[ ]", "[-]"))
    world.write("_review-queue.md", page)
    service.live()


def _move(world: World, service: TagService) -> None:
    world.rename("pot.md", "jar.md")
    service.live()


def _accept_addition(world: World, service: TagService) -> None:
    page = (world.vault / "_review-queue.md").read_text()
    world.write("_review-queue.md", page.replace("- [ ] `mulch`", "- [x] `mulch`"))
    service.live()


def _ask(_: World, service: TagService) -> None:
    service.context.proposals().ask("vault", ["old.md"])
    service.live()


def _undo(_: World, service: TagService) -> None:
    (domain,) = service.resources.domains()
    change = service.context.proposals().changes.find(None)
    service.carry_on(lambda: take_back(service.context, domain, change.id))
    service.live()


def _rename(_: World, service: TagService) -> None:
    service.tag_tasks.apply_renames(["vault"], "x", False)  # noqa: FBT003 - a task's argument
    service.live()


def _promote(_: World, service: TagService) -> None:
    (domain,) = service.resources.domains()
    waiting = service.context.proposals().of_state("vault", "waiting")
    service.context.proposals().decide([waiting[0].id], "accepted", "now")
    service.carry_on(lambda: review_now(service.context, domain, apply=True))
    service.live()


def _rewrite(world: World, service: TagService) -> None:
    world.write("jar.md", "Minutes of the council: the taxes of the town are to be raised.\n")
    service.live()


def _spend(_: World, service: TagService) -> None:
    service.context.proposals().spending.add("2026-11-21", "claude", 0.1)
    service.tag_tasks.undo_change("vault", "x", 0)
    service.live()


def _post(text: str, _: World, service: TagService) -> None:
    note = NewNote(title="Harvest", text=text, properties={"id": "harvest"})
    service.carry_on(lambda: write_note(View(service.resources), note))
    service.live()


def _change_domains(world: World, service: TagService) -> None:
    world.write("_domains.yaml", "notes: {legacy: true}\n")
    service.live()


ACTS: tuple[tuple[Callable[[World, TagService], None], bool], ...] = (
    (_begin, False),
    (_save, False),
    (_decide, False),
    (_move, False),
    (_accept_addition, False),
    (_ask, True),
    (_undo, True),
    (_rename, True),
    (_undo, True),
    (_promote, True),
    (_rewrite, False),
    (_spend, True),
    (partial(_post, "A dozen apples."), True),
    (partial(_post, "Two dozen apples."), True),
    (_change_domains, False),
)
"""The acts, and whether each is a command that its user would have to repeat."""


def picture(world: World, service: TagService) -> dict[str, Any]:
    """Return what must not depend on a death: notes, vocabulary, decisions, and the items that the queue shows."""
    page = world.vault / "_review-queue.md"
    text = page.read_text() if page.exists() else ""
    proposals = service.context.proposals()
    return {
        "notes": {
            str(file.relative_to(world.vault)): file.read_text()
            for file in sorted(world.vault.rglob("*.md"))
            if file != page
        },
        "states": sorted([one.path, one.tag, one.state] for one in proposals.of_state(None, *_STATES)),
        "shown": sorted(re.findall(r"^- \[ \] `([^`]+)`.*<!-- e:\d+ ", text, re.MULTILINE)),
        "changes": sorted([one.path, *one.tags, one.action] for one in proposals.changes.latest(100)),
    }


class TagStage:
    """The worlds before each act, what is right after it, and which places each act reaches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_models(folder / "models")
        self.reached: list[dict[str, int]] = []
        self.right: list[dict[str, Any]] = []
        World(folder / "0", folder / "models")
        for number, (act, _) in enumerate(ACTS):
            shutil.copytree(folder / str(number), folder / str(number + 1))
            world = World(folder / str(number + 1), folder / "models")

            def play(act: Any = act, world: World = world) -> Any:
                counted: Counter[str] = Counter()
                _hook(lambda reached, counted=counted: counted.update([reached]))
                service = TagService(world)
                act(world, service)
                wrong = [repr(e) for e in service.troubles if not isinstance(e, EverindexError)]
                assert not wrong, wrong
                return [dict(counted), picture(world, service)]

            told, right = in_child(play, folder / "log").answer
            self.reached.append({place: times for place, times in told.items() if _is_ours(place)})
            self.right.append(right)

    def die_at(self, number: int, place: str, nth: int) -> tuple[bool, list[str]]:
        """Die in an act at a place; restart, and return whether it died and what is not as it must be."""
        act, repeats = ACTS[number]
        base = self.folder / "trial"
        shutil.rmtree(base, ignore_errors=True)
        shutil.copytree(self.folder / str(number), base)

        def first() -> None:
            left = nth

            def reached(name: str) -> None:
                nonlocal left
                left -= name == place
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            _hook(reached)
            world = World(base, self.folder / "models")
            act(world, TagService(world))

        def then() -> Any:
            world = World(base, self.folder / "models")
            service = TagService(world)
            service.live()
            return picture(world, service)

        def again() -> Any:
            world = World(base, self.folder / "models")
            service = TagService(world)
            act(world, service)
            return picture(world, service)

        ended = in_child(first, self.folder / "log")
        found = in_child(then, self.folder / "log").answer
        wrong = _differences(found, [self.right[number], *([self.right[number - 1]] if repeats else [])])
        if wrong and repeats:  # done by half: done again, it is done
            wrong = _differences(in_child(again, self.folder / "log").answer, [self.right[number]])
        return ended.died, wrong


def _differences(found: dict[str, Any], allowed: list[dict[str, Any]]) -> list[str]:
    """Say what differs from every picture that is allowed. A change may be missing from the log, never twice."""
    wrong = []
    for one in allowed:
        differing = [
            f"{name}: {found[name]!r}, not {one[name]!r}"
            for name in one
            if name != "changes" and found[name] != one[name]
        ]
        log = Counter(map(tuple, found["changes"])) - Counter(map(tuple, one["changes"]))
        if not differing and not log:
            return []
        wrong += [*differing, *(f"a change too many: {change}" for change in log)]
    return wrong


def _hook(reached: Callable[[str], None]) -> None:
    places.hook(reached)
    original = in_folder.rename

    @wraps(original)
    def swapped(*args: Any, **kwargs: Any) -> bool:
        reached("pipelines.vault.in_folder.rename: before swap")
        done = original(*args, **kwargs)
        reached("pipelines.vault.in_folder.rename: after swap")
        return done

    in_folder.rename = swapped


OTHERWISE = (
    "pipelines.vault.in_folder.link",
    "pipelines.vault.in_folder.move",
    "pipelines.vault.write._after_a_crash",
    "pipelines.vault.write.leftovers",
    "pipelines.state.tags.Proposals.forget",
    "pipelines.state.tags.Proposals.set_gone",
)
"""Places that the life does not reach.

Of file systems that know no exchange, and of crashes: tests/pipelines/vault/test_write_safe_replace.py kills there. Of proposals whose
notes are gone: each is one statement, repeated at the next sweep.
"""


def _is_ours(place: str) -> bool:
    module = place.partition(":")[0]
    inside = any(module == name or module.startswith(f"{name}.") for name in MODULES)
    return inside and not module.startswith(RENAMES)


@contextmanager
def stage() -> Iterator[TagStage]:
    """Play the life once."""
    with quick_folder() as folder:
        yield TagStage(Path(folder))


def trials(played: TagStage) -> list[tuple[int, str]]:
    """Return every place with the first and the last act that reaches it."""
    found = []
    for place in sorted({name for told in played.reached for name in told}):
        acts = [number for number, told in enumerate(played.reached) if place in told]
        found += [(act, place) for act in sorted({acts[0], acts[-1]})]
    return found


def kill_at_every_place(chance: random.Random) -> Iterator[dict[str, float]]:
    """Die at one place after the other, at a random one of the times it is reached, for ever; yield what it did."""
    with stage() as played:
        while True:
            for act, place in trials(played):
                killed, wrong = played.die_at(act, place, chance.randint(1, played.reached[act][place]))
                yield {"kills": float(killed), "unequal": float(bool(wrong))}
