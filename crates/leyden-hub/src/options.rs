//! [`Options`]: which hub is asked, as whom, and with how much patience.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::knobs;
use leyden_tls::Authorities;

/// The hub's own address.
pub const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// How a [`Client`](crate::Client) reaches the hub. [`Options::from_env`] reads what the environment says.
#[derive(Debug, Clone)]
pub struct Options {
    /// The hub's address; a path in it is kept in front of every request.
    pub endpoint: String,
    /// Proves who asks; sent to the endpoint alone.
    pub token: Option<Token>,
    /// Opens no connection.
    pub offline: bool,
    /// Proxies on the way.
    pub proxies: Proxies,
    /// Who vouches for servers.
    pub authorities: Authorities,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// How often to try.
    pub retries: Retries,
}

impl Default for Options {
    /// The public hub, without token and proxies.
    fn default() -> Self {
        Self {
            endpoint: DEFAULT_ENDPOINT.to_owned(),
            token: None,
            offline: false,
            proxies: Proxies::default(),
            authorities: Authorities::default(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
        }
    }
}

impl Options {
    /// What the environment asks for; see [`knobs`].
    ///
    /// # Errors
    /// A variable has a value that cannot be meant, or the hub's token file cannot be read.
    pub fn from_env() -> Result<Self> {
        let token = match knobs::token()? {
            Some((text, source)) => Some(Token::new(&text).map_err(|error| error.or_at(&source))?),
            None => None,
        };
        Ok(Self {
            endpoint: knobs::ENDPOINT.get().unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            token,
            offline: knobs::offline()?,
            proxies: knobs::proxies(),
            ..Self::default()
        })
    }
}

/// An access token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token, with blanks around it removed.
    ///
    /// # Errors
    /// It is empty or holds characters that cannot be sent.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the token is empty or holds characters that no token has";
            return Err(Error::new("", ErrorKind::Setting(why.to_owned())));
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Proxies between here and the hub, as addresses such as `http://user:password@proxy.example:3128`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `https` addresses.
    pub https: Option<String>,
    /// For `http` addresses.
    pub http: Option<String>,
    /// Hosts and domains that are reached directly, separated by commas; `*` is all of them.
    pub direct: String,
}

impl fmt::Debug for Proxies {
    /// Says which there are: their addresses may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxies(https: {}, http: {})", self.https.is_some(), self.http.is_some())
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection, name resolution and encryption included.
    pub connect: Duration,
    /// For the head of an answer.
    pub response: Duration,
    /// Between two pieces of an answer; also the time in which a download must bring [`SLOWEST`] bytes a second.
    pub stall: Duration,
    /// For the whole of an answer that is not a file.
    pub answer: Duration,
}

/// A download slower than this, in bytes per second, is taken for dead.
pub const SLOWEST: u64 = 100;

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            response: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            answer: Duration::from_secs(60),
        }
    }
}

/// How often to try again what may pass by itself: broken connections, silence, overload.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    /// Attempts that bring nothing before giving up. A download that brought [`PROGRESS`] bytes starts counting anew.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles from then on.
    pub first_wait: Duration,
    /// The longest wait. If the hub asks for more, that is an error.
    pub longest_wait: Duration,
}

/// So many bytes are progress.
pub const PROGRESS: u64 = 1 << 20;

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 5, first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(60) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let options = Options {
            token: Some(Token::new(" hf_secret\n").unwrap()),
            proxies: Proxies { https: Some("http://u:secret@p".into()), ..Proxies::default() },
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("secret"), "{options:?}");
        assert_eq!(options.token.unwrap().header(), "Bearer hf_secret");
        for bad in ["", " ", "a b", "a\r\nHost: x", "ä"] {
            let error = Token::new(bad).unwrap_err();
            assert!(bad.trim().is_empty() || !error.to_string().contains(bad.trim()), "{error}");
        }
    }
}
