//! Ed25519 keys in files: PEM, PKCS#8 for the private one and SubjectPublicKeyInfo for the public one (RFC 8410), as
//! OpenSSL reads and writes them.

use crate::output::{self, Usage, written};
use anyhow::{Context, anyhow};
use clap::Args;
use ed25519_dalek::{
    Signer, SigningKey, VerifyingKey,
    pkcs8::{
        DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, KeypairBytes, spki::der::pem::LineEnding,
    },
};
use floe_engine::plan::{Plan, PublicKey};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// Make a key pair to sign plans with: FILE holds the private key, FILE.pub the public one.
#[derive(Args)]
#[command(after_help = "Example:
  floec keygen plans.key
  floec compile resnet50.onnx --target jetson-orin-nano --sign plans.key -o resnet50.floe
  floe run resnet50.floe --public-key plans.key.pub                                  on the device

OpenSSL makes the same: openssl genpkey -algorithm ed25519 -out plans.key
                        openssl pkey -in plans.key -pubout -out plans.key.pub")]
pub struct Arguments {
    /// File for the private key; must not exist yet.
    file: PathBuf,
}

/// Runs `floec keygen`.
pub fn generate(arguments: &Arguments) -> anyhow::Result<()> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| anyhow!("no random numbers from the system: {error}"))?;
    let key = SigningKey::from_bytes(&seed);
    // Without the public key beside it: OpenSSL 3.0 does not read the version of PKCS#8 that has both.
    let secret = KeypairBytes { secret_key: seed, public_key: None }.to_pkcs8_pem(LineEnding::LF)?;
    let public = key.verifying_key().to_public_key_pem(LineEnding::LF)?;

    let mut name = arguments.file.clone().into_os_string();
    name.push(".pub");
    let beside = PathBuf::from(name);
    if beside.exists() {
        return Err(Usage::new(format!("'{}' exists; keys are never overwritten", beside.display())).into());
    }
    create(&arguments.file, secret.as_bytes())?;
    output::write_file(&beside, public.as_bytes())?;
    output::print(&format!(
        "{}: private key, for floec sign; keep it secret\n{}: public key, for floec check and floe run\n",
        arguments.file.display(),
        beside.display()
    ))
}

/// Makes a file that only its owner may read; fails where there is one.
fn create(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = written(format_args!("cannot make '{}'", path.display()), options.open(path))?;
    file.write_all(contents).with_context(|| format!("cannot write '{}'", path.display()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read '{}'", path.display()))
}

/// Reads a private key.
pub fn private(path: &Path) -> anyhow::Result<SigningKey> {
    let pem = read(path)?;
    SigningKey::from_pkcs8_pem(&pem)
        .map_err(|error| anyhow!("'{}' is no Ed25519 private key in PEM (PKCS#8): {error}", path.display()))
}

/// Reads a public key.
pub fn public(path: &Path) -> anyhow::Result<PublicKey> {
    let pem = read(path)?;
    let wrong =
        |error: &dyn std::fmt::Display| anyhow!("'{}' is no Ed25519 public key in PEM: {error}", path.display());
    let key = VerifyingKey::from_public_key_pem(&pem).map_err(|error| wrong(&error))?;
    PublicKey::from_bytes(key.as_bytes()).map_err(|error| wrong(&error))
}

/// The file of a plan, signed. Its blobs are compared with their digest before: a damaged plan must not become a signed one.
pub fn sign(plan: &Plan<'_>, key: &SigningKey) -> anyhow::Result<Vec<u8>> {
    plan.verify_blobs()?;
    Ok(plan.with_signature(&key.sign(&plan.signed_message()).to_bytes()))
}
