//! `leyden report`, and the pages of commands that report.

use crate::program::{Files, STORYTELLER, leyden, leyden_with_input};

#[test]
fn a_run_has_the_same_page_from_its_json() {
    let files = Files::new();
    let (page, document) = (files.path("bench.html"), files.path("bench.json"));
    let bench = ["bench", STORYTELLER, "-p", "16", "-n", "4,8", "-r", "2", "--no-ceilings", "--json"];
    let written = leyden(&[&bench[..], &["--report", &page]].concat());
    assert_eq!(written.code, Some(0), "{written:?}");
    let about = &serde_json::from_str::<serde_json::Value>(&written.out).unwrap()["about"];
    let command = about["command"].as_str().unwrap();
    assert!(command.starts_with("leyden bench ") && command.contains(" --json --report "), "{command}");
    assert!(
        about["program"].as_str().unwrap().starts_with("leyden ")
            && about["date"].as_str().unwrap().ends_with('Z')
    );
    let html = std::fs::read_to_string(&page).unwrap();
    for text in ["<!doctype html>", "pp16", "tg8", "Answers by length", "leyden bench ", "To repeat"] {
        assert!(html.contains(text), "{text}");
    }
    std::fs::write(&document, &written.out).unwrap();
    leyden(&["report", &document, "-o", &page]).ok();
    assert_eq!(std::fs::read_to_string(&page).unwrap(), html);
    // To standard output, from standard input.
    assert_eq!(leyden_with_input(&["report", "-"], written.out.as_bytes()).out, html);
}

#[test]
fn runs_stand_beside_each_other() {
    let files = Files::new();
    let plan = |machine: &str| {
        let document = leyden(&["plan", STORYTELLER, "--on", machine, "--json"]).ok();
        files.add(&format!("{machine}.json"), document.as_bytes())
    };
    let (first, second, page) = (plan("c7g.metal"), plan("c7i.4xlarge"), files.path("both.html"));
    leyden(&["report", &first, &second, "-o", &page]).ok();
    let html = std::fs::read_to_string(&page).unwrap();
    for text in ["2 runs of leyden plan", "c7g.metal.json", "c7i.4xlarge.json", "B – A", "<svg"] {
        assert!(html.contains(text), "{text}");
    }
    // Machines of one document have a page too.
    let page = files.path("machines.html");
    leyden(&["plan", STORYTELLER, "--compare", "c7g.metal,c7i.4xlarge", "--report", &page]).ok();
    assert!(std::fs::read_to_string(&page).unwrap().contains("Machines for"));
}

#[test]
fn files_that_have_no_page_are_named() {
    let files = Files::new();
    let plan =
        files.add("plan.json", leyden(&["plan", STORYTELLER, "--on", "c7g.metal", "--json"]).ok().as_bytes());
    let other = files.add("other.json", b"{\"tests\": []}");
    let (none, text) = (files.path("none.json"), files.add("text.json", b"once upon a time"));
    for (arguments, code, wanted) in [
        (&[&none][..], 1, "none.json: cannot read"),
        (&[&text], 1, "text.json: is no JSON"),
        (&[&other], 1, "other.json: `tests`: is empty"),
        (
            &[&plan, &plan, &plan, &plan, &plan, &plan, &plan, &plan, &plan],
            2,
            "9 files: a page has at most 8 runs",
        ),
        (&[&plan, &"-o".to_owned(), &plan], 2, "this is the input"),
    ] {
        let arguments: Vec<&str> =
            std::iter::once("report").chain(arguments.iter().map(|a| a.as_str())).collect();
        let told = leyden(&arguments).failed(code);
        assert!(told.contains(wanted), "{told}");
    }
}
