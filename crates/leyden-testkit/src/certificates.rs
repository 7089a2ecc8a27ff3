//! Certificates of tests: an authority, certificates that it signs, and its list of revoked ones.
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "code of tests, which fail by panicking")]

use graviola::hashing::Sha256;
use graviola::signing::{ecdsa, eddsa, rsa};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, Error,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose, PublicKeyData, RevokedCertParams,
    SanType, SerialNumber, SignatureAlgorithm, SigningKey,
};
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

const DAY_SECONDS: i64 = 86_400;

/// Kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on the curve P-256.
    P256,
    /// Ed25519.
    Ed25519,
    /// RSA of 2048 bits.
    Rsa,
}

enum Signer {
    P256(Box<ecdsa::SigningKey<ecdsa::P256>>),
    Ed25519(Box<eddsa::Ed25519SigningKey>),
    Rsa(Box<rsa::SigningKey>),
}

struct Key {
    signer: Signer,
    public: Vec<u8>,
}

impl Key {
    fn new(kind: KeyKind) -> Key {
        let mut buffer = [0; 4096];
        match kind {
            KeyKind::P256 => {
                let key = ecdsa::SigningKey::<ecdsa::P256>::generate().unwrap();
                // The point is the end of the encoding: a byte for its form and two coordinates.
                let spki = key.to_spki_der(&mut buffer).unwrap();
                Key { public: spki[spki.len() - 65..].to_vec(), signer: Signer::P256(Box::new(key)) }
            }
            KeyKind::Ed25519 => {
                let key = eddsa::Ed25519SigningKey::generate().unwrap();
                Key { public: key.public_key().as_bytes().to_vec(), signer: Signer::Ed25519(Box::new(key)) }
            }
            KeyKind::Rsa => {
                let key = rsa::SigningKey::generate(rsa::KeySize::Rsa2048).unwrap();
                let public = key.public_key().to_pkcs1_der(&mut buffer).unwrap().to_vec();
                Key { public, signer: Signer::Rsa(Box::new(key)) }
            }
        }
    }

    fn pem(&self) -> String {
        let mut buffer = [0; 4096];
        let der = match &self.signer {
            Signer::P256(key) => key.to_pkcs8_der(&mut buffer),
            Signer::Ed25519(key) => key.to_pkcs8_der(&mut buffer),
            Signer::Rsa(key) => key.to_pkcs8_der(&mut buffer),
        };
        pem("PRIVATE KEY", der.unwrap())
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self.signer {
            Signer::P256(_) => &rcgen::PKCS_ECDSA_P256_SHA256,
            Signer::Ed25519(_) => &rcgen::PKCS_ED25519,
            Signer::Rsa(_) => &rcgen::PKCS_RSA_SHA256,
        }
    }
}

impl SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let mut buffer = [0; 512];
        Ok(match &self.signer {
            Signer::P256(key) => key.sign_asn1::<Sha256>(&[message], &mut buffer).unwrap().to_vec(),
            Signer::Ed25519(key) => key.sign(message).to_vec(),
            Signer::Rsa(key) => {
                let signature = &mut buffer[..key.modulus_len_bytes()];
                key.sign_pkcs1_sha256(signature, message).unwrap().to_vec()
            }
        })
    }
}

/// Encodes bytes as PEM.
#[must_use]
pub fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in der.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Description of a certificate: its names, its days of validity from now, and its use.
#[derive(Clone, Debug)]
pub struct Description<'a> {
    /// Kind of its key.
    pub kind: KeyKind,
    /// Common name of the subject.
    pub common_name: &'a str,
    /// Names of hosts.
    pub dns: &'a [&'a str],
    /// URIs.
    pub uris: &'a [&'a str],
    /// Addresses of mail.
    pub emails: &'a [&'a str],
    /// First and last day of validity, counted from now.
    pub days: (i64, i64),
    /// True for a client, false for a server.
    pub client: bool,
}

impl Default for Description<'_> {
    fn default() -> Self {
        Description {
            kind: KeyKind::P256,
            common_name: "localhost",
            dns: &[],
            uris: &[],
            emails: &[],
            days: (-1, 90),
            client: false,
        }
    }
}

/// Certificate with its key, as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Certificate.
    pub certificate: String,
    /// Private key.
    pub key: String,
    /// Serial number.
    pub serial: u64,
}

/// Certificate authority.
pub struct Authority {
    params: CertificateParams,
    key: Key,
    certificate: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn days_from_now(days: i64) -> OffsetDateTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    OffsetDateTime::from_unix_timestamp(now + days * DAY_SECONDS).unwrap()
}

impl Authority {
    /// Makes an authority with a name of its own.
    #[must_use]
    pub fn new(name: &str) -> Authority {
        let key = Key::new(KeyKind::P256);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(1));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.key_identifier_method = KeyIdMethod::PreSpecified(key.public[..20].to_vec());
        (params.not_before, params.not_after) = (days_from_now(-1), days_from_now(365));
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { params, key, certificate }
    }

    /// Returns the authority's certificate as PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// Signs a certificate with a new key.
    #[must_use]
    pub fn issue(&self, description: &Description<'_>) -> Issued {
        let key = Key::new(description.kind);
        let serial = u64::from_be_bytes(key.public[5..13].try_into().unwrap()) >> 1;
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from(serial));
        params.distinguished_name.push(DnType::CommonName, description.common_name);
        let texts =
            |all: &[&str], san: fn(&str) -> SanType| all.iter().map(|text| san(text)).collect::<Vec<_>>();
        params.subject_alt_names = [
            texts(description.dns, |text| SanType::DnsName(text.try_into().unwrap())),
            texts(description.uris, |text| SanType::URI(text.try_into().unwrap())),
            texts(description.emails, |text| SanType::Rfc822Name(text.try_into().unwrap())),
        ]
        .concat();
        let purpose = match description.client {
            true => ExtendedKeyUsagePurpose::ClientAuth,
            false => ExtendedKeyUsagePurpose::ServerAuth,
        };
        params.extended_key_usages = vec![purpose];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let (first, last) = description.days;
        (params.not_before, params.not_after) = (days_from_now(first), days_from_now(last));
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        Issued { certificate, key: key.pem(), serial }
    }

    /// Returns the list of revoked certificates as PEM.
    #[must_use]
    pub fn revoke(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: days_from_now(-1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: days_from_now(-1),
            next_update: days_from_now(30),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: self.params.key_identifier_method.clone(),
        };
        params.signed_by(&Issuer::from_params(&self.params, &self.key)).unwrap().pem().unwrap()
    }
}
