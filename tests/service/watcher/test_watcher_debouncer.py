import threading

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from service.watcher.watcher import Debouncer

QUIET, LONGEST = 3, 10
PATHS = st.sampled_from(["a.md", "b.md", "c/d.md"])


class Marks(RuleBasedStateMachine):
    """A debouncer beside a list of everything that happened to it; the clock counts whole seconds."""

    def __init__(self):
        super().__init__()
        self.debouncer = Debouncer(QUIET, LONGEST)
        self.now = 100
        self.marks = {}
        """When each path that is still inside was marked."""

    def due_at(self, path):
        """Return when a path is quiet, or has waited long enough."""
        return min(self.marks[path][-1] + QUIET, self.marks[path][0] + LONGEST)

    @rule(path=PATHS)
    def mark(self, path):
        self.debouncer.mark(path, self.now)
        self.marks.setdefault(path, []).append(self.now)

    @rule(seconds=st.integers(0, 12))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def settle(self):
        """Exactly the due paths are taken, each once."""
        due = {path for path in self.marks if self.due_at(path) <= self.now}
        assert self.debouncer.settled(self.now) == due
        assert self.debouncer.settled(self.now) == set()
        for path in due:
            del self.marks[path]

    @rule()
    def wait_until_the_next_is_due(self):
        seconds = self.debouncer.next_due(self.now)
        if seconds is None:
            return
        if seconds > 0:
            assert self.debouncer.settled(self.now + seconds - 1) == set()
        self.now += seconds
        due = self.debouncer.settled(self.now)
        assert due
        for path in due:
            del self.marks[path]

    @invariant()
    def the_next_is_due_when_its_marks_say(self):
        expected = min((max(0, self.due_at(path) - self.now) for path in self.marks), default=None)
        assert self.debouncer.next_due(self.now) == expected

    def teardown(self):
        """Every marked path is taken in the end."""
        assert self.debouncer.settled(self.now + LONGEST) == set(self.marks)


TestMarks = Marks.TestCase
TestMarks.settings = settings(max_examples=150, stateful_step_count=40)


def test_a_path_is_held_until_it_was_quiet():
    debouncer = Debouncer(QUIET, LONGEST)
    debouncer.mark("a.md", 0)
    debouncer.mark("a.md", 2)
    assert debouncer.settled(4) == set()
    assert debouncer.settled(5) == {"a.md"}
    assert debouncer.settled(99) == set()


def test_a_path_that_never_is_quiet_comes_out_after_the_longest_wait():
    debouncer = Debouncer(QUIET, LONGEST)
    for second in range(10):
        debouncer.mark("a.md", second)
        assert debouncer.settled(second) == set()
    assert debouncer.settled(10) == {"a.md"}


def test_paths_do_not_hold_each_other():
    debouncer = Debouncer(QUIET, LONGEST)
    debouncer.mark("a.md", 0)
    debouncer.mark("b.md", 2)
    assert debouncer.settled(3) == {"a.md"}
    assert debouncer.settled(5) == {"b.md"}


def test_nothing_is_due_where_nothing_was_marked():
    assert Debouncer(QUIET, LONGEST).next_due(0) is None
    assert Debouncer(QUIET, LONGEST).settled(0) == set()


def test_marks_from_several_threads_all_come_out():
    debouncer = Debouncer(0, 0)
    seen, stop = set(), threading.Event()

    def mark(thread):
        for number in range(2_000):
            debouncer.mark(f"{thread}/{number}.md", 0)

    def settle():
        while not stop.is_set():
            seen.update(debouncer.settled(0))
            debouncer.next_due(0)

    reader = threading.Thread(target=settle)
    writers = [threading.Thread(target=mark, args=(thread,)) for thread in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    seen.update(debouncer.settled(0))
    assert seen == {f"{thread}/{number}.md" for thread in range(4) for number in range(2_000)}
