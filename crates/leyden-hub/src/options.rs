//! [`Options`]: the hub's address, the access token, proxies, timeouts and retries.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::knobs;
use crate::proxies::Proxies;
use leyden_tls::Authorities;

/// Address of the public hub.
pub const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Options of a [`Client`](crate::Client). [`Options::from_env`] reads them from the environment.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address of the hub; a path in it is prepended to every request.
    pub endpoint: String,
    /// Access token; sent to the endpoint alone.
    pub token: Option<Token>,
    /// True if no connection may be opened.
    pub offline: bool,
    /// Proxies to use.
    pub proxies: Proxies,
    /// Trusted certificate authorities.
    pub authorities: Authorities,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Retries.
    pub retries: Retries,
}

impl Default for Options {
    /// Returns the options of the public hub, without token and proxies.
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
    /// Reads the options from the environment; see [`knobs`].
    ///
    /// # Errors
    /// If a variable has an invalid value, or the hub's token file cannot be read.
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

/// Access token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns a token, with surrounding blanks removed.
    ///
    /// # Errors
    /// If it is empty or holds characters that cannot be sent.
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

/// Timeouts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Limit for a connection, name resolution and encryption included.
    pub connect: Duration,
    /// Limit for the headers of a response.
    pub response: Duration,
    /// Limit between two pieces of a response; also the time in which a download must receive [`SLOWEST`] bytes per
    /// second.
    pub stall: Duration,
    /// Limit for a whole response that is not a file.
    pub answer: Duration,
}

/// Bytes per second below which a download counts as stalled.
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

/// Retries after temporary failures: broken connections, timeouts, overload.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    /// Maximum number of attempts without progress. A download that received [`PROGRESS`] bytes starts counting anew.
    pub attempts: u32,
    /// Wait before the second attempt; doubles from then on.
    pub first_wait: Duration,
    /// Longest wait. A longer wait requested by the hub is an error.
    pub longest_wait: Duration,
}

/// Number of bytes that count as progress.
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
