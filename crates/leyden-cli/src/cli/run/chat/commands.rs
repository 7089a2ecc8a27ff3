//! The commands of a conversation, one line each.

use std::io::Write;

use super::super::answer::Answerer;
use super::super::settings;
use super::files;
use super::talk::{Talk, say, trimmed};
use crate::cli::failure::Failure;
use crate::cli::text::{plural, printable};

/// Continuation of the conversation after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Quit,
    /// The next message begins a new conversation.
    Begin,
    /// Answer the last message.
    Answer,
}

/// Objects that commands change.
struct Scene<'a> {
    talk: &'a mut Talk,
    answerer: &'a mut dyn Answerer,
    err: &'a mut dyn Write,
}

/// A command.
struct Command {
    /// Name and aliases.
    names: &'static [&'static str],
    argument: &'static str,
    help: &'static str,
    run: fn(&mut Scene<'_>, &str) -> Result<Next, Failure>,
}

const fn row(
    names: &'static [&'static str],
    argument: &'static str,
    help: &'static str,
    run: fn(&mut Scene<'_>, &str) -> Result<Next, Failure>,
) -> Command {
    Command { names, argument, help, run }
}

/// Every command.
static COMMANDS: &[Command] = &[
    row(&["/help", "/?"], "", "list the commands", help),
    row(&["/set"], "NAME VALUE", "change a setting; /set alone lists them", set),
    row(&["/show"], "", "show model, settings and fill level of the context", show),
    row(&["/read", "/file"], "FILE", "put the file's text before the next message", read),
    row(&["/regen", "/retry"], "", "answer the last message again, with another seed", regen),
    row(&["/undo"], "", "remove the last message and its answer", undo),
    row(&["/trim"], "", "drop the oldest turns until a quarter of the context is free", trim),
    row(&["/clear", "/new"], "", "start a new conversation", clear),
    row(&["/save"], "FILE", "write the conversation; as JSON if FILE ends in .json", save),
    row(&["/load"], "FILE", "continue a conversation saved as JSON", load),
    row(&["/bye", "/exit", "/quit"], "", "end the program, like Ctrl-D", quit),
];

/// Returns the completions of `line`, which begins with a slash: byte offset of the completed word, and the words.
pub(crate) fn completions(line: &str) -> (usize, Vec<String>) {
    let Some((command, argument)) = line.split_once(' ') else {
        let all = COMMANDS.iter().flat_map(|command| command.names);
        return (0, all.filter(|name| name.starts_with(line)).map(|name| (*name).to_owned()).collect());
    };
    let start = command.len() + 1;
    match command {
        "/set" => {
            let fitting = settings::names().filter(|name| name.starts_with(argument));
            (start, fitting.map(str::to_owned).collect())
        }
        "/read" | "/file" | "/load" | "/save" => (start, files::completions(argument)),
        _ => (start, Vec::new()),
    }
}

/// Runs the command of a line that begins with a slash.
pub(super) fn run(
    talk: &mut Talk,
    answerer: &mut dyn Answerer,
    err: &mut dyn Write,
    text: &str,
) -> Result<Next, Failure> {
    let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let scene = &mut Scene { talk, answerer, err };
    match COMMANDS.iter().find(|command| command.names.contains(&name)) {
        Some(command) => (command.run)(scene, argument.trim()),
        None => {
            let name = printable(name, 40);
            let text = "/help lists the commands; for a message with a slash, put a space before it";
            scene.say(&format!("no command {name}; {text}"));
            Ok(Next::Go)
        }
    }
}

impl Scene<'_> {
    fn say(&mut self, text: &str) {
        say(self.err, text);
    }
}

fn help(scene: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    for command in COMMANDS {
        let usage = format!("{} {}", command.names.join(" "), command.argument);
        scene.say(&format!("  {:<20} {}", usage.trim_end(), command.help));
    }
    for (key, help) in [
        ("\"\"\"", "around a message of several lines"),
        ("Alt-Enter", "a line break within a message"),
        ("Tab", "complete a command, a setting or a file's name"),
        ("Ctrl-C", "stop the answer"),
        ("Ctrl-R", "search the history"),
    ] {
        scene.say(&format!("  {key:<20} {help}"));
    }
    Ok(Next::Go)
}

fn set(scene: &mut Scene<'_>, text: &str) -> Result<Next, Failure> {
    if text.is_empty() {
        let lines = scene.talk.settings.lines();
        lines.iter().for_each(|line| scene.say(line));
        return Ok(Next::Go);
    }
    let before = scene.talk.settings.context;
    scene.talk.settings.set(text)?;
    let context = scene.talk.settings.context;
    if context != before
        && let Err(failure) = scene.answerer.set_context(context)
    {
        scene.talk.settings.context = before;
        return Err(failure);
    }
    if text.contains("think") && !scene.answerer.can_think() {
        scene.say("(this model's chat template has no setting for reasoning)");
    }
    scene.say("(set)");
    Ok(Next::Go)
}

fn show(scene: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    let tokens = match scene.talk.messages.is_empty() {
        true => 0,
        false => scene.answerer.tokens(&scene.talk.messages, &scene.talk.settings)?,
    };
    let model = printable(&scene.talk.model, 200);
    let said = plural(scene.talk.messages.len(), "message");
    scene.say(&format!(
        "  model {model}\n  {said}, {tokens} of {} tokens of the context",
        scene.answerer.context()
    ));
    let lines = scene.talk.settings.lines();
    lines.iter().for_each(|line| scene.say(line));
    Ok(Next::Go)
}

fn read(scene: &mut Scene<'_>, file: &str) -> Result<Next, Failure> {
    let text = files::read(named(file, "/read notes.txt")?)?;
    let text = text.trim_end_matches('\n');
    let size = plural(text.chars().count(), "character");
    scene.talk.attached.push(text.to_owned());
    scene.say(&format!("({size}; put before the next message)"));
    Ok(Next::Go)
}

fn regen(scene: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    let Some(question) = scene.talk.drop_last_turn() else {
        scene.say("(there are no messages yet)");
        return Ok(Next::Go);
    };
    scene.talk.messages.push(question);
    let seed = &mut scene.talk.settings.generate.sampling.seed;
    *seed = seed.wrapping_add(1);
    Ok(Next::Answer)
}

fn undo(scene: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    let text = match scene.talk.drop_last_turn() {
        Some(question) => format!("(removed: {})", printable(question.content.trim(), 60)),
        None => "(there are no messages yet)".to_owned(),
    };
    scene.say(&text);
    Ok(Next::Go)
}

fn trim(scene: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    let text = match scene.talk.trim(scene.answerer)? {
        0 => "(nothing to drop: a quarter of the context is free, or there is only one turn)".to_owned(),
        n => trimmed(n, scene.talk, scene.answerer)?,
    };
    scene.say(&text);
    Ok(Next::Go)
}

fn clear(scene: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    scene.talk.clear();
    scene.say("(forgotten)");
    Ok(Next::Begin)
}

fn save(scene: &mut Scene<'_>, file: &str) -> Result<Next, Failure> {
    let messages = scene.talk.all_messages();
    files::save(named(file, "/save story.txt")?, &messages)?;
    scene.say(&format!("(saved {} to {file})", plural(messages.len(), "message")));
    Ok(Next::Go)
}

fn load(scene: &mut Scene<'_>, file: &str) -> Result<Next, Failure> {
    let messages = files::read_messages(named(file, "/load talk.json")?)?;
    let said = plural(messages.len(), "message");
    scene.talk.take_messages(messages);
    scene.say(&format!("(loaded {said})"));
    Ok(Next::Begin)
}

fn quit(_: &mut Scene<'_>, _: &str) -> Result<Next, Failure> {
    Ok(Next::Quit)
}

fn named<'a>(file: &'a str, example: &str) -> Result<&'a str, Failure> {
    let command = example.split(' ').next().unwrap_or("");
    if file.is_empty() {
        return Err(Failure::usage(format!("{command} needs a file name")).hint(example));
    }
    Ok(file)
}
