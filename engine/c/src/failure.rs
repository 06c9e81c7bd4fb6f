//! Why a function failed, on its way to the caller: a status and a text.

use crate::status::Status;
use core::fmt;
use floe_engine::{BindingError, ShapeError, cuda, plan::PlanError};

#[cfg(feature = "cuda")]
use floe_engine::cuda::RunError;
#[cfg(feature = "host")]
use floe_engine::host;

/// Why a function failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A null pointer.
    Null(&'static str),
    /// Memory at an address that is no multiple of its alignment.
    Misaligned {
        /// Which memory.
        what: &'static str,
        /// The alignment.
        alignment: usize,
        /// The address.
        address: usize,
    },
    /// Memory that is too short.
    TooShort {
        /// Which memory.
        what: &'static str,
        /// Bytes that it must have.
        needed: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// More bytes than any memory has.
    TooLong {
        /// Which memory.
        what: &'static str,
        /// Bytes that it is said to have.
        found: usize,
    },
    /// Two ranges of memory that overlap.
    Overlap(&'static str, &'static str),
    /// An object that is none.
    NotAHandle(&'static str),
    /// An object that was destroyed.
    Destroyed(&'static str),
    /// Memory that already holds an object.
    InUse(&'static str),
    /// An object that sessions still use.
    Used(&'static str),
    /// A call that needs another before it.
    Order(&'static str),
    /// Options of an impossible size.
    OptionsSize {
        /// Bytes of the first version.
        smallest: usize,
        /// Bytes of this version.
        largest: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// An option of an impossible value.
    Options(&'static str),
    /// A feature that the library was built without.
    NotBuilt(&'static str),
    /// A plan that needs more memory than this machine can address.
    TooLarge,
    /// No such variant.
    NoSuchVariant(u32),
    /// No variant for a target of that name.
    NoSuchTarget,
    /// No such binding.
    NoSuchBinding,
    /// Text that is not UTF-8, so that nothing is called so.
    NotUtf8(&'static str),
    /// No variant runs on that GPU.
    NoVariant {
        /// Its architecture.
        architecture: u32,
        /// Its multiprocessors.
        multiprocessors: u32,
        /// Its driver.
        driver: u32,
    },
    /// Results with NaN or infinity: the first such binding.
    NotFinite(u32),
    /// A session that another call is using.
    Busy,
    /// Bytes that are no public key.
    Key,
    /// A function that the driver does not have.
    NoSuchSymbol(&'static str),
    /// What the check of a plan says.
    Plan(PlanError),
    /// What a session says of a binding.
    Binding(BindingError),
    /// What a session says of a shape.
    Shape(ShapeError),
    /// What INIT on the host says.
    #[cfg(feature = "host")]
    HostInit(host::InitError),
    /// What a replay on the host says.
    #[cfg(feature = "host")]
    HostReplay(host::ReplayError),
    /// What INIT on a GPU says.
    CudaInit(cuda::InitError),
    /// What RUN on a GPU says.
    #[cfg(feature = "cuda")]
    CudaRun(RunError),
}

impl Failure {
    /// What the function will return.
    pub fn status(&self) -> Status {
        match self {
            Self::Null(_) => Status::NullPointer,
            Self::Misaligned { .. } => Status::Misaligned,
            Self::TooShort { .. } => Status::TooShort,
            Self::TooLong { .. } => Status::TooLong,
            Self::Overlap(..) => Status::Overlap,
            Self::NotAHandle(_) => Status::NotAHandle,
            Self::Destroyed(_) => Status::Destroyed,
            Self::InUse(_) | Self::Used(_) => Status::InUse,
            Self::Order(_) => Status::Order,
            Self::OptionsSize { .. } | Self::Options(_) => Status::Options,
            Self::NotBuilt(_) => Status::NotBuilt,
            Self::TooLarge => Status::Capacity,
            Self::NoSuchVariant(_) | Self::NoSuchTarget | Self::NoSuchBinding | Self::NotUtf8(_) => Status::NotFound,
            Self::NoVariant { .. } => Status::NoVariant,
            Self::NotFinite(_) => Status::NotFinite,
            Self::Busy => Status::Busy,
            Self::Key => Status::Signature,
            Self::NoSuchSymbol(_) => Status::Driver,
            Self::Plan(PlanError::NotAPlan) => Status::NotAPlan,
            Self::Plan(PlanError::Version { .. }) => Status::PlanVersion,
            Self::Plan(PlanError::Unsigned | PlanError::Signature) => Status::Signature,
            Self::Plan(PlanError::OtherModel | PlanError::Outdated { .. }) => Status::Release,
            Self::Plan(_) => Status::PlanDamaged,
            Self::Binding(error) => binding_status(error),
            Self::Shape(_) => Status::NotFound,
            #[cfg(feature = "host")]
            Self::HostInit(_) => Status::Options,
            #[cfg(feature = "host")]
            Self::HostReplay(host::ReplayError::Stopped { .. }) => Status::Stopped,
            #[cfg(feature = "host")]
            Self::HostReplay(_) => Status::Kernel,
            Self::CudaInit(error) => match error {
                cuda::InitError::Capacity { .. } | cuda::InitError::TooLarge { .. } => Status::Capacity,
                cuda::InitError::OutOfMemory { .. } => Status::OutOfMemory,
                cuda::InitError::ScratchTooSmall { .. } => Status::TooShort,
                cuda::InitError::Call(_) => Status::Driver,
                _ => Status::Options,
            },
            #[cfg(feature = "cuda")]
            Self::CudaRun(error) => match error {
                RunError::Binding(error) => binding_status(error),
                RunError::NotGuarded => Status::Order,
                RunError::StillRunning => Status::StillRunning,
                RunError::Miscounted => Status::Miscounted,
                _ => Status::Driver,
            },
        }
    }
}

fn binding_status(error: &BindingError) -> Status {
    match error {
        BindingError::Direction { .. } => Status::Direction,
        BindingError::Length { .. } => Status::Length,
        _ => Status::NotFound,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(what) => write!(f, "{what} is null"),
            Self::Misaligned { what, alignment, address } => {
                write!(f, "{what} must start at a multiple of {alignment} bytes, but is at {address:#x}")
            }
            Self::TooShort { what, needed, found } => {
                write!(f, "{what} must have {needed} bytes or more, but has {found}")
            }
            Self::TooLong { what, found } => write!(f, "{what} cannot have {found} bytes"),
            Self::Overlap(one, other) => write!(f, "{one} and {other} overlap"),
            Self::NotAHandle(name) => write!(f, "the handle is no {name}: never made, moved or overwritten"),
            Self::Destroyed(name) => write!(f, "the {name} was destroyed"),
            Self::InUse(name) => write!(f, "the memory holds a {name}: destroy it first"),
            Self::Used(name) => write!(f, "sessions still use the {name}: destroy them first"),
            Self::Order(text) | Self::Options(text) => f.write_str(text),
            Self::OptionsSize { smallest, largest, found } => {
                write!(f, "options of {found} bytes, but this library knows {smallest} to {largest}")
            }
            Self::NotBuilt(feature) => write!(f, "the library was built without the feature `{feature}`"),
            Self::TooLarge => write!(f, "the plan needs more memory than this machine can address"),
            Self::NoSuchVariant(number) => write!(f, "the plan has no variant {number}"),
            Self::NoSuchTarget => write!(f, "the plan has no variant for this target: `floec inspect` lists them"),
            Self::NoSuchBinding => write!(f, "no such binding: `floec inspect` lists the plan's"),
            Self::NotUtf8(what) => write!(f, "{what} is not UTF-8"),
            Self::NoVariant { architecture, multiprocessors, driver } => write!(
                f,
                "no variant of the plan runs on a GPU of sm_{architecture} with {multiprocessors} multiprocessors and \
                 driver {driver}: `floec inspect` says what they need"
            ),
            Self::NotFinite(binding) => write!(f, "binding {binding} holds NaN or infinity"),
            Self::Busy => write!(f, "another call is using the session: one thread at a time, and none from `go_on`"),
            Self::Key => write!(f, "not an Ed25519 public key in a SubjectPublicKeyInfo"),
            Self::NoSuchSymbol(name) => write!(f, "the CUDA driver has no function {name}"),
            Self::Plan(error) => error.fmt(f),
            Self::Binding(error) => error.fmt(f),
            Self::Shape(error) => error.fmt(f),
            #[cfg(feature = "host")]
            Self::HostInit(error) => error.fmt(f),
            #[cfg(feature = "host")]
            Self::HostReplay(error) => error.fmt(f),
            Self::CudaInit(error) => error.fmt(f),
            #[cfg(feature = "cuda")]
            Self::CudaRun(error) => error.fmt(f),
        }
    }
}

/// `From<error>` for a variant that holds it.
macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from!(PlanError => Plan, BindingError => Binding, ShapeError => Shape, cuda::InitError => CudaInit);
#[cfg(feature = "host")]
from!(host::InitError => HostInit, host::ReplayError => HostReplay);
#[cfg(feature = "cuda")]
from!(RunError => CudaRun);
