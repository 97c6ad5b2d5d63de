"""Programs for NVIDIA's GPUs: loop-level kernels as Python text, which numba.cuda compiles.

The pass `tapec.passes.spread` has given each kernel its place on the device: loops that run ``over`` the ``grid``, the
``blocks`` or the ``threads`` of a block, buffers in ``shared`` memory, barriers, sums over a block. What is left to do
here is to spell them.

======================  ================================================================================
`text`                  a module -> `Text`: a function of Python's for each kernel, launches, tables
`kernel_writer`         the text of one kernel
`primitives`            the closed table of names that a kernel's text may use, each with its Python twin
`mathematics`           ``exp`` and its kin as text, from the same expansions as the CPU's
`launches`              what the host does: launches, copies of single numbers, loops between launches
`simulator`             runs the same text in Python, thread by thread, and watches every access
`intrinsics`            what the primitives are on a device: the one module that needs numba.cuda to be imported
`assembly`              text -> PTX -> machine code, with no driver
`driver`                memory, streams, launches and graphs, through cuda.core; a fake can stand for it
`memory`                arrays on a device, in the order of streams; `residents`: copies of Variables' arrays
`sharing`, `dlpack`     memory of other libraries, both ways
`device_program`        what is copied, launched and returned at a call
`program`               a module as an `Executable` on a device, or in the simulator
======================  ================================================================================

A kernel's text is a plain function ``def k0(in0, in1, out2):`` of pointers. It uses local names, typed literals
(``f32(0.5)``, ``u32(7)``), ``while``, ``if`` and the names of `primitives`, and nothing else: no arrays of NumPy's, no
``math``, no globals but device functions of the same text. ``p[i]`` is an element of a pointer or of a shared or
local array. Collective primitives (`primitives.COLLECTIVE`: ``barrier()``, ``shuffle_xor(x, 16)``) stand alone in a
statement or on the right of an assignment, so that who runs threads in turns can stop there. An index is ``u32``
where it cannot be negative, else ``i32``; both are 64 bits wide in programs with larger buffers.

`Text.launches` is a list of steps (`launches.Launch` and a few others) whose buffers are named by
`launches.Memory`: ``("arg", 0)``, ``("result", 1)``, ``("arena",)`` or ``("table", 2)`` with an offset in bytes. The
simulator gives them NumPy arrays, the driver addresses on the device.
"""
