"""Rows on a Ray cluster: `run` for a file, `Rows` for a Ray dataset.

`run` divides the file into units, and Ray Data spreads units over actors. Only a unit's place travels through Ray; the actor reads its
rows from the file, which every machine sees, and writes the result to the state folder. The folder counts, not Ray's own result: a
unit that Ray computes again after the loss of a machine replaces its result by an equal one.
"""

import os
import socket
import tempfile
import time
from dataclasses import asdict, dataclass, field

from . import program as programs
from .checkpoint import State
from .engine import Engine
from .errors import LeydenError
from .units import divide, extract


@dataclass
class Report:
    """Counts of a run: rows, units, and what each actor did in this run."""

    rows: int = 0
    done: int = 0
    failed: int = 0
    units: int = 0
    kept_units: int = 0
    seconds: float = 0.0
    rows_per_second: float = 0.0
    first_error: str | None = None
    actors: dict = field(default_factory=dict)

    def to_dict(self):
        """Returns the fields as a dictionary."""
        return asdict(self)


class UnitActor:
    """Actor of Ray Data that computes units. It is made once for each process."""

    def __init__(self, source, output, options, threads, program, version, folder):
        self.engine = Engine(options, threads, program, folder)
        found = programs.version(self.engine.program)
        if found != version:
            raise LeydenError(f"{self.engine.program} on {socket.gethostname()} is {found}, on the first machine {version}")
        self.source, self.state = source, State(output)
        self.name = f"{socket.gethostname()}/{os.getpid()}"

    def __call__(self, batch):
        return {"outcome": [self._compute(unit) for unit in batch["unit"]]}

    def _compute(self, unit):
        counts = self.state.counts(unit)
        if counts is None:
            with tempfile.TemporaryDirectory(prefix="leyden-ray-") as folder:
                rows = os.path.join(folder, f"in.{'parquet' if str(self.source).endswith('.parquet') else 'jsonl'}")
                made = os.path.join(folder, f"out.{self.state.kind}")
                extract(self.source, unit, rows)
                counts = {**self.engine.compute(rows, made), "actor": self.name}
                self.state.commit(unit, made, counts)
        return {"unit": unit.number, **counts}


def run(source, output, options, *, actors=2, threads=1, unit_rows=1000, restart=False, program=None, progress=None):
    """Computes every row of `source` into `output` on the cluster that Ray is connected to; starts a local one otherwise.

    `options` are words of `leyden batch`, such as `["--task", "embed", "--model", "all-MiniLM-L6-v2"]`. Both files and the model must
    be seen by all machines at the same paths, relative ones from this process's folder. Rows keep their order. The same call continues a
    run that ended early. `progress` is called with each outcome. Returns a `Report`. Raises `LeydenError`.
    """
    began = time.monotonic()
    source, output = os.path.abspath(source), os.path.abspath(output)
    program = programs.find_program(program)
    engine = Engine(options, threads, program)  # checks the options before anything is started
    if actors < 1:
        raise LeydenError(f"actors: {actors}; give 1 or more")
    units, state, version = divide(source, unit_rows), State(output), programs.version(program)
    identity = {
        "input": source,
        "units": [unit.digest for unit in units],
        "rows per unit": unit_rows,
        "options": engine.options,
        "model": _model(engine.options),
        "program": version,
    }
    state.begin(identity, restart)
    left = [unit for unit in units if state.counts(unit) is None]
    if left:
        arguments = (source, output, engine.options, threads, program, version, os.getcwd())
        for outcome in _spread(left, arguments, min(actors, len(left)), threads):
            if progress:
                progress(outcome)
    report = Report(units=len(units), kept_units=len(units) - len(left))
    for unit in units:
        _add(report, state.counts(unit), unit, kept=unit not in left)
    state.join(units)
    report.seconds = time.monotonic() - began
    report.rows_per_second = sum(actor["rows"] for actor in report.actors.values()) / report.seconds
    return report


def _spread(units, arguments, actors, threads):
    """Yields the outcomes of all units, in the order in which they finish."""
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    free = sum(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
    if free < threads:
        raise LeydenError(f"the cluster has {free:.0f} processors, and an actor wants {threads}; give fewer threads")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # One block for each unit, so that a lost machine costs the units that it was computing. A pool that can shrink to one actor goes on
    # when a machine is gone. Actors that fill every processor would starve Ray Data's own tasks: this pipeline has none.
    rows = ray.data.from_items([{"unit": unit} for unit in units], override_num_blocks=len(units))
    outcomes = rows.map_batches(
        UnitActor,
        batch_size=1,
        fn_constructor_args=arguments,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors, initial_size=actors, max_tasks_in_flight_per_actor=2),
        num_cpus=threads,
    )
    for row in outcomes.iter_rows():
        yield row["outcome"]


def _add(report, counts, unit, kept):
    if counts is None:
        raise LeydenError(f"unit {unit.number} has no result although the run ended; run the same command again")
    if counts["read"] != counts["done"] + counts["failed"]:
        raise LeydenError(f"unit {unit.number}: {counts['read']} rows read, {counts['done']} done, {counts['failed']} failed")
    report.rows += counts["read"]
    report.done += counts["done"]
    report.failed += counts["failed"]
    report.first_error = report.first_error or counts["first_error"]
    if not kept:
        actor = report.actors.setdefault(counts["actor"], {"units": 0, "rows": 0, "seconds": 0.0})
        actor["units"] += 1
        actor["rows"] += counts["read"]
        actor["seconds"] += counts["seconds"]


def _model(options):
    """Returns what identifies the model's files: sizes and times, as `leyden batch` does it."""
    for name in ("--model", "-m"):
        if name in options[:-1]:
            path = options[options.index(name) + 1]
            files = [path] if os.path.isfile(path) else []
            if os.path.isdir(path):
                files = sorted(os.path.join(path, name) for name in os.listdir(path))
            return [path, *([os.path.basename(f), os.stat(f).st_size, os.stat(f).st_mtime_ns] for f in files)]
    return None


class Rows:
    """Callable class for `ray.data.Dataset.map_batches(..., batch_format="pyarrow")`: adds the results to the rows of a batch.

    A batch is one run of `leyden batch`, so take batches that compute for many times the load of the model. Results are those of
    `leyden batch`; a row that fails has the column `error`, which is null for the others. Whether a batch is computed twice after a
    loss, and which of both counts, is Ray Data's matter.
    """

    def __init__(self, options, threads=1, program=None):
        self.engine = Engine(options, threads, program)

    def __call__(self, table):
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        with tempfile.TemporaryDirectory(prefix="leyden-ray-") as folder:
            source, made = os.path.join(folder, "in.parquet"), os.path.join(folder, "out.parquet")
            parquet.write_table(table, source)
            self.engine.compute(source, made)
            result = parquet.read_table(made)
        if result.num_rows != table.num_rows:
            raise LeydenError(f"leyden batch gave {result.num_rows} rows for {table.num_rows}")
        if "error" not in result.column_names:
            result = result.append_column("error", arrow.nulls(result.num_rows, arrow.string()))
        return result
