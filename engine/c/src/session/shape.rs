//! Choosing among the shapes that a plan has for a session's target.

use super::{
    Body, Session,
    run::{Running, on, with},
};
use crate::{
    description::FLOE_MAX_RANK,
    failure::Failure,
    memory,
    status::{Error, Status},
};
use floe_engine::BindingRef;

/// Extents that an input is to hold.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct InputShape {
    /// Number of the input.
    pub binding: u32,
    /// Number of dimensions.
    pub rank: u32,
    /// Extents, outermost first; nothing beyond `rank` is looked at.
    pub extents: [u32; FLOE_MAX_RANK],
}

impl InputShape {
    fn extents(&self) -> Option<&[u32]> {
        self.extents.get(..self.rank as usize)
    }
}

/// Chooses the shape of the replays from now on: variant `variant` of the plan, of the same target as the session's.
/// `floe_plan_variant` and `floe_plan_binding` describe them. Nothing is allocated, and a GPU's driver is not called: replays that
/// were enqueued before are of the shape before, and their outputs are to be read before.
///
/// Bindings keep their numbers and addresses, and states what they hold. So does an input whose shape is equal; any other is to
/// be written before the next replay, and outputs are read after it. What was lent has to be lent again.
///
/// Errors: those of a session's handle; `NOT_FOUND` where the plan has no such variant, or it is another target's: the session is
/// as it was.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_choose(session: *mut Session, variant: u32, error: *mut Error) -> Status {
    let choose = |session: Running<'_>| on!(session.body, session => Ok(session.choose(variant as usize)?));
    // SAFETY: promise of the caller.
    unsafe { with(session, error, choose) }
}

/// As `floe_session_choose`, of the smallest variant in which no extent of these inputs is less than the one given: that whose
/// inputs have the fewest bytes, the first among equals. The caller fills what is left over. Floe adds no mask: where the
/// network has an input that says what counts, such as an attention mask or a length, it has to say so. What outputs hold for
/// the filling has no meaning.
///
/// `inputs`: `count` of them; may be null where `count` is 0.
/// `variant`: set to the number of the variant that was chosen, unless it is null.
///
/// Errors: those of a session's handle; of `inputs`, `NULL_POINTER`, `MISALIGNED`, `TOO_LONG` and `OVERLAP`; of `variant`,
/// `MISALIGNED` and `OVERLAP`; `NOT_FOUND` where an input is none or has another number of dimensions, or no variant is large
/// enough: the session is as it was.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_choose_holding(
    session: *mut Session,
    inputs: *const InputShape,
    count: usize,
    variant: *mut u32,
    error: *mut Error,
) -> Status {
    let choose = |session: Running<'_>| {
        session.apart(inputs.cast(), count.saturating_mul(size_of::<InputShape>()))?;
        if !variant.is_null() {
            session.place(variant, "variant")?;
        }
        // SAFETY: promise of the caller.
        let inputs = unsafe { memory::elements(inputs, count, "inputs")? };
        if inputs.iter().any(|input| input.extents().is_none()) {
            return Err(Failure::NoSuchBinding);
        }
        let wanted = inputs
            .iter()
            .map(|input| (BindingRef::Number(input.binding as usize), input.extents().unwrap_or_default()));
        let chosen = on!(session.body, session => {
            let found = session.variant().find_holding(wanted)?.number();
            session.choose(found)?;
            found
        });
        if !variant.is_null() {
            // SAFETY: promise of the caller.
            unsafe { memory::store(variant, chosen as u32, "variant")? };
        }
        Ok(())
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, choose) }
}
