"""Why a gradient is None: what a tape remembers, how values hang together, the answer in words."""
