"""Units of files, and the state folder. Without Ray."""

import json

import pytest

from leyden_ray.checkpoint import State
from leyden_ray.errors import LeydenError
from leyden_ray.units import divide, extract


def pieces(path, units, folder):
    out = []
    for unit in units:
        extract(path, unit, folder / "piece.jsonl")
        out.append((folder / "piece.jsonl").read_bytes())
    return out


@pytest.mark.parametrize("content", [b"", b"a\n", b"a", b"a\nb\nc", b"a\n\n\nb\n", b"x" * (3 << 20) + b"\nb\n"])
@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_units_of_lines_are_the_file(tmp_path, content, rows):
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    units = divide(path, rows)
    parts = pieces(path, units, tmp_path)
    assert b"".join(parts) == content
    assert all(len(part.splitlines()) == unit.rows <= rows for part, unit in zip(parts, units))
    assert divide(path, rows) == units


def test_a_changed_unit_is_refused(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    units = divide(path, 2)
    path.write_bytes(b"one\nTWO\nthree\n")
    with pytest.raises(LeydenError, match="unit 0 is not what it was"):
        extract(path, units[0], tmp_path / "piece.jsonl")
    path.write_bytes(b"one\n")
    with pytest.raises(LeydenError, match="unit 1"):
        extract(path, units[1], tmp_path / "piece.jsonl")


def test_units_of_a_table_are_its_rows(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "in.parquet"
    parquet.write_table(arrow.table({"n": list(range(10))}), path, row_group_size=4)
    found = []
    for unit in divide(path, 3):
        extract(path, unit, tmp_path / "piece.parquet")
        found.append(parquet.read_table(tmp_path / "piece.parquet")["n"].to_pylist())
    assert found == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


@pytest.mark.parametrize("name, message", [("in.csv", "divides .jsonl"), ("none.jsonl", "no such file"), ("bad.parquet", "bad.parquet")])
def test_files_that_are_refused(tmp_path, name, message):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    with pytest.raises(LeydenError, match=message):
        divide(tmp_path / name, 2)


def test_the_state_counts_a_unit_once_and_refuses_other_runs(tmp_path):
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(b"1\n2\n3\n")
    units, state = divide(path, 2), State(out)
    state.begin({"options": ["a"]}, restart=False)
    made = tmp_path / "made.jsonl"
    for unit, content in zip(units, (b"first\n", b"second\n")):
        made.write_bytes(content)
        assert state.counts(unit) is None
        for _ in range(2):
            state.commit(unit, made, {"read": 1})
        assert state.counts(unit) == {"read": 1}
    assert sorted(p.suffix for p in state.folder.iterdir()) == [".json", ".json", ".json", ".jsonl", ".jsonl"]
    with pytest.raises(LeydenError, match="differs in options"):
        State(out).begin({"options": ["b"]}, restart=False)
    State(out).begin({"options": ["a"]}, restart=False)
    state.join(units)
    assert out.read_bytes() == b"first\nsecond\n" and not state.folder.exists()
    with pytest.raises(LeydenError, match="is there already"):
        State(out).begin({"options": ["a"]}, restart=False)
    State(out).begin({"options": ["a"]}, restart=True)
    assert json.loads((state.folder / "run.json").read_text())["options"] == ["a"]


def test_a_result_without_its_counts_is_not_finished(tmp_path):
    path, state = tmp_path / "in.jsonl", State(tmp_path / "out.jsonl")
    path.write_bytes(b"1\n")
    (unit,) = divide(path, 1)
    state.begin({}, restart=False)
    state.result(unit).write_bytes(b"x\n")
    assert state.counts(unit) is None


def test_tables_are_joined_although_only_some_have_errors(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, state = tmp_path / "in.parquet", State(tmp_path / "out.parquet")
    parquet.write_table(arrow.table({"n": [1, 2, 3]}), path)
    units = divide(path, 2)
    state.begin({}, restart=False)
    made = tmp_path / "made.parquet"
    for unit, table in zip(units, ({"n": [1, 2], "score": [0.5, 1.0]}, {"n": [3], "error": ["too long"]})):
        parquet.write_table(arrow.table(table), made)
        state.commit(unit, made, {"read": table["n"]})
    state.join(units)
    rows = parquet.read_table(state.output).to_pylist()
    assert rows == [{"n": 1, "score": 0.5, "error": None}, {"n": 2, "score": 1.0, "error": None}, {"n": 3, "score": None, "error": "too long"}]
    State(tmp_path / "empty.parquet").begin({}, restart=False)
    State(tmp_path / "empty.parquet").join([])
    assert parquet.read_table(tmp_path / "empty.parquet").num_rows == 0
