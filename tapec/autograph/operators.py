"""What converted code calls, by the names that `tapec.autograph.rewriting` writes.

What it calls at branches and loops is loaded when it first does: most functions only call others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapec.absences.names import homes, loaded
from tapec.autograph.conversion import converted as converted
from tapec.autograph.conversion import iterated as iterated

if TYPE_CHECKING:  # what the table below says
    from tapec.autograph.branches import if_exp as if_exp
    from tapec.autograph.branches import if_stmt as if_stmt
    from tapec.autograph.expressions import and_ as and_
    from tapec.autograph.expressions import compare as compare
    from tapec.autograph.expressions import goes_on as goes_on
    from tapec.autograph.expressions import none_of as none_of
    from tapec.autograph.expressions import not_ as not_
    from tapec.autograph.expressions import or_ as or_
    from tapec.autograph.expressions import rows as rows
    from tapec.autograph.loops import for_stmt as for_stmt
    from tapec.autograph.loops import while_stmt as while_stmt

_LATER = homes(
    {
        "autograph.branches": "if_exp if_stmt",
        "autograph.expressions": "and_ compare goes_on none_of not_ or_ rows",
        "autograph.loops": "for_stmt while_stmt",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"converted code calls no {name!r}")
    found = globals()[name] = loaded(*_LATER[name])
    return found
