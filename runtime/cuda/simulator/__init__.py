"""A device in Python: kernels' texts run thread by thread, with an eye on every access.

`simulator` runs threads in turns and answers what they do together; `memory` knows who read and wrote each element.
"""
