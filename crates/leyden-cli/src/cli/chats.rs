//! `leyden chats`: saved conversations of `leyden run`, one file each.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use leyden::Message;
use leyden_files::OutputOptions;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::failure::Failure;
use super::knobs;
use super::text::{Table, printable};
use leyden_dates::{date_time, unix_time};

const SCHEMA: &str = "leyden.chat/1";
/// Maximum number of saved conversations; the oldest is removed.
const MAX_CHATS: usize = 200;
/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Lists conversations, the newest first, with name, time of the last message, model and first question. `leyden run
/// --resume` continues the newest, `leyden run --resume NAME` another one. The newest 200 are saved, in the folder
/// LEYDEN_CHATS, by default leyden/chats in the user's state folder; LEYDEN_CHATS=off saves none.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Remove this conversation; `all` removes all
    #[arg(long, value_name = "NAME")]
    remove: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the list, or removes conversations.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let saved = Chats::open()?;
    if let Some(name) = &args.remove {
        let chats = if name == "all" { saved.all() } else { vec![saved.find(name)?] };
        for chat in chats {
            let path = saved.path(&chat.name);
            fs::remove_file(&path)
                .map_err(|error| Failure::new(format!("{}: cannot remove: {error}", path.display())))?;
        }
        return Ok(());
    }
    let chats = saved.all();
    if args.json {
        let chats: Vec<_> = chats
            .iter()
            .map(|chat| {
                let path = saved.path(&chat.name).display().to_string();
                json!({ "name": chat.name, "time": date_time(chat.time), "model": chat.model,
                        "messages": chat.messages.len(), "title": chat.title(), "path": path })
            })
            .collect();
        serde_json::to_writer_pretty(&mut *out, &json!({ "chats": chats }))?;
        return Ok(writeln!(out)?);
    }
    if chats.is_empty() {
        // Errors of standard error cannot be reported.
        let _ = writeln!(io::stderr(), "no conversations in {}", saved.folder.display());
        return Ok(());
    }
    let mut table = Table::new(&["NAME", "TIME", "MESSAGES", "MODEL", "BEGINS"], &[2]);
    for chat in &chats {
        table.add(vec![
            chat.name.clone(),
            date_time(chat.time),
            chat.messages.len().to_string(),
            chat.model.as_deref().map_or_else(|| "-".to_owned(), |model| printable(last_part(model), 36)),
            printable(chat.title(), 40),
        ]);
    }
    table.write(out)?;
    Ok(())
}

/// A conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Chat {
    schema: String,
    /// Time of its beginning, which is the file's name.
    pub(super) name: String,
    /// Time of the last message, in seconds since 1970.
    pub(super) time: u64,
    /// The model; `None` for the embedded one.
    pub(super) model: Option<String>,
    /// Messages, the system message included.
    pub(super) messages: Vec<Message>,
}

impl Chat {
    fn title(&self) -> &str {
        self.messages
            .iter()
            .find(|message| message.role == "user")
            .map_or("", |message| message.content.trim())
    }
}

/// Saved conversations.
#[derive(Debug, Clone)]
pub(super) struct Chats {
    folder: PathBuf,
    most: usize,
}

impl Chats {
    /// Returns the conversations of the user.
    pub(super) fn open() -> Result<Self, Failure> {
        Self::if_any().ok_or_else(|| {
            let why =
                format!("conversations are not saved: {} is off, or HOME is not set", knobs::CHATS.name);
            Failure::new(why).hint(format!("set {}=FOLDER", knobs::CHATS.name))
        })
    }

    /// Returns the conversations of the user; `None` if conversations are not saved.
    pub(super) fn if_any() -> Option<Self> {
        knobs::chats_folder().map(|folder| Self { folder, most: MAX_CHATS })
    }

    /// Returns all conversations, the newest first, without unreadable files.
    pub(super) fn all(&self) -> Vec<Chat> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut chats: Vec<Chat> = entries.filter_map(|entry| read(&entry.path()).ok()).collect();
        chats.sort_by(|a, b| (b.time, &b.name).cmp(&(a.time, &a.name)));
        chats
    }

    /// Returns the conversation with this name; the newest if the name is empty.
    pub(super) fn find(&self, name: &str) -> Result<Chat, Failure> {
        let mut chats = self.all().into_iter();
        let found = if name.is_empty() { chats.next() } else { chats.find(|chat| chat.name == name) };
        found.ok_or_else(|| {
            let what = if name.is_empty() {
                "there are no saved conversations".to_owned()
            } else {
                format!("there is no conversation {}", printable(name, 60))
            };
            Failure::new(what).hint("leyden chats lists saved conversations")
        })
    }

    /// Returns a name for a conversation that begins now.
    pub(super) fn new_name(&self) -> String {
        let base: String = date_time(unix_time()).chars().filter(char::is_ascii_alphanumeric).collect();
        let base = base.replace('T', "-").trim_end_matches('Z').to_owned();
        let mut names = (2..).map(|n| format!("{base}-{n}"));
        let mut name = base.clone();
        while self.path(&name).exists() {
            name = names.next().unwrap_or_default();
        }
        name
    }

    /// Saves a conversation; replaces the file of this name.
    pub(super) fn keep(&self, name: &str, model: Option<&str>, messages: Vec<Message>) -> io::Result<()> {
        let chat = Chat {
            schema: SCHEMA.to_owned(),
            name: name.to_owned(),
            time: unix_time(),
            model: model.map(str::to_owned),
            messages,
        };
        fs::create_dir_all(&self.folder)?;
        let path = self.path(name);
        let is_first = !path.exists();
        let mut text = serde_json::to_vec_pretty(&chat)?;
        text.push(b'\n');
        leyden_files::write(&path, &text, OutputOptions::new().files_only().private())?;
        if is_first {
            self.all().iter().skip(self.most).for_each(|old| {
                // A file that stays does no harm.
                let _ = fs::remove_file(self.path(&old.name));
            });
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// Returns the last component of a model's path or name.
fn last_part(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

fn read(path: &Path) -> io::Result<Chat> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let chat: Chat = serde_json::from_slice(&bytes)?;
    // The name becomes a path again.
    let is_named = path.file_stem().and_then(|stem| stem.to_str()) == Some(&chat.name);
    if chat.schema != SCHEMA || !is_named {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    Ok(chat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_are_kept_found_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let chats = Chats { folder: folder.path().join("chats"), most: 3 };
        assert!(chats.all().is_empty() && chats.find("").is_err());
        let said = vec![Message::new("user", " Hello?\n"), Message::new("assistant", "Yes.")];
        let first = chats.new_name();
        chats.keep(&first, Some("m.gguf"), said.clone()).unwrap();
        let found = chats.find("").unwrap();
        assert_eq!(
            (found.title(), found.model.as_deref(), &found.messages),
            ("Hello?", Some("m.gguf"), &said)
        );
        assert_eq!((first.len(), chats.find(&first).unwrap().name), (15, first.clone()));
        assert_ne!(chats.new_name(), first);
        // Other files are none of its business, nor is one that names a path.
        fs::write(chats.path("note"), "{}").unwrap();
        let text = fs::read_to_string(chats.path(&first)).unwrap();
        fs::write(chats.path("odd"), text.replace(&first, "../odd")).unwrap();
        assert_eq!(chats.all().len(), 1);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(chats.path(&first)).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        for i in 0..4 {
            chats.keep(&format!("x{i}"), None, said.clone()).unwrap();
        }
        assert_eq!(chats.all().len(), 3);
    }
}
