//! Answers in an asynchronous program: `cargo run --release --example tokio`.
//!
//! The library blocks, so each answer has a thread of its own, which sends its text through a channel. Dropping the
//! receiver ends the answer.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{Error, GenerateOptions, LoadOptions, Model, SessionOptions, StreamEvent};
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, channel};

fn answer(model: &Model, prompt: &str, pieces: &Sender<String>) -> Result<(), Error> {
    let mut session = model.session(&SessionOptions::new().context(256))?;
    let options = GenerateOptions::new().max_tokens(16).seed(5);
    for event in session.stream(&model.tokenize(prompt)?, &options)? {
        if let StreamEvent::Text(piece) = event?
            && pieces.blocking_send(piece).is_err()
        {
            break;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Arc::new(Model::embedded(&LoadOptions::default())?);
    let answers = ["The king", "The queen"].map(|prompt| {
        let (model, (sender, receiver)) = (Arc::clone(&model), channel::<String>(16));
        (prompt, receiver, tokio::task::spawn_blocking(move || answer(&model, prompt, &sender)))
    });
    for (prompt, mut pieces, thread) in answers {
        let mut text = prompt.to_owned();
        while let Some(piece) = pieces.recv().await {
            text += &piece;
        }
        thread.await??;
        println!("{}", text.replace('\n', " "));
    }
    Ok(())
}
