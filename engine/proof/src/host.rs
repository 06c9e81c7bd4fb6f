//! A host session, from INIT to its end.

use floe_engine::{BindingRef, ShapeRef, host::Session};

/// Everything that a program may do with a session.
#[unsafe(no_mangle)]
pub extern "C" fn host(plan: &&[u8], memory: &mut &mut [u8], binding: &BindingRef<'_>, data: &mut &mut [u8]) -> bool {
    let mut run = || {
        let mut session = Session::init(crate::variant(plan, "host")?, memory).ok()?;
        session.write(*binding, data).ok()?;
        session.input_mut(*binding).ok()?.fill(0);
        session.choose(ShapeRef::Holding(&[("x", &[1])])).ok()?;
        session.choose(ShapeRef::Exactly(&[])).ok()?;
        session.choose(data.len()).ok()?;
        session.replay().ok()?;
        session.replay_while(|operations| operations < data.len() as u64).ok()?;
        session.guard().next().is_none().then_some(())?;
        session.read(*binding, data).ok()?;
        data.first_mut().zip(session.output(*binding).ok()?.first()).map(|(to, from)| *to = *from)?;
        session.reset();
        Some(())
    };
    run().is_some()
}
