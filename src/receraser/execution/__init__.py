"""Running pure tasks: (shard rows, hyperparameters, seed) -> weights. The engine does not know where."""
