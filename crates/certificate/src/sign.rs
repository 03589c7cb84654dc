//! Signing and checking.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde_json::{Map, Value};

use crate::canonical::{hash, hex, rounded, text, unhex};
use crate::content::{Certificate, SCHEMA};

/// Keys beside the content.
const CONTENT_HASH: &str = "content_sha256";
const SECTION_HASHES: &str = "section_sha256";
const SIGNATURE: &str = "signature";
const SEAL: [&str; 3] = [CONTENT_HASH, SECTION_HASHES, SIGNATURE];

/// A private key for signing.
pub struct Key(SigningKey);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file, or the folder it is made in.
    #[error("{path}: {source}")]
    File {
        /// Of the key.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others could sign with it.
    #[error("{path} has mode {mode:04o}: others can read this private key; allowed: 0600 (chmod 600 {path})")]
    Mode {
        /// Of the key.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Something else is in it.
    #[error("{0} is no private key of weir probe: 64 hexadecimal digits, made on first use where no file is")]
    Content(PathBuf),
}

impl Key {
    /// Of 32 secret bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Reads a file of mode 0600, or makes one with a new key where none is. True: it was made.
    ///
    /// # Errors
    /// The file cannot be read or made, is readable by others, or holds no key.
    pub fn open(path: &Path) -> Result<(Self, bool), KeyError> {
        let wrong = |source| KeyError::File { path: path.to_owned(), source };
        match fs::read_to_string(path) {
            Ok(text) => {
                let mode = fs::metadata(path).map_err(wrong)?.permissions().mode() & 0o7777;
                if mode & 0o077 != 0 {
                    return Err(KeyError::Mode { path: path.to_owned(), mode });
                }
                let seed = unhex(&text).ok_or_else(|| KeyError::Content(path.to_owned()))?;
                Ok((Self::from_seed(seed), false))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|error| wrong(io::Error::other(error)))?;
                if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                    fs::create_dir_all(folder).map_err(wrong)?;
                }
                let mut file =
                    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(wrong)?;
                if let Err(error) = writeln!(file, "{}", hex(&seed)).and_then(|()| file.sync_all()) {
                    // Half a key would be in the way of every later run.
                    let _ = fs::remove_file(path);
                    return Err(wrong(error));
                }
                Ok((Self::from_seed(seed), true))
            }
            Err(error) => Err(wrong(error)),
        }
    }

    /// The public half, in hexadecimal digits.
    pub fn public(&self) -> String {
        hex(self.0.verifying_key().as_bytes())
    }

    /// The certificate with this key's public half, hashes of all and of each section, and the signature.
    #[must_use]
    pub fn sign(&self, certificate: &Certificate) -> Certificate {
        let certificate = Certificate { schema: SCHEMA, public_key: self.public(), ..certificate.clone() };
        let mut content = match serde_json::to_value(&certificate) {
            Ok(Value::Object(content)) => content,
            _ => Map::new(),
        };
        SEAL.iter().for_each(|key| drop(content.remove(*key)));
        let Value::Object(content) = rounded(Value::Object(content)) else { return certificate };
        let (content_sha256, section_sha256) = hashes(&content);
        let signature = hex(&self.0.sign(&signed(&content_sha256, &section_sha256)).to_bytes());
        // A number that JSON has not, such as infinity, is left as it is; readers refuse it.
        let rounded = serde_json::from_value(Value::Object(content)).unwrap_or(certificate);
        Certificate { content_sha256, section_sha256, signature, ..rounded }
    }
}

/// The hash of all, and of each key.
fn hashes(content: &Map<String, Value>) -> (String, BTreeMap<String, String>) {
    let sections = content.iter().map(|(key, value)| (key.clone(), hash(value))).collect();
    (hash(&Value::Object(content.clone())), sections)
}

/// What is signed: both kinds of hashes, so that a check can name the section that was changed.
fn signed(whole: &str, sections: &BTreeMap<String, String>) -> Vec<u8> {
    let both = serde_json::json!({ CONTENT_HASH: whole, SECTION_HASHES: sections });
    format!("weir capacity certificate\n{}", text(&both)).into_bytes()
}

/// A certificate whose hash and signature are right.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Its contents.
    pub certificate: Certificate,
    /// Its key is the one that is trusted; false: no key was given.
    pub is_trusted: bool,
}

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// Not JSON, or not an object.
    #[error("is no capacity certificate: {0}")]
    NoCertificate(String),
    /// Of a newer version.
    #[error("has schema {0}; this version of weir reads schema {SCHEMA}")]
    Schema(u64),
    /// Sections do not match their hashes.
    #[error("was changed after it was signed: {} from the signed hash", list(.0))]
    Changed(Vec<String>),
    /// Its hashes do not match each other.
    #[error("was changed after it was signed: content_sha256 is {given}, the content's hash is {found}")]
    Hash {
        /// In the file.
        given: String,
        /// Of the content.
        found: String,
    },
    /// Hashes match the content, but the signature is of others.
    #[error(
        "has a signature that its public key did not make: content and hashes were changed together, or the key was"
    )]
    Signature,
    /// Signed, but by somebody else.
    #[error("is signed by key {found}, not by the trusted key {trusted}")]
    Untrusted {
        /// The certificate's.
        found: String,
        /// The one that is trusted.
        trusted: String,
    },
    /// The trusted key is none.
    #[error("public key \"{0}\" is invalid; allowed: 64 hexadecimal digits, as public_key of a certificate")]
    TrustedKey(String),
}

fn list(keys: &[String]) -> String {
    let names = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    format!("{names} differ{}", if keys.len() == 1 { "s" } else { "" })
}

/// Checks hashes and signature of a certificate's file, and, where given, that the trusted key signed it.
///
/// # Errors
/// What is wrong first, naming sections that were changed.
pub fn check(text: &str, trusted: Option<&str>) -> Result<Checked, CheckError> {
    let no = |why: &dyn std::fmt::Display| CheckError::NoCertificate(why.to_string());
    let value: Value = serde_json::from_str(text).map_err(|error| no(&error))?;
    let Value::Object(mut content) = value else { return Err(no(&"there is no object in it")) };
    if !content.values().all(is_plain) {
        return Err(no(&"a text in it has control characters"));
    }
    let mut take = |key: &str| content.remove(key).ok_or_else(|| no(&format!("it has no {key}")));
    let (given, sections, signature) = (take(CONTENT_HASH)?, take(SECTION_HASHES)?, take(SIGNATURE)?);
    match content.get("schema").and_then(Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => return Err(CheckError::Schema(schema)),
        None => return Err(no(&"it has no schema")),
    }
    let given = given.as_str().unwrap_or_default().to_owned();
    let sections: BTreeMap<String, String> = serde_json::from_value(sections).map_err(|error| no(&error))?;
    let (whole, found) = hashes(&content);
    if found != sections {
        let keys = found.keys().chain(sections.keys().filter(|key| !found.contains_key(*key)));
        return Err(CheckError::Changed(keys.filter(|key| found.get(*key) != sections.get(*key)).cloned().collect()));
    }
    if whole != given {
        return Err(CheckError::Hash { given, found: whole });
    }
    let certificate: Certificate = serde_json::from_value(Value::Object(content)).map_err(|error| no(&error))?;
    let seal = (whole, sections, signature.as_str().unwrap_or_default().to_owned());
    let key = unhex(&certificate.public_key).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
    let signature = unhex::<64>(&seal.2).map(|bytes| Signature::from_bytes(&bytes));
    let (Some(key), Some(signature)) = (key, signature) else { return Err(CheckError::Signature) };
    key.verify_strict(&signed(&seal.0, &seal.1), &signature).map_err(|_| CheckError::Signature)?;
    if let Some(trusted) = trusted {
        let bytes = unhex::<32>(trusted).ok_or_else(|| CheckError::TrustedKey(trusted.to_owned()))?;
        if bytes != key.to_bytes() {
            return Err(CheckError::Untrusted { found: certificate.public_key, trusted: hex(&bytes) });
        }
    }
    let (content_sha256, section_sha256, signature) = seal;
    let certificate = Certificate { content_sha256, section_sha256, signature, ..certificate };
    Ok(Checked { certificate, is_trusted: trusted.is_some() })
}

/// No text in it has characters that a terminal would obey, or that would end a table's cell.
fn is_plain(value: &Value) -> bool {
    let plain = |text: &str| !text.chars().any(char::is_control);
    match value {
        Value::String(text) => plain(text),
        Value::Array(list) => list.iter().all(is_plain),
        Value::Object(map) => map.iter().all(|(key, value)| plain(key) && is_plain(value)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Band, Host, Rate, Task};

    fn certificate() -> Certificate {
        let mpps = Band::of(&[1.1, 1.0 / 3.0, 1.2]).unwrap();
        let rate = |task| Rate {
            task,
            queues: 1,
            frame_bytes: 64,
            mpps: mpps.clone(),
            gbps_l2: 0.7,
            is_generator_limited: false,
        };
        Certificate {
            date: "2026-01-31T12:00:00Z".into(),
            host: Host { hostname: "left".into(), cpus: 4, steal_ratio: 0.1 + 0.2, ..Host::default() },
            rates: vec![rate(Task::Receive), rate(Task::Forward)],
            ..Certificate::default()
        }
    }

    #[test]
    fn a_signed_certificate_is_read_again() {
        let key = Key::from_seed([1; 32]);
        let signed = key.sign(&certificate());
        let text = signed.text();
        let checked = check(&text, Some(&key.public())).unwrap();
        assert!(checked.is_trusted && !check(&text, None).unwrap().is_trusted);
        assert_eq!(checked.certificate.rates[1].task, Task::Forward);
        assert_eq!(checked.certificate, signed, "signed numbers have the digits that a file keeps");
        assert_eq!((signed.schema, signed.content_sha256.len(), signed.signature.len()), (SCHEMA, 64, 128));
        let compact = serde_json::to_string(&serde_json::from_str::<Value>(&text).unwrap()).unwrap();
        assert_eq!(check(&compact, None).unwrap(), check(&text, None).unwrap(), "white space is no content");
    }

    #[test]
    fn every_changed_section_is_named() {
        let text = Key::from_seed([1; 32]).sign(&certificate()).text();
        let content: Value = serde_json::from_str(&text).unwrap();
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut value = content.clone();
            change(&mut value);
            check(&value.to_string(), None).unwrap_err()
        };
        let error = changed(&|value| value["rates"][0]["mpps"]["mid"] = 9.0.into());
        assert_eq!(error, CheckError::Changed(vec!["rates".into()]));
        assert_eq!(error.to_string(), "was changed after it was signed: `rates` differs from the signed hash");
        let error = changed(&|value| {
            value["date"] = "2027".into();
            value["host"]["cpus"] = 8.into();
        });
        assert!(error.to_string().contains("`date`, `host` differ from"), "{error}");
        let error = changed(&|value| value["more"] = 1.into());
        assert_eq!(error, CheckError::Changed(vec!["more".into()]));
        let error = changed(&|value| drop(value.as_object_mut().unwrap().remove("spread")));
        assert_eq!(error, CheckError::Changed(vec!["spread".into()]));
        assert!(matches!(changed(&|value| value[CONTENT_HASH] = "00".into()), CheckError::Hash { .. }));
        assert_eq!(changed(&|value| value[SIGNATURE] = "00".repeat(64).into()), CheckError::Signature);
        assert_eq!(changed(&|value| value["schema"] = 2.into()), CheckError::Schema(2));
        assert!(matches!(changed(&|value| *value = Value::Null), CheckError::NoCertificate(_)));
    }

    #[test]
    fn rehashed_content_fails_the_signature() {
        let text = Key::from_seed([1; 32]).sign(&certificate()).text();
        let mut forged: Value = serde_json::from_str(
            &Key::from_seed([2; 32]).sign(&Certificate { date: "2027-01-01T00:00:00Z".into(), ..certificate() }).text(),
        )
        .unwrap();
        let original: Value = serde_json::from_str(&text).unwrap();
        forged[SIGNATURE] = original[SIGNATURE].clone();
        assert_eq!(check(&forged.to_string(), None), Err(CheckError::Signature));
    }

    /// What a terminal would obey, or what ends a table's cell, is no certificate's, whoever signed it.
    #[test]
    fn control_characters_are_refused() {
        for hostile in ["\u{1b}[2J", "a\tb", "a\nb"] {
            let mut certificate = certificate();
            certificate.host.hostname = hostile.to_owned();
            let text = Key::from_seed([1; 32]).sign(&certificate).text();
            let error = check(&text, None).unwrap_err().to_string();
            assert!(error.contains("control characters"), "{error}");
        }
    }

    #[test]
    fn another_key_is_not_trusted() {
        let text = Key::from_seed([1; 32]).sign(&certificate()).text();
        let other = Key::from_seed([2; 32]).public();
        assert!(matches!(check(&text, Some(&other)), Err(CheckError::Untrusted { .. })));
        assert_eq!(check(&text, Some("xyz")), Err(CheckError::TrustedKey("xyz".into())));
    }

    #[test]
    fn key_files_are_private() {
        let folder = std::env::temp_dir().join(format!("weir-certificate-{}", std::process::id()));
        let path = folder.join("probe.key");
        let (key, was_made) = Key::open(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert!(was_made && mode == 0o600);
        let (again, was_made) = Key::open(&path).unwrap();
        assert!(!was_made && again.public() == key.public());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Key::open(&path), Err(KeyError::Mode { mode: 0o644, .. })));
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Key::open(&path), Err(KeyError::Content(_))));
        fs::remove_dir_all(folder).unwrap();
    }
}
