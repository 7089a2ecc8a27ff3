"""Makes the Parquet files in data/ and data/parquet.json, which has their rows as pyarrow reads them.

Needs pyarrow, polars and duckdb; run in this folder.
"""

import datetime
import decimal
import json
import pathlib

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

data = pathlib.Path("data")
n = 40
columns = {
    "id": pa.array(range(n), pa.int64()),
    "text": pa.array([None if i % 7 == 3 else f"text {i % 5} ä" for i in range(n)]),
    "flag": pa.array([None if i % 11 == 5 else i % 3 == 0 for i in range(n)]),
    "small": pa.array([i - 20 for i in range(n)], pa.int8()),
    "unsigned": pa.array([4294967295 - i for i in range(n)], pa.uint32()),
    "huge": pa.array([18446744073709551615 - i for i in range(n)], pa.uint64()),
    "float": pa.array([i / 4 for i in range(n)], pa.float32()),
    "double": pa.array([None if i % 4 == 0 else i / 3 for i in range(n)], pa.float64()),
    "half": pa.array([i / 8 for i in range(n)], pa.float16()),
    "day": pa.array([datetime.date(1969, 12, 30) + datetime.timedelta(days=i) for i in range(n)]),
    "at": pa.array([datetime.datetime(2020, 2, 29, 1, 2, 3, 500000 + i) for i in range(n)], pa.timestamp("us")),
    "price": pa.array([decimal.Decimal(i - 20) / 100 for i in range(n)], pa.decimal128(12, 2)),
    "empty": pa.nulls(n),
}
nested = {
    "id": columns["id"],
    "words": pa.array([None if i % 5 == 4 else [f"w{k}" if k else None for k in range(i % 4)] for i in range(n)],
                      pa.list_(pa.string())),
    "vector": pa.array([[i / 2, -1.0] for i in range(n)], pa.list_(pa.float32())),
    "choices": pa.array([{"text": [f"a{i}", "b"], "label": ["A", "B"]} if i % 6 else None for i in range(n)],
                        pa.struct([("text", pa.list_(pa.string())), ("label", pa.list_(pa.string()))])),
    "deep": pa.array([[[i, None], []] if i % 3 else [] for i in range(n)], pa.list_(pa.list_(pa.int32()))),
    "map": pa.array([[("k", i), ("l", None)][: i % 3] for i in range(n)], pa.map_(pa.string(), pa.int64())),
}
plain = pa.table({k: columns[k] for k in ("id", "text", "flag", "double")})
pq.write_table(pa.table(columns), data / "snappy.parquet", row_group_size=16)
pq.write_table(pa.table(columns), data / "zstd-v2.parquet", compression="zstd", data_page_version="2.0", version="2.6")
pq.write_table(pa.table(nested), data / "nested.parquet", compression="gzip", row_group_size=25)
pq.write_table(pa.table(nested), data / "nested-v2.parquet", compression="none", data_page_version="2.0", use_dictionary=False)
delta = {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "flag": "RLE", "double": "BYTE_STREAM_SPLIT"}
pq.write_table(plain, data / "delta.parquet", use_dictionary=False, column_encoding=delta, data_page_version="2.0")
lengths = {"id": "DELTA_BINARY_PACKED", "text": "DELTA_LENGTH_BYTE_ARRAY", "flag": "PLAIN", "double": "PLAIN"}
pq.write_table(plain, data / "lengths.parquet", use_dictionary=False, column_encoding=lengths)
pq.write_table(plain, data / "int96.parquet", compression="brotli")
polars.from_arrow(plain).write_parquet(data / "polars.parquet")
duckdb.sql("select * from plain").write_parquet(str(data / "duckdb.parquet"))


def shown(value):
    """A value as leyden shows it."""
    if isinstance(value, datetime.datetime):
        return value.isoformat().rstrip("0").rstrip(".") if value.microsecond else value.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return f"{value:.2f}"
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, list):
        return dict(value) if value and isinstance(value[0], tuple) else [shown(v) for v in value]
    return value


(data / "int96.parquet").rename(data / "brotli.parquet")
rows = {}
for file in sorted(data.glob("*.parquet")):
    found = pq.read_table(file).to_pylist()
    if file.name.startswith("nested"):
        for row in found:
            row["map"] = dict(row["map"])
    rows[file.name] = [shown(row) for row in found]
(data / "parquet.json").write_text(json.dumps(rows))
