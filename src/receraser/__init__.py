"""receraser."""
