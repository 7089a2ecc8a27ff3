//! [`pull`]: download of a model from the hub into the store.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::client::Client;
use crate::digest::{self, Hasher};
use crate::download::{self, Job};
use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::listing::{self, Listed, Listing};
use crate::model::{Model, ModelFile};
use crate::names;
use crate::reference::{Reference, Repo};
use crate::select::{self, Selection};
use crate::store::{Lock, Record, Recorded, Store};

/// Interval at which a waiting pull tries the lock again.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// Pulled model.
#[derive(Debug)]
pub struct Pulled {
    /// Model in the store.
    pub model: Model,
    /// Number of bytes received over the network in this pull.
    pub downloaded: u64,
}

/// Downloads a model into the store. Files already in the store are compared with the hub's checksums; only missing and
/// wrong ones are downloaded. Offline, the model must be complete in the store.
///
/// # Errors
/// If the network, the hub or the disk fails, or a [`Stopper`](crate::Stopper) ends the pull. An incomplete model is not
/// listed, and the next pull resumes the downloaded data.
pub fn pull(
    client: &Client,
    store: &Store,
    reference: &Reference,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Pulled> {
    let at = reference.to_string();
    if client.options().offline {
        return offline(store, &at);
    }
    let about = |error: Error| error.or_at(&at);
    let listing = client
        .retrying(&mut |error, wait| on(Event::Retry { error, wait }), || listing::fetch(client, reference))
        .map_err(about)?;
    let selection =
        select::select(&listing.files, reference.file()).map_err(|kind| Error::new(at.as_str(), kind))?;
    for file in &selection.files {
        names::check_file(&file.path)
            .map_err(|why| Error::new(at.as_str(), ErrorKind::UnsafeName { name: file.path.clone(), why }))?;
    }
    if let Selection { main: Some(file), chosen_of: of @ 2.., .. } = &selection {
        on(Event::Chosen { file, of: *of });
    }
    let lock = lock(client, store, reference.repo(), on)?;
    let mut pull = Pull { client, store, reference, listing: &listing, downloaded: 0, _lock: lock };
    let model = pull.run(&selection, on).map_err(about)?;
    Ok(Pulled { model, downloaded: pull.downloaded })
}

fn offline(store: &Store, name: &str) -> Result<Pulled> {
    match store.find(name) {
        Ok(model) => match model.damage {
            Some(why) => Err(Error::new(name, ErrorKind::Damaged(why))),
            None => Ok(Pulled { model, downloaded: 0 }),
        },
        Err(error) if matches!(error.kind(), ErrorKind::NoSuchModel { .. }) => {
            Err(Error::new(name, ErrorKind::Offline))
        }
        Err(error) => Err(error),
    }
}

fn lock(client: &Client, store: &Store, repo: &Repo, on: &mut dyn FnMut(Event<'_>)) -> Result<Lock> {
    let mut told = false;
    loop {
        if let Some(lock) = store.try_lock(repo)? {
            return Ok(lock);
        }
        if !told {
            on(Event::Waiting);
            told = true;
        }
        client.wait(LOCK_POLL)?;
    }
}

struct Pull<'a> {
    client: &'a Client,
    store: &'a Store,
    reference: &'a Reference,
    listing: &'a Listing,
    downloaded: u64,
    _lock: Lock,
}

impl Pull<'_> {
    fn run(&mut self, selection: &Selection, on: &mut dyn FnMut(Event<'_>)) -> Result<Model> {
        let repo = self.reference.repo();
        // A damaged record is replaced: files that it listed are found again by checksum.
        let mut record = match self.store.record(repo) {
            Err(error) if matches!(error.kind(), ErrorKind::Record(_)) => Record::default(),
            record => record?,
        };
        let bytes = selection.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        on(Event::Plan { files: selection.files.len(), bytes });
        let mut files: Vec<Option<ModelFile>> = Vec::new();
        for file in &selection.files {
            files.push(self.present(file, &record, on)?);
        }
        let missing: Vec<&Listed> = selection
            .files
            .iter()
            .zip(&files)
            .filter(|(_, done)| done.is_none())
            .map(|(file, _)| file)
            .collect();
        self.check_space(&missing)?;
        for (file, done) in selection.files.iter().zip(&mut files) {
            if done.is_none() {
                *done = Some(self.fetch(file, on)?);
            }
        }
        let recorded = Recorded {
            revision: self.reference.revision().to_owned(),
            commit: self.listing.commit.clone(),
            format: selection.format,
            main: selection.main.clone(),
            pulled: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            files: files.into_iter().flatten().collect(),
        };
        let (replaced, mut kept): (Vec<_>, Vec<_>) =
            record.models.drain(..).partition(|other| other.same_model(&recorded));
        kept.push(recorded.clone());
        record.models = kept;
        self.store.write_record(repo, &record)?;
        for old in &replaced {
            self.store.remove_files(repo, old, &record)?;
        }
        // Fails if the folder has data that another pull can resume.
        let _ = fs::remove_dir(self.store.repo_folder(repo).join("partial"));
        Ok(self.store.model(repo, recorded))
    }

    /// Returns a file with the right content that is in its place already, or in the folder of another commit.
    fn present(
        &self,
        listed: &Listed,
        record: &Record,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<ModelFile>> {
        let folder = self.store.repo_folder(self.reference.repo());
        let place = folder.join(&self.listing.commit).join(&listed.path);
        let here = self.checked(listed, &place, on)?;
        if here.is_some() {
            return Ok(here);
        }
        // Wrong or incomplete. Processes that have it open keep its content.
        durable::remove_file(&place)?;
        let others = record.models.iter().filter(|model| model.commit != self.listing.commit);
        for other in others.filter(|model| model.files.iter().any(|file| file.path == listed.path)) {
            let theirs = folder.join(&other.commit).join(&listed.path);
            if let Some(file) = self.checked(listed, &theirs, on)? {
                self.make_room_for(&place)?;
                // On file systems without hard links the file is downloaded again.
                if fs::hard_link(&theirs, &place).is_ok() {
                    durable::flush_folder(place.parent().unwrap_or(&folder))?;
                    return Ok(Some(file));
                }
            }
        }
        Ok(None)
    }

    /// Returns the file at `path`, if it has the length and checksum listed by the hub.
    fn checked(
        &self,
        listed: &Listed,
        path: &Path,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<ModelFile>> {
        let Some(wanted) = &listed.digest else { return Ok(None) };
        if !fs::symlink_metadata(path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == listed.size)
        {
            return Ok(None);
        }
        on(Event::Check { path: &listed.path, bytes: listed.size });
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let mut hasher = Hasher::new(wanted, listed.size);
        let mut heard = |bytes| {
            on(Event::At { bytes });
            self.client.check_stopped()
        };
        digest::of_file(&mut file, path, &mut hasher, &mut heard)?;
        let hashed = hasher.finish();
        if hashed.like(wanted) != *wanted {
            on(Event::StartOver { path: &listed.path });
            return Ok(None);
        }
        on(Event::Done { path: &listed.path, bytes: listed.size });
        Ok(Some(ModelFile { path: listed.path.clone(), bytes: listed.size, sha256: hashed.sha256 }))
    }

    fn fetch(&mut self, listed: &Listed, on: &mut dyn FnMut(Event<'_>)) -> Result<ModelFile> {
        let repo = self.reference.repo();
        let digest =
            listed.digest.as_ref().ok_or_else(|| Error::new(listed.path.as_str(), ErrorKind::NoChecksum))?;
        let place = self.store.repo_folder(repo).join(&self.listing.commit).join(&listed.path);
        let partial = self.store.partial(repo, digest.hex());
        self.make_room_for(&partial)?;
        self.make_room_for(&place)?;
        let path = names::percent_encoded(&listed.path, true);
        let job = Job {
            address: format!("/{repo}/resolve/{}/{path}", self.listing.commit),
            path: &listed.path,
            size: listed.size,
            digest: listed.digest.clone(),
        };
        on(Event::Download { path: &listed.path, bytes: listed.size });
        let (sha256, received) = download::download(self.client, &job, &partial, on)?;
        self.downloaded += received;
        durable::rename(&partial, &place)?;
        on(Event::Done { path: &listed.path, bytes: listed.size });
        Ok(ModelFile { path: listed.path.clone(), bytes: listed.size, sha256 })
    }

    fn make_room_for(&self, file: &Path) -> Result<()> {
        durable::make_folder(self.store.root(), file.parent().unwrap_or(self.store.root()))
    }

    /// Checks that the disk has space for the missing files.
    fn check_space(&self, missing: &[&Listed]) -> Result<()> {
        let still = |file: &Listed| {
            let partial =
                file.digest.as_ref().map(|digest| self.store.partial(self.reference.repo(), digest.hex()));
            let have = partial.and_then(|path| fs::metadata(path).ok()).map_or(0, |metadata| metadata.len());
            file.size.saturating_sub(have)
        };
        let needed = missing.iter().map(|file| still(file)).fold(0, u64::saturating_add);
        let root = self.store.root();
        let space = rustix::fs::statvfs(root)
            .map_err(|errno| Error::io("examine the disk of", root)(errno.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if needed > free {
            return Err(Error::new(root.display().to_string(), ErrorKind::DiskSpace { needed, free }));
        }
        Ok(())
    }
}
