"""Derivatives of derivatives: nested tapes, a Hessian-vector product, and Newton's method on Rosenbrock's function."""

from __future__ import annotations

import math

import tapec

# Third derivative of sin by three nested tapes: minus cos.
x = tapec.Variable(0.7)
with tapec.GradientTape() as third:
    with tapec.GradientTape() as second:
        with tapec.GradientTape() as first:
            y = tapec.sin(x)
        dy = first.gradient(y, x)
    ddy = second.gradient(dy, x)
dddy = third.gradient(ddy, x)
print(f"sin'''(0.7) = {float(dddy):.6f}, -cos(0.7) = {-math.cos(0.7):.6f}")

# Hessian times vector without the Hessian: the gradient of (gradient . v).
point = tapec.Variable([-1.2, 1.0])
direction = tapec.constant([1.0, -1.0])


def rosenbrock(p: tapec.Tensor | tapec.Variable) -> tapec.Tensor:
    """(1 - a)^2 + 100 (b - a^2)^2, least at (1, 1)."""
    return (1.0 - p[0]) ** 2 + 100.0 * (p[1] - p[0] ** 2) ** 2


@tapec.compile
def hessian_vector(v: tapec.Tensor) -> tapec.Tensor:
    """H(point) v."""
    with tapec.GradientTape() as outer:
        with tapec.GradientTape() as inner:
            value = rosenbrock(point)
        gradient = inner.gradient(value, point)
        product = tapec.reduce_sum(gradient * v)
    result: tapec.Tensor = outer.gradient(product, point)
    return result


a, b = -1.2, 1.0
exact = [(2 - 400 * (b - 3 * a * a)) + 400 * a, -400 * a - 200]
print(
    "H v =",
    [round(float(h), 2) for h in hessian_vector(direction)],
    "by hand",
    [round(e, 2) for e in exact],
)


@tapec.compile
def newton_step() -> tapec.Tensor:
    """Solve H step = gradient for the two unknowns and move."""
    with tapec.GradientTape(persistent=True) as outer:
        with tapec.GradientTape() as inner:
            value = rosenbrock(point)
        gradient = inner.gradient(value, point)
        g0, g1 = gradient[0], gradient[1]
    h0 = outer.gradient(g0, point)
    h1 = outer.gradient(g1, point)
    determinant = h0[0] * h1[1] - h0[1] * h1[0]
    step = tapec.stack([h1[1] * g0 - h0[1] * g1, h0[0] * g1 - h1[0] * g0]) / determinant
    point.assign_sub(step)
    return value


for iteration in range(7):
    value = float(newton_step())
    print(f"Newton step {iteration}: f = {value:.3e}")
print("minimum at", [round(float(p), 4) for p in point])
