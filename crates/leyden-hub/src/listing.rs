//! [`Listing`]: the files of a repository on the hub at one commit.

use serde::Deserialize;

use crate::client::Client;
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::names;
use crate::reference::Reference;

/// Maximum size of a listing in bytes. The largest repositories have some ten thousand files of 300 bytes each.
const LONGEST: u64 = 32 << 20;

/// Files of a repository at one commit. Their names are unchecked text of the hub.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Commit id, 40 hexadecimal digits. Files are fetched at this commit, so that they belong together even if the
    /// branch moves.
    pub(crate) commit: String,
    pub(crate) files: Vec<Listed>,
}

/// File of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) digest: Option<Digest>,
}

#[derive(Deserialize)]
struct Info {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

/// Requests the listing of a repository from the hub.
pub(crate) fn fetch(client: &Client, reference: &Reference) -> Result<Listing> {
    let revision = names::percent_encoded(reference.revision(), false);
    let path = format!("/api/models/{}/revision/{revision}?blobs=true", reference.repo());
    parse(&client.document(&path, LONGEST)?)
}

fn parse(bytes: &[u8]) -> Result<Listing> {
    let wrong = |why: String| Error::new("", ErrorKind::Protocol(why));
    let info: Info = serde_json::from_slice(bytes).map_err(|error| wrong(format!("listing: {error}")))?;
    if !names::is_commit(&info.sha) {
        return Err(wrong(format!("listing: `sha` is no commit: {}", info.sha)));
    }
    let file = |sibling: Sibling| {
        let lfs = sibling.lfs.as_ref();
        let digest = match lfs.and_then(|lfs| lfs.sha256.as_deref()) {
            Some(sha256) => Digest::sha256(sha256),
            // For a file in large-file storage git only has a pointer.
            None => sibling.blob_id.as_deref().filter(|_| lfs.is_none()).and_then(Digest::git_blob),
        };
        let size = lfs.and_then(|lfs| lfs.size).or(sibling.size);
        let size = size.ok_or_else(|| wrong(format!("listing: no size of {}", sibling.rfilename)))?;
        Ok(Listed { path: sibling.rfilename, size, digest })
    };
    let files = info.siblings.into_iter().map(file).collect::<Result<_>>()?;
    Ok(Listing { commit: info.sha, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn digests_come_from_lfs_or_git() {
        let sha256 = "ab".repeat(32);
        let text = format!(
            r#"{{"sha": "{COMMIT}", "private": false, "siblings": [
                {{"rfilename": "a.gguf", "size": 7, "blobId": "{COMMIT}", "lfs": {{"sha256": "{sha256}", "size": 7}}}},
                {{"rfilename": "b", "size": 7, "blobId": "{COMMIT}", "lfs": {{"oid": "{sha256}", "size": 8}}}},
                {{"rfilename": "c", "size": 7, "blobId": "{COMMIT}", "lfs": {{}}}},
                {{"rfilename": "d", "size": 9, "blobId": "{COMMIT}"}},
                {{"rfilename": "e", "size": 0, "blobId": "../x"}}]}}"#
        );
        let listing = parse(text.as_bytes()).unwrap();
        let found: Vec<_> = listing.files.into_iter().map(|f| (f.path, f.size, f.digest)).collect();
        let (a, d) = (Digest::sha256(&sha256), Digest::git_blob(COMMIT));
        let wanted = [("a.gguf", 7, a.clone()), ("b", 8, a), ("c", 7, None), ("d", 9, d), ("e", 0, None)];
        assert_eq!(found, wanted.map(|(path, size, digest)| (path.to_owned(), size, digest)));
    }

    #[test]
    fn malformed_listings_are_errors() {
        let deep = "[".repeat(100_000);
        let no_size = format!(r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "a"}}]}}"#);
        let negative = format!(r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "a", "size": -1}}]}}"#);
        for text in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            "<html>",
            "\u{0}",
            &deep,
            &no_size,
            &negative,
            r#"{"sha": "main", "siblings": []}"#,
            r#"{"sha": "../../../../../../../../../../../../../x", "siblings": []}"#,
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Protocol(_)), "{error}");
            assert!(error.to_string().len() < 500);
        }
    }
}
