//! Speed of whole answers with and without speculation, in turns.

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;

use leyden::{GenerateOptions, Generation, LoadOptions, Message, Model, Session, SessionOptions};
use serde_json::{Value, json};

use super::args::Args;
use super::measure::median;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::model_file;

/// Prompts with answers of several kinds: a story, facts, a copy with changes.
const PROMPTS: [(&str, &str); 3] = [
    ("story", "Write a story about a lighthouse keeper who finds a message in a bottle."),
    ("facts", "Explain how a steam engine works, step by step."),
    (
        "edit",
        "Rename the variable `n` to `count` in this function and repeat the whole function:\n\n\
         def mean(values):\n    n = 0\n    total = 0.0\n    for value in values:\n        if value is None:\n            continue\n        \
         total += value\n        n += 1\n    if n == 0:\n        return None\n    print(\"values:\", n)\n    return total / n\n",
    ),
];

/// Results of one prompt.
#[derive(Debug, Default)]
struct Row {
    name: String,
    tokens: usize,
    plain: Vec<f64>,
    drafted: Vec<f64>,
    /// Numbers of draft tokens and of accepted ones.
    drafts: (usize, usize),
}

impl Row {
    /// Returns the rate with drafts divided by the rate without, of each repetition.
    fn ratios(&self) -> Vec<f64> {
        self.drafted.iter().zip(&self.plain).map(|(drafted, plain)| drafted / plain).collect()
    }

    fn acceptance(&self) -> Option<f64> {
        let (drafted, accepted) = self.drafts;
        (drafted > 0).then(|| accepted as f64 / drafted as f64)
    }

    fn json(&self) -> Value {
        json!({
            "prompt": self.name,
            "tokens": self.tokens,
            "plain_tokens_per_second": self.plain,
            "speculating_tokens_per_second": self.drafted,
            "ratio": median(&self.ratios()),
            "drafted_tokens": self.drafts.0,
            "accepted_tokens": self.drafts.1,
        })
    }
}

/// Measures greedy answers, with and without speculation.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Arithmetic { isa, exact, int8 } = args.arithmetic;
    let found = |path: &std::path::PathBuf| model_file::locate(path);
    let draft = args.draft.as_ref().map(found).transpose()?;
    let options = LoadOptions::new().threads(args.threads.first().copied()).isa(isa).exact(exact).int8(int8);
    let options =
        options.threads_batch(args.threads_batch.first().copied()).packs(args.packs.cache()).draft(draft);
    let model = match args.model() {
        Some(path) => Model::open(found(path)?, &options)?,
        None => Model::embedded(&options)?,
    };
    let prompts = prompts(args)?;
    let most = args.n_gen.iter().copied().find(|n| *n > 0).unwrap_or(128);
    let session = |on| model.session(&SessionOptions::new().kv_type(args.kv_type).speculation(on));
    let (mut plain, mut drafting) = (session(false)?, session(true)?);
    let mut rows: Vec<Row> =
        prompts.iter().map(|(name, _)| Row { name: name.clone(), ..Row::default() }).collect();
    // The first round reads the weights into memory and measures the times from which drafts are planned.
    for round in 0..=args.repetitions {
        for (row, (_, prompt)) in rows.iter_mut().zip(&prompts) {
            // A text that was not read before.
            let tokens = tokens(&model, &format!("{round}. {prompt}"))?;
            let without = answer(&mut plain, &tokens, most)?;
            let with = answer(&mut drafting, &tokens, most)?;
            if without.tokens != with.tokens {
                return Err(Failure::new(format!(
                    "{}: the text with drafts differs: this is a bug",
                    row.name
                )));
            }
            if round > 0 {
                row.tokens += with.tokens.len();
                row.plain.push(without.decode_rate());
                row.drafted.push(with.decode_rate());
                row.drafts.0 += with.drafted_tokens;
                row.drafts.1 += with.accepted_tokens;
            }
        }
    }
    report(args, &model, &rows, out)?;
    Ok(())
}

fn prompts(args: &Args) -> Result<Vec<(String, String)>, Failure> {
    if args.prompt_file.is_empty() {
        return Ok(PROMPTS.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec());
    }
    let read = |path: &std::path::PathBuf| {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("{shown}: cannot read: {error}")))?;
        Ok((shown, text))
    };
    args.prompt_file.iter().map(read).collect()
}

fn tokens(model: &Model, prompt: &str) -> Result<Vec<u32>, Failure> {
    Ok(match model.has_chat_template() {
        true => model.tokenize_chat(&[Message::new("user", prompt)])?,
        false => model.tokenize(prompt)?,
    })
}

fn answer(session: &mut Session, prompt: &[u32], most: usize) -> Result<Generation, Failure> {
    let options = GenerateOptions::new().max_tokens(most).temperature(0.0);
    Ok(session.generate(prompt, &options, &mut |_| ControlFlow::Continue(()))?)
}

fn report(args: &Args, model: &Model, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    if args.json {
        let draft = args.draft.as_ref().map(|path| path.display().to_string());
        let results: Vec<Value> = rows.iter().map(Row::json).collect();
        let document = json!({
            "model": model.metadata().file(),
            "draft": draft,
            "threads": model.cpu().for_tokens(1).pool().members(),
            "isa": model.cpu().tier().level().name(),
            "results": results,
        });
        serde_json::to_writer(&mut *out, &document)?;
        return writeln!(out);
    }
    writeln!(out, "| prompt | tokens | t/s without | t/s with drafts | ratio | drafted | accepted |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|")?;
    for row in rows {
        let accepted = row.acceptance().map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        writeln!(
            out,
            "| {} | {} | {:.2} | {:.2} | {:.2} | {} | {accepted} |",
            row.name,
            row.tokens,
            median(&row.plain),
            median(&row.drafted),
            median(&row.ratios()),
            row.drafts.0,
        )?;
    }
    Ok(())
}
