"""How `lower` writes one kernel as loops: in which order, and what is vectorised."""
