"""`gpu.py` by the name of its target: everything there is to know of it on a machine with a GPU, in one command.

    python cuda.py

NVIDIA's packages are parts of a namespace that is called cuda as well, and this folder comes first where its scripts
run: so who imports that name finds them through this module as if it were not here.
"""

from __future__ import annotations

import sys
from pkgutil import extend_path

__path__ = extend_path([], "cuda")

if __name__ == "__main__":
    from gpu import main

    sys.exit(main())
