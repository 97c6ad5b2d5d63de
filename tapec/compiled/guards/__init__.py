"""Guards: the Python state that a program rests on, found while it is traced, looked at before it runs."""
