//! What every function returns, and the text of an error.

use core::{
    ffi::c_char,
    fmt::{self, Write},
};

/// What a function returns. The numbers never change their meaning; later versions may add some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// All went well.
    Ok = 0,
    /// A pointer is null that must not be.
    NullPointer = 1,
    /// A pointer is not aligned as it must be.
    Misaligned = 2,
    /// Memory is shorter than it must be.
    TooShort = 3,
    /// A length is beyond what memory can have.
    TooLong = 4,
    /// Two ranges of memory overlap that must not.
    Overlap = 5,
    /// The handle is none: never made, moved in memory, or overwritten.
    NotAHandle = 6,
    /// The handle was closed or destroyed.
    Destroyed = 7,
    /// The memory already holds an object, or sessions still use the object: those have to be destroyed first.
    InUse = 8,
    /// The call needs another before it.
    Order = 9,
    /// An options structure has an impossible size or value.
    Options = 10,
    /// The library was built without what this needs.
    NotBuilt = 11,
    /// The bytes are no plan.
    NotAPlan = 12,
    /// The plan has another version of the format.
    PlanVersion = 13,
    /// The plan is damaged: lengths, digests or contents are wrong.
    PlanDamaged = 14,
    /// The plan is not signed, or not by the holder of the key.
    Signature = 15,
    /// No variant or binding of that number, name or direction, or none with these extents.
    NotFound = 16,
    /// No variant of the plan runs on that device.
    NoVariant = 17,
    /// The binding goes the other way.
    Direction = 18,
    /// The length is not the binding's.
    Length = 19,
    /// The plan needs more than a session of this library holds.
    Capacity = 20,
    /// The device has not enough free memory.
    OutOfMemory = 21,
    /// A function of the CUDA driver failed or is missing.
    Driver = 22,
    /// A host kernel refused its operands.
    Kernel = 23,
    /// The results contain NaN or infinity, and the session was asked to watch for them.
    NotFinite = 24,
    /// The GPU has not finished, and `go_on` wanted to wait no longer. The session is as it was.
    StillRunning = 25,
    /// A replay on the host was stopped by `go_on`. Reset the session.
    Stopped = 26,
    /// The GPU has not finished as many replays as were launched, so nothing is known of the results. Replay again.
    Miscounted = 27,
    /// Another call is using the session.
    Busy = 28,
    /// The plan is of another model, or older, than what is asked for.
    Release = 29,
}

impl Status {
    /// All of them, by their numbers.
    const ALL: [(Self, &'static str); 30] = [
        (Self::Ok, "ok\0"),
        (Self::NullPointer, "null pointer\0"),
        (Self::Misaligned, "misaligned pointer\0"),
        (Self::TooShort, "memory too short\0"),
        (Self::TooLong, "length too long\0"),
        (Self::Overlap, "memory overlaps\0"),
        (Self::NotAHandle, "not a handle\0"),
        (Self::Destroyed, "handle was destroyed\0"),
        (Self::InUse, "in use\0"),
        (Self::Order, "wrong order of calls\0"),
        (Self::Options, "bad options\0"),
        (Self::NotBuilt, "not in this build of the library\0"),
        (Self::NotAPlan, "not a plan\0"),
        (Self::PlanVersion, "other version of the plan format\0"),
        (Self::PlanDamaged, "damaged plan\0"),
        (Self::Signature, "not signed by the holder of the key\0"),
        (Self::NotFound, "not found\0"),
        (Self::NoVariant, "no variant for this device\0"),
        (Self::Direction, "wrong direction\0"),
        (Self::Length, "wrong length\0"),
        (Self::Capacity, "plan too large for the library\0"),
        (Self::OutOfMemory, "out of device memory\0"),
        (Self::Driver, "CUDA driver\0"),
        (Self::Kernel, "kernel refused its operands\0"),
        (Self::NotFinite, "results not finite\0"),
        (Self::StillRunning, "still running\0"),
        (Self::Stopped, "stopped\0"),
        (Self::Miscounted, "guard lost count\0"),
        (Self::Busy, "session in use by another call\0"),
        (Self::Release, "other model or older version\0"),
    ];
}

/// A few words for a status: a constant string, never null.
#[unsafe(no_mangle)]
pub extern "C" fn floe_status_name(status: i32) -> *const c_char {
    let named = Status::ALL.iter().find(|(known, _)| *known as i32 == status);
    named.map_or("unknown status\0", |(_, name)| *name).as_ptr().cast()
}

/// Bytes of an error's text, the closing NUL included.
pub const FLOE_ERROR_BYTES: usize = 256;

/// What went wrong, in words: UTF-8, closed by NUL, cut off where it is too long, empty after success.
///
/// Every function that can fail takes the address of one, or null where the text is not wanted. It belongs to the caller;
/// the library keeps no error.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Error {
    /// The text.
    pub text: [c_char; FLOE_ERROR_BYTES],
}

impl Error {
    /// No error.
    pub const NONE: Self = Self { text: [0; FLOE_ERROR_BYTES] };

    /// An error that says `text`, as far as it fits.
    pub fn new(text: impl fmt::Display) -> Self {
        let mut writer = Writer { error: Self::NONE, length: 0 };
        // Fails where the text is cut off.
        let _ = write!(writer, "{text}");
        writer.error
    }
}

/// Writes an error's text, up to the last character that fits.
struct Writer {
    error: Error,
    length: usize,
}

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = FLOE_ERROR_BYTES - 1 - self.length;
        let fitting = text.floor_char_boundary(room);
        for (place, &byte) in self.error.text.iter_mut().skip(self.length).zip(&text.as_bytes()[..fitting]) {
            *place = byte as c_char;
        }
        self.length += fitting;
        if fitting < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;

    #[test]
    fn every_status_has_a_name_at_its_number() {
        for (number, (status, name)) in (0..).zip(Status::ALL) {
            assert_eq!(status as i32, number);
            assert!(CStr::from_bytes_with_nul(name.as_bytes()).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        struct Long;
        impl fmt::Display for Long {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (0..200).try_for_each(|_| f.write_str("µ"))
            }
        }
        let bytes = Error::new(Long).text.map(|byte| byte as u8);
        let text = CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap();
        assert_eq!(text.len(), 254);
        assert!(text.chars().all(|character| character == 'µ'));
    }
}
