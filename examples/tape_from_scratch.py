"""How a tape becomes a program, from nothing: an essay that runs. It needs neither tapec nor any other package.

Read it from top to bottom. It builds, in this order: a tape that records what happens; a program, which is the tape
read as text; the adjoint, which is one more program written by going through the first backwards; a pass that throws
away what nobody needs; and a compiler. tapec is these five ideas at full size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# ---------------------------------------------------------------------------------------------------------------
# 1. A program is a list of lines. Each line computes one value from values of lines before it, so a value is just the
#    number of its line, and every name is assigned once ("static single assignment").


@dataclass(frozen=True)
class Line:
    """``%result = op %operands``; ``number`` is the value of a constant."""

    op: str
    operands: tuple[int, ...] = ()
    number: float = 0.0


Program = list[Line]


def show(title: str, program: Program, results: list[int]) -> None:
    """Print a program as text."""
    print(f"\n{title}")
    for i, line in enumerate(program):
        what = (
            f"{line.number:g}"
            if line.op == "constant"
            else " ".join(f"%{o}" for o in line.operands)
        )
        print(f"  %{i} = {line.op} {what}".rstrip())
    print("  return " + ", ".join(f"%{r}" for r in results))


# ---------------------------------------------------------------------------------------------------------------
# 2. A tape records such a list while ordinary Python runs. The trick is an object that looks like a number but, when
#    it is added or multiplied, writes a line.

tape: Program = []


class Number:
    """Stands for the value of a line of the tape."""

    def __init__(self, line: int) -> None:
        self.line = line

    def __add__(self, other: Number | float) -> Number:
        return record("add", self, other)

    def __mul__(self, other: Number | float) -> Number:
        return record("mul", self, other)

    __radd__, __rmul__ = __add__, __mul__


def record(op: str, *operands: Number | float) -> Number:
    """Append a line; plain numbers get a line of their own first."""
    lines = []
    for x in operands:
        if not isinstance(x, Number):
            tape.append(Line("constant", number=float(x)))
            x = Number(len(tape) - 1)
        lines.append(x.line)
    tape.append(Line(op, tuple(lines)))
    return Number(len(tape) - 1)


def sin(x: Number) -> Number:
    """Sine, recorded."""
    return record("sin", x)


def trace(function: Callable[[Number], Number]) -> tuple[Program, int]:
    """Run a function once on a stand-in for its argument; its program, and the line of its result."""
    tape.clear()
    tape.append(Line("argument"))
    result = function(Number(0))
    return list(tape), result.line


def user_function(x: Number) -> Number:
    """f(x) = x sin(x) + 3 x: any Python, loops and branches too; the tape sees only what happened."""
    return x * sin(x) + 3 * x


program, y = trace(user_function)
show("the tape of x sin(x) + 3 x", program, [y])

# ---------------------------------------------------------------------------------------------------------------
# 3. What a program means: run it line by line. This is an "evaluator", slow and beyond doubt.

MEANING: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sin": math.sin,
    "cos": math.cos,
    "neg": lambda a: -a,
}


def evaluate(program: Program, results: list[int], argument: float) -> list[float]:
    """The values of some lines."""
    values: list[float] = []
    for line in program:
        if line.op == "argument":
            values.append(argument)
        elif line.op == "constant":
            values.append(line.number)
        else:
            values.append(MEANING[line.op](*(values[o] for o in line.operands)))
    return [values[r] for r in results]


print(f"\nf(2) = {evaluate(program, [y], 2.0)[0]:.6f}")

# ---------------------------------------------------------------------------------------------------------------
# 4. The adjoint. Ask of each line: if this value grows a little, how much does the result grow? Call that its
#    cotangent. The result's own is 1. A line hands its cotangent down to its operands, by a rule for each operation:
#    in z = a b, a little more a makes b times as much more z. Going backwards, every cotangent is complete when its
#    line is reached. The rules do not compute numbers: they write lines. So the adjoint is a program again.


def adjoint(program: Program, result: int) -> tuple[Program, int]:
    """The program extended by the derivative with respect to its argument; and the line that holds it."""
    extended = list(program)

    def emit(op: str, *operands: int, number: float = 0.0) -> int:
        extended.append(Line(op, operands, number))
        return len(extended) - 1

    cotangent: dict[int, int] = {result: emit("constant", number=1.0)}

    def hand_down(operand: int, ct: int) -> None:
        known = cotangent.get(operand)
        cotangent[operand] = ct if known is None else emit("add", known, ct)

    for i in reversed(range(len(program))):
        if i not in cotangent:
            continue  # the result does not depend on this line
        line, ct = program[i], cotangent[i]
        if line.op == "add":
            hand_down(line.operands[0], ct)
            hand_down(line.operands[1], ct)
        elif line.op == "mul":
            a, b = line.operands
            hand_down(a, emit("mul", ct, b))
            hand_down(b, emit("mul", ct, a))
        elif line.op == "sin":
            hand_down(line.operands[0], emit("mul", ct, emit("cos", *line.operands)))
        elif line.op == "cos":
            hand_down(line.operands[0], emit("neg", emit("mul", ct, emit("sin", *line.operands))))
        elif line.op == "neg":
            hand_down(line.operands[0], emit("neg", ct))
    # An argument that nothing depends on has no cotangent: the None of a gradient tape. Here, zero.
    return extended, cotangent.get(0, emit("constant", number=0.0))


with_gradient, dy = adjoint(program, y)
gradient = evaluate(with_gradient, [dy], 2.0)[0]
print(
    f"f'(2) = {gradient:.6f}, by hand sin 2 + 2 cos 2 + 3 = {math.sin(2) + 2 * math.cos(2) + 3:.6f}"
)

# Because the adjoint is a program, it has an adjoint: nothing new is needed for second derivatives.
with_second, ddy = adjoint(with_gradient, dy)
second = evaluate(with_second, [ddy], 2.0)[0]
print(f"f''(2) = {second:.6f}, by hand 2 cos 2 - 2 sin 2 = {2 * math.cos(2) - 2 * math.sin(2):.6f}")

# ---------------------------------------------------------------------------------------------------------------
# 5. Programs can be improved. Two passes do most of the work: compute equal lines once, drop lines that nobody reads.


def simplify(program: Program, results: list[int]) -> tuple[Program, list[int]]:
    """Merge equal lines, multiply by one for free, and keep what the results need."""
    new: Program = []
    place: list[int] = []  # where each old line's value is in the new program
    seen: dict[Line, int] = {}
    for line in program:
        operands = tuple(place[o] for o in line.operands)
        if line.op == "mul" and any(new[o] == Line("constant", (), 1.0) for o in operands):
            place.append(
                operands[1] if new[operands[0]] == Line("constant", (), 1.0) else operands[0]
            )
            continue
        copy = Line(line.op, operands, line.number)
        if copy not in seen:
            new.append(copy)
            seen[copy] = len(new) - 1
        place.append(seen[copy])
    wanted = {place[r] for r in results} | {0}
    for i in reversed(range(len(new))):
        if i in wanted:
            wanted.update(new[i].operands)
    order = {old: i for i, old in enumerate(sorted(wanted))}
    kept = [Line(new[i].op, tuple(order[o] for o in new[i].operands), new[i].number) for i in order]
    return kept, [order[place[r]] for r in results]


small, (value_line, slope_line, curve_line) = simplify(with_second, [y, dy, ddy])
show("value, first and second derivative, simplified", small, [value_line, slope_line, curve_line])
print(f"{len(with_second)} lines became {len(small)}")

# ---------------------------------------------------------------------------------------------------------------
# 6. A compiler turns the program into code of another language, once; from then on nobody walks lines any more. Here
#    the language is Python. tapec's is that of LLVM, after fusing lines into loops and placing results in memory.


def compile_program(program: Program, results: list[int]) -> Callable[[float], tuple[float, ...]]:
    """A Python function that computes the results."""
    spelling = {
        "add": "({} + {})",
        "mul": "({} * {})",
        "neg": "(-{})",
        "sin": "sin({})",
        "cos": "cos({})",
    }
    body = []
    for i, line in enumerate(program):
        if line.op == "constant":
            body.append(f"    v{i} = {line.number!r}")
        elif line.op != "argument":
            body.append(
                f"    v{i} = " + spelling[line.op].format(*(f"v{o}" for o in line.operands))
            )
    returned = ", ".join(f"v{r}" for r in results)
    source = "def compiled(v0):\n" + "\n".join(body) + f"\n    return {returned}\n"
    namespace: dict[str, Callable[..., Any]] = {"sin": math.sin, "cos": math.cos}
    exec(source, namespace)
    compiled: Callable[[float], tuple[float, ...]] = namespace["compiled"]
    return compiled


fast = compile_program(small, [value_line, slope_line, curve_line])

# With it, Newton's method finds where the slope is zero: training, in one dimension.
x = 4.0
for _ in range(6):
    value, slope, curve = fast(x)
    x -= slope / curve
print(f"\nf has slope {fast(x)[1]:.1e} at x = {x:.6f}, where f = {fast(x)[0]:.6f}")
