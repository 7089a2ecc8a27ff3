//! Predictions of all recorded measurements, with bounds on their errors: a change of a constant is noticed.

use leyden_plan::{Grade, KernelClass, Kind, grades, summary};
use std::fs;
use std::path::Path;

/// Class, kind, most that the median and the worst absolute error may be.
const BOUNDS: &[(KernelClass, Kind, f64, f64)] = &[
    (KernelClass::Avx2, Kind::Prefill, 0.05, 0.12),
    (KernelClass::Avx2, Kind::Decode, 0.07, 0.21),
    (KernelClass::Avx2, Kind::Together, 0.05, 0.06),
    (KernelClass::Avx512Amd, Kind::Prefill, 0.05, 0.10),
    (KernelClass::Avx512Amd, Kind::Decode, 0.09, 0.27),
    (KernelClass::Avx512Amd, Kind::Together, 0.20, 0.20),
    (KernelClass::Avx512Amd, Kind::Encoder, 0.08, 0.15),
    (KernelClass::Avx512Intel, Kind::Prefill, 0.05, 0.17),
    (KernelClass::Avx512Intel, Kind::Decode, 0.05, 0.10),
    // Measured with an older version than the other tests of the machine.
    (KernelClass::Avx512Intel, Kind::Together, 0.40, 0.40),
    // The worst are of a machine on which four models ran at once.
    (KernelClass::Amx, Kind::Prefill, 0.06, 0.50),
    (KernelClass::Amx, Kind::Decode, 0.08, 0.24),
    (KernelClass::Amx, Kind::Together, 0.08, 0.23),
];

#[test]
fn errors_are_bounded() {
    let all = grades().unwrap();
    assert!(all.len() > 100, "{}", all.len());
    let mut failures = Vec::new();
    for grade in &all {
        let Grade { folder, model, types, test, measured, predicted, .. } = grade;
        let error = grade.error() * 100.0;
        eprintln!("{folder:16} {model:12} {types:7} {test:28} {measured:8.1} {predicted:8.1} {error:+6.1} %");
    }
    for class in KernelClass::all().filter(|class| class.is_graded()) {
        for kind in [Kind::Prefill, Kind::Decode, Kind::Together, Kind::Encoder] {
            let Some(s) = summary(&all, class, kind).filter(|s| s.same_class) else { continue };
            eprintln!(
                "{:18} {kind:?}: {} of median {:.3}, worst {:.3}",
                class.name(),
                s.count,
                s.median_error,
                s.worst_error
            );
            let bound = BOUNDS.iter().find(|b| (b.0, b.1) == (class, kind));
            match bound {
                Some(b) if s.median_error <= b.2 && s.worst_error <= b.3 => {}
                Some(_) => failures.push(format!("{} {kind:?}: {s:?}", class.name())),
                None => failures.push(format!("{} {kind:?} has no bound", class.name())),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Every machine with results is graded by its newest ones.
#[test]
fn the_newest_results_are_graded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/recorded.rs")).unwrap();
    for folder in fs::read_dir(root).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        if name == "serving" {
            continue;
        }
        let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        let newest = files.max().unwrap().into_string().unwrap();
        assert!(source.contains(&format!("bench/results/{name}/{newest}")), "{name}/{newest} is not graded");
    }
}
