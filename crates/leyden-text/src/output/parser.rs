//! Parser of one answer.

use serde_json::Value as Json;
use std::ops::Range;

use super::bare::{BareCalls, BareReading, Verdict};
use super::calls::{Progress, Reader};
use super::event::OutputEvent;
use super::format::OutputFormat;
use super::harmony::Harmony;
use super::literal::{Literal, Match, beginning};
use super::parsed::Part;
use super::reading::Reading;
use super::tools::Tools;

/// Maximum number of whitespace characters before a call that are dropped; more of them are content.
const MAX_BLANKS: usize = 256;

/// Parser of one answer into its parts.
///
/// Holds back text that may become a marker, whitespace before a call, and a call until it is certain: at most 1
/// MiB.
#[derive(Clone, Debug)]
pub struct OutputParser {
    kind: Kind,
    index: usize,
    /// Number of bytes pushed.
    pushed: usize,
    /// Byte ranges of the content, as far as decided and not yet forgotten.
    spans: Vec<Range<usize>>,
}

impl Default for OutputParser {
    /// Returns a parser for which all text is content.
    fn default() -> OutputParser {
        OutputFormat::plain().parser("", None)
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Marked(Box<Marked>),
    Harmony(Box<Harmony>),
}

/// State for formats with markers in the text.
#[derive(Clone, Debug)]
struct Marked {
    open: Option<String>,
    close: Option<String>,
    calls: Option<Calls>,
    tools: Tools,
    state: State,
    /// Text that is not decided yet.
    pending: String,
    /// True if whitespace at the beginning of `pending` is dropped.
    skip_blanks: bool,
    /// True until content other than whitespace was found.
    at_start: bool,
    /// True if further calls may follow without the section's opening marker.
    in_section: bool,
    /// Rules for an answer of calls without markers, as long as the answer can be one.
    bare_calls: Option<BareCalls>,
    /// True if the answer must consist of calls, so that the beginning of one is not content.
    required: bool,
    /// Number of bytes pushed.
    pushed: usize,
}

#[derive(Clone, Debug)]
struct Calls {
    reader: Reader,
    section: (Literal, Literal),
    /// First words of calls and of the section.
    triggers: Vec<String>,
    bare: bool,
}

#[derive(Clone, Debug)]
enum State {
    Text,
    Reasoning,
    /// A call, and the whitespace before it, which is content if this turns out not to be a call.
    Call(Box<Reading>, String),
    /// A beginning that may become an answer of calls without markers.
    Bare(Box<BareReading>),
}

impl OutputFormat {
    /// Creates a parser for one answer to `prompt`, whose end tells whether the answer starts within reasoning.
    /// `tools` are those of the request, in the form that templates take; without tools nothing is parsed as a
    /// call.
    #[must_use]
    pub fn parser(&self, prompt: &str, tools: Option<&Json>) -> OutputParser {
        OutputParser::new(self, prompt, tools)
    }
}

impl OutputParser {
    fn new(format: &OutputFormat, prompt: &str, tools: Option<&Json>) -> OutputParser {
        let tools = Tools::new(tools);
        if format.harmony {
            let kind = Kind::Harmony(Box::new(Harmony::new(prompt, !tools.is_empty())));
            return OutputParser { kind, index: 0, pushed: 0, spans: Vec::new() };
        }
        let calls = format.calls.as_ref().filter(|_| !tools.is_empty()).map(|syntax| {
            let reader = Reader::new(syntax, format.framed);
            let section = (Literal::new(&syntax.section.0), Literal::new(&syntax.section.1));
            let mut triggers: Vec<String> = section.0.words().first().cloned().into_iter().collect();
            triggers.extend(reader.start.words().iter().take(2).cloned());
            triggers.extend(reader.other_start.words().first().cloned());
            triggers.retain(|word| word.len() > 1);
            Calls { reader, section, triggers, bare: syntax.is_bare() }
        });
        let reasoning = format.begins_reasoning(prompt);
        let marks = format.reasoning.clone();
        let marked = Marked {
            open: marks.as_ref().map(|(open, _)| open.clone()),
            close: marks.map(|(_, close)| close),
            calls,
            tools,
            state: if reasoning { State::Reasoning } else { State::Text },
            pending: String::new(),
            skip_blanks: reasoning,
            at_start: true,
            in_section: false,
            bare_calls: None,
            required: false,
            pushed: 0,
        };
        OutputParser { kind: Kind::Marked(Box::new(marked)), index: 0, pushed: 0, spans: Vec::new() }
    }

    /// Requires the answer to consist of calls, as under a grammar: a truncated marker or tool name at its end is
    /// then not content.
    #[must_use]
    pub fn with_call_required(mut self) -> OutputParser {
        if let Kind::Marked(marked) = &mut self.kind {
            marked.required = true;
        }
        self
    }

    /// Accepts calls without markers: an answer that consists only of calls in JSON is parsed as these calls. Has
    /// no effect without tools or for harmony.
    #[must_use]
    pub fn with_bare_calls(mut self, rules: BareCalls) -> OutputParser {
        if let Kind::Marked(marked) = &mut self.kind {
            marked.bare_calls = Some(rules).filter(|_| !marked.tools.is_empty());
        }
        self
    }

    /// Takes the next piece of the answer's text.
    pub fn push(&mut self, text: &str) -> Vec<OutputEvent> {
        self.run(text, false)
    }

    /// Ends the answer. Returns the parts that were held back.
    pub fn finish(&mut self) -> Vec<OutputEvent> {
        self.run("", true)
    }

    fn run(&mut self, text: &str, done: bool) -> Vec<OutputEvent> {
        let mut parts = Vec::new();
        self.pushed += text.len();
        match &mut self.kind {
            Kind::Marked(marked) => {
                marked.pushed += text.len();
                marked.pending.push_str(text);
                while marked.step(done, &mut parts) {}
            }
            Kind::Harmony(harmony) => harmony.run(text, done, &mut parts),
        }
        let mut events = Vec::new();
        for part in parts {
            self.report(part, &mut events);
        }
        events
    }

    fn report(&mut self, part: Part, events: &mut Vec<OutputEvent>) {
        let index = self.index;
        match part {
            Part::Reasoning(text) if text.is_empty() => {}
            Part::Reasoning(text) => events.push(OutputEvent::Reasoning(text)),
            Part::Content(text, _) if text.is_empty() => {}
            Part::Content(text, end) => {
                let span = end - text.len()..end;
                match self.spans.last_mut().filter(|last| last.end == span.start) {
                    Some(last) => last.end = span.end,
                    None => self.spans.push(span),
                }
                events.push(OutputEvent::Content(text));
            }
            Part::CallBegins { id, name } => events.push(OutputEvent::ToolCallStart { index, id, name }),
            Part::Arguments(fragment) => events.push(OutputEvent::ToolCallArguments { index, fragment }),
            Part::CallEnds => {
                self.index += 1;
                events.push(OutputEvent::ToolCallEnd { index });
            }
            Part::Unfinished => {
                self.index += 1;
                events.push(OutputEvent::ToolCallUnfinished { index });
            }
        }
    }

    /// Returns the number of bytes of the text that are decided.
    pub(super) fn decided(&self) -> usize {
        let pending = match &self.kind {
            Kind::Marked(marked) => &marked.pending,
            Kind::Harmony(harmony) => harmony.pending(),
        };
        self.pushed - pending.len()
    }

    /// Returns the byte ranges of the content, ascending, as far as decided.
    pub(super) fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// Drops the content ranges that end at or before `before`.
    pub(super) fn forget_spans(&mut self, before: usize) {
        let gone = self.spans.partition_point(|span| span.end <= before);
        self.spans.drain(..gone);
    }

    /// Returns the text that is content unless the whole answer turns out to be calls without markers.
    pub(super) fn held(&self) -> &str {
        match &self.kind {
            Kind::Marked(m) if matches!(m.state, State::Bare(_)) => &m.pending,
            _ => "",
        }
    }

    /// Stops accepting calls without markers. Returns the text held back for them as content.
    pub(super) fn without_bare_calls(&mut self) -> Vec<OutputEvent> {
        if let Kind::Marked(marked) = &mut self.kind {
            marked.bare_calls = None;
            if matches!(marked.state, State::Bare(_)) {
                marked.state = State::Text;
            }
        }
        self.run("", false)
    }

    /// Returns the whitespace that is content unless a call follows.
    pub(super) fn waiting_blanks(&self) -> &str {
        match &self.kind {
            Kind::Marked(m)
                if matches!(m.state, State::Text)
                    && !m.skip_blanks
                    && !m.at_start
                    && m.pending.trim_ascii().is_empty() =>
            {
                &m.pending
            }
            _ => "",
        }
    }

    /// Returns whether the next text is content, as far as known.
    pub(super) fn in_content(&self) -> bool {
        match &self.kind {
            Kind::Marked(marked) => matches!(marked.state, State::Text | State::Bare(_)),
            Kind::Harmony(harmony) => harmony.in_content(),
        }
    }
}

impl Marked {
    /// Decides on a part of `pending`. Returns whether more can be decided.
    fn step(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        if self.skip_blanks {
            let blanks = self.pending.len() - self.pending.trim_ascii_start().len();
            self.pending.drain(..blanks);
            if self.pending.is_empty() {
                return false;
            }
            self.skip_blanks = false;
        }
        match &mut self.state {
            State::Reasoning => self.reasoning(done, parts),
            State::Text => self.text(done, parts),
            State::Call(..) => self.call(done, parts),
            State::Bare(_) => self.bare(done, parts),
        }
    }

    fn take(&mut self, to: usize) -> String {
        self.pending.drain(..to).collect()
    }

    fn reasoning(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        let close = self.close.clone().unwrap_or_default();
        if let Some(at) = self.pending.find(&close) {
            let end = solid_end(&self.pending[..at]);
            let text = self.take(end);
            parts.push(Part::Reasoning(text));
            self.pending.drain(..at - end + close.len());
            (self.state, self.skip_blanks) = (State::Text, true);
            return true;
        }
        let held = if done { 0 } else { beginning(&self.pending, 0, &close) };
        let end = self.pending.len() - held;
        // Whitespace before the end of reasoning is dropped.
        let end = if done { end } else { solid_end(&self.pending[..end]) };
        let text = self.take(end);
        parts.push(Part::Reasoning(text));
        false
    }

    fn text(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let blanks = self.pending.len() - self.pending.trim_ascii_start().len();
        // Whitespace is held back only if something can follow it.
        let may_open = self.open.is_some() || self.calls.is_some() || self.bare_calls.is_some();
        self.at_start = self.at_start && may_open && blanks <= MAX_BLANKS;
        if self.at_start {
            let rest = &self.pending[blanks..];
            if let Some(open) = &self.open {
                if rest.starts_with(open.as_str()) {
                    let end = blanks + open.len();
                    self.pending.drain(..end);
                    (self.state, self.skip_blanks) = (State::Reasoning, true);
                    return true;
                }
                if !done && open.starts_with(rest) {
                    return false;
                }
            }
            if rest.is_empty() && !done {
                return false;
            }
            // A format without markers parses its own objects.
            let own = self.calls.as_ref().is_some_and(|calls| calls.bare) && rest.starts_with(['{', '[']);
            if self.bare_calls.is_some() && rest.starts_with(['{', '[', '`']) && !own {
                self.state = State::Bare(Box::default());
                return true;
            }
        }
        let Some(calls) = &self.calls else {
            self.at_start = false;
            let text = std::mem::take(&mut self.pending);
            self.say(text, parts);
            return false;
        };
        let rest = &self.pending[blanks..];
        if self.in_section {
            match calls.section.1.at(&self.pending, 0) {
                Match::Yes(end) => {
                    self.pending.drain(..end);
                    (self.in_section, self.skip_blanks) = (false, true);
                    return true;
                }
                Match::Partly => {
                    // The answer ended within the marker.
                    if done {
                        self.pending.clear();
                    }
                    return false;
                }
                Match::No => {}
            }
        }
        let bare = calls.bare && self.at_start || self.in_section && calls.reader.start.is_empty();
        if bare && rest.starts_with(['{', '[']) {
            let before = self.take(blanks);
            self.state = State::Call(Box::new(Reading::new()), before);
            return true;
        }
        let first = calls.triggers.iter().filter_map(|word| self.pending.find(word.as_str())).min();
        let (end, found) = match first {
            Some(at) => (at, true),
            None if done && !self.required => (self.pending.len(), false),
            None => {
                let held = calls.triggers.iter().map(|word| beginning(&self.pending, 0, word)).max();
                (self.pending.len() - held.unwrap_or(0), false)
            }
        };
        // Whitespace before a call is dropped, so it is held back.
        let out = if done && !found { end } else { solid_end(&self.pending[..end]) };
        let text = self.take(out);
        self.at_start = self.at_start && text.trim_ascii().is_empty();
        self.in_section = self.in_section && text.is_empty();
        self.say(text, parts);
        if found {
            let before = self.take(end - out);
            self.state = State::Call(Box::new(Reading::new()), before);
        } else if done {
            self.pending.clear();
        }
        found
    }

    fn call(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        let has_section = self.calls.as_ref().is_some_and(|calls| !calls.section.0.is_empty());
        let (Some(calls), State::Call(reading, before)) = (&self.calls, &mut self.state) else {
            return false;
        };
        match reading.advance(&self.pending, &calls.reader, &self.tools, done, parts) {
            Progress::More if !done => return false,
            Progress::More => {
                reading.cut(&self.pending, &calls.reader, &self.tools, parts);
                // Text after a marker was meant as a call.
                let is_bare = calls.bare && self.pending.starts_with(['{', '[']);
                let is_call = reading.emitted().is_some() || self.in_section || !is_bare || self.required;
                let text = std::mem::take(before) + &std::mem::take(&mut self.pending);
                self.state = State::Text;
                if !is_call {
                    self.say(text, parts);
                }
            }
            Progress::Done(end) => {
                self.pending.drain(..end);
                (self.state, self.skip_blanks, self.at_start) = (State::Text, true, false);
                self.in_section = has_section;
            }
            Progress::Failed(at) => {
                if reading.is_open() {
                    parts.push(Part::Unfinished);
                }
                let text = match reading.emitted() {
                    None => std::mem::take(before) + &self.pending[..at],
                    Some(emitted) => self.pending[emitted.min(at)..at].to_owned(),
                };
                self.pending.drain(..at);
                (self.state, self.at_start, self.in_section) = (State::Text, false, false);
                self.say(text, parts);
            }
        }
        true
    }

    fn bare(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        let (Some(rules), State::Bare(reading)) = (&self.bare_calls, &mut self.state) else { return false };
        match reading.advance(&self.pending, &self.tools, rules, done) {
            Verdict::More => return false,
            Verdict::Content => self.bare_calls = None,
            Verdict::Calls(calls) => {
                self.pending.clear();
                self.at_start = false;
                for call in calls {
                    parts.push(Part::CallBegins { id: None, name: call.name });
                    parts.push(Part::Arguments(call.arguments));
                    parts.push(Part::CallEnds);
                }
            }
        }
        self.state = State::Text;
        true
    }

    /// Outputs content that ends where `pending` begins.
    fn say(&self, text: String, parts: &mut Vec<Part>) {
        parts.push(Part::Content(text, self.pushed - self.pending.len()));
    }
}

/// Returns the start of the trailing whitespace that is dropped if a marker follows.
fn solid_end(text: &str) -> usize {
    // Whitespace characters are single bytes, so this is a character boundary.
    text.trim_ascii_end().len().max(text.len().saturating_sub(MAX_BLANKS))
}
