"""Speed on the CPU: ours and the peers side by side, one run, the same threads (`python -m benchmarks.speed`)."""
