//! Loads a model and describes it: `cargo run --release --example load -- [MODEL.gguf]`.
//!
//! Without a file the embedded storyteller is loaded.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{Error, LoadOptions, Model};

fn main() -> Result<(), Error> {
    // By default threads and instruction set are those of the machine.
    let options = LoadOptions::default();
    let model = match std::env::args_os().nth(1) {
        Some(path) => Model::open_with(path, &options, &mut |done, all| {
            if done == all {
                eprintln!("{all} bytes of weights are in place");
            }
        })?,
        None => Model::embedded(&options)?,
    };
    let config = model.config();
    println!("{}: {} architecture", model.metadata().file(), config.architecture);
    println!(
        "{} layers, {} values wide, {} query heads",
        config.layers.len(),
        config.width,
        config.layers[0].heads
    );
    println!("{} tokens, context of {}", model.tokenizer().vocab_size(), config.context);
    println!("loaded in {:.1} ms", model.load_time().as_secs_f64() * 1e3);
    Ok(())
}
