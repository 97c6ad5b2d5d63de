"""What `fuse` knows of a kernel in the making, and of those that may become one."""
