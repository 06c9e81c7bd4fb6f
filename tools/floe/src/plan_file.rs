//! A plan file in memory.

use crate::{cold_start::mark, usage::usage};
use anyhow::{Context, Result, anyhow, bail};
use ed25519_dalek::{VerifyingKey, pkcs8::DecodePublicKey};
use floe_engine::{
    host::Block,
    plan::{Plan, PublicKey},
};
use std::{
    fs::{self, File},
    io::Read,
    path::Path,
    thread,
};

/// A plan's file, read into memory: what runs is what was checked, whoever writes to the file meanwhile. (A mapped file that is
/// overwritten in place changes under a running session, or ends it with SIGBUS where it became shorter.)
#[derive(Debug)]
pub struct PlanFile {
    /// Aligned as sessions ask for.
    blocks: Vec<Block>,
    /// Bytes of the file.
    length: usize,
    /// Who must have signed it, and what it must be.
    trust: Option<Trust>,
    name: String,
}

/// Which plans are trusted.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Those that the holder of this key's private half signed,
    pub key: PublicKey,
    /// of this model, where one is named,
    pub model: Option<String>,
    /// and of this version or a later one.
    pub least_version: u32,
}

impl From<PublicKey> for Trust {
    fn from(key: PublicKey) -> Self {
        Self { key, model: None, least_version: 0 }
    }
}

impl Trust {
    fn verify(&self, plan: &Plan<'_>) -> Result<()> {
        plan.verify_signature(&self.key)?;
        // Only now name and version are more than what a stranger may have written.
        plan.verify_release(self.model.as_deref(), self.least_version)
            .with_context(|| format!("of model '{}'", plan.model()))
    }
}

impl PlanFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns those of the file system, naming the file, and an error if memory for it is lacking.
    pub fn open(path: &Path) -> Result<Self> {
        usage(Self::read(path, None))
    }

    /// Reads a file whose plan must be one that `trust` names: a [`PublicKey`], or more.
    ///
    /// # Errors
    /// As [`PlanFile::open`].
    pub fn open_signed(path: &Path, trust: impl Into<Trust>) -> Result<Self> {
        usage(Self::read(path, Some(trust.into())))
    }

    fn read(path: &Path, trust: Option<Trust>) -> Result<Self> {
        let name = path.display().to_string();
        let mut file = File::open(path).with_context(|| name.clone())?;
        let found = file.metadata().with_context(|| name.clone())?;
        if found.is_dir() {
            bail!("{name}: is a folder, not a plan");
        }
        let length = usize::try_from(found.len()).with_context(|| name.clone())?;
        let count = length.div_ceil(size_of::<Block>());
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count).map_err(|_| anyhow!("{name}: no memory for its {length} bytes"))?;
        blocks.resize(count, Block::ZERO);
        let bytes = &mut bytemuck::cast_slice_mut(&mut blocks)[..length];
        file.read_exact(bytes).with_context(|| name.clone())?;
        Ok(Self { blocks, length, trust, name })
    }

    /// A plan's file that is in memory already; `name` stands for its path in messages.
    pub fn from_bytes(bytes: &[u8], name: String) -> Self {
        let mut blocks = vec![Block::ZERO; bytes.len().div_ceil(size_of::<Block>())];
        bytemuck::cast_slice_mut(&mut blocks)[..bytes.len()].copy_from_slice(bytes);
        Self { blocks, length: bytes.len(), trust: None, name }
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
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
        let plan = usage(Plan::parse(self.bytes()).with_context(|| self.name.clone()))?;
        // The structure is checked by now; kernel images and weights must be what the compiler wrote, too.
        let verify = || match &self.trust {
            None => plan.verify_blobs().map_err(anyhow::Error::from),
            Some(trust) => trust.verify(&plan),
        };
        thread::scope(|scope| {
            let verified = scope.spawn(verify);
            let result = meanwhile(&plan);
            mark("digest");
            let verified = verified.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            usage(verified.with_context(|| self.name.clone()))?;
            Ok((plan, result?))
        })
    }

    /// What is known of who made the plan, for messages.
    pub fn signature(&self, plan: &Plan<'_>) -> &'static str {
        match (&self.trust, plan.is_signed()) {
            (Some(_), _) => "signature checked",
            (None, true) => "signature not checked, which --public-key does",
            (None, false) => "not signed",
        }
    }

    /// The path as given, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Reads an Ed25519 public key in PEM, as `floec keygen` and OpenSSL write it.
///
/// # Errors
/// Those of the file system, or that it is no such key, naming the file.
pub fn public_key(path: &Path) -> Result<PublicKey> {
    let name = path.display();
    let read = || {
        let pem = fs::read_to_string(path).with_context(|| name.to_string())?;
        let key =
            VerifyingKey::from_public_key_pem(&pem).map_err(|error| anyhow!("{name}: no Ed25519 key: {error}"))?;
        PublicKey::from_bytes(key.as_bytes()).with_context(|| name.to_string())
    };
    usage(read())
}
