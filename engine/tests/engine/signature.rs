//! Signed plans: what the key's holder signed passes, and nothing else does.

use crate::support::{cuda_parts, host_parts, seal, write};
use ed25519_dalek::{Signer, SigningKey};
use floe_engine::plan::{InvalidKey, Plan, PlanError, PlanWriter, PublicKey, SectionProblem};
use proptest::prelude::*;

/// Bytes of the signature behind a plan.
const TRAILER: usize = 72;

fn key(seed: u8) -> (SigningKey, PublicKey) {
    let key = SigningKey::from_bytes(&[seed; 32]);
    let public = PublicKey::from_bytes(key.verifying_key().as_bytes()).unwrap();
    (key, public)
}

fn sign(plan: &[u8], key: &SigningKey) -> Vec<u8> {
    let plan = Plan::parse(plan).unwrap();
    plan.with_signature(&key.sign(&plan.signed_message()).to_bytes())
}

/// What a device that trusts `key` says.
fn verify(bytes: &[u8], key: &PublicKey) -> Result<(), PlanError> {
    Plan::parse(bytes)?.verify_signature(key)
}

#[test]
fn a_signature_is_behind_the_plan_and_replaces_an_earlier_one() {
    let plan = write([host_parts(), cuda_parts()]);
    let ((first, trusted), (second, stranger)) = (key(1), key(2));
    let signed = sign(&plan, &first);
    assert_eq!(signed[..plan.len()], *plan);
    assert_eq!((signed.len(), &signed[plan.len()..][..8]), (plan.len() + TRAILER, b"FLOESIGN".as_slice()));
    let parsed = Plan::parse(&signed).unwrap();
    assert!(parsed.is_signed() && !Plan::parse(&plan).unwrap().is_signed());
    assert_eq!(parsed.digest(), Plan::parse(&plan).unwrap().digest());
    assert_eq!(parsed.file_bytes(), signed.len() as u64);
    assert!(parsed.variants().zip(Plan::parse(&plan).unwrap().variants()).all(|(a, b)| a.weights() == b.weights()));

    assert_eq!(verify(&signed, &trusted), Ok(()));
    assert_eq!(verify(&signed, &stranger), Err(PlanError::Signature));
    assert_eq!(verify(&plan, &trusted), Err(PlanError::Unsigned));
    let again = sign(&signed, &second);
    assert_eq!(again.len(), signed.len());
    assert_eq!((verify(&again, &stranger), verify(&again, &trusted)), (Ok(()), Err(PlanError::Signature)));
}

#[test]
fn every_flipped_bit_is_refused() {
    let (secret, trusted) = key(1);
    let mut signed = sign(&write([host_parts()]), &secret);
    let front = u64::from_le_bytes(signed[24..32].try_into().unwrap()) as usize;
    for bit in 0..signed.len() * 8 {
        signed[bit / 8] ^= 1 << (bit % 8);
        let error = verify(&signed, &trusted).expect_err("a flipped bit passed");
        let signature = signed.len() - 64;
        match bit / 8 {
            byte if byte < front => assert!(!matches!(error, PlanError::Signature | PlanError::BlobDigest), "{error}"),
            // Padding between blobs is refused for what it is.
            byte if byte < signature - 8 => assert!(
                matches!(error, PlanError::BlobDigest | PlanError::Section { problem: SectionProblem::Padding, .. }),
                "{error}"
            ),
            byte if byte < signature => assert!(matches!(error, PlanError::Length { .. })),
            _ => assert_eq!(error, PlanError::Signature),
        }
        signed[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(verify(&signed, &trusted), Ok(()));
}

#[test]
fn a_changed_plan_with_right_digests_is_refused() {
    let (secret, trusted) = key(1);
    let plan = write([host_parts()]);
    let mut signed = sign(&plan, &secret);
    let meta = 96 + 24 * 11 + 1;
    assert_eq!(&signed[meta..meta + 4], b"tiny");
    signed[meta] = b'T';
    seal(&mut signed);
    assert_eq!(Plan::parse(&signed).unwrap().model(), "Tiny");
    assert_eq!(verify(&signed, &trusted), Err(PlanError::Signature));
    // The signature of one plan is none of another.
    let other = write([cuda_parts()]);
    let moved = [&*other, &signed[plan.len()..]].concat();
    assert_eq!(verify(&moved, &trusted), Err(PlanError::Signature));
}

/// A plan of `model`, of that version, signed.
fn release(model: &str, version: u32, key: &SigningKey) -> Vec<u8> {
    sign(&PlanWriter::new(model, "tests").version(version).variant(host_parts()).finish(), key)
}

#[test]
fn there_is_no_way_back_to_an_earlier_version_nor_to_another_model() {
    let (secret, trusted) = key(1);
    let accepted = |bytes: &[u8], model, least| {
        let plan = Plan::parse(bytes)?;
        plan.verify_signature(&trusted)?;
        plan.verify_release(model, least)
    };
    let third = release("faces", 3, &secret);
    assert_eq!(Plan::parse(&third).unwrap().version(), 3);
    for least in 0..=3 {
        assert_eq!(accepted(&third, Some("faces"), least), Ok(()));
        assert_eq!(accepted(&third, None, least), Ok(()));
    }
    assert_eq!(accepted(&third, None, 4), Err(PlanError::Outdated { found: 3, least: 4 }));
    assert_eq!(accepted(&third, Some("faces"), u32::MAX), Err(PlanError::Outdated { found: 3, least: u32::MAX }));
    for other in ["", "face", "faces ", "Faces", "gates"] {
        assert_eq!(accepted(&third, Some(other), 0), Err(PlanError::OtherModel));
    }
    let last = release("faces", u32::MAX, &secret);
    assert_eq!(accepted(&last, Some("faces"), u32::MAX), Ok(()));
    // A plan to which nobody gave a version has 0, and is the file that it was before there were versions.
    let none = release("tiny", 0, &secret);
    assert_eq!(none[100..104], [0; 4]);
    assert_eq!(accepted(&none, None, 1), Err(PlanError::Outdated { found: 0, least: 1 }));
}

#[test]
fn a_changed_version_breaks_the_signature() {
    let (secret, trusted) = key(1);
    let second = release("faces", 2, &secret);
    for version in [0, 1, 3, 1 << 31] {
        let mut forged = second.clone();
        forged[100..104].copy_from_slice(&u32::to_le_bytes(version));
        assert_eq!(Plan::parse(&forged).unwrap_err(), PlanError::Digest);
        seal(&mut forged);
        assert_eq!(Plan::parse(&forged).unwrap().version(), version);
        assert_eq!(verify(&forged, &trusted), Err(PlanError::Signature));
        // Nor does the signature of one version fit the plan of another.
        let other = release("faces", version, &key(2).0);
        let moved = [&other[..other.len() - TRAILER], &second[second.len() - TRAILER..]].concat();
        assert_eq!(verify(&moved, &trusted), Err(PlanError::Signature));
    }
}

#[test]
fn a_signed_plan_cut_anywhere_is_refused() {
    let (secret, trusted) = key(1);
    let plan = write([host_parts()]);
    let signed = sign(&plan, &secret);
    for length in 0..signed.len() {
        let error = verify(&signed[..length], &trusted).expect_err("a truncated plan passed");
        assert_eq!(error == PlanError::Unsigned, length == plan.len(), "{length} bytes: {error}");
    }
    let longer = [&signed[..], &[0]].concat();
    assert!(matches!(verify(&longer, &trusted), Err(PlanError::Length { .. })));
    let twice = [&signed[..], &signed[plan.len()..]].concat();
    assert!(matches!(verify(&twice, &trusted), Err(PlanError::Length { .. })));
}

#[test]
fn what_is_no_key_is_refused() {
    let good = SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes();
    let der = [b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00".as_slice(), &good].concat();
    assert_eq!(PublicKey::from_der(&der), PublicKey::from_bytes(&good));
    for wrong in [&der[..43], &der[1..], &[&der[..], &[0]].concat(), &[0; 44], b""] {
        assert_eq!(PublicKey::from_der(wrong), Err(InvalidKey));
    }
    // Neutral element, and an encoding of no point: every signature would fit the first.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut nowhere = [0; 32];
    nowhere[0] = 2;
    assert_eq!([neutral, nowhere].map(|bytes| PublicKey::from_bytes(&bytes)), [Err(InvalidKey); 2]);
}

/// RFC 8032, section 7.1, test 2, through the crate that we rely on; its own tests are not run here.
#[test]
fn the_rfc_s_signature() {
    fn hex<const N: usize>(text: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
    }
    let key = SigningKey::from_bytes(&hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"));
    let public: [u8; 32] = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    assert_eq!(key.verifying_key().to_bytes(), public);
    let signature = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                     085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
    assert_eq!(key.sign(&[0x72]).to_bytes(), hex(signature));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands behind a plan, reading it does not panic, and only the right signature passes.
    #[test]
    fn arbitrary_signatures(signature in prop::collection::vec(any::<u8>(), 0..80), magic: bool) {
        let (_, trusted) = key(1);
        let mut bytes = write([host_parts()]).to_vec();
        if magic {
            bytes.extend_from_slice(b"FLOESIGN");
        }
        bytes.extend(signature);
        prop_assert!(verify(&bytes, &trusted).is_err());
    }
}
