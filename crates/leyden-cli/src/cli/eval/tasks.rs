//! Questions of known tasks and of the user's files.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden::Model;
use leyden_eval::{Outcome, Paired, Score, Source, State, Suite, Verdict, fingerprint, questions_to_decide};
use leyden_rows::{Entry, Journal};
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::rows::object;
use super::super::{model_file, pages, text};
use super::args::{Args, Named};
use super::watcher::Watcher;
use super::words;

/// Results of one suite.
struct Result_ {
    suite: Suite,
    outcomes: Vec<Outcome>,
    scores: Vec<Score>,
    reference: Option<(Vec<Score>, Vec<Paired>)>,
}

/// Runs the questions and prints the scores.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let files = args.task.iter().filter_map(|task| task.file.as_deref());
    let output = args.output.file(files.chain(args.data.iter().map(PathBuf::as_path)))?;
    let (suites, mut of) = suites(args)?;
    let path = model_file::locate(&args.model)?;
    of.insert(0, format!("model {}", fingerprint(&path)?));
    let reference = args.reference.as_deref().map(model_file::locate).transpose()?;
    // Outcomes of the reference have keys of their own in the state, so it may be added later.
    let of_reference = reference.as_deref().map(fingerprint).transpose()?;
    let beside =
        output.filter(|(path, _)| args.state.is_none() && !path.metadata().is_ok_and(|m| !m.is_file()));
    let beside = beside.map(|(path, _)| PathBuf::from(format!("{}.unfinished", path.display())));
    let kept = args.state.as_deref().or(beside.as_deref());
    let mut state = match kept {
        Some(file) => State::open(file, of)?,
        None => State { of, outcomes: BTreeMap::new() },
    };
    let watcher = Watcher::new()?;
    let start = Instant::now();
    let model = args.load(&args.model)?;
    ask((args, kept), &model, &suites, "model", &mut state, &watcher)?;
    drop(model);
    if let (Some(path), Some(print)) = (&reference, &of_reference) {
        let model = args.load(path)?;
        ask((args, kept), &model, &suites, &format!("reference {print}"), &mut state, &watcher)?;
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
        Result_ { scores: suite.scores(&own), reference, outcomes: own, suite }
    };
    let results: Vec<Result_> = suites.into_iter().enumerate().map(result).collect();
    let verdict = args.floor.map(|floor| verdict(floor, &results));
    if let Some((path, output)) = output {
        let mut rows = outcome_rows(&results)?;
        leyden_rows::write(path, output, &mut rows, None)?;
        if let Some(beside) = &beside {
            // The file exists unless there were no questions.
            let _ = std::fs::remove_file(beside);
        }
    }
    let document = document(args, &path, &results, verdict.as_ref(), seconds);
    if let Some(file) = &args.report {
        pages::write(file, &document, |_| {})?;
    }
    if args.json {
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
    } else {
        print(&results, seconds, out)?;
        match &verdict {
            Some((Verdict::Reached, words)) => writeln!(out, "{words}")?,
            // The failure contains them.
            Some(_) => {}
            None => {
                for result in &results {
                    let pair = result.reference.as_ref().and_then(|(_, paired)| paired.first());
                    let Some(score) = result.scores.first() else { continue };
                    writeln!(out, "{}", words::of_score(&result.suite.name, score, pair))?;
                }
            }
        }
    }
    let bad: usize = results.iter().map(|r| r.suite.bad.len()).sum();
    match verdict {
        Some((Verdict::Missed, words)) => Err(Failure::new(words)),
        Some((Verdict::Inconclusive, words)) => {
            let failure = Failure::inconclusive(words);
            Err(match more(args.floor, &results) {
                Some(n) => {
                    failure.hint(format!("about {n} questions would be enough if the share stays the same"))
                }
                None => failure.hint("use more questions, or another floor"),
            })
        }
        _ if bad > 0 => {
            let first = results.iter().find_map(|r| r.suite.bad.first()).map_or("", |bad| &bad.reason);
            let all = bad + results.iter().map(|r| r.suite.items.len()).sum::<usize>();
            let message = format!("{bad} of {} are not valid questions; {first}", text::plural(all, "row"));
            Err(Failure::new(message).hint("correct or remove these rows; the other questions were answered"))
        }
        _ => Ok(()),
    }
}

/// Returns the largest number of questions that a task needs for a verdict about the floor.
fn more(floor: Option<f64>, results: &[Result_]) -> Option<usize> {
    let floor = floor?;
    let first = results.iter().filter_map(|r| r.scores.first());
    let open = first.filter(|score| Verdict::of(floor, score.interval) == Verdict::Inconclusive);
    open.map(|score| questions_to_decide(floor, score.value)).try_fold(0, |most, n| Some(most.max(n?)))
}

/// Returns each question's row with its outcome, and invalid rows with their errors.
fn outcome_rows(results: &[Result_]) -> Result<Journal, Failure> {
    let mut rows = Journal::temporary()?;
    for Result_ { suite, outcomes, .. } in results {
        let mut names = vec!["task", "output", "logprobs"];
        names.extend(&suite.metrics);
        for (row, outcome) in suite.rows.iter().zip(outcomes) {
            let mut fields = vec![("task", json!(suite.name).to_string())];
            let hits = suite.metrics.iter().zip(&outcome.hits);
            fields.extend(hits.map(|(metric, hit)| (*metric, hit.to_string())));
            if let Some(answer) = &outcome.answer {
                fields.push(("output", json!(answer).to_string()));
            }
            if !outcome.logprobs.is_empty() {
                fields.push(("logprobs", serde_json::to_string(&outcome.logprobs)?));
            }
            rows.append(&Entry {
                number: rows.rows(),
                hash: 0,
                failed: false,
                key: 0.0,
                row: object(Some(row), &names, &fields),
            })?;
        }
        for bad in &suite.bad {
            let fields = [("task", json!(suite.name).to_string()), ("error", json!(bad.reason).to_string())];
            rows.append(&Entry {
                number: rows.rows(),
                hash: 0,
                failed: true,
                key: 0.0,
                row: object(Some(&bad.row), &names, &fields),
            })?;
        }
    }
    Ok(rows)
}

/// Returns the questions, and a description of the files that they come from.
fn suites(args: &Args) -> Result<(Vec<Suite>, Vec<String>), Failure> {
    let (mut suites, mut of) = (Vec::new(), Vec::new());
    let source = Source { format: args.format, limit: args.limit, ..Source::default() };
    for Named { task, file } in &args.task {
        let file = match (file, &args.task_data) {
            (Some(file), _) => file.clone(),
            (None, Some(folder)) => found(folder, task.name())?,
            (None, None) => {
                let message = format!("--task {}: its data file is missing", task.name());
                return Err(Failure::usage(message).hint(format!(
                    "use --task {}=FILE, or --task-data FOLDER with {}.jsonl, .json, .csv, .tsv or .parquet, with the published data",
                    task.name(),
                    task.name()
                )));
            }
        };
        let shots = args.shots.unwrap_or(task.shots());
        suites.push(Suite::of_task(task, &file, args.shots_data.as_deref(), shots, &source)?);
        of.push(format!("task {} {shots} {}", task.name(), fingerprint(&file)?));
    }
    for file in &args.data {
        let column = args.column.as_deref();
        suites.push(Suite::of_file(file, &Source { column, ..source.clone() })?);
        of.push(format!("data {}", fingerprint(file)?));
    }
    if let Some(file) = &args.shots_data {
        of.push(format!("examples {}", fingerprint(file)?));
    }
    let limit = args.limit.map_or("none".to_owned(), |n| n.to_string());
    let column = args.column.as_deref().unwrap_or("the usual one");
    of.push(format!("--limit {limit}, --kv-type {}, --column {column}", args.kv_type.name()));
    Ok((suites, of))
}

fn found(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let places =
        ["jsonl", "json", "parquet", "csv", "tsv"].map(|ending| folder.join(name).with_extension(ending));
    let found = places.iter().find(|place| place.is_file()).cloned();
    found.ok_or_else(|| Failure::new(format!("{}: no {name}.jsonl there", folder.display())))
}

/// Returns the key of a suite's outcomes in the state. It contains the suite's index, because two may have the same
/// name.
fn key(who: &str, i: usize, suite: &Suite) -> String {
    format!("{who} {i} {}", suite.name)
}

/// Runs all questions without known outcomes.
fn ask(
    (args, kept): (&Args, Option<&Path>),
    model: &Model,
    suites: &[Suite],
    who: &str,
    state: &mut State,
    watcher: &Watcher,
) -> Result<(), Failure> {
    for (i, suite) in suites.iter().enumerate() {
        let key = key(who, i, suite);
        let mut outcomes = state.outcomes.remove(&key).unwrap_or_default();
        let mut keep = |outcomes: &[Outcome]| match kept {
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

/// Compares every task's first metric with the floor.
fn verdict(floor: f64, results: &[Result_]) -> (Verdict, String) {
    let mut all = Verdict::Reached;
    let mut not_reached: Vec<String> = Vec::new();
    for result in results {
        let Some(score) = result.scores.first() else { continue };
        let one = Verdict::of(floor, score.interval);
        all = all.with(one);
        if one != Verdict::Reached {
            let (low, high) = score.interval;
            let (value, low, high) = (percent(score.value), percent(low), percent(high));
            let name = &result.suite.name;
            not_reached.push(format!("{name} {value} % of {}, 95 % {low} to {high}", score.items));
        }
    }
    let floor = percent(floor);
    let words = match all {
        Verdict::Reached => format!("floor of {floor} % reached"),
        Verdict::Missed => format!("floor of {floor} % missed: {}", not_reached.join("; ")),
        Verdict::Inconclusive => {
            format!("floor of {floor} %: too few questions for a verdict: {}", not_reached.join("; "))
        }
    };
    (all, words)
}

fn percent(x: f64) -> String {
    format!("{:.2}", 100.0 * x)
}

/// Returns the table's header and rows.
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
    verdict: Option<&(Verdict, String)>,
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
                "errors": r.suite.bad.iter().map(|bad| &bad.reason[..]).collect::<Vec<&str>>(),
            });
            if let Some((scores, paired)) = &r.reference {
                task["reference"] = scores.iter().map(score).collect();
                task["paired"] = paired.iter().map(pair).collect();
            }
            task
        })
        .collect();
    let mut document = json!({
        "about": pages::about(),
        "model": path.display().to_string(),
        "reference": args.reference.as_ref().map(|r| r.display().to_string()),
        "tasks": tasks,
        "seconds": seconds,
        "seed": args.seed,
    });
    if let (Some(floor), Some((verdict, _))) = (args.floor, verdict) {
        document["floor"] = json!(floor);
        document["verdict"] = json!(verdict.name());
    }
    document
}
