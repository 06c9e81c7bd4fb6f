//! Who signed a plan.

use floe_engine::plan::{Plan, PublicKey};

/// Whether the holder of a key signed a plan.
#[unsafe(no_mangle)]
pub extern "C" fn signature(plan: &&[u8], key: &[u8; 32]) -> bool {
    let Ok(key) = PublicKey::from_bytes(key) else { return false };
    Plan::parse(plan).is_ok_and(|plan| plan.verify_signature(&key).is_ok())
}
