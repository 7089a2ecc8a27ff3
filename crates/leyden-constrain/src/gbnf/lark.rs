//! Output of rules in Lark.

use std::fmt::Write;

use super::parse::{Node, Rules};
use crate::error::Error;

/// Writes the grammar in Lark.
pub(super) fn write(rules: &Rules) -> Result<String, Error> {
    let recursive = recursive(rules);
    let mut writer = Writer { recursive: &recursive, out: String::new(), words: 0 };
    let mut out = format!("start: {}\n", writer.name(0));
    for (number, body) in rules.bodies.iter().enumerate() {
        let text = if recursive[number] { writer.rule(body) } else { word(body) };
        let _ = writeln!(out, "{}: {text}", writer.name(number));
    }
    out.push_str(&writer.out);
    Ok(out)
}

/// Returns for each rule whether it leads, directly or indirectly, to a rule that refers back to itself.
fn recursive(rules: &Rules) -> Vec<bool> {
    let n = rules.bodies.len();
    let mut uses: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (number, body) in rules.bodies.iter().enumerate() {
        collect(body, &mut uses[number]);
    }
    // Terminals are the rules that refer only to terminals: determined from the leaves upwards.
    let mut left: Vec<usize> = uses.iter().map(Vec::len).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (number, used) in uses.iter().enumerate() {
        used.iter().for_each(|u| users[*u].push(number));
    }
    let mut words: Vec<usize> = (0..n).filter(|number| left[*number] == 0).collect();
    let mut recursive = vec![true; n];
    while let Some(number) = words.pop() {
        recursive[number] = false;
        for &user in &users[number] {
            left[user] -= 1;
            if left[user] == 0 {
                words.push(user);
            }
        }
    }
    recursive
}

fn collect(node: &Node, uses: &mut Vec<usize>) {
    match node {
        Node::Rule(number) => uses.push(*number),
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().for_each(|node| collect(node, uses)),
        Node::Repeat { node, .. } => collect(node, uses),
        Node::Literal(_) | Node::Class { .. } | Node::Any => {}
    }
}

struct Writer<'a> {
    recursive: &'a [bool],
    /// Terminals for parts of rules that are not terminals as a whole.
    out: String,
    words: usize,
}

impl Writer<'_> {
    fn name(&self, number: usize) -> String {
        if self.recursive[number] { format!("r{number}") } else { format!("W{number}") }
    }

    fn is_word(&self, node: &Node) -> bool {
        let mut uses = Vec::new();
        collect(node, &mut uses);
        uses.iter().all(|number| !self.recursive[*number])
    }

    /// Writes the body of a rule, or a part of it.
    fn rule(&mut self, node: &Node) -> String {
        if self.is_word(node) {
            return self.new_word(node);
        }
        match node {
            Node::Rule(number) => self.name(*number),
            Node::Choice(options) => {
                let options: Vec<String> = options.iter().map(|option| self.rule(option)).collect();
                format!("({})", options.join(" | "))
            }
            Node::Repeat { node, least, most } => format!("({}){}", self.rule(node), repeats(*least, *most)),
            Node::Sequence(nodes) => {
                let mut parts: Vec<String> = Vec::new();
                let is_word: Vec<bool> = nodes.iter().map(|node| self.is_word(node)).collect();
                let mut rest = nodes.as_slice();
                // Adjacent terminals are joined to one.
                for same in is_word.chunk_by(|a, b| a == b) {
                    let (run, behind) = rest.split_at(same.len());
                    rest = behind;
                    if same[0] {
                        parts.push(self.new_word(&Node::Sequence(run.to_vec())));
                    } else {
                        for node in run {
                            let part = self.rule(node);
                            parts.push(part);
                        }
                    }
                }
                format!("({})", parts.join(" "))
            }
            Node::Literal(_) | Node::Class { .. } | Node::Any => self.new_word(node),
        }
    }

    fn new_word(&mut self, node: &Node) -> String {
        if let Node::Rule(number) = node {
            return self.name(*number);
        }
        // In Lark, the empty text is only possible in rules.
        if matches!(node, Node::Sequence(nodes) if nodes.is_empty()) {
            return "\"\"".into();
        }
        let name = format!("P{}", self.words);
        self.words += 1;
        let text = word(node);
        let _ = writeln!(self.out, "{name}: {text}");
        name
    }
}

/// Writes the body of a terminal.
fn word(node: &Node) -> String {
    match node {
        Node::Literal(text) => serde_json::Value::from(text.as_str()).to_string(),
        Node::Class { negated, ranges } => {
            let mut out = String::from(if *negated { "/[^" } else { "/[" });
            for (first, last) in ranges {
                let _ = write!(out, "\\x{{{:X}}}-\\x{{{:X}}}", u32::from(*first), u32::from(*last));
            }
            out.push_str("]/");
            out
        }
        Node::Any => "/[\\x{0}-\\x{10FFFF}]/".into(),
        Node::Rule(number) => format!("W{number}"),
        Node::Sequence(nodes) if nodes.is_empty() => "\"\"".into(),
        Node::Sequence(nodes) => {
            let parts: Vec<String> = nodes.iter().map(word).collect();
            format!("({})", parts.join(" "))
        }
        Node::Choice(options) => {
            let options: Vec<String> = options.iter().map(word).collect();
            format!("({})", options.join(" | "))
        }
        Node::Repeat { node, least, most } => format!("({}){}", word(node), repeats(*least, *most)),
    }
}

fn repeats(least: u32, most: Option<u32>) -> String {
    match (least, most) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    }
}
