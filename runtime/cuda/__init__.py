"""Programs for NVIDIA's GPUs: loop-level kernels as Python text, which numba.cuda compiles.

The pass `tapec.passes.device.spread` has given each kernel its place on the device: loops that run ``over`` the
``grid``, the ``blocks`` or the ``threads`` of a block, buffers in ``shared`` memory, barriers, sums over a block. What
is left to do here is to spell them, and to run what was spelled.

======================  ================================================================================
`text/`                 a module -> `Text`: a function of Python's for each kernel, launches, tables
`launches`              what the host does: launches, copies of single numbers, loops between launches
`simulator/`            runs the same text in Python, thread by thread, and watches every access
`machine_code/`         text -> PTX -> machine code, by numba.cuda and with no driver
`device/`               memory, streams and graphs of a device; what a program copies, launches and returns
`program`               a module as an `Executable` on a device, or in the simulator
`ahead`                 a module as PTX, machine code and a C header
======================  ================================================================================

Each room imports from those above it only: `text/` knows none of the others, `simulator/` and `machine_code/` do not
know each other, and `program` and `ahead` join them.

`Text.launches` is a list of steps (`launches.Launch` and a few others) whose buffers are named by
`launches.Memory`: ``("arg", 0)``, ``("result", 1)``, ``("arena",)`` or ``("table", 2)`` with an offset in bytes. The
simulator gives them NumPy arrays, the driver addresses on the device.
"""
