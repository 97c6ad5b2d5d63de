"""What a tape hears, and what of it it keeps."""
