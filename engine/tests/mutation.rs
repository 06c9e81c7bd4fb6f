//! Whatever is done to a plan, reading it gives a checked plan or an error, and a checked plan replays without panic.

mod support;

use floe_engine::{
    host::{self, Block},
    plan::{
        Plan,
        format::{Action, MAGIC, VERSION},
    },
};
use proptest::prelude::*;
use support::{Aligned, candidates_parts, cuda_parts, host_parts, seal, write};

/// More work than this is legal, but not for a test.
const WORK: u64 = 1 << 20;

fn parse_and_replay(bytes: &[u8]) {
    let bytes = Aligned::new(bytes);
    let Ok(plan) = Plan::parse(&bytes) else { return };
    let _ = plan.verify_blobs();
    for variant in plan.variants() {
        assert_eq!(variant.steps().count(), variant.header().steps as usize);
        let _ = (variant.images().count(), variant.notes().count(), variant.memory());
        for candidate in variant.candidates() {
            // What the check has promised.
            for launch in &candidate.launches {
                assert!(!variant.candidate_image(launch.image).is_empty());
                assert!(launch.arguments.iter().all(|a| usize::from(a.operand) < candidate.operands.len()));
            }
        }
        assert_eq!(variant.candidates().count(), variant.header().candidates as usize);
        let work = |step: &floe_engine::plan::format::Step| match &step.action {
            Action::Host(kernel) => {
                let family = kernel.family();
                (0..4)
                    .filter_map(|i| family.output(i))
                    .map(|view| view.elements())
                    .fold(family.flops(), u64::saturating_add)
            }
            Action::Launch { .. } => 0,
        };
        let too_much = variant.steps().map(|step| work(&step)).any(|work| work > WORK);
        if !variant.is_host() || too_much || host::memory_bytes(&variant) > 1 << 20 {
            continue;
        }
        let mut memory = vec![Block::ZERO; host::blocks(&variant)];
        let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();
        session.replay().unwrap();
        session.replay().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), signed: bool) {
        let mut bytes = write([host_parts(), cuda_parts()]).to_vec();
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        if signed {
            seal(&mut bytes);
        }
        parse_and_replay(&bytes);
    }

    /// Changes inside the steps' section only, where most of what a plan can say is said.
    #[test]
    fn changed_steps(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), host: bool) {
        let mut bytes = write([if host { host_parts() } else { cuda_parts() }]).to_vec();
        let entry = 96 + 24 * 2;
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let (start, length) = (field(entry + 8), field(entry + 16));
        for (index, value) in changes {
            bytes[start + index.index(length)] = value;
        }
        seal(&mut bytes);
        parse_and_replay(&bytes);
    }

    /// Changes inside the candidates of a candidates plan.
    #[test]
    fn changed_candidates(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = write([candidates_parts()]).to_vec();
        let entry = 96 + 24 * 9;
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let (start, length) = (field(entry + 8), field(entry + 16));
        for (index, value) in changes {
            bytes[start + index.index(length)] = value;
        }
        seal(&mut bytes);
        parse_and_replay(&bytes);
    }

    #[test]
    fn cut_and_pasted(cut in any::<prop::sample::Index>(), paste in any::<prop::sample::Index>(), length in 1usize..64) {
        let mut bytes = write([host_parts()]).to_vec();
        let from = cut.index(bytes.len() - length);
        let to = paste.index(bytes.len() - length);
        bytes.copy_within(from..from + length, to);
        seal(&mut bytes);
        parse_and_replay(&bytes);
    }

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2048), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        parse_and_replay(&bytes);
    }
}
