"""A write that fails, tears or is lost: no index is damaged, and work goes on by itself."""

import os

import pytest

from tests.sweeps import share

from . import acts, disk

STRIDE = share(240, 20)
FIRST = 20  # writes of a database that is not in WAL mode yet: unlike all others
SEED = int(os.environ.get("EVERINDEX_TEST_SEED", "0"))


@pytest.fixture(scope="module")
def life():
    with disk.stage(acts.BRIEF_LIFE) as played:
        yield played


@pytest.mark.parametrize("mode", disk.MODES)
def test_after_any_failure_of_a_write_the_index_comes_to_equal_the_disk(mode, life):
    first = (SEED + disk.MODES.index(mode) * STRIDE // len(disk.MODES)) % STRIDE
    writes = disk.every_write(life)
    chosen = [*writes[:FIRST], *writes[FIRST + first :: STRIDE]]
    met, wrong = 0, {}
    for act, nth in chosen:
        reached, found = disk.befall(life, act, mode, nth)
        met += reached
        if any(found.values()):
            wrong[life.acts[act].name, nth] = found
    assert wrong == {}
    assert met >= 0.9 * len(chosen), "the life of the trials is not the one that was counted"
