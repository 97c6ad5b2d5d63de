"""Loops on machines where many threads run one kernel: what may be dealt out, and how that is written."""
