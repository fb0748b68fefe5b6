import base64

import numpy as np
import pytest

from benchmarks.command import milliseconds
from benchmarks.peer_endpoint import answer
from benchmarks.peer_products import PRODUCTS, Instance, result_of
from benchmarks.peers import table, waits


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
    assert milliseconds([0.010] * 19 + [0.2]) == "10 / 200 ms"


def test_a_product_that_lacks_a_row_has_a_dash():
    lines = table({"one": {"size": "1 MB", "index": "2 s"}, "other": {"size": "3 MB"}}).splitlines()
    assert lines == [
        "|  | one | other |",
        "| --- | --- | --- |",
        "| size | 1 MB | 3 MB |",
        "| index | 2 s | – |",
    ]


def test_a_question_and_a_folder_are_one_argument_each_whatever_they_contain(tmp_path):
    lss = next(product for product in PRODUCTS if product.name == "local-semantic-search")
    root = tmp_path / "my notes"
    one = Instance(lss, tmp_path / "tools", root, tmp_path / "home", "http://127.0.0.1:1/v1")
    program = str(tmp_path / "tools" / "local-semantic-search" / "bin" / "lss")
    assert one.arguments(lss.command, "what is {this}?")[:5] == [
        program,
        "search",
        "what is {this}?",
        "-p",
        str(root),
    ]


def test_each_product_has_its_own_variables_beside_those_of_all(tmp_path):
    for product in PRODUCTS:
        one = Instance(product, tmp_path, tmp_path / "vault", tmp_path / "home", "http://127.0.0.1:1/v1")
        assert one.environment["HOME"] == str(tmp_path / "home")
        assert one.environment.keys() >= product.environment.keys()
        assert not any("{" in one.environment[name] for name in product.environment)
