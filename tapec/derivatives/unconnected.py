"""UnconnectedGradients: what stands for the gradient of something that the target does not depend on."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tapec.errors import ValueError
from tapec.frames import here


class UnconnectedGradients(Enum):
    """What `GradientTape.gradient` gives for a source that the target does not depend on."""

    NONE = "none"
    ZERO = "zero"

    @classmethod
    def of(cls, value: Any) -> UnconnectedGradients:
        """The member that a user's value stands for.

        Raises:
            ValueError: it is none.
        """
        if isinstance(value, cls | str) and value in (*cls, *(member.value for member in cls)):
            return cls(value)
        else:
            raise ValueError(
                f"Unknown value for unconnected_gradients: {value!r}",
                location=here(),
                hint=" or ".join(f'"{member.value}"' for member in cls),
            ) from None
