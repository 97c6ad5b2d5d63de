"""How gradients are made: of eager tapes, with derivatives of the user's own, inside of programs."""
