"""Match regular expressions in linear time: any pattern, even a stranger's, costs a bounded step per character.

The syntax is JavaScript's, ignoring case. A pattern becomes an automaton with one place per character that it matches
(Glushkov, "The abstract theory of automata", 1961). All paths through it are followed in parallel, and transitions
are cached. Patterns that need more than that (backreferences, lookaround) are refused.
"""

from __future__ import annotations

from pipelines.disk.regex_syntax import Kind, Node, PatternError, Taker, parse

MOST_PLACES = 2_000
"""Upper bound on the characters that a pattern matches, with its repetitions expanded."""
_MOST_NODES = 3 * MOST_PLACES
_MOST_STATES = _MOST_LETTERS = 500
_MOST_STEPS = _MOST_PARTS = 20_000
_START, _WORD, _OTHER, _END = range(4)
_WORD_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")

_Context = tuple[int, int]
"""The kinds of the characters before and after a position in a text."""


class _State:
    """The places just matched, the kind of the last character, and the next state for each character met so far."""

    __slots__ = ("after", "before", "places")

    def __init__(self, places: int, before: int) -> None:
        self.places = places
        self.before = before
        self.after: dict[str, _State] = {}


class Regex:
    """A compiled pattern; `size` is its number of places."""

    def __init__(self, pattern: str, most_places: int = MOST_PLACES) -> None:
        """Compile a pattern with at most `most_places` places. Raises PatternError with the reason."""
        # For each node: what it matches or asserts, and the nodes that follow. The first node is the end of a match.
        self._holds: list[Taker | Kind | None] = [None]
        self._built = 0
        self._next: list[tuple[int, ...]] = [()]
        self._begin = self._build(parse(pattern), 0)
        self._places = [n for n, holds in enumerate(self._holds) if callable(holds)]
        self.size = len(self._places)
        if self.size > most_places:
            raise PatternError(
                f"it matches more than {most_places} characters, with its repetitions expanded"
            )
        self._bit = {node: 1 << place for place, node in enumerate(self._places)}
        self._matched = 1 << self.size
        self._bytes = self.size // 8 + 1
        self._parts: dict[tuple[_Context, int, int], int] = {}
        self._letters: dict[str, int] = {}
        self._start = _State(0, _START)
        self._found = _State(self._matched, _OTHER)
        self._states = {(0, _START): self._start}
        self._steps = 0

    def finds(self, text: str) -> bool:
        """Say whether the pattern matches anywhere in a text."""
        state = self._start
        for letter in text:
            state = state.after.get(letter) or self._step(state, letter)
            if state is self._found:
                return True
        return bool(self._reached(state, _END) & self._matched)

    def _build(self, node: Node, then: int) -> int:
        """Add the part of the pattern before `then`; return its first node."""
        self._built += 1
        if self._built > _MOST_NODES:
            raise PatternError("its expanded repetitions are too long")
        if node.kind is Kind.TAKES:
            return self._add(node.takes, (then,))
        if node.kind is Kind.ALL:
            for part in reversed(node.parts):
                then = self._build(part, then)
            return then
        if node.kind is Kind.ANY:
            return self._add(None, tuple(self._build(part, then) for part in node.parts))
        if node.kind is Kind.REPEATED:
            return self._build_repeated(node, then)
        return self._add(node.kind, (then,))

    def _build_repeated(self, node: Node, then: int) -> int:
        (part,) = node.parts
        if node.most is None:
            again = self._add(None, ())
            self._next[again] = (self._build(part, again), then)
            then = again
        else:
            out = then
            for _ in range(node.most - node.least):
                then = self._add(None, (self._build(part, then), out))
        for _ in range(node.least):
            then = self._build(part, then)
        return then

    def _add(self, holds: Taker | Kind | None, following: tuple[int, ...]) -> int:
        self._holds.append(holds)
        self._next.append(following)
        return len(self._holds) - 1

    def _step(self, state: _State, letter: str) -> _State:
        reached = self._reached(state, _WORD if letter in _WORD_LETTERS else _OTHER)
        if reached & self._matched:
            after = self._found
        else:
            places = reached & self._taken_by(letter)
            key = places, _WORD if letter in _WORD_LETTERS else _OTHER
            if len(self._states) >= _MOST_STATES or self._steps >= _MOST_STEPS:
                # The states refer to each other, so all of them are dropped.
                for old in self._states.values():
                    old.after.clear()
                self._states, self._steps = {(0, _START): self._start}, 0
            after = self._states.setdefault(key, _State(*key))
        state.after[letter] = after
        self._steps += 1
        return after

    def _taken_by(self, letter: str) -> int:
        found = self._letters.get(letter)
        if found is None:
            # Ignore case as JavaScript does: by the letter's other forms, if they are single letters.
            forms = {letter, *(form for form in (letter.lower(), letter.upper()) if len(form) == 1)}
            found = sum(
                self._bit[node]
                for node in self._places
                if callable(takes := self._holds[node]) and takes(forms)
            )
            if len(self._letters) >= _MOST_LETTERS:
                self._letters.clear()
            self._letters[letter] = found
        return found

    def _reached(self, state: _State, following: int) -> int:
        """Return the places that may match the next character, including the end of a match."""
        context = (state.before, following)
        # A match may begin anywhere.
        reached = self._part(context, -1, 0)
        for at, places in enumerate(state.places.to_bytes(self._bytes, "little")):
            if places:
                reached |= self._part(context, at, places)
        return reached

    def _part(self, context: _Context, at: int, places: int) -> int:
        """Return what follows those of eight places whose bits are set, or, at -1, what begins a match."""
        key = (context, at, places)
        found = self._parts.get(key)
        if found is None:
            begins = [self._begin] if at < 0 else []
            for bit in range(8):
                if places >> bit & 1:
                    begins += self._next[self._places[8 * at + bit]]
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            found = self._parts[key] = self._follow(begins, context)
        return found

    def _follow(self, begins: list[int], context: _Context) -> int:
        found, seen, waiting = 0, set(begins), list(begins)
        while waiting:
            node = waiting.pop()
            holds = self._holds[node]
            if node == 0:
                found |= self._matched
            elif callable(holds):
                found |= self._bit[node]
            elif holds is None or _holds_at(holds, context):
                new = set(self._next[node]) - seen
                seen |= new
                waiting += new
        return found


def _holds_at(kind: Kind, context: _Context) -> bool:
    before, after = context
    if kind is Kind.BEGIN:
        return before == _START
    if kind is Kind.END:
        return after == _END
    return ((before == _WORD) != (after == _WORD)) == (kind is Kind.EDGE)
