"""The command line: one file per command, thin, no logic of its own. Heavy imports wait until a command runs."""
