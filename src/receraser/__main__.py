"""`python -m receraser`: the same as the command `receraser`."""

from __future__ import annotations

from receraser.cli.main import main

if __name__ == "__main__":
    main()
