//! What a launch tells about itself while it runs.

/// Memory that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Memory of the device, through [`Memory`](super::Memory): addresses as the driver gave them out.
    Global,
    /// Shared memory of the block: addresses are offsets from its first byte (static variables first, then dynamic).
    Shared,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A load, `ldmatrix` included: each lane is the one that gave the row's address.
    Load,
    /// A store.
    Store,
    /// A read and a write in one.
    Atomic,
    /// The source of an asynchronous copy. It is read at some time between the instruction and the wait.
    AsyncLoad,
    /// The destination of an asynchronous copy. It is written at some time between the instruction and the wait.
    AsyncStore,
    /// A prefetch of global memory, which reads nothing into the kernel.
    Prefetch,
}

/// Memory order of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Ordinary.
    Weak,
    /// `.relaxed` or `.volatile`, and atomics that name no order.
    Relaxed,
    /// `.acquire`
    Acquire,
    /// `.release`
    Release,
    /// `.acq_rel`
    AcquireRelease,
}

/// One instruction of one warp that touches memory.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Index of the instruction in its [`Program`](super::Program).
    pub instruction: u32,
    /// Warp in the block; lane `l` is thread `32 * warp + l` of the block, counted with x fastest.
    pub warp: u32,
    /// Lanes that access, bit `l` for lane `l`.
    pub lanes: u32,
    /// Memory accessed.
    pub space: Space,
    /// What is done.
    pub kind: Kind,
    /// Memory order.
    pub order: Order,
    /// Bytes that each lane accesses, from its address on.
    pub bytes: u32,
    /// Address of each lane. Those of lanes that do not access are meaningless.
    pub addresses: &'a [u64; 32],
}

/// One instruction of one warp that stores into the shared memory of a block of its cluster.
#[derive(Clone, Copy, Debug)]
pub struct RemoteStore<'a> {
    /// Index of the instruction.
    pub instruction: u32,
    /// Warp in the block that stores.
    pub warp: u32,
    /// Lanes that store.
    pub lanes: u32,
    /// Bytes of each lane.
    pub bytes: u32,
    /// Offset in the other block's shared memory, for each lane.
    pub addresses: &'a [u64; 32],
    /// The barrier there that each lane's bytes are reported to, if they are: they arrive at some time before it completes.
    pub barriers: Option<&'a [u64; 32]>,
}

/// Threads of a warp arrived at a barrier of the block.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Index of the instruction.
    pub instruction: u32,
    /// Warp in the block.
    pub warp: u32,
    /// Lanes that arrived.
    pub lanes: u32,
    /// Lanes that returned before they came to the barrier: it does not wait for them.
    pub exited: u32,
    /// Barrier resource, 0 to 15.
    pub barrier: u32,
    /// Whether the threads also wait (`bar.sync`, `bar.red`), not only arrive (`bar.arrive`).
    pub waits: bool,
}

/// Observer of a launch.
///
/// Blocks run on several threads at once. What concerns one block goes into [`Watch::Block`], which no other thread
/// touches meanwhile; what concerns several goes into the observer itself.
///
/// All accesses of an instruction are told before it takes effect, and only if it is going to: a launch ends with a
/// [`Fault`](super::Fault) where an address is outside every allocation, but for prefetches, or misaligned.
pub trait Watch: Sync {
    /// Whether any event is wanted. Where it is false no event is even made up.
    const ACTIVE: bool = true;
    /// What is kept of one block while it runs.
    type Block: Send;

    /// A block begins.
    fn block_start(&self, block: [u32; 3]) -> Self::Block;
    /// All threads of a block have returned, or a fault has ended the launch.
    fn block_end(&self, block: Self::Block);
    /// Memory is accessed.
    fn access(&self, block: &mut Self::Block, access: &Access<'_>);
    /// `cp.async.commit_group`: the copies that `lanes` issued since their last one form a group.
    fn async_commit(&self, block: &mut Self::Block, warp: u32, lanes: u32);
    /// `cp.async.wait_group`: of the groups that `lanes` committed all but the latest `pending` are complete.
    /// [`WAIT_ALL`] stands for `cp.async.wait_all`, which also commits.
    fn async_wait(&self, block: &mut Self::Block, warp: u32, lanes: u32, pending: u32);
    /// Threads arrived at a barrier.
    fn barrier_arrive(&self, block: &mut Self::Block, arrival: &Arrival);
    /// All threads that a barrier waits for have arrived; those that wait go on.
    fn barrier_complete(&self, block: &mut Self::Block, barrier: u32);
    /// `bar.warp.sync`, and every other instruction that synchronises the lanes of a warp.
    fn warp_sync(&self, block: &mut Self::Block, warp: u32, lanes: u32);
    /// A fence (`membar`, `fence`) that reaches at least the whole device.
    fn fence(&self, block: &mut Self::Block, warp: u32, lanes: u32);

    /// `fence.proxy.async`
    fn proxy_fence(&self, _block: &mut Self::Block, _warp: u32) {}
    /// `wgmma.commit_group`: the products since the last one form a group.
    fn products_commit(&self, _block: &mut Self::Block, _warp: u32) {}
    /// `wgmma.wait_group`: of the groups that a warp committed all but the latest `pending` are complete.
    fn products_wait(&self, _block: &mut Self::Block, _warp: u32, _pending: u32) {}
    /// `wgmma.mma_async`: products are under way into these rows of a warp's registers.
    fn products_issue(
        &self,
        _block: &mut Self::Block,
        _warp: u32,
        _instruction: u32,
        _rows: &mut dyn Iterator<Item = u32>,
    ) {
    }
    /// An instruction of a warp reads or writes rows of its registers, sums of products aside. Told in kernels with `wgmma` only.
    fn registers(&self, _block: &mut Self::Block, _warp: u32, _instruction: u32, _rows: &[u32]) {}
    /// A thread of a warp arrived at a barrier in shared memory, which may complete its phase.
    fn arrival(&self, _block: &mut Self::Block, _warp: u32, _barrier: u64, _completes: bool) {}
    /// Bytes that came complete the phase of a barrier in shared memory.
    fn arrival_complete(&self, _block: &mut Self::Block, _barrier: u64) {}
    /// A thread of a warp saw that a barrier in shared memory had completed a phase.
    fn arrival_awaited(&self, _block: &mut Self::Block, _warp: u32, _barrier: u64) {}
    /// A block stores into the shared memory of another one of its cluster, or with none into its own.
    fn remote_store(&self, _from: &mut Self::Block, _to: Option<&mut Self::Block>, _store: &RemoteStore<'_>) {}
    /// A warp arrived at the barrier of the cluster.
    fn cluster_arrive(&self, _block: &mut Self::Block, _warp: u32, _releases: bool) {}
    /// All threads of the cluster have arrived.
    fn cluster_complete(&self, _blocks: &mut [&mut Self::Block]) {}
    /// A warp that waited at the barrier of the cluster goes on.
    fn cluster_awaited(&self, _block: &mut Self::Block, _warp: u32) {}
}

/// Pending groups that [`Watch::async_wait`] is told of for `cp.async.wait_all`.
pub const WAIT_ALL: u32 = u32::MAX;

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    const ACTIVE: bool = false;
    type Block = ();

    fn block_start(&self, _: [u32; 3]) {}
    fn block_end(&self, (): ()) {}
    fn access(&self, (): &mut (), _: &Access<'_>) {}
    fn async_commit(&self, (): &mut (), _: u32, _: u32) {}
    fn async_wait(&self, (): &mut (), _: u32, _: u32, _: u32) {}
    fn barrier_arrive(&self, (): &mut (), _: &Arrival) {}
    fn barrier_complete(&self, (): &mut (), _: u32) {}
    fn warp_sync(&self, (): &mut (), _: u32, _: u32) {}
    fn fence(&self, (): &mut (), _: u32, _: u32) {}
}
