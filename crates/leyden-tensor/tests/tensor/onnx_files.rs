//! ONNX models: real ones, ones made here field by field, and damaged ones.

use leyden_tensor::{DType, Onnx, OnnxAttribute, OnnxDim, WeightSource, quant};
use leyden_testkit::protobuf::{bytes, number, varint};
use leyden_testkit::shared;
use std::collections::BTreeMap;
use std::path::Path;

fn tensor(name: &str, kind: u64, dims: &[u64], rest: &[u8]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|dim| number(1, *dim)).collect::<Vec<_>>();
    [dims, number(2, kind), bytes(8, name), rest.to_vec()].concat()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut node = Vec::new();
    inputs.iter().for_each(|name| node.extend(bytes(1, name)));
    outputs.iter().for_each(|name| node.extend(bytes(2, name)));
    node.extend(bytes(3, format!("the {op}")));
    node.extend(bytes(4, op));
    attributes.iter().for_each(|attribute| node.extend(bytes(5, attribute)));
    node
}

fn value(name: &str) -> Vec<u8> {
    let dims = [bytes(1, bytes(2, "batch")), bytes(1, number(1, 2))].concat();
    let ty = bytes(1, [number(1, 1), bytes(2, dims)].concat());
    [bytes(1, name), bytes(2, ty)].concat()
}

/// A graph from its nodes, initialisers, and names of inputs and outputs.
fn graph(nodes: &[Vec<u8>], tensors: &[Vec<u8>], inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let mut graph = bytes(2, "g");
    nodes.iter().for_each(|node| graph.extend(bytes(1, node)));
    tensors.iter().for_each(|tensor| graph.extend(bytes(5, tensor)));
    inputs.iter().for_each(|name| graph.extend(bytes(11, value(name))));
    outputs.iter().for_each(|name| graph.extend(bytes(12, value(name))));
    graph
}

fn model(graph: &[u8]) -> Vec<u8> {
    let opset = [bytes(1, ""), number(2, 17)].concat();
    [number(1, 8), bytes(2, "tests"), bytes(7, graph), bytes(8, opset)].concat()
}

fn error(graph: &[u8]) -> String {
    Onnx::from_vec(model(graph), "m.onnx").map(|_| ()).unwrap_err().to_string()
}

/// `y = x * w + b`, where nodes are out of order and weights are stored in every way.
fn small() -> Vec<u8> {
    let packed = |field, values: &[u8]| bytes(field, values);
    let alpha = [bytes(1, "alpha"), [varint(2 << 3 | 5), floats(&[0.5])].concat(), number(20, 1)].concat();
    let perm = [bytes(1, "perm"), packed(8, &[1, 0]), number(20, 7)].concat();
    let t = tensor("", 1, &[], &bytes(9, floats(&[7.0])));
    let constant = [bytes(1, "value"), bytes(5, t), number(20, 4)].concat();
    let branch = graph(&[node("Identity", &["xw"], &["inner"], &[])], &[], &[], &["inner"]);
    let branch = [bytes(1, "then_branch"), bytes(6, branch), number(20, 5)].concat();
    graph(
        &[
            node("Add", &["xw", "b"], &["sum"], &[alpha]),
            node("MatMul", &["x", "w"], &["xw"], &[]),
            node("Constant", &[], &["seven"], &[constant]),
            node("Transpose", &["sum"], &["turned"], &[perm]),
            node("If", &["seven"], &["y"], &[branch]),
        ],
        &[
            tensor("w", 1, &[2, 2], &bytes(9, floats(&[1.0, 2.0, 3.0, 4.0]))),
            tensor("b", 1, &[2], &packed(4, &floats(&[5.0, 6.0]))),
            tensor("i8", 3, &[3], &packed(5, &[varint(1), varint(u64::MAX), varint(127)].concat())),
            tensor("i64", 7, &[2], &[number(7, 3), number(7, u64::MAX)].concat()),
            tensor("f16", 10, &[1], &packed(5, &varint(0x3c00))),
            tensor("halves", 22, &[3], &bytes(9, [0x21, 0x03])),
            tensor("none", 7, &[0], &[]),
        ],
        &["x"],
        &["y", "turned"],
    )
}

#[test]
fn a_model_is_read_as_it_was_written() {
    let file = Onnx::from_vec(model(&small()), "m.onnx").unwrap();
    let ops: Vec<&str> = file.graph().nodes.iter().map(|node| node.op.as_str()).collect();
    assert_eq!(ops, ["MatMul", "Add", "Constant", "Transpose", "If"], "each finds its inputs computed");
    let add = &file.graph().nodes[1];
    assert_eq!((add.name.as_str(), add.float("alpha"), add.int("alpha")), ("the Add", Some(0.5), None));
    assert_eq!(file.graph().nodes[3].ints("perm"), Some(&[1, 0][..]));
    let seven = file.graph().nodes[2].tensor("value").unwrap();
    assert_eq!((seven.info.type_name, seven.bytes.as_slice()), ("F32", &7_f32.to_le_bytes()[..]));
    assert!(matches!(file.graph().nodes[4].attribute("then_branch"), Some(OnnxAttribute::Graph(_))));
    assert_eq!((file.opset(""), file.opset("com.microsoft")), (Some(17), None));
    let input = &file.graph().inputs[0];
    assert_eq!(input.type_name, Some("F32"));
    assert_eq!(input.shape, Some(vec![OnnxDim::Named("batch".into()), OnnxDim::Size(2)]));
    let w = file.require("w").unwrap();
    assert_eq!(
        (w.dtype(), w.shape(), w.bytes()),
        (DType::F32, &[2, 2][..], &floats(&[1.0, 2.0, 3.0, 4.0])[..])
    );
    let mut half = [0.0];
    quant::decode_row(DType::F16, file.require("f16").unwrap().bytes(), &mut half);
    assert_eq!((file.require("b").unwrap().bytes(), half), (&floats(&[5.0, 6.0])[..], [1.0]));
    let raw = |name: &str| file.raw(name).map(|(info, bytes)| (info.type_name, bytes.to_vec())).unwrap();
    assert_eq!(raw("i8"), ("I8", vec![1, 0xff, 127]));
    assert_eq!(raw("i64").1, [3_i64.to_le_bytes(), (-1_i64).to_le_bytes()].concat());
    assert_eq!((raw("halves"), raw("none").1), (("I4", vec![0x21, 0x03]), vec![]));
    let refused = file.require("i8").unwrap_err().to_string();
    assert_eq!(refused, "m.onnx: i8: tensor type I8 (24) is not supported");
}

#[test]
fn real_graphs_are_read_whole() {
    let Some(listing) = shared("data/ONNXINFO.txt") else { return };
    let listing = std::fs::read_to_string(listing).unwrap();
    let mut seen = 0;
    for part in listing.split("## ").skip(1) {
        let mut lines = part.lines();
        let path = lines.next().unwrap();
        let Some(file) = Path::new("../../../shared/data")
            .join(path)
            .exists()
            .then(|| shared(&format!("data/{path}")))
            .flatten()
        else {
            continue;
        };
        let ops = lines.find_map(|line| line.strip_prefix("  ops ")).unwrap();
        let want: BTreeMap<String, usize> = serde_json::from_str(&ops.replace('\'', "\"")).unwrap();
        let model = Onnx::open(&file).unwrap();
        let mut got = BTreeMap::new();
        model.graph().nodes.iter().for_each(|node| *got.entry(node.op.clone()).or_insert(0) += 1);
        assert_eq!(got, want, "{path}");
        assert!(model.opset("").or(model.opset("ai.onnx.ml")).is_some(), "{path}");
        model.check_intact().unwrap();
        seen += 1;
    }
    assert!(seen >= 15, "{seen} of the listed models");
    let Some(folder) = shared("data/vision/mnist") else { return };
    let whole = Onnx::open(&folder.join("mnist.onnx")).unwrap();
    let beside = Onnx::open(&folder.join("mnist-external/mnist.onnx")).unwrap();
    assert_eq!(beside.paths().len(), 2);
    for name in whole.tensor_names() {
        let (info, values) = whole.raw(name).unwrap();
        assert_eq!(beside.raw(name).map(|found| found.0.shape.clone()), Some(info.shape.clone()), "{name}");
        assert_eq!(values.len(), info.bytes);
    }
}

#[test]
fn tensors_beside_the_model_lie_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let entry = |key: &str, value: &str| bytes(13, [bytes(1, key), bytes(2, value)].concat());
    let with = |location: &str, offset: &str, length: &str| {
        let rest =
            [entry("location", location), entry("offset", offset), entry("length", length), number(14, 1)];
        let w = tensor("w", 1, &[2], &rest.concat());
        std::fs::write(folder.path().join("model.onnx"), model(&graph(&[], &[w], &[], &[]))).unwrap();
        Onnx::open(&folder.path().join("model.onnx")).map_err(|e| e.to_string())
    };
    std::fs::write(folder.path().join("model.onnx_data"), [floats(&[0.0; 16]), floats(&[1.0, 2.0])].concat())
        .unwrap();
    let file = with("model.onnx_data", "64", "8").unwrap();
    assert_eq!(file.require("w").unwrap().bytes(), floats(&[1.0, 2.0]));
    file.advise_willneed("w");
    file.advise_dontneed("w", 0..usize::MAX);
    assert_eq!(file.file_metadata().unwrap().len(), 2);
    for (location, offset, length, wanted) in [
        ("../secret", "0", "8", "is not a plain name"),
        ("/etc/passwd", "0", "8", "is not a plain name"),
        ("a/b", "0", "8", "is not a plain name"),
        ("..", "0", "8", "is not a plain name"),
        ("", "0", "8", "is not a plain name"),
        ("missing", "0", "8", "cannot open"),
        ("model.onnx_data", "65", "8", "data ends at byte 73"),
        ("model.onnx_data", "18446744073709551615", "8", "beyond the address space"),
        ("model.onnx_data", "x", "8", "offset `x` is not a number"),
        ("model.onnx_data", "0", "12", "12 bytes given"),
    ] {
        let error = with(location, offset, length).unwrap_err();
        assert!(error.contains(wanted), "{location}: {error}");
        assert!(location == "missing" || error.contains("w: "), "{error}");
    }
    // A model in memory has no folder.
    let w = tensor("w", 1, &[2], &[entry("location", "model.onnx_data"), number(14, 1)].concat());
    assert!(error(&graph(&[], &[w], &[], &[])).contains("a model in memory has no folder"));
}

#[test]
fn what_is_wrong_is_named() {
    let w = || tensor("w", 1, &[2, 2], &bytes(9, floats(&[1.0; 4])));
    let plain = |inputs: &[&str]| node("MatMul", inputs, &["y"], &[]);
    let deep = (0..20).fold(graph(&[], &[], &[], &[]), |inner, _| {
        let body = [bytes(1, "body"), bytes(6, inner), number(20, 5)].concat();
        graph(&[node("Loop", &[], &[], &[body])], &[], &[], &[])
    });
    for (graph, wanted) in [
        (graph(&[plain(&["x", "v"])], &[w()], &["x"], &["y"]), "m.onnx: the MatMul: input `v` is neither"),
        (graph(&[plain(&["y", "w"])], &[w()], &[], &["y"]), "the MatMul: depends on its own result"),
        (
            graph(&[node("A", &["b"], &["a"], &[]), node("B", &["a"], &["b"], &[])], &[], &[], &["a"]),
            "the A: depends on its own result: the graph has a cycle",
        ),
        (
            graph(&[plain(&["w"]), plain(&["w"])], &[w()], &[], &["y"]),
            "output `y` has the name of another value",
        ),
        (graph(&[], &[w()], &[], &["y"]), "y: no node computes this output"),
        (graph(&[], &[w(), w()], &[], &[]), "w: tensor appears twice"),
        (
            graph(&[], &[tensor("w", 1, &[2, 3], &bytes(9, floats(&[1.0; 4])))], &[], &[]),
            "w: 16 bytes given, type and shape need 24",
        ),
        (graph(&[], &[tensor("w", 1, &[1 << 40, 1 << 40], &[])], &[], &[]), "w: dimensions"),
        (graph(&[], &[tensor("w", 1, &[u64::MAX], &[])], &[], &[]), "w: dimensions"),
        (graph(&[], &[tensor("w", 1, &[1; 9], &[])], &[], &[]), "number of dimensions is 9"),
        (
            graph(&[], &[tensor("w", 8, &[2], &bytes(6, "text"))], &[], &[]),
            "w: has 1 texts where 2 should be",
        ),
        (graph(&[], &[tensor("w", 99, &[1], &[])], &[], &[]), "w: tensor type 99 is unknown"),
        (graph(&[], &[tensor("w", 3, &[1], &bytes(5, varint(300)))], &[], &[]), "w: has the value 300"),
        (
            graph(&[], &[tensor("w", 1, &[1], &bytes(5, varint(3)))], &[], &[]),
            "values in the field of another",
        ),
        (graph(&[], &[tensor("", 1, &[0], &[])], &[], &[]), "name is empty"),
        (graph(&[node("", &[], &["y"], &[])], &[], &[], &[]), "op_type is empty"),
        (deep, "graphs are nested more than 8 deep"),
        (bytes(15, ""), "sparse initialisers are not supported"),
    ] {
        let error = error(&graph);
        assert!(error.contains(wanted), "{error}, not {wanted}");
    }
    for (file, wanted) in [
        (&b""[..], "there is no graph, it looks like an empty file"),
        (b"GGUF\x03\0\0\0", "it looks like a GGUF file"),
        (b"\x08\x08", "there is no graph"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
    ] {
        let error = Onnx::from_vec(file.to_vec(), "m.onnx").unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
