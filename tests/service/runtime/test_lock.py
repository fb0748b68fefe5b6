import sys
from pathlib import Path

import pytest

from pipelines.errors import AlreadyRunningError, StateError
from service.runtime.lock import only_one


def test_one_watcher_a_state_folder(tmp_path):
    with (
        only_one(tmp_path),
        pytest.raises(AlreadyRunningError, match="already being watched"),
        only_one(tmp_path),
    ):
        pass
    with only_one(tmp_path):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="a folder in which root may write nothing either")
def test_a_state_folder_that_cannot_be_written_is_a_sentence():
    with pytest.raises(StateError, match="/proc"), only_one(Path("/proc")):
        pass
