//! Prints an answer while it is being generated: `cargo run --release --example generate -- [MODEL.gguf] PROMPT`.
//!
//! A model with a chat template answers; one without, like the embedded storyteller, continues the prompt.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{Event, GenerateOptions, LoadOptions, Message, Model, SessionOptions};
use std::io::Write;
use std::ops::ControlFlow;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (first, second) = (words.next(), words.next());
    let (model, prompt) = match (first, second) {
        (Some(path), Some(prompt)) => (Model::open(path, &LoadOptions::default())?, prompt),
        (prompt, _) => {
            (Model::embedded(&LoadOptions::default())?, prompt.unwrap_or("Once upon a time".into()))
        }
    };
    let ids = model.tokenize_chat(&[Message::new("user", &prompt)])?;
    let options = GenerateOptions::new().max_tokens(32).seed(7).stop("The End");
    let mut session = model.session(&SessionOptions::default())?;
    let mut out = std::io::stdout().lock();
    let answer = session.generate(&ids, &options, &mut |event| {
        if let Event::Text(piece) = event
            && out.write_all(piece.as_bytes()).and_then(|()| out.flush()).is_err()
        {
            // Standard output is closed.
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    println!("\n{} tokens, ended by {}", answer.tokens.len(), answer.finish.name());
    Ok(())
}
