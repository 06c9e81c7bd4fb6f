//! Any sequence of calls of the C interface: right and wrong handles, pointers, lengths and order, on the host and over a
//! simulated CUDA driver that aborts where it is misused, some of whose calls fail. What C can promise is kept: memory is where
//! pointers say that it is. Every call must return, nothing may pass that should not, a session must ask the driver for exactly
//! what was known before, and in the end nothing may be left there.
#![no_main]

#[path = "../../../engine/tests/support/mod.rs"]
mod support;

#[path = "c_interface/arguments.rs"]
mod arguments;
#[path = "c_interface/calls.rs"]
mod calls;

use arbitrary::Unstructured;
use arguments::Kind;
use ed25519_dalek::{Signer, SigningKey};
use floe_c::{
    session::{Session, floe_session_destroy},
    shared::{Scratch, Weights, floe_scratch_destroy, floe_weights_destroy},
    status::Status,
};
use floe_engine::{
    cuda::{CUDA_SUCCESS, CUdeviceptr, CUresult, Call, DriverApi},
    host::Block,
    plan::{Plan, PlanWriter},
};
use libfuzzer_sys::fuzz_target;
use std::{
    ffi::{CStr, c_char, c_void},
    ptr::null_mut,
    sync::LazyLock,
};
use support::{Aligned, cuda_parts, driver, host_parts, signalling_parts};

/// Whether the simulated driver forgets to free memory, which the fuzzer must find: `tools/fuzz/run control`.
static FORGETS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FLOE_FUZZ_FORGETS").is_some());

/// Number of functions of the driver.
const FUNCTIONS: usize = Call::ALL.len();

/// `dlsym` of the simulated driver.
unsafe extern "C" fn find_symbol(_: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the table is one function pointer behind another, in the order of `Call::ALL`.
    let table = unsafe { std::mem::transmute::<DriverApi, [*mut c_void; FUNCTIONS]>(driver::API) };
    // SAFETY: the library passes a constant string.
    let name = unsafe { CStr::from_ptr(name) };
    if *FORGETS && name == c"cuMemFree_v2" {
        return forget as extern "C" fn(CUdeviceptr) -> CUresult as *mut c_void;
    }
    let number = Call::ALL.iter().position(|call| Ok(call.name()) == name.to_str());
    number.map_or(null_mut(), |number| table[number])
}

extern "C" fn forget(_: CUdeviceptr) -> CUresult {
    CUDA_SUCCESS
}

/// Bytes of the memory of a session: enough for one on a GPU.
const SESSION_BYTES: usize = 48 * 1024;
/// Bytes of the caller's data.
const DATA_BYTES: usize = 64;
/// What precedes an Ed25519 key in DER.
const KEY_PREFIX: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// The model of that plan and its version.
const MODEL: &str = "tiny";
const RELEASE: u32 = 7;

/// A plan with variants for the host, for a GPU, and for one with a guard and a signal; signed. And the public key.
static SIGNED: LazyLock<(Aligned, [u8; 44])> = LazyLock::new(|| {
    let secret = SigningKey::from_bytes(&[7; 32]);
    let writer = PlanWriter::new(MODEL, "tests 1.0").version(RELEASE);
    // Of one target they would be two shapes of it.
    let mut signalling = signalling_parts();
    signalling.header.target = "signalling";
    let file = [host_parts(), cuda_parts(), signalling].into_iter().fold(writer, PlanWriter::variant).finish();
    let file = Aligned::new(&file);
    let plan = Plan::parse(&file).expect("a plan");
    let signed = plan.with_signature(&secret.sign(&plan.signed_message()).to_bytes());
    let mut key = [0; 44];
    key[..12].copy_from_slice(&KEY_PREFIX);
    key[12..].copy_from_slice(secret.verifying_key().as_bytes());
    (Aligned::new(&signed), key)
});

/// Bytes that a session has lent, until its next replay or its end.
struct Lent {
    session: usize,
    start: *mut u8,
    bytes: usize,
    /// Whether they may be written.
    input: bool,
}

/// What a C program would have.
struct Program {
    /// Two places of each kind: all as long as sessions, since one may be taken for another. The last are nothing.
    memory: [[Vec<Block>; 2]; 5],
    /// Where something lives, as far as the library said.
    live: [[bool; 2]; 5],
    /// Which of the files a plan was opened from.
    opened: [usize; 2],
    /// What sessions share, by number.
    shared: [[Option<usize>; 2]; 2],
    /// How many sessions use what is shared: constants, scratch.
    users: [[usize; 2]; 2],
    lent: Vec<Lent>,
    files: [Aligned; 2],
    data: [u64; DATA_BYTES / 8],
    /// Whether a live session was overwritten, whose resources nobody can free any more.
    lost: bool,
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    driver::with(|state| {
        *state = driver::State::default();
        state.limit = Some(1 << 20);
    });
    let mut damaged = SIGNED.0.to_vec();
    for _ in 0..input.int_in_range(0..=2).unwrap_or(0) {
        let at = input.int_in_range(0..=damaged.len() - 1).unwrap_or(0);
        damaged[at] = input.arbitrary().unwrap_or(0);
    }
    support::seal(&mut damaged);
    // A little longer, for handles a little behind.
    let memory = |_| vec![Block::ZERO; SESSION_BYTES / size_of::<Block>() + 1];
    let mut program = Program {
        memory: [(); 5].map(|()| [(); 2].map(memory)),
        live: [[false; 2]; 5],
        opened: [0; 2],
        shared: [[None; 2]; 2],
        users: [[0; 2]; 2],
        lent: Vec::new(),
        files: [SIGNED.0.clone(), Aligned::new(&damaged)],
        data: [0; DATA_BYTES / 8],
        lost: false,
    };
    while !input.is_empty() {
        if program.step(&mut input).is_err() {
            break;
        }
    }
    program.end();
});

impl Program {
    /// Destroys what lives, sessions before what they share.
    fn end(&mut self) {
        driver::with(|state| state.fail_in = None);
        for slot in 0..2 {
            let session = self.place::<Session>(Kind::Session, slot);
            // SAFETY: the memory is the program's own, here and below.
            let status = unsafe { floe_session_destroy(session, null_mut()) };
            self.destroyed(Kind::Session, session.cast(), status);
        }
        for slot in 0..2 {
            let weights = self.place::<Weights>(Kind::Weights, slot);
            // SAFETY: as above.
            let status = unsafe { floe_weights_destroy(weights, null_mut()) };
            self.destroyed(Kind::Weights, weights.cast(), status);
            let scratch = self.place::<Scratch>(Kind::Scratch, slot);
            // SAFETY: as above.
            let status = unsafe { floe_scratch_destroy(scratch, null_mut()) };
            self.destroyed(Kind::Scratch, scratch.cast(), status);
        }
        driver::with(|state| assert!(self.lost || state.live.is_empty(), "left at the driver: {:?}", state.live));
    }

    /// Notes what the library said of the end of something, which must be so.
    fn destroyed(&mut self, kind: Kind, handle: *const c_void, status: Status) {
        let slot = (0..2).find(|&slot| self.place::<c_void>(kind, slot).cast_const() == handle);
        let lives = slot.is_some_and(|slot| self.live[kind as usize][slot]);
        let (Some(slot), true) = (slot, lives) else {
            assert_ne!(status, Status::Ok, "{kind:?}: only what lives is destroyed");
            return;
        };
        let used = kind.is_shared() && self.users[kind.shared()][slot] > 0;
        assert_eq!(status, if used { Status::InUse } else { Status::Ok });
        if used {
            return;
        }
        self.live[kind as usize][slot] = false;
        if kind == Kind::Session {
            self.lent.retain(|lent| lent.session != slot);
            for shared in 0..2 {
                if let Some(user) = self.shared[slot][shared].take() {
                    self.users[shared][user] -= 1;
                }
            }
        }
    }
}
