//! Executes accesses to memory: addresses, checks, events, and then the bytes.

use super::access::{Op, To, Transfer};
use super::fault::FaultKind;
use super::lanes::{Registers, Slot, every, lanes_of};
use super::matrix;
use super::memory::{Finder, Memory, Words};
use super::program::{LOCAL_WINDOW, MODULE_WINDOW, Program, SHARED_WINDOW};
use super::reader::Address;
use super::watch::{Access, Kind, Order, Space, Watch};

/// A fault and the lane that it happened to.
pub(super) type Refused = (FaultKind, usize);
type Result<T> = std::result::Result<T, Refused>;

/// What an access of one warp may touch.
pub(super) struct Context<'c, 'm, M, W: Watch> {
    pub program: &'c Program,
    pub finder: &'c mut Finder<'m, M>,
    pub watch: &'c W,
    pub watched: &'c mut W::Block,
    pub shared: &'c mut [u8],
    /// Local memory of the warp's threads, one after another.
    pub local: &'c mut [u8],
    pub parameters: &'c [u8],
    pub warp: u32,
    pub instruction: u32,
}

#[inline(always)]
pub(super) fn addresses(r: &Registers<'_>, address: &Address) -> [u64; 32] {
    if address.long {
        let base = r.long(address.base);
        every(|lane| base[lane].wrapping_add_signed(address.offset))
    } else {
        let base = r.row(address.base);
        every(|lane| u64::from(base[lane].wrapping_add(address.offset as u32)))
    }
}

/// Reads up to 16 bytes.
#[inline(always)]
pub(super) fn read_bytes(memory: &[u8], at: usize, bytes: u32) -> Words {
    let mut words = [0; 4];
    let from = &memory[at..at + bytes as usize];
    match bytes {
        1 => words[0] = u32::from(from[0]),
        2 => words[0] = u32::from(u16::from_le_bytes([from[0], from[1]])),
        _ => {
            for (word, four) in words.iter_mut().zip(from.chunks_exact(4)) {
                *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            }
        }
    }
    words
}

#[inline(always)]
pub(super) fn write_bytes(memory: &mut [u8], at: usize, bytes: u32, words: Words) {
    let to = &mut memory[at..at + bytes as usize];
    match bytes {
        1 => to[0] = words[0] as u8,
        2 => to.copy_from_slice(&(words[0] as u16).to_le_bytes()),
        _ => {
            for (word, four) in words.iter().zip(to.chunks_exact_mut(4)) {
                four.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

impl<M: Memory, W: Watch> Context<'_, '_, M, W> {
    pub fn execute(&mut self, op: &Op, r: &mut Registers<'_>, lanes: u32) -> Result<()> {
        match op {
            Op::Load(transfer) => self.load(transfer, r, lanes),
            Op::Store(transfer) => self.store(transfer, r, lanes),
            Op::Parameter { destinations, offset, element } => {
                for (i, slot) in destinations.iter().enumerate() {
                    let at = *offset as usize + i * element.bytes as usize;
                    let words = read_bytes(self.parameters, at, element.bytes);
                    distribute(r, *slot, element, 0, &[words; 32], lanes);
                }
                Ok(())
            }
            Op::Atomic { to, operation, bytes, d, address, b, c, order } => {
                let mut addresses = addresses(r, address);
                let value =
                    |r: &Registers<'_>, slot: Slot| if *bytes == 8 { r.long(slot) } else { r.row(slot).map(u64::from) };
                let (b, c) = (value(r, *b), value(r, *c));
                let mut old = [0_u64; 32];
                for (to, lanes) in split(*to, &mut addresses, lanes) {
                    self.check(to, &addresses, *bytes, lanes, true)?;
                    self.tell(to, Kind::Atomic, *order, &addresses, *bytes, lanes);
                    for lane in lanes_of(lanes) {
                        let (address, b, c) = (addresses[lane], b[lane], c[lane]);
                        let update = |old: u64| operation.apply(old, b, c);
                        old[lane] = match to {
                            To::Shared | To::Local => {
                                let words = self.read(to, lane, address, *bytes);
                                let old = u64::from(words[0]) | u64::from(words[1]) << 32;
                                let new = update(old);
                                self.write(to, lane, address, *bytes, [new as u32, (new >> 32) as u32, 0, 0]);
                                old
                            }
                            _ => self.finder.find(address, *bytes).map_or(0, |place| place.update(*bytes, update)),
                        };
                    }
                }
                if *d == Slot::SINK {
                    return Ok(());
                }
                if *bytes == 8 {
                    r.set_long(*d, &old, lanes);
                } else {
                    r.set_row(*d, &old.map(|old| old as u32), lanes);
                }
                Ok(())
            }
            Op::Copy { shared, global, bytes, source, ignore } => {
                self.copy((shared, global), *bytes, *source, *ignore, r, lanes)
            }
            Op::Prefetch { address, bytes } => self.prefetch(address, *bytes, r, lanes),
            Op::Commit => {
                if W::ACTIVE {
                    self.watch.async_commit(self.watched, self.warp, lanes);
                }
                Ok(())
            }
            Op::Wait(pending) => {
                if W::ACTIVE {
                    self.watch.async_wait(self.watched, self.warp, lanes, *pending);
                }
                Ok(())
            }
            Op::Fence { device } => {
                if W::ACTIVE && *device {
                    self.watch.fence(self.watched, self.warp, lanes);
                }
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                Ok(())
            }
            Op::ProxyFence => {
                if W::ACTIVE {
                    self.watch.proxy_fence(self.watched, self.warp);
                }
                Ok(())
            }
            Op::Nothing => Ok(()),
        }
    }

    fn load(&mut self, t: &Transfer, r: &mut Registers<'_>, lanes: u32) -> Result<()> {
        let mut addresses = addresses(r, &t.address);
        let bytes = t.element.bytes * t.count;
        let mut data = [[0_u32; 4]; 32];
        for (to, lanes) in split(t.to, &mut addresses, lanes) {
            self.check(to, &addresses, bytes, lanes, false)?;
            self.tell(to, Kind::Load, t.order, &addresses, bytes, lanes);
            match bytes {
                4 => self.gather::<4>(to, &addresses, lanes, &mut data),
                16 => self.gather::<16>(to, &addresses, lanes, &mut data),
                2 => self.gather::<2>(to, &addresses, lanes, &mut data),
                8 => self.gather::<8>(to, &addresses, lanes, &mut data),
                _ => self.gather::<1>(to, &addresses, lanes, &mut data),
            }
        }
        if t.order == Order::Acquire {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        for (i, slot) in t.slots[..t.count as usize].iter().enumerate() {
            distribute(r, *slot, &t.element, i, &data, lanes);
        }
        Ok(())
    }

    #[inline(always)]
    fn gather<const BYTES: u32>(&mut self, to: To, addresses: &[u64; 32], lanes: u32, data: &mut [Words; 32]) {
        if to == To::Shared {
            for lane in lanes_of(lanes) {
                data[lane] = read_bytes(self.shared, addresses[lane] as usize, BYTES);
            }
        } else {
            for lane in lanes_of(lanes) {
                data[lane] = self.read(to, lane, addresses[lane], BYTES);
            }
        }
    }

    fn store(&mut self, t: &Transfer, r: &mut Registers<'_>, lanes: u32) -> Result<()> {
        let mut addresses = addresses(r, &t.address);
        let bytes = t.element.bytes * t.count;
        let data = collect(t, r);
        if matches!(t.order, Order::Release | Order::AcquireRelease) {
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        }
        for (to, lanes) in split(t.to, &mut addresses, lanes) {
            self.check(to, &addresses, bytes, lanes, true)?;
            self.tell(to, Kind::Store, t.order, &addresses, bytes, lanes);
            match bytes {
                4 => self.scatter::<4>(to, &addresses, lanes, &data),
                16 => self.scatter::<16>(to, &addresses, lanes, &data),
                2 => self.scatter::<2>(to, &addresses, lanes, &data),
                8 => self.scatter::<8>(to, &addresses, lanes, &data),
                _ => self.scatter::<1>(to, &addresses, lanes, &data),
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn scatter<const BYTES: u32>(&mut self, to: To, addresses: &[u64; 32], lanes: u32, data: &[Words; 32]) {
        for lane in lanes_of(lanes) {
            self.write(to, lane, addresses[lane], BYTES, data[lane]);
        }
    }

    fn copy(
        &mut self,
        (shared, global): (&Address, &Address),
        bytes: u32,
        source: Option<Slot>,
        ignore: Option<(Slot, bool)>,
        r: &Registers<'_>,
        lanes: u32,
    ) -> Result<()> {
        let (to, mut from) = (addresses(r, shared), addresses(r, global));
        let ignored = ignore.map_or(0, |(slot, negated)| r.predicate(slot) ^ u32::from(negated).wrapping_neg());
        let sizes = source.map_or([bytes; 32], |slot| r.row(slot).map(|size| size.min(bytes)));
        let size = |lane: usize| if ignored >> lane & 1 == 1 { 0 } else { sizes[lane] };
        self.check(To::Shared, &to, bytes, lanes, true)?;
        for (space, lanes) in split(To::Generic, &mut from, lanes) {
            if space != To::Global {
                return Err((FaultKind::Address { address: from[lanes.trailing_zeros() as usize], bytes }, 0));
            }
        }
        // Lanes that read nothing need no address; those that read less are told apart by how much.
        let mut rest = lanes;
        while rest != 0 {
            let reads = size(rest.trailing_zeros() as usize);
            let some = super::lanes::mask_of(|lane| size(lane) == reads) & rest;
            rest &= !some;
            if reads == 0 {
                continue;
            }
            let part = if reads.is_power_of_two() { reads } else { 1 };
            for lane in lanes_of(some) {
                if from[lane] % u64::from(bytes) != 0 {
                    return Err((FaultKind::Misaligned { address: from[lane], bytes }, lane));
                }
                for i in (0..u64::from(reads)).step_by(part as usize) {
                    self.locate(from[lane] + i, part, false).map_err(|kind| (kind, lane))?;
                }
            }
            self.tell(To::Global, Kind::AsyncLoad, Order::Weak, &from, reads, some);
        }
        self.tell(To::Shared, Kind::AsyncStore, Order::Weak, &to, bytes, lanes);
        for lane in lanes_of(lanes) {
            let size = size(lane);
            let words = if size == bytes {
                self.read(To::Global, lane, from[lane], bytes)
            } else {
                let mut words = [0; 4];
                for i in 0..size {
                    let byte = self.read(To::Global, lane, from[lane] + u64::from(i), 1)[0];
                    words[i as usize / 4] |= byte << (8 * (i % 4));
                }
                words
            };
            self.write(To::Shared, lane, to[lane], bytes, words);
        }
        Ok(())
    }

    /// Moves nothing: there is no cache. Of a line the byte is told that is named, since the line may begin before an operand.
    fn prefetch(&mut self, address: &Address, size: Option<Slot>, r: &Registers<'_>, lanes: u32) -> Result<()> {
        let addresses = addresses(r, address);
        let sizes = size.map_or([1; 32], |slot| *r.row(slot));
        for lane in lanes_of(lanes) {
            let (address, bytes) = (addresses[lane], sizes[lane]);
            if size.is_some() && (address | u64::from(bytes)) % 16 != 0 {
                return Err((FaultKind::Misaligned { address, bytes }, lane));
            }
            self.tell(To::Global, Kind::Prefetch, Order::Weak, &addresses, bytes, 1 << lane);
        }
        Ok(())
    }

    pub fn load_matrix(&mut self, load: &matrix::Load, r: &mut Registers<'_>) -> Result<()> {
        let addresses = addresses(r, &load.address);
        // Eight lanes give the addresses of the rows of one matrix.
        let lanes = if load.count == 4 { u32::MAX } else { (1 << (8 * load.count)) - 1 };
        self.check(To::Shared, &addresses, 16, lanes, false)?;
        self.tell(To::Shared, Kind::Load, Order::Weak, &addresses, 16, lanes);
        let mut rows = [[0; 4]; 32];
        for lane in lanes_of(lanes) {
            rows[lane] = read_bytes(self.shared, addresses[lane] as usize, 16);
        }
        load.spread(&rows, r);
        Ok(())
    }

    /// Checks alignment and that the bytes are there.
    #[inline(always)]
    pub(super) fn check(&mut self, to: To, addresses: &[u64; 32], bytes: u32, lanes: u32, writes: bool) -> Result<()> {
        let mut together = 0;
        for lane in lanes_of(lanes) {
            together |= addresses[lane];
        }
        if together & u64::from(bytes - 1) != 0 {
            let lane = lanes_of(lanes).find(|lane| addresses[*lane] & u64::from(bytes - 1) != 0).unwrap_or(0);
            return Err((FaultKind::Misaligned { address: addresses[lane], bytes }, lane));
        }
        match to {
            To::Shared => {
                let available = self.shared.len() as u32;
                for lane in lanes_of(lanes) {
                    let address = addresses[lane];
                    if address.saturating_add(u64::from(bytes)) > u64::from(available) {
                        return Err((FaultKind::Shared { address, bytes, available }, lane));
                    }
                }
            }
            To::Local => {
                let available = self.program.layout.local_bytes;
                for lane in lanes_of(lanes) {
                    let address = addresses[lane];
                    if address.saturating_add(u64::from(bytes)) > u64::from(available) {
                        return Err((FaultKind::Local { address, bytes, available }, lane));
                    }
                }
            }
            _ => {
                for lane in lanes_of(lanes) {
                    self.locate(addresses[lane], bytes, writes).map_err(|kind| (kind, lane))?;
                }
            }
        }
        Ok(())
    }

    /// Checks that global memory or a variable of the module holds the bytes.
    #[inline(always)]
    fn locate(&mut self, address: u64, bytes: u32, writes: bool) -> std::result::Result<(), FaultKind> {
        if self.finder.find(address, bytes).is_some() {
            return Ok(());
        }
        let offset = address.wrapping_sub(MODULE_WINDOW);
        match offset.checked_add(u64::from(bytes)) {
            Some(end) if end <= self.program.layout.image.len() as u64 => {
                if writes {
                    Err(FaultKind::ReadOnly { address })
                } else {
                    Ok(())
                }
            }
            _ => Err(FaultKind::Address { address, bytes }),
        }
    }

    #[inline(always)]
    pub(super) fn tell(&mut self, to: To, kind: Kind, order: Order, addresses: &[u64; 32], bytes: u32, lanes: u32) {
        if !W::ACTIVE {
            return;
        }
        let (space, lanes) = match to {
            To::Shared => (Space::Shared, lanes),
            To::Local => return,
            _ => {
                let own = lanes_of(lanes).filter(|lane| addresses[*lane] >= MODULE_WINDOW);
                (Space::Global, own.fold(lanes, |lanes, lane| lanes & !(1 << lane)))
            }
        };
        if lanes != 0 {
            let (instruction, warp) = (self.instruction, self.warp);
            let access = Access { instruction, warp, lanes, space, kind, order, bytes, addresses };
            self.watch.access(self.watched, &access);
        }
    }

    /// Reads what [`Context::check`] has found to be there.
    #[inline(always)]
    fn read(&mut self, to: To, lane: usize, address: u64, bytes: u32) -> Words {
        match to {
            To::Shared => read_bytes(self.shared, address as usize, bytes),
            To::Local => {
                let at = lane * self.program.layout.local_bytes as usize + address as usize;
                read_bytes(self.local, at, bytes)
            }
            _ => match self.finder.find(address, bytes) {
                Some(place) => place.read(bytes),
                None => read_bytes(&self.program.layout.image, (address - MODULE_WINDOW) as usize, bytes),
            },
        }
    }

    #[inline(always)]
    fn write(&mut self, to: To, lane: usize, address: u64, bytes: u32, words: Words) {
        match to {
            To::Shared => write_bytes(self.shared, address as usize, bytes, words),
            To::Local => {
                let at = lane * self.program.layout.local_bytes as usize + address as usize;
                write_bytes(self.local, at, bytes, words);
            }
            _ => {
                if let Some(place) = self.finder.find(address, bytes) {
                    place.write(bytes, words);
                }
            }
        }
    }
}

/// Splits generic accesses by what the top bytes of their addresses say, and takes these off.
#[inline(always)]
fn split(to: To, addresses: &mut [u64; 32], lanes: u32) -> impl Iterator<Item = (To, u32)> + use<> {
    let mut parts = [(to, lanes), (To::Shared, 0), (To::Local, 0)];
    if to == To::Generic {
        parts[0].0 = To::Global;
        for lane in lanes_of(lanes) {
            for (part, window) in [(1, SHARED_WINDOW), (2, LOCAL_WINDOW)] {
                if addresses[lane] >> 56 == window >> 56 {
                    addresses[lane] -= window;
                    parts[0].1 &= !(1 << lane);
                    parts[part].1 |= 1 << lane;
                }
            }
        }
    }
    parts.into_iter().filter(|(_, lanes)| *lanes != 0)
}

/// Writes element `index` of what was loaded to a register.
#[inline(always)]
fn distribute(
    r: &mut Registers<'_>,
    slot: Slot,
    element: &super::access::Element,
    index: usize,
    data: &[Words; 32],
    lanes: u32,
) {
    let extend = |value: u32| if element.long && element.signed { ((value as i32) >> 31) as u32 } else { 0 };
    let low: [u32; 32] = match element.bytes {
        4 => every(|lane| data[lane][index & 3]),
        8 => {
            r.set_row(slot, &every(|lane| data[lane][(2 * index) & 3]), lanes);
            r.set_row(slot.high(), &every(|lane| data[lane][(2 * index + 1) & 3]), lanes);
            return;
        }
        2 => every(|lane| {
            let value = (data[lane][(index / 2) & 3] >> (16 * (index % 2))) as u16;
            if element.signed { value as i16 as u32 } else { u32::from(value) }
        }),
        _ => every(|lane| {
            let value = (data[lane][(index / 4) & 3] >> (8 * (index % 4))) as u8;
            if element.signed { value as i8 as u32 } else { u32::from(value) }
        }),
    };
    r.set_row(slot, &low, lanes);
    if element.long {
        r.set_row(slot.high(), &low.map(extend), lanes);
    }
}

/// Gathers what each lane stores.
#[inline(always)]
fn collect(t: &Transfer, r: &Registers<'_>) -> [Words; 32] {
    let mut data = [[0_u32; 4]; 32];
    for (i, slot) in t.slots[..t.count as usize].iter().enumerate() {
        let row = r.row(*slot);
        match t.element.bytes {
            4 => (0..32).for_each(|lane| data[lane][i & 3] = row[lane]),
            8 => {
                let high = r.row(slot.high());
                for lane in 0..32 {
                    data[lane][(2 * i) & 3] = row[lane];
                    data[lane][(2 * i + 1) & 3] = high[lane];
                }
            }
            2 => (0..32).for_each(|lane| data[lane][(i / 2) & 3] |= (row[lane] & 0xffff) << (16 * (i % 2))),
            _ => (0..32).for_each(|lane| data[lane][(i / 4) & 3] |= (row[lane] & 0xff) << (8 * (i % 4))),
        }
    }
    data
}
