//! A CUDA session, from INIT to its end.

use floe_engine::{
    BindingRef,
    cuda::{DriverApi, InitOptions, Session},
};

/// Everything that a program may do with a session but measure.
///
/// # Safety
/// As [`Session::init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda(
    plan: &&[u8],
    api: &DriverApi,
    options: &InitOptions,
    binding: &BindingRef<'_>,
    data: &mut &mut [u8],
) -> bool {
    let mut run = || {
        let variant = crate::variant(plan, "jetson-orin-nano")?;
        // SAFETY: the caller's promise.
        let mut session = unsafe { Session::init(variant, api, *options) }.ok()?;
        session.write(*binding, data).ok()?;
        session.replay().ok()?;
        session.replay_timed().ok()?;
        session.is_done().ok()?;
        session.read(*binding, data).ok()?;
        session.reset().ok()?;
        session.synchronize().ok()
    };
    run().is_some()
}
