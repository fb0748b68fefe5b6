"""A calculator that calculates, and neither runs nor grows without end."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.chat.calculator import calculate
from pipelines.errors import CalculationError


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 * (4 + 5)", 27),
        ("2 ** 10", 1024),
        ("2^10", 1024),
        ("-7 // 2", -4),
        ("7 % 4", 3),
        ("1,250,000 * 0.05", 62_500.0),
        ("1 / 8", 0.125),
        (" 2 ** -1 ", 0.5),
    ],
)
def test_it_calculates(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "",
            "two",
            "1 +",
            "1 / 0",
            "9 ** 9 ** 9",
            "10 ** 1000000000",
            "1e308 * 10",
            "(-8) ** 0.5",
            "1 << 99",
        ),
        *("True + 1", "'a' * 9", "[1] * 9", "__import__('os')", "(1).real", "abs(1)", "1 if 1 else 2", "1;2"),
        *("(" * 150 + "1" + ")" * 150, "1" * 201, "f'{1}'", "1j", "x := 1", "0x1g", "\0"),
    ],
)
def test_what_is_no_calculation_is_refused(expression):
    with pytest.raises(CalculationError):
        calculate(expression)


@given(st.text(alphabet="0123456789+-*/%^() .e", max_size=40))
def test_any_expression_has_a_value_or_is_refused(expression):
    with suppress(CalculationError):
        assert abs(calculate(expression)) <= 1e300
