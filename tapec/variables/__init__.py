"""What Variables rest on: memory, initial values, updates of parts, and steps that other threads see as a whole."""
