"""Program transformations: module in, module out."""
