"""Names of other libraries that tapec has not: what the error says, and what to use instead."""
