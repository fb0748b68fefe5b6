import base64

import numpy as np
import pytest

from benchmarks.peer_endpoint import answer
from benchmarks.peer_mcp import result_of
from benchmarks.peer_measures import spread, waits
from benchmarks.peers import table


def test_a_tool_answers_as_json_or_as_a_stream_of_events():
    message = '{"jsonrpc": "2.0", "id": 2, "result": {"content": []}}'
    progress = '{"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}'
    assert result_of(message, 2) == {"content": []}
    assert result_of(f"event: message\ndata: {progress}\n\nevent: message\ndata: {message}\n\n", 2) == {
        "content": []
    }


def test_an_answer_to_another_request_is_none():
    with pytest.raises(LookupError, match="request 3"):
        result_of('{"jsonrpc": "2.0", "id": 2, "result": {}}', 3)


def test_the_endpoint_sends_vectors_as_numbers_or_packed():
    vectors = np.array([[0.5, -1.0], [0.25, 2.0]], dtype=np.float32)
    plain = answer(vectors, {"model": "m"})["data"]
    packed = answer(vectors, {"model": "m", "encoding_format": "base64"})["data"]
    assert [row["embedding"] for row in plain] == [[0.5, -1.0], [0.25, 2.0]]
    assert [
        np.frombuffer(base64.b64decode(row["embedding"]), "<f4").tolist() for row in packed
    ] == vectors.tolist()
    assert [row["index"] for row in packed] == [0, 1]


def test_a_wait_that_never_ended_is_no_figure():
    assert waits([2.0]) == "2.0 s"
    assert waits([0.5, 1.0, 3.0]) == "1.00 / 3.00 s"
    assert waits([0.5, None, 3.0]) == "1 of 3 not within 90 s"
    assert spread([0.010] * 19 + [0.2]) == "10 / 200 ms"


def test_a_product_that_lacks_a_row_has_a_dash():
    lines = table({"one": {"size": "1 MB", "index": "2 s"}, "other": {"size": "3 MB"}}).splitlines()
    assert lines == [
        "|  | one | other |",
        "| --- | --- | --- |",
        "| size | 1 MB | 3 MB |",
        "| index | 2 s | – |",
    ]
