"""The second engine for processors: kernels as Python text (`tapec.runtime.python_text`), compiled by Numba.

It shares the loops with the first and nothing below them: text, scalar functions, compiler. So the two check each
other; `tapec.compile(engine="numba")` chooses it.
"""
