"""Questions that wait are answered by other processes: alike, of the same notes, and none is lost with a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from queue import SimpleQueue

import psutil
import pytest

from pipelines.errors import DomainNotFoundError
from pipelines.filters import Filters
from pipelines.indexing.reconcile import check_paths
from pipelines.question import read_question
from queue_config.settings import Settings
from service import answering
from service.answering import Answerers
from service.usecases.audience import agents
from service.usecases.context import Contexts
from service.usecases.maintenance import index_once
from service.usecases.search import View
from tests.canaries import NOTES, SEEN, leaks
from workers.resources import Resources

PATIENCE = 60.0
TEXTS = (
    "garden soil",
    "worms love",
    '"garden soil"',
    "compost -price",
    "earth",
    "kanarytextone",
    "sol",
    "n7",
)


def write(vault, notes):
    for path, text in notes.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)


@pytest.fixture
def resources(vault, tmp_path, tiny_model):
    write(vault, NOTES)
    opened = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    index_once(opened, lambda *_: None)
    return opened


@pytest.fixture
def view(resources):
    found = View(resources)
    found.load_models()
    return found


@contextmanager
def shared_out(view, **given):
    """Let a view's questions be answered by another process, too, from now on."""
    with closing(Answerers(view, most=1, **given)) as answerers:
        view.spread = answerers.answer
        yield answerers


@pytest.fixture
def answerers(view):
    with shared_out(view) as found:
        yield found


def wait(until):
    end = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def busy(answerers):
    """Keep this process from answering, as a long question does, until the block ends."""
    begun, end = threading.Event(), threading.Event()

    def answer():
        begun.set()
        end.wait(PATIENCE)

    thread = threading.Thread(target=answerers.answer, args=(None, answer))
    thread.start()
    begun.wait(PATIENCE)
    try:
        yield
    finally:
        end.set()
        thread.join()


def crowd(answerers, view):
    """Ask by several threads until another process answers; return its id."""
    asked = SimpleQueue()
    threads = []

    def ask():
        view.search(read_question("garden soil"), 5)
        asked.put("answered")

    def one_was_answered():
        if len(threads) < 40:
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
            time.sleep(0.2)
        return not asked.empty()

    with busy(answerers):
        wait(one_was_answered)
        for thread in threads:
            thread.join()
    (pid,) = answerers.pids
    return pid


def elsewhere(answerers, ask):
    """Return what is answered while this process answers another question."""
    with busy(answerers):
        return ask()


def told(answer):
    """Return an answer without what it took."""
    return answer.model_dump(exclude={"took_ms"})


def test_a_client_alone_starts_no_process(view, answerers):
    for text in TEXTS * 3:
        view.search(read_question(text), 5)
    assert answerers.pids == []


def test_another_process_answers_as_this_one_does(view, resources, answerers):
    crowd(answerers, view)
    for seen in (view, view.seen_by(agents(resources))):
        contexts = Contexts(seen, seen.audience)
        for text in TEXTS:
            for ask in (
                lambda seen=seen, text=text: seen.search(
                    read_question(text), 20, explain=True, also=[read_question("worms")]
                ),
                lambda contexts=contexts, text=text: contexts.ask(
                    read_question(text), budget=2_000, compress="none"
                ),
            ):
                assert told(elsewhere(answerers, ask)) == told(ask())


def test_no_word_of_a_private_note_comes_from_another_process(view, resources, answerers):
    crowd(answerers, view)
    seen = view.seen_by(agents(resources))
    for text in TEXTS:
        answer = elsewhere(answerers, lambda text=text: seen.search(read_question(text), 50, explain=True))
        assert not leaks(answer.model_dump_json(), text)
        assert {hit.path for hit in answer.results} <= SEEN


def test_what_was_committed_before_a_question_is_in_its_answer(vault, view, resources, answerers):
    crowd(answerers, view)
    for n in range(5):
        write(vault, {f"New {n}.md": f"# New {n}\n\nThe word zebra{'abcde'[n]} of the meadow."})
        index_once(resources, lambda *_: None)
        ask = read_question(f"zebra{'abcde'[n]}")
        answer = elsewhere(answerers, lambda ask=ask: view.search(ask, 5, explain=True))
        assert answer.results[0].path == f"New {n}.md"
        assert {"meaning", "words"} <= {layer.layer for layer in answer.results[0].layers}


def test_a_note_that_became_private_is_in_no_answer_from_then_on(vault, view, resources, answerers):
    crowd(answerers, view)
    seen, question = view.seen_by(agents(resources)), read_question("garden soil")
    garden = resources.cache(resources.registry().get("garden"))

    def sees():
        found = elsewhere(answerers, lambda: seen.search(question, 50))
        return "Soil.md" in {hit.path for hit in found.results}

    assert sees()
    write(vault, {"Soil.md": "private:: true\n\nGarden soil."})
    check_paths(vault, resources.registry(), {"garden": garden}, ["Soil.md"], max_bytes=1_000_000)
    assert not sees()
    index_once(resources, lambda *_: None)
    assert not sees()


def test_an_error_is_the_same_whoever_answers(view, answerers):
    crowd(answerers, view)
    question = read_question("soil", Filters(domains=("no such",)))
    with pytest.raises(DomainNotFoundError, match="no such"):
        elsewhere(answerers, lambda: view.search(question, 5))
    assert elsewhere(answerers, lambda: view.search(read_question("garden soil"), 5)).results


def test_the_question_of_a_process_that_is_killed_is_answered_here(view, answerers):
    pid = crowd(answerers, view)
    wanted = told(view.search(read_question("garden soil"), 5))
    found = []
    with busy(answerers):
        os.kill(pid, signal.SIGSTOP)
        asking = threading.Thread(target=lambda: found.append(view.search(read_question("garden soil"), 5)))
        asking.start()
        time.sleep(0.2)
        assert not found
        os.kill(pid, signal.SIGKILL)
        asking.join(PATIENCE)
    assert [told(one) for one in found] == [wanted]
    wait(lambda: not answerers.pids)


def test_every_question_is_answered_while_processes_are_killed(view, answerers, monkeypatch):
    monkeypatch.setattr(answering, "_AGAIN_SECONDS", 0.1)  # also after one that is killed while it starts
    wanted = {text: told(view.search(read_question(text), 5)) for text in TEXTS}
    found, failed, end = [], [], threading.Event()

    def ask(text):
        while not end.is_set():
            try:
                found.append(told(view.search(read_question(text), 5)) == wanted[text])
            except Exception as error:  # noqa: BLE001 - any is a failure
                failed.append(error)

    threads = [threading.Thread(target=ask, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            wait(lambda: answerers.pids)
            time.sleep(1)
            for pid in answerers.pids:
                os.kill(pid, signal.SIGKILL)
            wait(lambda pid=pid: pid not in answerers.pids)
    finally:
        end.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert failed == []
    assert all(found)
    assert not any(thread.is_alive() for thread in threads)


def test_an_idle_process_ends(view):
    with shared_out(view, idle_s=0.5) as answerers:
        pid = crowd(answerers, view)
        wait(lambda: not answerers.pids)
        assert not psutil.pid_exists(pid)
        assert view.search(read_question("garden soil"), 5).results


def test_the_processes_end_with_the_one_that_serves(view):
    with shared_out(view) as answerers:
        pid = crowd(answerers, view)
    wait(lambda: not psutil.pid_exists(pid))


_SERVING = """
import sys, threading
from pathlib import Path
from queue_config.settings import Settings
from service.answering import Answerers
from service.usecases.search import View
from tests.service.test_answering import crowd
from workers.resources import Resources
vault, state, model = sys.argv[1:]
view = View(Resources(Settings(vault=Path(vault), state=Path(state), embedding_model=model)))
view.load_models()
answerers = Answerers(view, most=1)
view.spread = answerers.answer
print(crowd(answerers, view), flush=True)
threading.Event().wait()
"""


def test_a_process_ends_when_the_one_that_serves_is_killed(resources):
    given = resources.settings
    command = [sys.executable, "-c", _SERVING, str(given.vault), str(given.state), str(given.embedding_model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        pid = int(serving.stdout.readline())
        assert psutil.pid_exists(pid)
        serving.kill()
    wait(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_the_stages_of_each_answer_are_observed(view, answerers):
    crowd(answerers, view)
    seen = {}
    view.observe = seen.__setitem__
    elsewhere(answerers, lambda: view.search(read_question("garden soil"), 5))
    assert {"encode", "words", "total"} <= seen.keys()
