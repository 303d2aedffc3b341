"""Which shard a row lives in."""
