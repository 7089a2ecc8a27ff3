//! The smallest server: `cargo run --release --example server -- [PORT]`, then `curl localhost:PORT/The%20king`.
//!
//! The path is the prompt; the text is streamed. A real server is `leyden serve`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use leyden::{GenerateOptions, LoadOptions, Model, SessionOptions, StreamEvent};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let model = Model::embedded(&LoadOptions::default())?;
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("listening on {}", listener.local_addr()?);
    for client in listener.incoming() {
        // Errors of one client do not affect the others.
        if let Err(error) = client.map_err(Into::into).and_then(|client| serve(&model, client)) {
            println!("{error}");
        }
    }
    Ok(())
}

fn serve(model: &Model, mut client: TcpStream) -> Result<(), Box<dyn std::error::Error>> {
    let mut head = BufReader::new(&client).take(4096).lines();
    let line = head.next().ok_or("no request")??;
    while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let prompt = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').replace("%20", " ");
    let mut session = model.session(&SessionOptions::new())?;
    client.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n")?;
    for event in session.stream(&model.tokenize(&prompt)?, &GenerateOptions::new().max_tokens(32).seed(1))? {
        if let StreamEvent::Text(piece) = event? {
            client.write_all(piece.as_bytes())?;
        }
    }
    Ok(())
}
