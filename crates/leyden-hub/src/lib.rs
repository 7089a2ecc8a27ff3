//! Models from the hub: a blocking client, a store on the disk, and the resolution of a command's MODEL argument.
//!
//! [`pull`] and [`fetch_header`] are the only functions here that open a connection. [`pull`] lists a repository at one commit, chooses the files
//! of one model, and downloads each into the [`Store`] with its length and checksum verified, resuming an earlier pull.
//! [`locate`] and all other functions only read the disk.
//!
//! The hub is not trusted: names are checked against a list of allowed characters before they become paths, responses
//! are bounded in length and time, and the token is sent to the configured address only.
//!
//! ```no_run
//! use leyden_hub::{Client, Options, Store, pull};
//! let client = Client::new(Options::from_env()?)?;
//! let store = Store::from_env()?;
//! let pulled = pull(&client, &store, &"hf:org/model-GGUF:Q4_K_M".parse()?, &mut |_| {})?;
//! println!("{}", pulled.model.path.display());
//! # Ok::<(), leyden_hub::Error>(())
//! ```
#![forbid(unsafe_code)]

mod adding;
mod address;
mod client;
mod contents;
mod digest;
mod download;
mod durable;
mod error;
mod events;
mod file_names;
mod fingerprint;
mod header;
pub mod knobs;
mod listing;
mod model;
mod named;
mod names;
mod naming;
mod options;
mod proxies;
mod pull;
mod reference;
mod resolve;
mod select;
mod short_name_table;
mod short_names;
mod stamp;
mod store;
mod tls;

pub use adding::Origin;
pub use client::{Client, Stopper};
pub use contents::Contents;
pub use error::{Error, ErrorKind, Missing, Result};
pub use events::Event;
pub use fingerprint::{sha256_of_bytes, sha256_of_files};
pub use header::{Header, fetch_header};
pub use leyden_tls::Authorities;
pub use model::{Format, Model, ModelFile};
pub use named::{Defaults, Named, Source};
pub use naming::meant;
pub use options::{DEFAULT_ENDPOINT, Options, PROGRESS, Retries, SLOWEST, Timeouts, Token};
pub use proxies::Proxies;
pub use pull::{Pulled, pull};
pub use reference::{Reference, Repo, SCHEME};
pub use resolve::{Located, locate, resolve, resolve_with};
pub use short_names::ShortName;
pub use stamp::Stamp;
pub use store::{Removed, Store};
