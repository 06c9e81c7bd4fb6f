//! What ends a launch.

/// Why a launch ended before all of its threads returned, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Index of the instruction.
    pub instruction: Option<u32>,
    /// Block in the grid.
    pub block: [u32; 3],
    /// Thread in the block.
    pub thread: Option<[u32; 3]>,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (block {:?}", self.kind, self.block)?;
        match self.thread {
            Some(thread) => write!(f, ", thread {thread:?})"),
            None => f.write_str(")"),
        }
    }
}

/// What can happen to a launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// Grid, block, shared memory or parameters are not what the kernel or the machine allows.
    #[error("the launch cannot be: {0}")]
    Launch(String),
    /// No allocation holds these bytes.
    #[error("{bytes} bytes at {address:#x} are in no allocation")]
    Address {
        /// Device address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// The address is no multiple of the access's size.
    #[error("{bytes} bytes at {address:#x} are misaligned")]
    Misaligned {
        /// Address in the space accessed.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// Beyond the shared memory that the launch asked for.
    #[error("{bytes} bytes at {address:#x} of shared memory, of which the block has {available}")]
    Shared {
        /// Offset in shared memory.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
        /// Bytes that the block has.
        available: u32,
    },
    /// Beyond the thread's local memory.
    #[error("{bytes} bytes at {address:#x} of local memory, of which a thread has {available}")]
    Local {
        /// Offset in local memory.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
        /// Bytes that a thread has.
        available: u32,
    },
    /// A constant of the module is written to.
    #[error("a store to variables of the module, at {address:#x}")]
    ReadOnly {
        /// Device address.
        address: u64,
    },
    /// Lanes that an instruction needs together cannot come together.
    #[error("lanes {missing:#010x} of the warp never come to an instruction that waits for them")]
    Convergence {
        /// Lanes that are elsewhere.
        missing: u32,
    },
    /// Threads wait at a barrier that others never reach.
    #[error("barrier {barrier} is reached by {arrived} of {expected} threads, and nothing else can run")]
    Barrier {
        /// Which barrier.
        barrier: u32,
        /// Threads that arrived.
        arrived: u32,
        /// Threads that it waits for.
        expected: u32,
    },
    /// There are 16 barriers.
    #[error("barrier {0} does not exist")]
    NoBarrier(u32),
    /// A barrier in shared memory is not used as it can be.
    #[error("the mbarrier at {address:#x} of shared memory {what}")]
    Arrival {
        /// Offset in shared memory.
        address: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Threads wait at the barrier of their cluster, or in shared memory, for what never comes.
    #[error(
        "threads wait for a barrier that never completes, and nothing else can run; at that of the cluster are {arrived} of {expected} threads"
    )]
    Waiting {
        /// Threads at the cluster's barrier.
        arrived: u32,
        /// Threads of the cluster.
        expected: u32,
    },
    /// A store goes to a block that is not there.
    #[error("block {rank} of the cluster, which a store goes to, {what}")]
    Remote {
        /// Rank in the cluster.
        rank: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// A tile that does not lie as those that are covered.
    #[error("matrix descriptor {0:#018x}: only rows of 128 swizzled bytes at multiples of 1024 are covered")]
    Descriptor(u64),
    /// `trap`
    #[error("the kernel trapped")]
    Trap,
    /// The program ran past its end, or the launch past its limit.
    #[error("more than {0} instructions of warps were executed")]
    Budget(u64),
    /// Blocks that wait for one another need more memory than allowed.
    #[error("blocks that must be resident at once need more than {0} bytes")]
    Resident(u64),
}
