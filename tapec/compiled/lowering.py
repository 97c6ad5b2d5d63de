"""A look at what a compiled function becomes, without running it: `CompiledFunction.trace` and `lower`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapec.compiled.buffers import ProgramMemory, memory_of
from tapec.compiled.cost import Cost, cost_of
from tapec.compiler import TEXTS, Executable, compile_module, lowered, native_text
from tapec.errors import ValueError
from tapec.frames import here
from tapec.ir.core import Module
from tapec.ir.dims import DimLike, symbol
from tapec.ir.ops.foreign import foreign_symbols
from tapec.ir.printer import print_module
from tapec.ir.types import TensorType
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor
from tapec.tensors.type_spec import TensorSpec

if TYPE_CHECKING:
    from tapec.compiled.dimensions import Dimensions

#: Levels of `Lowered.text`, with the pass after which each is there.
LEVELS = {"tensor": None, "kernels": "plan", "loop": "registers"}
#: Its other levels: texts that are no stage of a program any more.
NATIVE = tuple(TEXTS)


class Lowered:
    """A function's program for arguments of certain types; nothing was run, and no Variable changed.

    Attributes:
        module: the program as traced.
    """

    def __init__(self, module: Module) -> None:
        """Made by `CompiledFunction.lower`."""
        self.module = module

    def text(
        self,
        level: str = "tensor",
        *,
        after: str | None = None,
        locs: bool = False,
        full_constants: bool = False,
    ) -> str:
        """The program as text.

        Args:
            level: ``tensor`` as traced, ``kernels`` grouped and placed in memory, ``loop`` what is compiled, ``llvm``
                and ``asm`` what becomes of that here, ``c`` what `tapec.aot.build` makes for compilers of C, ``numba``
                the Python text of ``engine="numba"``, ``cuda`` that of ``target="cuda"`` with its launches, ``ptx``
                what numba.cuda makes of it.
            after: a pass of the default pipeline, after whose last run to look.
            locs: with the user's line beside each operation.
            full_constants: with all elements of constants, so that the text can be read back.

        Raises:
            ValueError: there is no such level.
            PassError: there is no such pass.
            TargetError: there is no such code for the program (``llvm``, ``asm``, ``c``, …).
        """
        if level in NATIVE and after is None:
            return native_text(self.module, level)
        if level not in LEVELS:
            raise ValueError(
                f"text: there is no level {level!r}",
                location=here(),
                hint=", ".join([*LEVELS, *NATIVE]),
            )
        after = after or LEVELS[level]
        module = self.module if after is None else lowered(self.module, after)
        return print_module(module, locs=locs, full_constants=full_constants)

    def memory(self) -> ProgramMemory:
        """The memory that a call takes: the arena and what is in it, with the lines that made it, and arrays around."""
        return memory_of(lowered(self.module, "plan"))

    def cost(self) -> Cost:
        """The arithmetic and the memory traffic of each kernel."""
        return cost_of(lowered(self.module, "plan"))

    def foreign_symbols(self) -> dict[str, tuple[str, ...]]:
        """For each custom op that calls what no program can hold, the names of that; see `tapec.custom_op`."""
        return foreign_symbols(self.module)

    def compile(self) -> Executable:
        """The native program: a function of NumPy arrays, those of the arguments and then of what it captured."""
        return compile_module(self.module)

    def __str__(self) -> str:
        """The program as traced."""
        return self.text().rstrip("\n")

    def __repr__(self) -> str:
        entry = self.module.entry
        return f"<Lowered {entry.name}: {len(entry.args)} inputs, {len(entry.block.ops) - 1} operations>"

    def __rich__(self) -> Any:
        """What the program costs, as a table."""
        return self.cost().__rich__()

    def _repr_html_(self) -> str:
        return f"{self.cost()._repr_html_()}{self.memory()._repr_html_()}"


def specified(dimensions: Dimensions, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments with tensors without values in the place of specs; if there are none, those of an input signature."""
    if not args and not kwargs and dimensions.signature is not None:
        args = dimensions.signature.specs
    leaves, spec = flatten([list(args), kwargs], parts=True)
    made = [
        _tensor(leaf, i) if isinstance(leaf, TensorSpec) else leaf for i, leaf in enumerate(leaves)
    ]
    args, kwargs = unflatten(spec, made)
    return tuple(args), kwargs


def _tensor(spec: TensorSpec, number: int) -> Tensor:
    """A tensor without a value; sizes that are not known are symbols of its own."""
    if spec.shape.rank is None:
        raise ValueError(
            f"{spec!r} leaves the rank open: a program is traced for one", location=here()
        )
    dims: list[DimLike] = [
        symbol(f"d{number}_{axis}", 1) if n is None else n
        for axis, n in enumerate(spec.shape.as_list())
    ]
    return Tensor(None, TensorType(spec.dtype, tuple(dims)))
