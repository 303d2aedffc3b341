"""Files to `Interactions` and back: CSV, Parquet, MovieLens, RecBole, adjacency lines, titles.

`read` is the way in. Which module does what:

- `reader`: `read` itself; chooses by the file's name
- `formats`: the table of formats by file name; `Options`, what the caller asked for
- `columns`: which field of a row is the user, the item, the rating, the timestamp
- `lines`: a file as lines of text in bounded memory, plain or gzip
- `rows`: what a good row is; gathers rows, counts bad ones, makes the `ReadResult`
- `delimited`, `adjacency`: the careful line-by-line parsers, which define the meaning and make the messages
- `columnar`, `parquet`: the same meaning at speed; anything unusual is handed to the careful parser
- `titles`, `writing`: display names of items; interactions back to files

Nothing here needs more than numpy until a Parquet file or a large CSV file is read.
"""

from receraser.data.readers.columns import parse_columns
from receraser.data.readers.reader import read
from receraser.data.readers.rows import ReadReport, ReadResult
from receraser.data.readers.titles import read_titles
from receraser.data.readers.writing import write_csv, write_lines

__all__ = ["ReadReport", "ReadResult", "parse_columns", "read", "read_titles", "write_csv", "write_lines"]
