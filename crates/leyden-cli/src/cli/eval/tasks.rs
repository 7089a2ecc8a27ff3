//! How questions are answered: tasks that are known by name, and the user's own.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden::Model;
use leyden_eval::{Bar, Outcome, Page, Paired, Score, State, Suite, Task, fingerprint};
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::{model_file, text};
use super::{Args, Watcher};

/// A task and the file of its data.
#[derive(Clone, Debug)]
pub(super) struct Named {
    task: Task,
    file: Option<PathBuf>,
}

/// NAME or NAME=FILE.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let (name, file) = text.split_once('=').map_or((text, None), |(name, file)| (name, Some(file)));
    let known = || Task::all().map(|task| task.name()).collect::<Vec<_>>().join(", ");
    let task = Task::from_name(name).ok_or_else(|| format!("known tasks: {}", known()))?;
    Ok(Named { task, file: file.map(PathBuf::from) })
}

/// One suite's results.
struct Result_ {
    suite: Suite,
    scores: Vec<Score>,
    reference: Option<(Vec<Score>, Vec<Paired>)>,
}

/// Asks and prints.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let (suites, mut of) = suites(args)?;
    let path = model_file::locate(&args.model)?;
    of.insert(0, format!("model {}", fingerprint(&path)?));
    let reference = args.reference.as_deref().map(model_file::locate).transpose()?;
    // The reference is another part of the same state, so it may be added later.
    let of_reference = reference.as_deref().map(fingerprint).transpose()?;
    let mut state = match &args.state {
        Some(file) => State::open(file, of)?,
        None => State { of, outcomes: BTreeMap::new() },
    };
    let watcher = Watcher::new()?;
    let start = Instant::now();
    let model = args.load(&args.model)?;
    ask(args, &model, &suites, "model", &mut state, &watcher)?;
    drop(model);
    if let (Some(path), Some(print)) = (&reference, &of_reference) {
        let model = args.load(path)?;
        ask(args, &model, &suites, &format!("reference {print}"), &mut state, &watcher)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let outcomes = |who: &str, i: usize, suite: &Suite| -> Vec<Outcome> {
        state.outcomes.get(&key(who, i, suite)).cloned().unwrap_or_default()
    };
    let result = |(i, suite): (usize, Suite)| {
        let own = outcomes("model", i, &suite);
        let reference = of_reference.as_ref().map(|print| {
            let other = outcomes(&format!("reference {print}"), i, &suite);
            (suite.scores(&other), suite.paired(&own, &other, args.seed))
        });
        Result_ { scores: suite.scores(&own), reference, suite }
    };
    let results: Vec<Result_> = suites.into_iter().enumerate().map(result).collect();
    let verdict = args.floor.map(|floor| verdict(floor, &results));
    if let Some(file) = &args.report {
        page(args, &path, &results, verdict.as_ref(), seconds).write(file)?;
    }
    if args.json {
        serde_json::to_writer(&mut *out, &document(args, &path, &results, verdict.as_ref(), seconds))?;
        writeln!(out)?;
    } else {
        print(&results, seconds, out)?;
        if let Some((_, words)) = &verdict {
            writeln!(out, "{words}")?;
        }
    }
    match verdict {
        Some((false, words)) => Err(Failure::new(words)),
        _ => Ok(()),
    }
}

/// What is asked, and what that is of.
fn suites(args: &Args) -> Result<(Vec<Suite>, Vec<String>), Failure> {
    let (mut suites, mut of) = (Vec::new(), Vec::new());
    for Named { task, file } in &args.task {
        let file = match (file, &args.task_data) {
            (Some(file), _) => file.clone(),
            (None, Some(folder)) => found(folder, task.name())?,
            (None, None) => {
                let message = format!("--task {}: where is its data?", task.name());
                return Err(Failure::usage(message).hint(format!(
                    "--task {}=FILE, or --task-data FOLDER with {}.jsonl: the published data as JSON lines",
                    task.name(),
                    task.name()
                )));
            }
        };
        let shots = args.shots.unwrap_or(task.shots());
        suites.push(Suite::of_task(task, &file, args.shots_data.as_deref(), shots, args.limit)?);
        of.push(format!("task {} {shots} {}", task.name(), fingerprint(&file)?));
    }
    for file in &args.data {
        suites.push(Suite::of_file(file, args.limit)?);
        of.push(format!("data {}", fingerprint(file)?));
    }
    if let Some(file) = &args.shots_data {
        of.push(format!("examples {}", fingerprint(file)?));
    }
    of.push(format!("limit {:?}, {:?}", args.limit, args.kv_type));
    Ok((suites, of))
}

fn found(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let places = ["jsonl", "json"].map(|ending| folder.join(name).with_extension(ending));
    let found = places.iter().find(|place| place.is_file()).cloned();
    found.ok_or_else(|| Failure::new(format!("{}: no {name}.jsonl there", folder.display())))
}

/// Under what a suite's outcomes are kept: its place too, as two may have one name.
fn key(who: &str, i: usize, suite: &Suite) -> String {
    format!("{who} {i} {}", suite.name)
}

/// Asks all questions whose outcomes are not known yet.
fn ask(
    args: &Args,
    model: &Model,
    suites: &[Suite],
    who: &str,
    state: &mut State,
    watcher: &Watcher,
) -> Result<(), Failure> {
    for (i, suite) in suites.iter().enumerate() {
        let key = key(who, i, suite);
        let mut outcomes = state.outcomes.remove(&key).unwrap_or_default();
        let mut keep = |outcomes: &[Outcome]| match &args.state {
            Some(file) => {
                state.outcomes.insert(key.clone(), outcomes.to_vec());
                state.save(file)
            }
            None => Ok(()),
        };
        let mut watch = |progress: leyden_eval::Progress<'_>| watcher.hear(&progress);
        suite.run(model, args.kv_type, &mut outcomes, &mut keep, &mut watch)?;
        state.outcomes.insert(key, outcomes);
    }
    Ok(())
}

/// Whether every task's first metric reaches the floor.
fn verdict(floor: f64, results: &[Result_]) -> (bool, String) {
    let first = results.iter().filter_map(|r| r.scores.first().map(|score| (&r.suite.name, score)));
    let missed: Vec<String> = first
        .filter(|(_, score)| score.value < floor)
        .map(|(name, score)| format!("{name} {:.2} %", 100.0 * score.value))
        .collect();
    match missed.is_empty() {
        true => (true, format!("floor of {:.2} % reached", 100.0 * floor)),
        false => (false, format!("floor of {:.2} % missed: {}", 100.0 * floor, missed.join(", "))),
    }
}

fn percent(x: f64) -> String {
    format!("{:.2}", 100.0 * x)
}

/// The table's head and rows.
fn rows(results: &[Result_]) -> Vec<Vec<String>> {
    let paired = results.iter().any(|r| r.reference.is_some());
    let mut head = vec!["task", "items", "metric", "%", "95 %"];
    if paired {
        head.extend(["reference %", "difference", "95 %", "p"]);
    }
    let mut all = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for result in results {
        for (i, score) in result.scores.iter().enumerate() {
            let (low, high) = score.interval;
            let mut row = vec![
                result.suite.name.clone(),
                score.items.to_string(),
                score.metric.to_owned(),
                percent(score.value),
                format!("{} to {}", percent(low), percent(high)),
            ];
            if let Some((scores, paired)) = &result.reference {
                let (other, pair) = (&scores[i], &paired[i]);
                let signed = |x: f64| format!("{:+.2}", 100.0 * x);
                row.extend([
                    percent(other.value),
                    signed(pair.difference),
                    format!("{} to {}", signed(pair.interval.0), signed(pair.interval.1)),
                    format!("{:.3}", pair.p),
                ]);
            }
            all.push(row);
        }
    }
    all
}

fn print(results: &[Result_], seconds: f64, out: &mut dyn Write) -> Result<(), Failure> {
    let mut rows = rows(results).into_iter();
    let head = rows.next().unwrap_or_default();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = text::Table::new(&head, &[1, 3, 5, 6, 8]);
    rows.for_each(|row| table.add(row));
    table.write(out)?;
    let items: usize = results.iter().map(|r| r.suite.items.len()).sum();
    writeln!(out, "{}, {seconds:.1} s", text::plural(items, "question"))?;
    Ok(())
}

fn document(
    args: &Args,
    path: &Path,
    results: &[Result_],
    verdict: Option<&(bool, String)>,
    seconds: f64,
) -> Value {
    let score = |score: &Score| {
        json!({
            "metric": score.metric,
            "hits": score.hits,
            "items": score.items,
            "value": score.value,
            "interval": [score.interval.0, score.interval.1],
        })
    };
    let pair = |pair: &Paired| {
        json!({
            "only_model": pair.only.0,
            "only_reference": pair.only.1,
            "difference": pair.difference,
            "interval": [pair.interval.0, pair.interval.1],
            "p": pair.p,
        })
    };
    let tasks: Vec<Value> = results
        .iter()
        .map(|r| {
            let mut task = json!({
                "task": r.suite.name,
                "scores": r.scores.iter().map(score).collect::<Vec<_>>(),
            });
            if let Some((scores, paired)) = &r.reference {
                task["reference"] = scores.iter().map(score).collect();
                task["paired"] = paired.iter().map(pair).collect();
            }
            task
        })
        .collect();
    let mut document = json!({
        "model": path.display().to_string(),
        "reference": args.reference.as_ref().map(|r| r.display().to_string()),
        "tasks": tasks,
        "seconds": seconds,
        "seed": args.seed,
    });
    if let (Some(floor), Some((met, _))) = (args.floor, verdict) {
        document["floor"] = json!(floor);
        document["verdict"] = json!(if *met { "reached" } else { "missed" });
    }
    document
}

fn page(
    args: &Args,
    path: &Path,
    results: &[Result_],
    verdict: Option<&(bool, String)>,
    seconds: f64,
) -> Page {
    let mut page = Page { title: "Evaluation".to_owned(), verdict: verdict.cloned(), ..Page::default() };
    page.facts.push(("model".to_owned(), path.display().to_string()));
    if let Some(reference) = &args.reference {
        page.facts.push(("reference".to_owned(), reference.display().to_string()));
    }
    page.facts.push(("took".to_owned(), format!("{seconds:.1} s")));
    page.facts.push(("leyden".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    for result in results {
        let others = result.reference.iter().flat_map(|(scores, _)| scores);
        for (score, reference) in
            result.scores.iter().map(|s| (s, false)).chain(others.map(|score| (score, true)))
        {
            let suffix = if reference { ", reference" } else { "" };
            page.bars.push(Bar {
                label: format!("{} {}{suffix}", result.suite.name, score.metric),
                value: score.value,
                interval: score.interval,
                reference,
            });
        }
    }
    page.table = rows(results);
    page
}
