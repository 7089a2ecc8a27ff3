//! `leyden run-onnx`, and `leyden inspect` of graphs.

use crate::program::{Files, leyden};
use leyden_testkit::protobuf::{bytes, number};
use serde_json::json;

/// A graph of one node that adds `x` of shape `[b, 2]` to the constants 10 and 20.
fn graph(operator: &str) -> Vec<u8> {
    let node = [bytes(1, "x"), bytes(1, "w"), bytes(2, "y"), bytes(3, "sum"), bytes(4, operator)].concat();
    let floats = [10.0_f32, 20.0].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let constant = [number(1, 2), number(2, 1), bytes(8, "w"), bytes(9, floats)].concat();
    let value = |name: &str| {
        let dims = [bytes(1, bytes(2, "b")), bytes(1, number(1, 2))].concat();
        [bytes(1, name), bytes(2, bytes(1, [number(1, 1), bytes(2, dims)].concat()))].concat()
    };
    let graph = [bytes(1, node), bytes(5, constant), bytes(11, value("x")), bytes(12, value("y"))].concat();
    [number(1, 8), bytes(7, graph), bytes(8, number(2, 17))].concat()
}

#[test]
fn outputs_of_a_graph() {
    let files = Files::new();
    let model = files.add("m.onnx", &graph("Add"));
    let input = format!("x={}", files.add("x.json", b"[[1, 2.5]]"));
    let found = leyden(&["run-onnx", &model, "--input", &input, "--json"]).json();
    assert_eq!(
        found,
        json!({ "outputs": { "y": { "type": "F32", "shape": [1, 2], "data": [11.0, 22.5] } } })
    );
    let traced = leyden(&["run-onnx", &model, "-i", &input, "--trace", "-t", "2"]);
    assert_eq!((traced.code, traced.out.as_str()), (Some(0), "y: F32 [1,2]: 11.0, 22.5\n"));
    assert!(traced.err.starts_with("operator") && traced.err.contains("\nAdd "), "{}", traced.err);
}

#[test]
fn wrong_inputs_are_named() {
    let files = Files::new();
    let model = files.add("m.onnx", &graph("Add"));
    let wide = format!("x={}", files.add("x.json", b"[[1, 2, 3]]"));
    let error = leyden(&["run-onnx", &model, "--input", &wide]).failed(1);
    assert!(error.contains("x (input): has shape [1, 3] where [b, 2] should be"), "{error}");
    let error = leyden(&["run-onnx", &model]).failed(2);
    assert!(
        error.contains("input `x` is not given") && error.contains("hint: add --input NAME=FILE"),
        "{error}"
    );
    let error = leyden(&["run-onnx", &model, "--input", "z=x.npy"]).failed(2);
    assert!(error.contains("--input z=x.npy: the model has no such input"), "{error}");
    let text = format!("x={}", files.add("x.txt", b"1"));
    let error = leyden(&["run-onnx", &model, "--input", &text]).failed(1);
    assert!(error.contains("files of kind `txt` are not read; use .npy, .json, .png or .jpg"), "{error}");
}

#[test]
fn missing_operators_are_named_before_anything_runs() {
    let files = Files::new();
    let model = files.add("m.onnx", &graph("Frobnicate"));
    let error = leyden(&["run-onnx", &model]).failed(1);
    assert!(
        error.contains("operators that are not supported: Frobnicate (operator set 17; node `sum`)"),
        "{error}"
    );
    let shown = leyden(&["inspect", &model]).ok();
    assert!(shown.contains("not supported: operators Frobnicate"), "{shown}");
    let json = leyden(&["inspect", &model, "--json"]).json();
    assert_eq!(json["missing_operators"], json!(["Frobnicate"]));
    assert_eq!(json["inputs"], json!([{ "name": "x", "type": "F32", "shape": ["b", "2"] }]));
}
