"""What converted code calls, by the names that `tapec.autograph.rewriting` writes."""

from tapec.autograph.branches import if_stmt as if_stmt
from tapec.autograph.conversion import converted as converted
from tapec.autograph.conversion import iterated as iterated
from tapec.autograph.expressions import and_ as and_
from tapec.autograph.expressions import compare as compare
from tapec.autograph.expressions import if_exp as if_exp
from tapec.autograph.expressions import none_of as none_of
from tapec.autograph.expressions import not_ as not_
from tapec.autograph.expressions import or_ as or_
from tapec.autograph.expressions import rows as rows
from tapec.autograph.loops import for_stmt as for_stmt
from tapec.autograph.loops import while_stmt as while_stmt
