//! Reads an answer from an iterator, whose drop ends generation: `cargo run --release --example stream --
//! [MODEL.gguf]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{GenerateOptions, LoadOptions, Model, SessionOptions, StreamEvent};

fn main() -> Result<(), leyden::Error> {
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open(path, &options)?,
        None => Model::embedded(&options)?,
    };
    let mut session = model.session(&SessionOptions::new())?;
    let prompt = model.tokenize("Once upon a time")?;
    let mut words = 0;
    for event in session.stream(&prompt, &GenerateOptions::new().seed(7))? {
        match event? {
            StreamEvent::Text(piece) => {
                print!("{piece}");
                words += piece.matches(' ').count();
            }
            StreamEvent::Done(answer) => println!("\nended by {}", answer.finish.name()),
            _ => {}
        }
        if words >= 12 {
            // Leaving the loop drops the iterator, which ends generation.
            println!("\nenough after {words} words");
            break;
        }
    }
    Ok(())
}
