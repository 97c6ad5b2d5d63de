"""Where buffers lie that live for a time: first fit for programs, a search for what first fit wastes."""
