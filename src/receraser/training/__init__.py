"""How models learn: batches, losses, one loop, one least-squares solver, and the kernels under them."""
