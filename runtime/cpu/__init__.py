"""The cpu target: native code for this process."""
