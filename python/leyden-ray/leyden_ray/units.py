"""Units: the pieces of an input file that are computed as a whole.

A unit is a range of lines of a JSON lines file, or a range of rows of a Parquet file. Its name has its place and a hash of its
content, so a result belongs to exactly this content. The division depends on the file and the number of rows alone, never on the
cluster: each run finds the same units.
"""

import hashlib
import os
from dataclasses import dataclass

from .errors import LeydenError

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Unit:
    """A range of an input: bytes of a JSON lines file, or rows of a Parquet file."""

    number: int
    start: int
    length: int
    rows: int
    digest: str

    @property
    def name(self):
        """Name of the unit's result, without its ending."""
        return f"{self.number:08}-{self.digest}"


def ending(path):
    """Returns the kind of a file: `jsonl` or `parquet`."""
    for suffix, kind in ((".jsonl", "jsonl"), (".ndjson", "jsonl"), (".parquet", "parquet")):
        if str(path).endswith(suffix):
            return kind
    raise LeydenError(f"{path}: the cluster divides .jsonl, .ndjson and .parquet; for others use `leyden batch --shard`")


def divide(path, rows):
    """Returns the units of a file, with at most `rows` rows each."""
    if rows < 1:
        raise LeydenError(f"rows per unit: {rows}; give 1 or more")
    kind = ending(path)
    if not os.path.isfile(path):
        raise LeydenError(f"{path}: no such file")
    return list(_lines(path, rows) if kind == "jsonl" else _table(path, rows))


def _lines(path, rows):
    number, start, place, count, digest = 0, 0, 0, 0, hashlib.blake2b(digest_size=8)
    with open(path, "rb") as file:
        # A line longer than a block is read in several parts.
        while part := file.readline(_BLOCK):
            digest.update(part)
            place += len(part)
            count += part.endswith(b"\n")
            if count == rows:
                yield Unit(number, start, place - start, count, digest.hexdigest())
                number, start, count, digest = number + 1, place, 0, hashlib.blake2b(digest_size=8)
    if place > start:
        # The last line may lack its line break.
        with open(path, "rb") as file:
            file.seek(place - 1)
            count += file.read(1) != b"\n"
        yield Unit(number, start, place - start, count, digest.hexdigest())


def _table(path, rows):
    import pyarrow.parquet as parquet

    try:
        total = parquet.ParquetFile(path).metadata.num_rows
    except (OSError, ValueError) as error:
        raise LeydenError(f"{path}: {error}") from error
    whole = hashlib.blake2b(digest_size=8)
    with open(path, "rb") as file:
        while part := file.read(_BLOCK):
            whole.update(part)
    for number, start in enumerate(range(0, total, rows)):
        yield Unit(number, start, min(rows, total - start), min(rows, total - start), whole.hexdigest())


def extract(path, unit, to):
    """Writes the rows of a unit to the file `to`, which has the same ending. Refuses a file that has changed."""
    if ending(path) == "parquet":
        return _extract_rows(path, unit, to)
    digest, left = hashlib.blake2b(digest_size=8), unit.length
    with open(path, "rb") as file, open(to, "wb") as out:
        file.seek(unit.start)
        while left and (part := file.read(min(_BLOCK, left))):
            digest.update(part)
            out.write(part)
            left -= len(part)
    if left or digest.hexdigest() != unit.digest:
        raise LeydenError(f"{path}: unit {unit.number} is not what it was at the start; run again with restart")


def _extract_rows(path, unit, to):
    import pyarrow.parquet as parquet

    file = parquet.ParquetFile(path)
    first, groups, before = None, [], 0
    for i in range(file.num_row_groups):
        size = file.metadata.row_group(i).num_rows
        if before + size > unit.start and before < unit.start + unit.length:
            first = before if first is None else first
            groups.append(i)
        before += size
    table = file.read_row_groups(groups).slice(unit.start - first, unit.length)
    if table.num_rows != unit.length:
        raise LeydenError(f"{path}: unit {unit.number} has {table.num_rows} rows instead of {unit.length}; run again with restart")
    parquet.write_table(table, to)
