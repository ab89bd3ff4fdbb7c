//! The certificate authorities that may vouch for the service: the public ones, or the user's own.
//!
//! A file is read and looked through before anything is sent. Otherwise a file without a certificate, or
//! with one that is none, would show only as a service that nobody vouches for.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

/// The largest file, in bytes: ten times the list of all public authorities.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The authorities in these files, or the public ones where there is no file.
///
/// # Errors
///
/// A file's name, and what is wrong with it.
pub(super) fn read(paths: &[PathBuf]) -> Result<RootCerts, String> {
    if paths.is_empty() {
        return Ok(RootCerts::WebPki);
    }
    let mut all = Vec::new();
    for path in paths {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let bytes = contents(path).map_err(wrong)?;
        all.extend(certificates(&bytes).map_err(wrong)?);
    }
    Ok(RootCerts::from(all))
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    bounded.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

fn certificates(bytes: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    if bytes.trim_ascii().is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut found = Vec::new();
    let mut has_key = false;
    for item in parse_pem(bytes) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => has_key = true,
            Err(error) => return Err(format!("it is no well-formed PEM ({error})")),
        }
    }
    if found.is_empty() {
        return Err(nothing_in(bytes, has_key).to_owned());
    }
    for (place, certificate) in found.iter().enumerate() {
        if let Err(error) = webpki::anchor_from_trusted_cert(&certificate.der().into()) {
            let number = place + 1;
            return Err(format!(
                "certificate {number} in it is none that an authority could have ({error})"
            ));
        }
    }
    Ok(found)
}

/// What a file without a certificate in PEM probably is.
fn nothing_in(bytes: &[u8], has_key: bool) -> &'static str {
    // DER begins with the tag of a SEQUENCE, and its length in two bytes.
    let is_der = bytes.starts_with(&[0x30, 0x82]);
    match (has_key, is_der) {
        (true, _) => "it has a key, and no certificate",
        (_, true) => {
            "it is DER, not PEM: openssl x509 -inform der -in FILE -out FILE.pem makes it one"
        }
        _ => "there is no certificate in PEM in it, which begins with -----BEGIN CERTIFICATE-----",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(bytes: &[u8]) -> String {
        certificates(bytes).expect_err("no authority")
    }

    #[test]
    fn what_is_no_authority_is_told_by_what_it_is() {
        let block =
            |label, body| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        for (bytes, part) in [
            (Vec::new(), "empty"),
            (b" \n".to_vec(), "empty"),
            (b"hello".to_vec(), "-----BEGIN CERTIFICATE-----"),
            (vec![0x30, 0x82, 1, 0], "openssl x509 -inform der"),
            (block("PRIVATE KEY", "AAAA").into_bytes(), "a key"),
            (block("CERTIFICATE", "AAAA").into_bytes(), "certificate 1"),
            (block("CERTIFICATE", "A*").into_bytes(), "well-formed"),
            (b"-----BEGIN CERTIFICATE-----\nAAAA".to_vec(), "well-formed"),
        ] {
            let complaint = complaint(&bytes);
            assert!(complaint.contains(part), "{part}: {complaint}");
        }
    }
}
