"""What is kept, what is computed again, which kernel runs when, and whose memory it writes."""
