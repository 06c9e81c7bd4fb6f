//! Clusters: what blocks know of one another through barriers in shared memory and the barrier of the cluster, and what
//! they store into each other's shared memory.

use super::{
    Block,
    clocks::Stamp,
    device::{KnownClocks, covered, join},
    shared::Conflict,
};
use crate::machine::RemoteStore;
use std::collections::HashMap;

/// What a block gets from others of its cluster, and tells them.
#[derive(Debug, Default)]
pub struct Exchange {
    /// By address of the barrier.
    arrivals: HashMap<u64, Arrivals>,
    /// What those who arrived at the cluster's barrier cover, and whether one of them covers nothing.
    arrived: KnownClocks,
    relaxed: bool,
    /// What whoever waits there is told, and how much has come from others that it may read then.
    passed: KnownClocks,
    came: u32,
}

/// What has come to a barrier in shared memory.
#[derive(Debug, Default)]
struct Arrivals {
    /// In this phase: what it covers, and where bytes were stored.
    covers: KnownClocks,
    stored: Vec<(u64, u32)>,
    /// In all phases that are complete.
    complete: KnownClocks,
    came: u32,
}

impl Block {
    /// A thread of a warp arrived at a barrier in shared memory.
    pub(super) fn arrive_at(&mut self, warp: u32, barrier: u64, completes: bool) {
        let covers = covered(&self.ordered, &mut self.clocks, self.number, warp);
        join(&mut self.exchange.arrivals.entry(barrier).or_default().covers, &covers);
        if completes {
            self.complete_at(barrier);
        }
    }

    /// A barrier in shared memory completed a phase.
    pub(super) fn complete_at(&mut self, barrier: u64) {
        let arrivals = self.exchange.arrivals.entry(barrier).or_default();
        for (address, bytes) in std::mem::take(&mut arrivals.stored) {
            self.shared.arrive(address, bytes);
        }
        join(&mut arrivals.complete, &std::mem::take(&mut arrivals.covers));
        arrivals.came = self.shared.received();
    }

    /// A thread of a warp saw that.
    pub(super) fn awaited_at(&mut self, warp: u32, barrier: u64) {
        let Some(arrivals) = self.exchange.arrivals.get(&barrier) else { return };
        self.shared.note_awaited(warp, arrivals.came);
        join(&mut self.ordered.known, &arrivals.complete);
        if let Some(own) = arrivals.complete.get(&self.number) {
            self.clocks.learn(warp, own);
        }
    }

    /// A warp arrived at the barrier of the cluster.
    pub(super) fn arrive_in_cluster(&mut self, warp: u32, releases: bool) {
        if releases {
            let covers = covered(&self.ordered, &mut self.clocks, self.number, warp);
            join(&mut self.exchange.arrived, &covers);
        } else {
            self.exchange.relaxed = true;
        }
    }

    /// A warp that waited at the barrier of the cluster goes on.
    pub(super) fn awaited_in_cluster(&mut self, warp: u32) {
        self.shared.note_awaited(warp, self.exchange.came);
        join(&mut self.ordered.known, &self.exchange.passed);
        if let Some(own) = self.exchange.passed.get(&self.number) {
            self.clocks.learn(warp, own);
        }
    }
}

/// All threads of a cluster have arrived at its barrier.
pub(super) fn complete(blocks: &mut [&mut Block]) {
    let mut all = KnownClocks::new();
    let mut relaxed = false;
    for block in blocks.iter_mut() {
        join(&mut all, &std::mem::take(&mut block.exchange.arrived));
        relaxed |= std::mem::take(&mut block.exchange.relaxed);
    }
    for block in blocks {
        block.exchange.passed.clone_from(&all);
        // Where an arrival released nothing, what came is not known to be of those that did.
        if !relaxed {
            block.exchange.came = block.shared.received();
        }
    }
}

/// A warp of one block stores into the shared memory of another, or without one of its own; what is wrong with that.
pub(super) fn store(from: &mut Block, to: Option<&mut Block>, store: &RemoteStore<'_>) -> Vec<Conflict> {
    let RemoteStore { instruction, warp, lanes, bytes, addresses, barriers } = *store;
    let covers = covered(&from.ordered, &mut from.clocks, from.number, warp);
    let to = match to {
        Some(to) => to,
        None => from,
    };
    let mut conflicts = Vec::new();
    let own = covers.get(&to.number).map(|clocks| clocks.to_vec()).unwrap_or_default();
    for lane in (0..32u32).filter(|lane| lanes >> lane & 1 != 0) {
        let address = addresses[lane as usize];
        let stamp = Stamp::new(warp, lane, 1, false);
        conflicts.extend(to.shared.receive((stamp, instruction), (address, bytes), &own, barriers.is_some()));
        if let Some(barriers) = barriers {
            let arrivals = to.exchange.arrivals.entry(barriers[lane as usize]).or_default();
            arrivals.stored.push((address, bytes));
            join(&mut arrivals.covers, &covers);
        }
    }
    conflicts
}
