//! A plan file in memory.

use crate::cold_start::mark;
use anyhow::{Context, Result, anyhow, bail};
use ed25519_dalek::{VerifyingKey, pkcs8::DecodePublicKey};
use floe_engine::{
    host::Block,
    plan::{Plan, PublicKey},
};
use memmap2::Mmap;
use std::{
    fs::{self, File},
    io::Read,
    path::Path,
    thread,
};

/// A plan's file: mapped, or read where its signature matters.
#[derive(Debug)]
pub struct PlanFile {
    contents: Contents,
    /// Who must have signed it.
    key: Option<PublicKey>,
    name: String,
}

/// Either is aligned as sessions ask for.
#[derive(Debug)]
enum Contents {
    /// The file itself, at pages.
    Mapped(Mmap),
    /// A copy that nobody else can change.
    Read { blocks: Vec<Block>, length: usize },
}

impl PlanFile {
    /// Maps a file.
    ///
    /// # Errors
    /// Those of the file system, naming the file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = file(path)?;
        // SAFETY: the mapping is read-only. A plan must not be changed in place while it runs, as with any program's
        // text; compilers replace it by renaming, which leaves this mapping alone.
        let map = unsafe { Mmap::map(&file) }.with_context(|| name.clone())?;
        Ok(Self { contents: Contents::Mapped(map), key: None, name })
    }

    /// Reads a file that must be signed with the private key of `key`. It is read, not mapped, so that what runs is what
    /// was verified, whoever may write to the file.
    ///
    /// # Errors
    /// Those of the file system, naming the file.
    pub fn open_signed(path: &Path, key: PublicKey) -> Result<Self> {
        let name = path.display().to_string();
        let mut file = file(path)?;
        let length = file.metadata().with_context(|| name.clone())?.len();
        let length = usize::try_from(length).with_context(|| name.clone())?;
        let count = length.div_ceil(size_of::<Block>());
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count).map_err(|_| anyhow!("{name}: no memory for its {length} bytes"))?;
        blocks.resize(count, Block::ZERO);
        let bytes = &mut bytemuck::cast_slice_mut(&mut blocks)[..length];
        file.read_exact(bytes).with_context(|| name.clone())?;
        Ok(Self { contents: Contents::Read { blocks, length }, key: Some(key), name })
    }

    /// The checked plan.
    ///
    /// # Errors
    /// What the engine's check says, naming the file.
    pub fn plan(&self) -> Result<Plan<'_>> {
        Ok(self.plan_and(|_| Ok(()))?.0)
    }

    /// The checked plan, and what the caller makes of it meanwhile: the structure is checked first, then weights and kernel
    /// images on another thread. The caller's part must not run any of the plan.
    ///
    /// # Errors
    /// What the engine's check says, naming the file; else the caller's error.
    pub fn plan_and<'a, T>(&'a self, meanwhile: impl FnOnce(&Plan<'a>) -> Result<T>) -> Result<(Plan<'a>, T)> {
        let bytes = match &self.contents {
            Contents::Mapped(map) => &map[..],
            Contents::Read { blocks, length } => &bytemuck::cast_slice(blocks)[..*length],
        };
        let plan = Plan::parse(bytes).with_context(|| self.name.clone())?;
        // The structure is checked by now; kernel images and weights must be what the compiler wrote, too.
        let verify = || match &self.key {
            None => plan.verify_blobs(),
            Some(key) => plan.verify_signature(key),
        };
        thread::scope(|scope| {
            let verified = scope.spawn(verify);
            let result = meanwhile(&plan);
            mark("digest");
            let verified = verified.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            verified.with_context(|| self.name.clone())?;
            Ok((plan, result?))
        })
    }

    /// The path as given, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn file(path: &Path) -> Result<File> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    if file.metadata().with_context(name)?.is_dir() {
        bail!("{}: is a folder, not a plan", name());
    }
    Ok(file)
}

/// Reads an Ed25519 public key in PEM, as `floec keygen` and OpenSSL write it.
///
/// # Errors
/// Those of the file system, or that it is no such key, naming the file.
pub fn public_key(path: &Path) -> Result<PublicKey> {
    let name = path.display();
    let pem = fs::read_to_string(path).with_context(|| name.to_string())?;
    let key = VerifyingKey::from_public_key_pem(&pem).map_err(|error| anyhow!("{name}: no Ed25519 key: {error}"))?;
    PublicKey::from_bytes(key.as_bytes()).with_context(|| name.to_string())
}
