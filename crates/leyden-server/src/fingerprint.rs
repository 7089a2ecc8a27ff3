//! [`Fingerprint`]: SHA-256 digest that identifies a model in Ollama's API.

use std::fmt;
use std::sync::Arc;
use std::thread;
use tokio::sync::{OnceCell, oneshot};

/// Digest of a model whose file cannot be read any more.
const UNKNOWN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Function that computes a SHA-256 digest as 64 hexadecimal digits. It runs on a thread of its own.
type Compute = dyn Fn() -> Result<String, String> + Send + Sync;

/// SHA-256 digest of a model, as 64 hexadecimal digits. An unknown one is computed when it is first needed.
#[derive(Clone)]
pub struct Fingerprint(Arc<Inner>);

struct Inner {
    digest: OnceCell<String>,
    compute: Box<Compute>,
}

impl Fingerprint {
    /// Returns the fingerprint of a model whose digest is known.
    #[must_use]
    pub fn known(digest: String) -> Fingerprint {
        Fingerprint(Arc::new(Inner {
            digest: OnceCell::new_with(Some(digest)),
            compute: Box::new(|| Err("the digest is known".to_owned())),
        }))
    }

    /// Returns the fingerprint of a model whose digest has to be computed.
    #[must_use]
    pub fn computed(compute: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Fingerprint {
        Fingerprint(Arc::new(Inner { digest: OnceCell::new(), compute: Box::new(compute) }))
    }

    /// Returns the digest, computed once for all callers; `None` if the model's file cannot be read any more.
    pub(crate) async fn known_or_computed(&self) -> Option<String> {
        Some(self.get().await).filter(|digest| digest != UNKNOWN)
    }

    /// Returns the digest, computed once for all callers; zeros if the model's file cannot be read any more.
    pub(crate) async fn get(&self) -> String {
        let inner = Arc::clone(&self.0);
        // In a task of its own, the computation goes on if the client disconnects.
        let task = tokio::spawn(async move {
            let of_thread = || {
                let (sender, receiver) = oneshot::channel();
                let inner = Arc::clone(&inner);
                let work = move || drop(sender.send((inner.compute)()));
                let thread = thread::Builder::new().name("digest".to_owned()).spawn(work);
                async move {
                    thread.map_err(drop)?;
                    receiver.await.map_err(drop)?.map_err(drop)
                }
            };
            inner.digest.get_or_try_init(of_thread).await.cloned()
        });
        task.await.ok().and_then(Result::ok).unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fingerprint").field(&self.0.digest.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_digest_is_computed_once_for_all_who_ask() {
        assert_eq!(Fingerprint::known("ab".repeat(32)).get().await, "ab".repeat(32));
        let n = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&n);
        let digest = Fingerprint::computed(move || match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the file is away".to_owned()),
            _ => Ok("cd".repeat(32)),
        });
        assert_eq!(digest.get().await, UNKNOWN);
        let other = digest.clone();
        let (a, b) = tokio::join!(digest.get(), other.get());
        assert_eq!((a, b, n.load(Ordering::SeqCst)), ("cd".repeat(32), "cd".repeat(32), 2));
    }
}
