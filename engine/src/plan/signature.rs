//! Who wrote a plan: Ed25519 (RFC 8032) over its digest.

use super::{Plan, PlanError};
use core::fmt;
use ed25519_dalek::{Signature, VerifyingKey};

/// An Ed25519 public key, whose holder's plans are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Bytes that are no Ed25519 public key, or one of the few that every signature fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKey;

/// What comes before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410, section 4).
const SUBJECT_PUBLIC_KEY_INFO: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

impl PublicKey {
    /// The key that these 32 bytes encode (RFC 8032, section 5.1.2).
    ///
    /// # Errors
    /// [`InvalidKey`]
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| InvalidKey)?;
        if key.is_weak() { Err(InvalidKey) } else { Ok(Self(key)) }
    }

    /// The key in a SubjectPublicKeyInfo, DER-encoded: 44 bytes, what `openssl pkey -pubin -outform DER` writes. For
    /// keys that are part of the program: `PublicKey::from_der(include_bytes!("plans.pub.der"))`.
    ///
    /// # Errors
    /// [`InvalidKey`]
    pub fn from_der(der: &[u8]) -> Result<Self, InvalidKey> {
        let bytes = der.strip_prefix(&SUBJECT_PUBLIC_KEY_INFO).ok_or(InvalidKey)?;
        Self::from_bytes(bytes.try_into().map_err(|_| InvalidKey)?)
    }
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an Ed25519 public key")
    }
}

impl core::error::Error for InvalidKey {}

impl Plan<'_> {
    /// Proves that every byte of the plan, weights and kernel images included, is what the holder of `key` signed.
    /// Includes [`Plan::verify_blobs`], and so reads the whole file. Deterministic, without secrets.
    ///
    /// The bytes must not change between this and their use: a file that others may write to is to be read into memory,
    /// not mapped.
    ///
    /// # Errors
    /// [`PlanError::Unsigned`], [`PlanError::Signature`], or [`PlanError::BlobDigest`] where the signature is right, but
    /// weights or kernel images are not those that it covers.
    pub fn verify_signature(&self, key: &PublicKey) -> Result<(), PlanError> {
        let signature = Signature::from_bytes(self.signature.ok_or(PlanError::Unsigned)?);
        // Strict: refuses the malleable encodings that RFC 8032 leaves to the verifier.
        key.0.verify_strict(&self.signed_message(), &signature).map_err(|_| PlanError::Signature)?;
        self.verify_blobs()
    }
}
