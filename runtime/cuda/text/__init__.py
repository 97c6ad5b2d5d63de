"""Kernels as Python text, which numba.cuda compiles and the simulator runs.

==================  ====================================================================================
`primitives`        the closed table of names that a kernel's text may use, each with its Python twin
`spelling`          scalar operations as expressions of those names
`mathematics`       ``exp`` and its kin as text, from the same expansions as the CPU's
`wide_indices`      whether indices of a kernel go beyond 32 bits
`index_writer`      arithmetic of indices, 32 bits wide where that is enough
`kernel_writer`     the text of one kernel; the result is a `kernel_text.KernelText`
`module_text`       the text of a module, with its tables: `write_text`
==================  ====================================================================================

A kernel's text is a plain function ``def k0(in0, in1, out2):`` of pointers. It uses local names, typed literals
(``f32(0.5)``, ``u32(7)``), ``while``, ``if`` and the names of `primitives`, and nothing else: no arrays of NumPy's, no
``math``, no globals but device functions of the same text. ``p[i]`` is an element of a pointer or of a shared or
local array. Collective primitives (`primitives.COLLECTIVE`: ``barrier()``, ``shuffle_xor(x, 16)``) stand alone in a
statement or on the right of an assignment, so that who runs threads in turns can stop there. An index is ``u32``
where it cannot be negative, else ``i32``; both are 64 bits wide in kernels that count, or go in bytes, beyond that.
"""
