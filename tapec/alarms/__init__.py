"""Where the first number that is NaN or infinite was made, while a program runs."""
