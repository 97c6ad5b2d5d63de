"""What eager code that repeats itself is spared: signatures are looked up, operations run as native programs."""
