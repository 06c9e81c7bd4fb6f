//! CUDA sessions, from INIT to their end.

use floe_engine::{
    BindingRef, ShapeRef,
    cuda::{DriverApi, InitOptions, Scratch, Session, SetMemory, Shared, Weights},
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
        let session = unsafe { Session::init(variant, api, *options) }.ok()?;
        use_up(session, *binding, data)
    };
    run().is_some()
}

/// As [`cuda()`], in turn with another session: constants and scratch shared, and their bytes known before.
///
/// # Safety
/// As [`cuda()`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shared(
    plan: &&[u8],
    api: &DriverApi,
    options: &InitOptions,
    binding: &BindingRef<'_>,
    data: &mut &mut [u8],
) -> u64 {
    let mut run = || {
        let variant = crate::variant(plan, "jetson-orin-nano")?;
        let known = SetMemory::of([variant.clone(), variant.clone()].into_iter(), *options);
        // SAFETY: the caller's promise, here and below.
        let weights = unsafe { Weights::upload(&variant, api) }.ok()?;
        // SAFETY: as above.
        let scratch = unsafe { Scratch::allocate(known.scratch, api, options.stream) }.ok()?;
        let shared = Shared { weights: Some(&weights), scratch: Some(&scratch) };
        let options = InitOptions { stream: None, ..*options };
        let own = variant.requirements_shared(options, shared).device;
        // SAFETY: as above.
        let session = unsafe { Session::init_shared(variant, api, options, shared) }.ok()?;
        use_up(session, *binding, data)?;
        Some(known.total.saturating_add(own))
    };
    run().unwrap_or(0)
}

/// RUN, and the end.
fn use_up(mut session: Session<'_, '_>, binding: BindingRef<'_>, data: &mut [u8]) -> Option<()> {
    session.write(binding, data).ok()?;
    session.input_mut(binding).ok()?.fill(0);
    session.choose(ShapeRef::Holding(&[("x", &[1])])).ok()?;
    session.choose(ShapeRef::Exactly(&[])).ok()?;
    session.choose(data.len()).ok()?;
    session.replay().ok()?;
    session.replay_timed().ok()?;
    session.is_done().ok()?;
    session.synchronize_while(|| !data.is_empty()).ok()?;
    session.read(binding, data).ok()?;
    data.first_mut().zip(session.output(binding).ok()?.first()).map(|(to, from)| *to = *from)?;
    session.guard().ok()?.next().is_none().then_some(())?;
    session.reset().ok()?;
    session.synchronize().ok()
}
