"""Replace calls by the body of the function that they call.

Callees come first, so each body is copied whole. A function that no call is left to goes away; one
that calls itself, directly or through others, is refused: control flow is structured here. A callee's
gradients are expanded first: they are derivatives of the callee alone, and would go on into the caller.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapec.ir.core import Block, Function, Module, Operation, clone_operation
from tapec.ir.errors import PassError
from tapec.ir.evaluator import Dims
from tapec.ir.ops.control import Call
from tapec.ir.substitution import substitute_in
from tapec.passes import adjoint


def run(module: Module, options: object = None) -> bool:
    """Inline every call of the module.

    Raises:
        PassError: a function calls itself, or one that the module does not have.
    """
    order = _callees_first(module)
    called = {name for f in order for name, _ in _calls(f)}
    for function in order:
        _inline_into(function.block, module)
        for inner in list(function.walk()):
            for region in inner.regions:
                for block in region.blocks:
                    _inline_into(block, module)
        if function.name in called:
            adjoint.run(Module([function]))
    entry = module.entry.name
    for name in called - {entry}:
        del module.functions[name]
    return bool(called)


def _calls(function: Function) -> Iterator[tuple[str, Operation]]:
    for op in function.walk():
        if isinstance(op.defn, Call):
            yield op.attrs["callee"], op


def _callees_first(module: Module) -> list[Function]:
    """The functions of the module, each after those that it calls."""
    order: list[Function] = []
    done: set[str] = set()

    def visit(function: Function, path: tuple[str, ...]) -> None:
        for name, op in _calls(function):
            if name not in module.functions:
                raise PassError(f"the module has no function @{name} to call", location=op.location)
            if name in path:
                cycle = " -> ".join(f"@{n}" for n in (*path[path.index(name) :], name))
                raise PassError(
                    f"a function calls itself: {cycle}",
                    location=op.location,
                    hint="write the recursion as a loop",
                )
            if name not in done:
                visit(module.functions[name], (*path, name))
        done.add(function.name)
        if function not in order:
            order.append(function)

    for function in module.functions.values():
        visit(function, (function.name,))
    return order


def _inline_into(block: Block, module: Module) -> None:
    """Replace the calls that stand in a block itself, not in its regions."""
    pending, block.ops = block.ops, []
    for op in pending:
        if not isinstance(op.defn, Call):
            block.ops.append(op)
            continue
        callee = module.functions[op.attrs["callee"]]
        dims = _dims_of_call(callee, op)
        mapping = dict(zip(callee.args, op.operands, strict=True))
        for inner in callee.block.ops[:-1]:
            copy = block.append(clone_operation(inner, mapping))
            if dims.values:
                substitute_in(copy, dims.values)
        for result, value in zip(op.results, callee.returns, strict=True):
            result.replace_all_uses(mapping[value])
        op.drop()
        op.block = None


def _dims_of_call(callee: Function, call: Operation) -> Dims:
    """What the symbols in the callee's signature are for these operands."""
    dims = Dims()
    for arg, operand in zip(callee.args, call.operands, strict=True):
        what = f"operand {arg.index} of the call of @{callee.name}"
        dims.bind(arg.type, operand.tensor.shape, what)
    return dims
