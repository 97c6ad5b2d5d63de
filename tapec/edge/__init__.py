"""Functions and Variables as models that `tapec.aot` builds for other machines."""
