//! Bundles: signed archives of a program, its models, and their papers, for machines without a network.
//!
//! - [`Prepared`]: files with their checksums, signed, and written as an archive.
//! - [`verify`], [`unpack`] and [`verify_folder`]: [`Verified`] contents, or the entry that is not as it was signed.
//! - [`third_party`], [`licence`] and [`sbom`]: licences and components.
//!
//! An archive is a tar file, whose first entry is the signature. Owners, times and order are fixed, so that the same files and
//! the same key make the same bytes, and a reader compares every byte: those of contents by checksums, all others by their one
//! possible value.
//!
//! ```
//! use leyden_bundle::{Contents, Entry, Prepared, verify};
//! use leyden_verify::{Key, Time};
//! use std::ops::ControlFlow::Continue;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("a.tar");
//! let key = Key::generate(Time::now(), 1)?;
//! let entries = vec![Entry::bytes("licences/LICENSE", "Apache-2.0")];
//! let contents = Contents::new(None, Vec::new());
//! let prepared = Prepared::new(entries, &|_| Vec::new(), &contents, &key, &mut |_| Continue(()))?;
//! prepared.write(&mut std::fs::File::create(&path)?, &path, &mut |_| Continue(()))?;
//! assert_eq!(verify(&path, Some(&key), &mut |_| Continue(()))?.key, key.id());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod contents;
mod entry;
mod error;
mod folder;
mod hash;
mod header;
pub mod licence;
mod names;
mod read;
mod readme;
pub mod sbom;
mod statement;
pub mod third_party;
mod write;

pub use contents::{Contents, Hub, Model, Program};
pub use entry::{Content, Entry};
pub use error::{Error, Result};
pub use folder::verify_folder;
pub use names::check_name;
pub use read::{Verified, unpack, verify};
pub use statement::Resource;
pub use write::{Heard, More, Prepared};
