//! Any sequence of calls of the C interface: right and wrong handles, pointers, lengths and order, on the host and over a
//! simulated CUDA driver that aborts where it is misused, some of whose calls fail. What C can promise is kept: memory is where
//! pointers say that it is. Every call must return, and in the end nothing may be left at the driver.
#![no_main]

#[path = "../../engine/tests/support/mod.rs"]
mod support;

use arbitrary::Unstructured;
use floe_c::{
    description::{BindingInfo, VariantInfo},
    options::{Requirements, SessionOptions},
    plan::*,
    session::*,
    status::{Error, FLOE_ERROR_BYTES, Status},
};
use floe_engine::{
    cuda::{Call, DriverApi},
    host::Block,
};
use libfuzzer_sys::fuzz_target;
use std::{
    ffi::{CStr, c_char, c_void},
    mem::MaybeUninit,
    ptr::{null, null_mut},
};
use support::{Aligned, cuda_parts, driver, host_parts, write};

const FUNCTIONS: usize = Call::ALL.len();

/// `dlsym` of the simulated driver.
unsafe extern "C" fn find_symbol(_: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the table is one function pointer behind another, in the order of `Call::ALL`.
    let table = unsafe { std::mem::transmute::<DriverApi, [*mut c_void; FUNCTIONS]>(driver::API) };
    // SAFETY: the library passes a constant string.
    let name = unsafe { CStr::from_ptr(name) };
    let number = Call::ALL.iter().position(|call| Ok(call.name()) == name.to_str());
    number.map_or(null_mut(), |number| table[number])
}

/// Bytes of the memory of a session: enough for one on a GPU.
const SESSION_BYTES: usize = 48 * 1024;
const DATA_BYTES: usize = 64;

/// What a C program would have.
struct Program {
    /// As long as sessions, since either may be taken for the other.
    plans: [Vec<Block>; 2],
    sessions: [Vec<Block>; 2],
    /// Neither.
    nothing: Vec<Block>,
    /// Whether a session lives there, as far as the library said.
    live: [bool; 2],
    files: [Aligned; 2],
    data: [u64; DATA_BYTES / 8],
    /// Whether a live session was overwritten, whose resources nobody can free any more.
    lost: bool,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    driver::with(|state| *state = driver::State::default());
    let file = write([host_parts(), cuda_parts()]);
    let mut damaged = file.to_vec();
    for _ in 0..input.int_in_range(0..=2).unwrap_or(0) {
        let at = input.int_in_range(0..=damaged.len() - 1).unwrap_or(0);
        damaged[at] = input.arbitrary().unwrap_or(0);
    }
    support::seal(&mut damaged);
    // A little longer, for handles a little behind.
    let memory = || vec![Block::ZERO; SESSION_BYTES / size_of::<Block>() + 1];
    let mut program = Program {
        plans: [0, 1].map(|_| memory()),
        sessions: [0, 1].map(|_| memory()),
        nothing: memory(),
        live: [false; 2],
        files: [file, Aligned::new(&damaged)],
        data: [0; DATA_BYTES / 8],
        lost: false,
    };
    while !input.is_empty() {
        if program.step(&mut input).is_err() {
            break;
        }
    }
    for slot in 0..2 {
        driver::with(|state| state.fail_in = None);
        // SAFETY: the memory is the program's own.
        let status = unsafe { floe_session_destroy(program.sessions[slot].as_mut_ptr().cast(), null_mut()) };
        assert_eq!(status == Status::Ok, program.live[slot]);
    }
    driver::with(|state| assert!(program.lost || state.live.is_empty(), "left at the driver: {:?}", state.live));
});

/// A pointer that may be wrong: null, or one byte off, which only `u8` and `void` can bear.
fn spoil<T>(input: &mut Unstructured<'_>, pointer: *mut T) -> arbitrary::Result<*mut T> {
    Ok(match input.int_in_range(0..=15)? {
        0 => null_mut(),
        1 if align_of::<T>() > 1 => pointer.cast::<u8>().wrapping_add(1).cast(),
        _ => pointer,
    })
}

/// A length that is `right`, less, or beyond what memory can have.
fn length(input: &mut Unstructured<'_>, right: usize) -> arbitrary::Result<usize> {
    Ok(match input.int_in_range(0..=15)? {
        0 => 0,
        1 => right.saturating_sub(1),
        2 => usize::MAX,
        3 => isize::MAX as usize + 1,
        4 => input.int_in_range(0..=right)?,
        _ => right,
    })
}

impl Program {
    /// Any handle: a plan, a session, the other kind, or no handle at all.
    fn handle<T>(&mut self, input: &mut Unstructured<'_>, session: bool) -> arbitrary::Result<*mut T> {
        let slot = input.int_in_range(0..=1)?;
        let other = input.ratio(1, 16)?;
        let memory = match session != other {
            true => self.sessions[slot].as_mut_ptr().cast::<c_void>(),
            false => self.plans[slot].as_mut_ptr().cast(),
        };
        Ok(match input.int_in_range(0..=15)? {
            0 => null_mut(),
            1 => memory.wrapping_byte_add(input.int_in_range(0..=63)?).cast(),
            2 => self.nothing.as_mut_ptr().cast(),
            _ => memory.cast(),
        })
    }

    /// Where data comes from or goes to, and as how much.
    fn data(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<(*mut c_void, usize)> {
        let bytes = length(input, 16)?;
        let slot = input.int_in_range(0..=1)?;
        let pointer = match input.int_in_range(0..=15)? {
            0 => null_mut(),
            1 => self.sessions[slot].as_mut_ptr().wrapping_add(1).cast(),
            // The very end of what is there: a byte more would be noticed.
            _ => self.data.as_mut_ptr_range().end.wrapping_byte_sub(bytes.min(DATA_BYTES)).cast(),
        };
        Ok((pointer, bytes))
    }

    /// Options, in more memory than they need.
    fn options(input: &mut Unstructured<'_>) -> arbitrary::Result<[SessionOptions; 4]> {
        let right = size_of::<SessionOptions>();
        let options = SessionOptions {
            struct_bytes: if input.ratio(1, 8)? { input.int_in_range(0..=4 * right)? } else { right },
            find_symbol: if input.ratio(15, 16)? { Some(find_symbol) } else { None },
            find_symbol_context: null_mut(),
            stream: if input.ratio(1, 4)? { driver::EXTERNAL_STREAM } else { null_mut() },
            mapped: input.int_in_range(0..=1)?,
            // SAFETY: fields that are zero when not used, and all of them may be.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        };
        // SAFETY: as above; larger structures of later versions end with zeros.
        let mut all = [options; 4].map(|_| unsafe { MaybeUninit::<SessionOptions>::zeroed().assume_init() });
        all[0] = options;
        Ok(all)
    }

    /// One call.
    fn step(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let mut error = Error { text: [0x55; FLOE_ERROR_BYTES] };
        let errors = if input.ratio(1, 8)? { null_mut() } else { &raw mut error };
        let slot = input.int_in_range(0..=1)?;
        let number = if input.ratio(1, 16)? { input.arbitrary()? } else { input.int_in_range(0..=3u32)? };
        let mut word = 0;
        let mut real = 0.0;
        let operation = input.int_in_range(0..=21)?;
        // SAFETY: memory is where the pointers say; files stay as they are; whatever else is wrong is for the library to find.
        let status = unsafe {
            match operation {
                0 | 1 => {
                    let mut plan = null_mut();
                    let memory = spoil(input, self.plans[slot].as_mut_ptr())?.cast();
                    let file = &self.files[usize::from(input.ratio(1, 4)?)];
                    let (start, bytes) = (spoil(input, file.as_ptr().cast_mut())?, length(input, file.len())?);
                    let memory_bytes = length(input, FLOE_PLAN_BYTES)?;
                    let place = spoil(input, &raw mut plan)?;
                    floe_plan_open(memory, memory_bytes, start.cast(), bytes, place, errors)
                }
                2 => floe_plan_close(self.handle(input, false)?, errors),
                3 => floe_plan_verify(self.handle(input, false)?, errors),
                4 => floe_plan_variant_count(self.handle(input, false)?, spoil(input, &raw mut word)?, errors),
                5 => {
                    let mut info = MaybeUninit::<VariantInfo>::uninit();
                    floe_plan_variant(self.handle(input, false)?, number, spoil(input, info.as_mut_ptr())?, errors)
                }
                6 => {
                    let name =
                        *input.choose(&[c"host".as_ptr(), c"gpu".as_ptr(), c"".as_ptr(), c"\xff".as_ptr(), null()])?;
                    floe_plan_find_target(self.handle(input, false)?, name, spoil(input, &raw mut word)?, errors)
                }
                7 => {
                    let architecture = *input.choose(&[0, 87, 90, u32::MAX])?;
                    let place = spoil(input, &raw mut word)?;
                    floe_plan_find_gpu(self.handle(input, false)?, architecture, number, number, place, errors)
                }
                8 => {
                    let mut info = MaybeUninit::<BindingInfo>::uninit();
                    let place = spoil(input, info.as_mut_ptr())?;
                    floe_plan_binding(self.handle(input, false)?, input.int_in_range(0..=2)?, number, place, errors)
                }
                9 => {
                    let name =
                        *input.choose(&[c"x".as_ptr(), c"total".as_ptr(), c"y".as_ptr(), c"\xff".as_ptr(), null()])?;
                    let direction = *input.choose(&[0, 1, 2, 3, FLOE_ANY_DIRECTION])?;
                    let place = spoil(input, &raw mut word)?;
                    floe_plan_find_binding(self.handle(input, false)?, number, name, direction, place, errors)
                }
                10 => {
                    let mut requirements = MaybeUninit::<Requirements>::uninit();
                    let mut options = Self::options(input)?;
                    let options = spoil(input, options.as_mut_ptr())?;
                    let place = spoil(input, requirements.as_mut_ptr())?;
                    floe_session_requirements(self.handle(input, false)?, number, options, place, errors)
                }
                11..=13 => {
                    let mut session = null_mut();
                    let mut options = Self::options(input)?;
                    let options = spoil(input, options.as_mut_ptr())?;
                    let memory = spoil(input, self.sessions[slot].as_mut_ptr())?;
                    let (bytes, place) = (length(input, SESSION_BYTES)?, spoil(input, &raw mut session)?);
                    let plan = self.handle(input, false)?;
                    if input.ratio(1, 4)? {
                        let calls = input.int_in_range(0..=40)?;
                        driver::with(|state| state.fail_in = Some(calls));
                    }
                    let status = floe_session_init(memory.cast(), bytes, plan, number & 1, options, place, errors);
                    if status == Status::Ok {
                        assert!(!self.live[slot]);
                        self.live[slot] = true;
                    }
                    status
                }
                14 => {
                    let (data, bytes) = self.data(input)?;
                    floe_session_write(self.handle(input, true)?, number, data, bytes, errors)
                }
                15 => {
                    let (data, bytes) = self.data(input)?;
                    floe_session_read(self.handle(input, true)?, number, data, bytes, errors)
                }
                16 => floe_session_replay(self.handle(input, true)?, errors),
                17 => match input.int_in_range(0..=4)? {
                    0 => floe_session_replay_timed(self.handle(input, true)?, errors),
                    1 => floe_session_is_done(self.handle(input, true)?, spoil(input, &raw mut word)?, errors),
                    2 => floe_session_device_time(self.handle(input, true)?, spoil(input, &raw mut real)?, errors),
                    3 => floe_session_synchronize(self.handle(input, true)?, errors),
                    _ => floe_session_reset(self.handle(input, true)?, errors),
                },
                18 => {
                    let handle: *mut Session = self.handle(input, true)?;
                    let status = floe_session_destroy(handle, errors);
                    if status == Status::Ok {
                        let of = |memory: &Vec<Block>| memory.as_ptr().cast() == handle.cast_const();
                        let slot = self.sessions.iter().position(of).expect("only whole sessions are destroyed");
                        assert!(self.live[slot]);
                        self.live[slot] = false;
                    }
                    status
                }
                19 => {
                    // Moved: neither the copy nor anything in it may be taken for a session.
                    let [from, to] = &mut self.sessions;
                    if !self.live[1] {
                        to.copy_from_slice(from);
                    }
                    return Ok(());
                }
                20 => {
                    let value = input.arbitrary()?;
                    self.sessions[slot].fill(Block([value; 64]));
                    self.lost |= self.live[slot];
                    self.live[slot] = false;
                    return Ok(());
                }
                _ => {
                    let calls = input.int_in_range(0..=8)?;
                    driver::with(|state| state.fail_in = Some(calls));
                    return Ok(());
                }
            }
        };
        // The text is there exactly where something went wrong.
        if !errors.is_null() {
            let text = error.text.map(|character| character as u8);
            let text = CStr::from_bytes_until_nul(&text).expect("a text that ends");
            assert_eq!(text.is_empty(), status == Status::Ok, "operation {operation}: {status:?}");
            assert!(text.to_str().is_ok());
        }
        Ok(())
    }
}
