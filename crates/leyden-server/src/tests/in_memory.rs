//! A server without a listening socket: bytes of a connection.

use super::{model, worker_options};
use crate::{InMemory, LogFormat, ServerOptions};

#[test]
fn bytes_of_a_connection_are_answered() {
    let options = ServerOptions { log: LogFormat::Off, ..ServerOptions::default() };
    let server = InMemory::start(vec![model(worker_options())], options).unwrap();
    let statuses = |bytes: &str| -> Vec<String> {
        let answer = String::from_utf8_lossy(&server.exchange(bytes.as_bytes()).unwrap()).into_owned();
        answer.split("HTTP/1.1 ").skip(1).map(|response| response[..3].to_owned()).collect()
    };
    let health = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(statuses(health), ["200"]);
    assert_eq!(statuses(&health.repeat(2)), ["200", "200"]);
    assert_eq!(statuses(&health.replace("localhost", "evil.example")), ["200"], "health has any host");
    assert_eq!(statuses("GET /version HTTP/1.1\r\nHost: evil.example\r\n\r\n"), ["403"]);
    assert_eq!(statuses("\0\u{1}\r\n\r\n"), ["400"]);
    assert_eq!(statuses(""), [""; 0]);
    let post = |body: &str, length: usize| {
        format!(
            "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    assert_eq!(statuses(&post("{}]", 3)), ["400"]);
    // The end of the connection is an end of the body.
    assert!(statuses(&post("{}", 3)).iter().all(|status| status == "400"));
}
