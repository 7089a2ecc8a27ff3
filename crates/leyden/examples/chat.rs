//! Runs a conversation of three turns: `cargo run --release --example chat -- [MODEL.gguf]`.
//!
//! Every turn computes only its new tokens: the session has the earlier turns in its cache.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{Event, GenerateOptions, LoadOptions, Model, SessionOptions};
use std::ops::ControlFlow;

fn main() -> Result<(), leyden::Error> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let mut session = model.session(&SessionOptions::new().context(1024))?;
    let options = GenerateOptions::new().max_tokens(24).seed(3);
    for message in ["Tell me of a king.", "Had he children?", "And then?"] {
        println!("> {message}");
        let answer = session.chat(message, &options, &mut |event| {
            if let Event::Text(piece) = event {
                print!("{piece}");
            }
            ControlFlow::Continue(())
        })?;
        println!("\n[{} of {} tokens were cached]", answer.cached_tokens, answer.prompt_tokens);
    }
    println!("{} messages", session.messages().len());
    Ok(())
}
