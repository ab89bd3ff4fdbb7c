//! Services behind TLS whose certificate is of a private authority.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::asking::{Report, probe_url};
use crate::service::{Service, changed};

/// An authority of one test, and the files of what it signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Its own certificate, as `--ca` takes it.
    fn certificate(&self) -> String {
        let path = self.file("authority.pem", &self.issuer.pem());
        path.to_str().unwrap().to_owned()
    }

    /// The right service behind TLS, with a certificate for this name.
    fn service_for(&self, name: &str) -> Service {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.service_with(&(certificate.pem() + &key.serialize_pem()))
    }

    /// The right service behind TLS, with this certificate and key.
    fn service_with(&self, chain: &str) -> Service {
        let chain = self.file("service.pem", chain);
        let serve = "Server((\"127.0.0.1\", PORT), Handler).serve_forever()";
        let behind = format!(
            "import ssl\n    \
             context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n    \
             context.load_cert_chain(\"{}\")\n    \
             server = Server((\"127.0.0.1\", PORT), Handler)\n    \
             server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)\n    \
             server.handle_error = lambda *_: None\n    \
             server.serve_forever()",
            chain.display()
        );
        Service::start(&changed(&[(serve, &behind)]), None)
    }
}

/// Probes with these options and one check of each kind.
fn probed(service: &Service, options: &[&str]) -> Report {
    let url = service.url().replace("http:", "https:");
    let few = ["--only", "stale-token,written-value,concurrent-writers"];
    let few = [&few[..], &["--rounds", "2", "--read-url", &url]].concat();
    probe_url(&url, &[&few[..], options].concat())
}

/// No connection came about, and these words say why.
fn distrusted(report: &Report, words: &[&str]) {
    assert_eq!(report.code, Some(4), "{}", report.printed);
    for part in [&["the TLS handshake failed: "], words].concat() {
        assert!(report.printed.contains(part), "{part}: {}", report.printed);
    }
}

#[test]
fn a_private_authority_is_trusted_where_it_is_named_and_nowhere_else() {
    let [ours, other, twin] = ["ours", "other", "ours"].map(Authority::new);
    let service = ours.service_for("127.0.0.1");
    let (certificate, another) = (ours.certificate(), other.certificate());
    let both = ours.issuer.pem() + &other.issuer.pem();
    let both = other.file("both.pem", &both).display().to_string();
    for options in [
        &["--ca", &certificate][..],
        &["--ca", &another, "--ca", &certificate],
        &["--ca", &both],
    ] {
        let report = probed(&service, options);
        assert_eq!(report.code, Some(0), "{}", report.printed);
        assert!(report.printed.contains("3 held"), "{}", report.printed);
    }
    let unknown = ["UnknownIssuer", "is named with --ca FILE"];
    distrusted(&probed(&service, &[]), &unknown);
    distrusted(&probed(&service, &["--ca", &another]), &unknown);
    // Of the same name with another key, as where it was made anew.
    let twin = probed(&service, &["--ca", &twin.certificate()]);
    distrusted(&twin, &["BadSignature", "the same name"]);
}

#[test]
fn a_named_authority_vouches_for_the_name_in_the_certificate_only() {
    let authority = Authority::new("ours");
    let service = authority.service_for("elsewhere.test");
    let report = probed(&service, &["--ca", &authority.certificate()]);
    distrusted(&report, &["not valid for name", "elsewhere.test"]);
}

#[test]
fn an_authority_that_serves_with_its_own_certificate_is_told_so() {
    let authority = Authority::new("ours");
    let own = authority.issuer.pem() + &authority.issuer.key().serialize_pem();
    let service = authority.service_with(&own);
    let report = probed(&service, &["--ca", &authority.certificate()]);
    distrusted(&report, &["shows an authority's certificate"]);
}

#[test]
fn a_file_without_an_authority_is_told_before_anything_is_sent() {
    let authority = Authority::new("ours");
    let key = KeyPair::generate().unwrap().serialize_pem();
    let path = |name, text: &str| authority.file(name, text).display().to_string();
    let der = authority.directory.path().join("der");
    fs::write(&der, authority.issuer.der()).unwrap();
    for (file, part) in [
        (
            "/nowhere/authority.pem".to_owned(),
            "cannot be read: No such file",
        ),
        (path("empty", ""), "it is empty"),
        (
            path("text", "no PEM\n"),
            "there is no certificate in PEM in it",
        ),
        (path("key", &key), "it has a key, and no certificate"),
        (der.display().to_string(), "it is DER, not PEM"),
    ] {
        let report = probe_url("https://127.0.0.1:1/x", &["--ca", &file]);
        assert_eq!(report.code, Some(2), "{}", report.printed);
        let told = format!("--ca {file}: ");
        for part in [&told, part] {
            assert!(report.printed.contains(part), "{part}: {}", report.printed);
        }
        assert!(!report.printed.contains("Probing"), "{}", report.printed);
    }
}

#[test]
fn an_authority_is_for_https_only() {
    let certificate = Authority::new("ours").certificate();
    let report = probe_url("http://127.0.0.1:1/x", &["--ca", &certificate]);
    assert_eq!(report.code, Some(2), "{}", report.printed);
    let part = "--ca is for https";
    assert!(report.printed.contains(part), "{}", report.printed);
}
