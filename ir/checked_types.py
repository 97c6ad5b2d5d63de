"""Result types of operations that may be broken: what the parser and the verifier ask."""

from __future__ import annotations

from tapec.ir.core import Operation
from tapec.ir.errors import DTypeError, TapecError
from tapec.ir.types import Type


def checked_result_types(op: Operation) -> tuple[Type, ...] | None:
    """`Op.result_types` of an operation that may be broken.

    Raises:
        TapecError: the type rule refuses the operation, or fell over something no program has, such
            as a missing attribute.
    """
    try:
        return op.defn.result_types(op)
    except TapecError:
        raise
    except KeyError as error:
        raise DTypeError(f"{op.name} needs the attribute {error.args[0]}") from error
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        message = f"{op.name} does not take these operands and attributes: {error}"
        raise DTypeError(message) from error
