"""A process that has only ever seen the survivors: fits what lies in a folder, and prints the digests.

Each folder inside holds `export` (written by `Engine.export`), and the surviving rows by outside ids: `config.json`,
`train.csv`, `valid.csv`. What is printed: folder -> [digest of the export's fit, digest of the rows' fit].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from receraser.config import EngineConfig
from receraser.data.readers import read
from receraser.engine import Engine
from receraser.execution.local import LocalExecutor


def main(folder: Path) -> None:
    found = {}
    with LocalExecutor(n_workers=1, threads=1) as executor:
        for own in sorted(folder.iterdir()):
            of_export = Engine.fit_export(own / "export", executor=executor)
            config = EngineConfig(**json.loads((own / "config.json").read_text()))
            train, valid = (read(own / name).interactions for name in ("train.csv", "valid.csv"))
            of_rows = Engine.from_config(config, executor=executor).fit(train, valid=valid)
            found[own.name] = [of_export.digest, of_rows.digest]
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
