//! Sums of `wgmma`: from the instruction to the wait that covers it, nobody but further products may use their registers.

/// A register that products add to.
#[derive(Clone, Copy, Debug)]
struct Pending {
    row: u32,
    /// Groups that were committed before.
    group: u32,
    instruction: u32,
}

/// Of one warp.
#[derive(Clone, Debug, Default)]
struct Queue {
    committed: u32,
    pending: Vec<Pending>,
}

/// What the warps of a block have not waited for.
#[derive(Clone, Debug, Default)]
pub struct Products {
    warps: Vec<Queue>,
}

impl Products {
    fn queue(&mut self, warp: u32) -> &mut Queue {
        let at = warp as usize;
        if self.warps.len() <= at {
            self.warps.resize_with(at + 1, Queue::default);
        }
        &mut self.warps[at]
    }

    /// A warp has issued products into these registers.
    pub fn issue(&mut self, warp: u32, instruction: u32, rows: impl Iterator<Item = u32>) {
        let queue = self.queue(warp);
        let group = queue.committed;
        for row in rows {
            queue.pending.retain(|pending| pending.row != row);
            queue.pending.push(Pending { row, group, instruction });
        }
    }

    /// A warp has committed a group.
    pub fn commit(&mut self, warp: u32) {
        self.queue(warp).committed += 1;
    }

    /// A warp has waited for all of its groups but the latest `left`.
    pub fn wait(&mut self, warp: u32, left: u32) {
        let queue = self.queue(warp);
        let committed = queue.committed;
        queue.pending.retain(|pending| pending.group.saturating_add(left) >= committed);
    }

    /// The instruction whose products are under way in one of these registers.
    pub fn user(&self, warp: u32, rows: &[u32]) -> Option<u32> {
        let pending = &self.warps.get(warp as usize)?.pending;
        pending.iter().find(|pending| rows.contains(&pending.row)).map(|pending| pending.instruction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_taken_until_the_wait_for_their_group() {
        let mut products = Products::default();
        products.issue(3, 10, [4, 5].into_iter());
        products.commit(3);
        products.issue(3, 20, [6].into_iter());
        products.commit(3);
        assert_eq!(products.user(3, &[1, 5]), Some(10));
        assert_eq!((products.user(2, &[5]), products.user(3, &[7])), (None, None));
        products.wait(3, 1);
        assert_eq!((products.user(3, &[5]), products.user(3, &[6])), (None, Some(20)));
        // What is not committed no wait covers.
        products.issue(3, 30, [4].into_iter());
        products.wait(3, 0);
        assert_eq!((products.user(3, &[6]), products.user(3, &[4])), (None, Some(30)));
    }
}
