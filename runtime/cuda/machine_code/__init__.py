"""A kernel's text as PTX and as machine code, with no driver.

`intrinsics` says what the primitives are on a device, and is the one module that imports numba.cuda as it is imported;
`assembly` compiles a text and assembles what comes of it.
"""
