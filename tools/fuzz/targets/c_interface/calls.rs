//! One call after another.

use crate::{
    Lent, MODEL, Program, RELEASE, SESSION_BYTES, SIGNED,
    arguments::{Kind, length, spoil},
    driver,
};
use arbitrary::{Result, Unstructured};
use floe_c::{
    description::{BindingInfo, VariantInfo},
    options::{Requirements, SessionOptions},
    plan::*,
    session::*,
    shared::*,
    status::{Error, FLOE_ERROR_BYTES, Status},
};
use floe_engine::host::Block;
use std::{
    ffi::{CStr, c_void},
    mem::MaybeUninit,
    ptr::{null, null_mut},
};

/// Where the plan's version lies in its file: in the first entry of the section table, that of META.
const VERSION: std::ops::Range<usize> = 96 + 4..96 + 8;

/// Arguments that every call has, or that many have.
struct Common {
    errors: *mut Error,
    slot: usize,
    /// Of a variant or a binding.
    number: u32,
    /// A place for a result.
    word: u32,
}

impl Program {
    /// One call.
    pub fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let mut error = Error { text: [0x55; FLOE_ERROR_BYTES] };
        let mut common = Common {
            errors: if input.ratio(1, 8)? { null_mut() } else { &raw mut error },
            slot: input.int_in_range(0..=1)?,
            number: if input.ratio(1, 16)? { input.arbitrary()? } else { input.int_in_range(0..=3u32)? },
            word: 0,
        };
        let operation = input.int_in_range(0..=30)?;
        let status = match operation {
            0..=10 => self.on_plan(input, operation, &mut common)?,
            11..=13 => self.init(input, &common)?,
            14..=20 => self.run(input, operation, &mut common)?,
            21..=25 => self.share(input, operation, &mut common)?,
            _ => return self.meanwhile(input, operation, common.slot),
        };
        // The text is there exactly where something went wrong.
        if !common.errors.is_null() {
            let text = error.text.map(|character| character as u8);
            let text = CStr::from_bytes_until_nul(&text).expect("a text that ends");
            assert_eq!(text.is_empty(), status == Status::Ok, "operation {operation}: {status:?}");
            assert!(text.to_str().is_ok());
        }
        Ok(())
    }

    fn on_plan(&mut self, input: &mut Unstructured<'_>, operation: u32, common: &mut Common) -> Result<Status> {
        let Common { errors, slot, number, .. } = *common;
        let word = &raw mut common.word;
        // SAFETY: memory is where the pointers say; files stay as they are; whatever else is wrong is for the library to find.
        // The same holds for all calls below.
        Ok(unsafe {
            match operation {
                0 | 1 => {
                    let mut plan = null_mut();
                    let number = usize::from(input.ratio(1, 4)?);
                    let memory = spoil(input, self.place::<Block>(Kind::Plan, slot))?.cast();
                    let file = &self.files[number];
                    let (start, bytes) = (spoil(input, file.as_ptr().cast_mut())?, length(input, file.len())?);
                    let memory_bytes = length(input, FLOE_PLAN_BYTES)?;
                    let place = spoil(input, &raw mut plan)?;
                    let status = floe_plan_open(memory, memory_bytes, start.cast(), bytes, place, errors);
                    if status == Status::Ok {
                        self.opened[slot] = number;
                    }
                    status
                }
                2 => floe_plan_close(self.handle(input, Kind::Plan)?, errors),
                3 => floe_plan_verify(self.handle(input, Kind::Plan)?, errors),
                4 => {
                    let mut key = SIGNED.1;
                    if input.ratio(1, 4)? {
                        key[input.int_in_range(0..=43)?] = input.arbitrary()?;
                    }
                    let bytes = length(input, key.len())?;
                    let plan: *mut Plan = self.handle(input, Kind::Plan)?;
                    let status =
                        floe_plan_verify_signature(plan, spoil(input, key.as_mut_ptr())?.cast(), bytes, errors);
                    if status == Status::Ok {
                        let slot = (0..2).find(|&slot| self.place(Kind::Plan, slot) == plan).expect("a plan");
                        let file = &self.files[self.opened[slot]];
                        assert!(
                            key == SIGNED.1 && bytes == key.len() && **file == *SIGNED.0,
                            "a wrong signature passed"
                        );
                    }
                    status
                }
                5 => {
                    let plan = self.handle(input, Kind::Plan)?;
                    self.check_releases(plan);
                    floe_plan_variant_count(plan, spoil(input, word)?, errors)
                }
                6 => {
                    let mut info = MaybeUninit::<VariantInfo>::uninit();
                    floe_plan_variant(self.handle(input, Kind::Plan)?, number, spoil(input, info.as_mut_ptr())?, errors)
                }
                7 => {
                    let name =
                        *input.choose(&[c"host".as_ptr(), c"gpu".as_ptr(), c"".as_ptr(), c"\xff".as_ptr(), null()])?;
                    floe_plan_find_target(self.handle(input, Kind::Plan)?, name, spoil(input, word)?, errors)
                }
                8 => {
                    let architecture = *input.choose(&[0, 87, 90, u32::MAX])?;
                    let place = spoil(input, word)?;
                    floe_plan_find_gpu(self.handle(input, Kind::Plan)?, architecture, number, number, place, errors)
                }
                9 => {
                    let mut info = MaybeUninit::<BindingInfo>::uninit();
                    let place = spoil(input, info.as_mut_ptr())?;
                    let variant = input.int_in_range(0..=3)?;
                    floe_plan_binding(self.handle(input, Kind::Plan)?, variant, number, place, errors)
                }
                _ => {
                    let name =
                        *input.choose(&[c"x".as_ptr(), c"total".as_ptr(), c"y".as_ptr(), c"\xff".as_ptr(), null()])?;
                    let direction = *input.choose(&[0, 1, 2, 3, FLOE_ANY_DIRECTION])?;
                    let place = spoil(input, word)?;
                    floe_plan_find_binding(self.handle(input, Kind::Plan)?, number, name, direction, place, errors)
                }
            }
        })
    }

    /// Asks a plan, or what is taken for one, for its version, and then whether it is this or that release of a model: a model's
    /// name and no less than some version. Takes nothing from the input, of which inputs of old so mean what they did.
    fn check_releases(&mut self, plan: *mut Plan) {
        let (mut version, mut error) = (0, Error { text: [0x55; FLOE_ERROR_BYTES] });
        let errors = &raw mut error;
        // SAFETY: as in `on_plan`, here and below.
        let lives = unsafe { floe_plan_version(plan, &raw mut version, errors) };
        for place in [null_mut(), (&raw mut version).wrapping_byte_add(1)] {
            // SAFETY: as above.
            let status = unsafe { floe_plan_version(plan, place, errors) };
            let wrong = if place.is_null() { Status::NullPointer } else { Status::Misaligned };
            assert_eq!(status, if lives == Status::Ok { wrong } else { lives });
        }
        let file = (0..2).find(|&slot| self.place(Kind::Plan, slot) == plan).map(|slot| &self.files[self.opened[slot]]);
        let whole = file.is_some_and(|file| **file == *SIGNED.0);
        if lives == Status::Ok {
            let file = file.expect("a plan");
            assert_eq!(file[VERSION], version.to_le_bytes(), "another version than the file's");
            assert!(!whole || version == RELEASE);
        }
        for least in [0, version.saturating_sub(1), version, version.saturating_add(1), u32::MAX] {
            for name in [c"tiny".as_ptr(), c"tin".as_ptr(), c"".as_ptr(), c"\xff".as_ptr(), null()] {
                // SAFETY: as above.
                let status = unsafe { floe_plan_verify_release(plan, name, least, errors) };
                // SAFETY: a text that ends, as `step` sees of all texts.
                let says = unsafe { CStr::from_ptr(error.text.as_ptr()) };
                assert_eq!(says.is_empty(), status == Status::Ok);
                if lives != Status::Ok {
                    assert_eq!(status, lives);
                    continue;
                }
                // SAFETY: one of those above.
                let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str());
                let new_enough = version >= least;
                let expected = match name {
                    Some(Err(_)) => Status::NotFound,
                    _ if !new_enough => Status::Release,
                    None => Status::Ok,
                    Some(Ok(name)) if whole && name != MODEL => Status::Release,
                    Some(Ok(_)) if whole => Status::Ok,
                    // The name in the damaged file may be any.
                    Some(Ok(_)) if status == Status::Ok => Status::Ok,
                    Some(Ok(_)) => Status::Release,
                };
                assert_eq!(status, expected, "version {version}, at least {least}, model {name:?}");
            }
        }
    }

    /// Makes a session, for which the driver must be asked for exactly what was known before.
    fn init(&mut self, input: &mut Unstructured<'_>, common: &Common) -> Result<Status> {
        let Common { errors, slot, number, .. } = *common;
        let mut requirements = MaybeUninit::<Requirements>::uninit();
        let mut session = null_mut();
        let mut all = self.options(input)?;
        let shared = self.sharing(&all[0]);
        let options = spoil(input, all.as_mut_ptr())?.cast::<SessionOptions>();
        let memory = spoil(input, self.place::<Block>(Kind::Session, slot))?;
        let (bytes, place) = (length(input, SESSION_BYTES)?, spoil(input, &raw mut session)?);
        let plan = self.handle(input, Kind::Plan)?;
        let wanted = spoil(input, requirements.as_mut_ptr())?;
        // SAFETY: as in `on_plan`.
        let known = unsafe { floe_session_requirements(plan, number, options, wanted, errors) };
        if input.ratio(1, 8)? {
            return Ok(known);
        }
        let calls = if input.ratio(1, 4)? { Some(input.int_in_range(0..=40)?) } else { None };
        driver::with(|state| {
            state.fail_in = calls;
            state.allocations.clear();
            state.host_allocations.clear();
        });
        // SAFETY: as in `on_plan`.
        let status = unsafe { floe_session_init(memory.cast(), bytes, plan, number, options, place, errors) };
        if status != Status::Ok {
            return Ok(status);
        }
        assert!(!self.live[Kind::Session as usize][slot]);
        self.live[Kind::Session as usize][slot] = true;
        self.shared[slot] = if options.is_null() { [None; 2] } else { shared };
        for kind in [Kind::Weights, Kind::Scratch] {
            if let Some(used) = self.shared[slot][kind.shared()] {
                assert!(self.live[kind as usize][used]);
                self.users[kind.shared()][used] += 1;
            }
        }
        if known == Status::Ok {
            // SAFETY: the library has filled it in.
            let known = unsafe { requirements.assume_init() };
            driver::with(|state| {
                assert_eq!(state.allocations.iter().sum::<usize>() as u64, known.device_bytes);
                assert_eq!(state.host_allocations.iter().sum::<usize>() as u64, known.page_locked_bytes);
            });
        }
        Ok(status)
    }

    fn run(&mut self, input: &mut Unstructured<'_>, operation: u32, common: &mut Common) -> Result<Status> {
        let Common { errors, number, .. } = *common;
        let word = &raw mut common.word;
        let session: *mut Session = self.handle(input, Kind::Session)?;
        let slot = (0..2).find(|&slot| self.place(Kind::Session, slot) == session);
        if operation == 16 || (operation == 20 && slot.is_some()) {
            // What was lent is the session's again.
            self.lent.retain(|lent| Some(lent.session) != slot);
        }
        // SAFETY: as in `on_plan`.
        Ok(unsafe {
            match operation {
                14 => {
                    let (data, bytes) = self.data(input, slot)?;
                    floe_session_write(session, number, data, bytes, errors)
                }
                15 => {
                    let (data, bytes) = self.data(input, slot)?;
                    floe_session_read(session, number, data, bytes, errors)
                }
                16 if input.ratio(1, 4)? => floe_session_replay_timed(session, errors),
                16 => floe_session_replay(session, errors),
                17 => match input.int_in_range(0..=5)? {
                    0 => floe_session_is_done(session, spoil(input, word)?, errors),
                    1 => {
                        let mut real = 0.0;
                        floe_session_device_time(session, spoil(input, &raw mut real)?, errors)
                    }
                    2 => floe_session_synchronize(session, errors),
                    3 => floe_session_reset(session, errors),
                    4 => floe_session_choose(session, number, errors),
                    _ => floe_session_guard(session, spoil(input, word)?, errors),
                },
                18 => {
                    let (mut start, mut bytes) = (null_mut::<c_void>(), 0);
                    let (place, length) = (spoil(input, &raw mut start)?, spoil(input, &raw mut bytes)?);
                    let status = floe_session_input(session, number, place, length, errors);
                    self.lend(status, slot, start.cast(), bytes, true);
                    status
                }
                19 => {
                    let (mut start, mut bytes) = (null::<c_void>(), 0);
                    let (place, length) = (spoil(input, &raw mut start)?, spoil(input, &raw mut bytes)?);
                    let status = floe_session_output(session, number, place, length, errors);
                    self.lend(status, slot, start.cast::<u8>().cast_mut(), bytes, false);
                    status
                }
                _ => {
                    let status = floe_session_destroy(session, errors);
                    self.destroyed(Kind::Session, session.cast(), status);
                    status
                }
            }
        })
    }

    fn lend(&mut self, status: Status, slot: Option<usize>, start: *mut u8, bytes: usize, input: bool) {
        if status == Status::Ok {
            let session = slot.expect("a session");
            assert!(!start.is_null() && start.addr().is_multiple_of(16) && bytes == 16);
            self.lent.push(Lent { session, start, bytes, input });
        }
    }

    fn share(&mut self, input: &mut Unstructured<'_>, operation: u32, common: &mut Common) -> Result<Status> {
        let Common { errors, slot, number, .. } = *common;
        let word = &raw mut common.word;
        let mut all = self.options(input)?;
        let options = spoil(input, all.as_mut_ptr())?.cast::<SessionOptions>();
        let bytes = length(input, FLOE_SHARED_BYTES)?;
        if operation <= 22 && input.ratio(1, 4)? {
            let calls = input.int_in_range(0..=8)?;
            driver::with(|state| state.fail_in = Some(calls));
        }
        // SAFETY: as in `on_plan`.
        Ok(unsafe {
            match operation {
                21 => {
                    let mut weights = null_mut();
                    let memory = spoil(input, self.place::<Block>(Kind::Weights, slot))?.cast();
                    let place = spoil(input, &raw mut weights)?;
                    let plan = self.handle(input, Kind::Plan)?;
                    let status = floe_weights_upload(memory, bytes, plan, number, options, place, errors);
                    self.made(Kind::Weights, slot, status);
                    status
                }
                22 => {
                    let mut scratch = null_mut();
                    let memory = spoil(input, self.place::<Block>(Kind::Scratch, slot))?.cast();
                    let place = spoil(input, &raw mut scratch)?;
                    let scratch_bytes = *input.choose(&[256, 256, 256, 0, 1, 4096, 1 << 40, u64::MAX])?;
                    let status = floe_scratch_allocate(memory, bytes, scratch_bytes, options, place, errors);
                    self.made(Kind::Scratch, slot, status);
                    status
                }
                23 => {
                    let (weights, plan) = (self.handle(input, Kind::Weights)?, self.handle(input, Kind::Plan)?);
                    floe_weights_fit(weights, plan, number, spoil(input, word)?, errors)
                }
                24 if input.ratio(1, 2)? => {
                    let weights: *mut Weights = self.handle(input, Kind::Weights)?;
                    let status = floe_weights_destroy(weights, errors);
                    self.destroyed(Kind::Weights, weights.cast(), status);
                    status
                }
                24 => {
                    let scratch: *mut Scratch = self.handle(input, Kind::Scratch)?;
                    let status = floe_scratch_destroy(scratch, errors);
                    self.destroyed(Kind::Scratch, scratch.cast(), status);
                    status
                }
                _ => {
                    let mut members = [SetMember { plan: null(), variant: number, reserved: 0 }; 3];
                    for member in &mut members {
                        member.plan = self.handle::<Plan>(input, Kind::Plan)?;
                        member.variant = input.int_in_range(0..=3)?;
                        member.reserved = u32::from(input.ratio(1, 32)?);
                    }
                    let mut memory = MaybeUninit::<SetMemory>::uninit();
                    let count = length(input, members.len())?;
                    let (members, place) = (spoil(input, members.as_mut_ptr())?, spoil(input, memory.as_mut_ptr())?);
                    floe_set_requirements(members, count, options, place, errors)
                }
            }
        })
    }

    fn made(&mut self, kind: Kind, slot: usize, status: Status) {
        if status == Status::Ok {
            assert!(!self.live[kind as usize][slot]);
            self.live[kind as usize][slot] = true;
        }
    }

    /// What happens between calls.
    fn meanwhile(&mut self, input: &mut Unstructured<'_>, operation: u32, slot: usize) -> Result<()> {
        match operation {
            // What is lent is used.
            26 | 27 => {
                let value = input.arbitrary()?;
                for &Lent { start, bytes, input, .. } in &self.lent {
                    // SAFETY: lent, and neither replayed nor destroyed since.
                    unsafe {
                        match input {
                            true => start.write_bytes(value, bytes),
                            false => drop(std::slice::from_raw_parts(start, bytes).to_vec()),
                        }
                    }
                }
            }
            // Moved: neither the copy nor anything in it may be taken for a session.
            28 => {
                if !self.live[Kind::Session as usize][1] {
                    let [from, to] = &mut self.memory[Kind::Session as usize];
                    to.copy_from_slice(from);
                }
            }
            29 => {
                let value = input.arbitrary()?;
                let live = &mut self.live[Kind::Session as usize][slot];
                self.lost |= *live;
                *live = false;
                self.lent.retain(|lent| lent.session != slot);
                // Who was counted as a user goes on being one.
                self.shared[slot] = [None; 2];
                self.memory[Kind::Session as usize][slot].fill(Block([value; 64]));
            }
            _ => {
                let calls = input.int_in_range(0..=8)?;
                driver::with(|state| state.fail_in = Some(calls));
            }
        }
        Ok(())
    }
}
