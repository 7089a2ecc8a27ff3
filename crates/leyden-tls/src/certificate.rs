//! Facts in a certificate: its validity and the identities of its subject.

use rustls::pki_types::CertificateDer;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// First and last second of a certificate's validity, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub begins: u64,
    /// Last second.
    pub ends: u64,
}

fn parsed(certificate: &CertificateDer<'_>) -> Option<CertificateInner<Raw>> {
    CertificateInner::<Raw>::from_der(certificate).ok()
}

/// Returns the validity of a certificate; `None` if it cannot be read.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    let parsed = parsed(certificate)?;
    let validity = parsed.tbs_certificate().validity();
    let (begins, ends) = (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
    Some(Validity { begins: begins.as_secs(), ends: ends.as_secs() })
}

/// Returns the identities of a certificate's subject as `uri:…`, `dns:…`, `email:…` and `cn:…`, in this order. Names of
/// hosts are in lower case; the others are as in the certificate.
///
/// A certificate that cannot be read has none. Only identities of a verified certificate mean something.
#[must_use]
pub fn identities(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Some(parsed) = parsed(certificate) else { return Vec::new() };
    let subject = parsed.tbs_certificate();
    let names = subject.get_extension::<SubjectAltName>().ok().flatten().map(|(_, names)| names.0);
    let names = names.unwrap_or_default();
    let all = |of: fn(&GeneralName) -> Option<String>| names.iter().filter_map(of).collect::<Vec<_>>();
    let mut identities = all(|name| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(format!("uri:{uri}")),
        _ => None,
    });
    identities.extend(all(|name| match name {
        GeneralName::DnsName(host) => Some(format!("dns:{}", host.as_str().to_ascii_lowercase())),
        _ => None,
    }));
    identities.extend(all(|name| match name {
        GeneralName::Rfc822Name(email) => Some(format!("email:{email}")),
        _ => None,
    }));
    let common_name = subject.subject().common_name().ok().flatten();
    identities.extend(common_name.map(|name| format!("cn:{}", name.value())));
    identities
}
