"""State of a run on a cluster: the folder `OUT.units`, which every machine sees.

`run.json` says which input, settings and program the results belong to. Each finished unit has one file, written beside its place,
flushed and renamed: it is there whole or not at all. Two attempts at one unit write the same content to the same name, so a unit that
is computed twice, because a machine was lost or only seemed lost, counts once.
"""

import json
import os
import shutil
import uuid
from pathlib import Path

from .errors import LeydenError
from .units import ending

FORMAT = 1


class State:
    """The folder of a run."""

    def __init__(self, output):
        self.output = Path(output)
        self.folder = Path(f"{output}.units")
        self.kind = ending(output)

    def begin(self, identity, restart):
        """Opens the folder for a run with this identity, a dictionary; refuses a folder of another run."""
        if restart:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif self.output.exists():
            raise LeydenError(f"{self.output}: is there already; name another output, or run with restart")
        self.folder.mkdir(parents=True, exist_ok=True)
        path, identity = self.folder / "run.json", {"format": FORMAT, **identity}
        if path.exists():
            try:
                earlier = json.loads(path.read_text())
            except ValueError as error:
                raise LeydenError(f"{path}: not JSON: {error}; run with restart") from error
            differ = sorted(key for key in {*earlier, *identity} if earlier.get(key) != identity.get(key))
            if differ:
                raise LeydenError(
                    f"{self.folder}: belongs to a run that differs in {', '.join(differ)}; "
                    "repeat that run's settings to continue it, or run with restart"
                )
        else:
            _write(path, json.dumps(identity, indent=1).encode())

    def result(self, unit):
        """Returns the path of a unit's result."""
        return self.folder / f"{unit.name}.{self.kind}"

    def counts(self, unit):
        """Returns the counts of a finished unit, or None."""
        try:
            counts = json.loads((self.folder / f"{unit.name}.json").read_text())
        except FileNotFoundError:
            return None
        return counts if self.result(unit).exists() else None

    def commit(self, unit, made, counts):
        """Makes the file `made` the result of a unit. The result's own name comes last: it is what makes a unit finished."""
        _write(self.folder / f"{unit.name}.json", json.dumps(counts).encode())
        beside = self.folder / f".{unit.name}.{uuid.uuid4().hex}"
        try:
            shutil.copyfile(made, beside)
            _flush(beside)
            os.replace(beside, self.result(unit))
        finally:
            beside.unlink(missing_ok=True)
        _flush(self.folder)

    def join(self, units):
        """Writes the output from the results of all units, in order, and removes the folder."""
        beside = self.output.with_name(f".{self.output.name}.{uuid.uuid4().hex}")
        try:
            if self.kind == "jsonl":
                with open(beside, "wb") as out:
                    for unit in units:
                        with open(self.result(unit), "rb") as file:
                            shutil.copyfileobj(file, out, 1 << 20)
            else:
                self._join_tables(units, beside)
            _flush(beside)
            os.replace(beside, self.output)
        finally:
            beside.unlink(missing_ok=True)
        _flush(self.output.parent)
        shutil.rmtree(self.folder)

    def _join_tables(self, units, beside):
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        # A column such as `error` is in the units that have one.
        schemas = [parquet.read_schema(self.result(unit)) for unit in units]
        schema = arrow.unify_schemas(schemas, promote_options="permissive") if schemas else arrow.schema([])
        with parquet.ParquetWriter(beside, schema) as out:
            for unit in units:
                table = parquet.read_table(self.result(unit))
                for field in schema:
                    if field.name not in table.column_names:
                        table = table.append_column(field, arrow.nulls(table.num_rows, field.type))
                out.write_table(table.select(schema.names).cast(schema))


def _write(path, content):
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    beside.write_bytes(content)
    _flush(beside)
    os.replace(beside, path)


def _flush(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
