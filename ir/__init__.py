"""What a program is: types, operations, text and meaning."""
