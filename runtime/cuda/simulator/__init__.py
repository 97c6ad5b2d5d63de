"""A device in Python: kernels' texts run thread by thread, with an eye on every access. See `simulator`."""
