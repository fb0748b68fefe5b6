import pytest

from pipelines.errors import AlreadyRunningError
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
