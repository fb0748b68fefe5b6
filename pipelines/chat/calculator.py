"""Calculate an expression from its syntax tree: numbers and operators, nothing that could run or grow without end."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from pipelines.errors import CalculationError

_LONGEST = 200
_LARGEST = 1e300
_LARGEST_EXPONENT = 1_000
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def calculate(expression: str) -> int | float:
    """Return the value of an expression of numbers, `+ - * / // % **` and parentheses. Raises CalculationError."""
    if len(expression) > _LONGEST:
        raise CalculationError(f"the expression has more than {_LONGEST} characters; split it")
    try:
        tree = ast.parse(expression.strip().replace("^", "**").replace(",", ""), mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise CalculationError(f"{expression!r} is no expression; write one such as 3 * (4 + 5)") from None
    except ZeroDivisionError:
        raise CalculationError("a division by zero has no value") from None
    except OverflowError:
        raise CalculationError("the value is too large") from None


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value: int | float = number
        case ast.UnaryOp(op=op, operand=inner) if type(op) in _UNARY:
            value = _UNARY[type(op)](_value(inner))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            first, second = _value(left), _value(right)
            if isinstance(op, ast.Pow):
                _require_small(first, second)
            value = _BINARY[type(op)](first, second)
        case _:
            raise CalculationError("only numbers, + - * / // % ** and parentheses can be calculated")
    if isinstance(value, complex) or not math.isfinite(value) or abs(value) > _LARGEST:
        raise CalculationError("the value is too large, or not a real number")
    return value


def _require_small(base: float, exponent: float) -> None:
    """Refuse a power that could not be written down, before it is calculated."""
    if abs(exponent) > _LARGEST_EXPONENT or (
        abs(base) > 1 and exponent > 0 and exponent * math.log10(abs(base)) > math.log10(_LARGEST)
    ):
        raise CalculationError("the value is too large")
