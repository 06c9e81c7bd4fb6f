//! Moves: between registers, from special registers, packing and unpacking, and addresses from one space to another.

use super::lanes::{Registers, Slot};
use super::program::{LOCAL_WINDOW, SHARED_WINDOW};
use super::reader::{Reader, Result};
use crate::ptx::{Operand, Type};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Row {
        d: Slot,
        a: Slot,
    },
    Long {
        d: Slot,
        a: Slot,
    },
    Predicate {
        d: Slot,
        a: Slot,
        negated: bool,
    },
    Special {
        d: Slot,
        long: bool,
        which: Special,
    },
    /// Parts of equal width, lowest first, to as many parts of another: pack and unpack.
    Parts {
        destinations: Box<[Slot]>,
        sources: Box<[Slot]>,
        to: u32,
        from: u32,
    },
    /// An address in a window of generic addresses; the bits to add.
    Window {
        d: Slot,
        a: Slot,
        add: u64,
    },
    /// `isspacep`: whether the top byte is this.
    InWindow {
        d: Slot,
        a: Slot,
        window: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Special {
    Thread(usize),
    BlockExtent(usize),
    Block(usize),
    GridExtent(usize),
    Lane,
    Warp,
    Warps,
    LaneMask(LaneMask),
    DynamicShared,
    TotalShared,
    Clock,
    Cluster(usize),
    Clusters(usize),
    InCluster(usize),
    ClusterExtent(usize),
    Rank,
    Ranks,
    HasClusters,
    /// What a machine of one multiprocessor says.
    Fixed(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LaneMask {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// What special registers are read from.
pub(super) struct Place {
    pub block: [u32; 3],
    pub grid: [u32; 3],
    pub extent: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    pub warp: u32,
    pub warps: u32,
    pub dynamic_shared: u32,
    pub total_shared: u32,
    /// Instructions that the warp has executed.
    pub clock: u64,
}

fn special(name: &str) -> Option<Special> {
    let (base, axis) = name.split_once('.').unwrap_or((name, "x"));
    let axis = match axis {
        "x" => 0,
        "y" => 1,
        _ => 2,
    };
    Some(match base {
        "tid" => Special::Thread(axis),
        "ntid" => Special::BlockExtent(axis),
        "ctaid" => Special::Block(axis),
        "nctaid" => Special::GridExtent(axis),
        "clusterid" => Special::Cluster(axis),
        "nclusterid" => Special::Clusters(axis),
        "cluster_ctaid" => Special::InCluster(axis),
        "cluster_nctaid" => Special::ClusterExtent(axis),
        "cluster_ctarank" => Special::Rank,
        "cluster_nctarank" => Special::Ranks,
        "is_explicit_cluster" => Special::HasClusters,
        "laneid" => Special::Lane,
        "warpid" => Special::Warp,
        "nwarpid" => Special::Warps,
        "lanemask_eq" => Special::LaneMask(LaneMask::Equal),
        "lanemask_lt" => Special::LaneMask(LaneMask::Less),
        "lanemask_le" => Special::LaneMask(LaneMask::LessEqual),
        "lanemask_gt" => Special::LaneMask(LaneMask::Greater),
        "lanemask_ge" => Special::LaneMask(LaneMask::GreaterEqual),
        "dynamic_smem_size" => Special::DynamicShared,
        "total_smem_size" => Special::TotalShared,
        "clock" | "clock64" | "globaltimer" | "globaltimer_lo" => Special::Clock,
        "smid" | "gridid" | "clock_hi" => Special::Fixed(0),
        "nsmid" => Special::Fixed(1),
        _ => return None,
    })
}

/// Decodes the instruction if it is a move.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let operands = reader.operands();
    match reader.opcode {
        "mov" => {}
        "cvta" => {
            let to = reader.takes("to");
            let spaces = [
                ("global", 0),
                ("shared", SHARED_WINDOW),
                ("shared::cta", SHARED_WINDOW),
                ("local", LOCAL_WINDOW),
                ("const", 0),
                ("param", 0),
            ];
            let window = reader.choice(&spaces).ok_or("this space")?;
            let r#type = reader.r#type()?;
            if r#type != Type::U64 || operands.len() != 2 {
                return Err("this form".to_owned());
            }
            let d = reader.destination(&operands[0], 8)?;
            let a = reader.value(&operands[1], r#type)?;
            let add = if to { window.wrapping_neg() } else { window };
            return Ok(Some(if add == 0 { Op::Long { d, a } } else { Op::Window { d, a, add } }));
        }
        "isspacep" => {
            let spaces = [
                ("global", None),
                ("shared", Some(SHARED_WINDOW)),
                ("shared::cta", Some(SHARED_WINDOW)),
                ("local", Some(LOCAL_WINDOW)),
            ];
            let window = reader.choice(&spaces).ok_or("this space")?;
            let d = reader.predicate_destination(reader.operand(0)?)?;
            let a = reader.value(reader.operand(1)?, Type::U64)?;
            return Ok(Some(Op::InWindow { d, a, window }));
        }
        _ => return Ok(None),
    }
    let r#type = reader.r#type()?;
    if operands.len() != 2 {
        return Err(format!("{} operands", operands.len()));
    }
    let (to, from) = (&operands[0], &operands[1]);
    if r#type == Type::Pred {
        let (a, negated) = reader.predicate(from)?;
        return Ok(Some(Op::Predicate { d: reader.predicate_destination(to)?, a, negated }));
    }
    let parts = |operand: &Operand| match operand {
        Operand::Vector(elements) => elements.len() as u32,
        _ => 1,
    };
    if matches!(to, Operand::Vector(_)) || matches!(from, Operand::Vector(_)) {
        let widths = [parts(to), parts(from)].map(|count| r#type.bytes() / count.max(1));
        let (to_type, from_type) = match widths.map(|bytes| match bytes {
            2 => Some(Type::B16),
            4 => Some(Type::B32),
            8 => Some(Type::B64),
            _ => None,
        }) {
            [Some(to), Some(from)] => (to, from),
            _ => return Err("parts of this width".to_owned()),
        };
        let mut destinations = Vec::new();
        for element in reader.elements(to) {
            destinations.push(reader.destination(element, to_type.bytes())?);
        }
        let mut sources = Vec::new();
        for element in reader.elements(from) {
            sources.push(reader.value(element, from_type)?);
        }
        let (destinations, sources) = (destinations.into(), sources.into());
        return Ok(Some(Op::Parts { destinations, sources, to: to_type.bytes(), from: from_type.bytes() }));
    }
    let d = reader.destination(to, r#type.bytes())?;
    let long = r#type.bytes() == 8;
    if let Operand::Special(name) = from {
        let which = special(name).ok_or_else(|| format!("special register '%{name}'"))?;
        return Ok(Some(Op::Special { d, long, which }));
    }
    let a = reader.value(from, r#type)?;
    Ok(Some(if long { Op::Long { d, a } } else { Op::Row { d, a } }))
}

pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32, place: &Place) {
    match op {
        Op::Row { d, a } => {
            let row = *r.row(*a);
            r.set_row(*d, &row, lanes);
        }
        Op::Long { d, a } => {
            let (low, high) = (*r.row(*a), *r.row(a.high()));
            r.set_row(*d, &low, lanes);
            r.set_row(d.high(), &high, lanes);
        }
        Op::Predicate { d, a, negated } => {
            let value = r.predicate(*a) ^ u32::from(*negated).wrapping_neg();
            r.set_predicate(*d, value, lanes);
        }
        Op::Special { d, long, which } => {
            let row = which.row(place);
            r.set_row(*d, &row, lanes);
            if *long {
                let clock = if matches!(which, Special::Clock) { (place.clock >> 32) as u32 } else { 0 };
                r.set_row(d.high(), &[clock; 32], lanes);
            }
        }
        Op::Parts { destinations, sources, to, from } => parts(destinations, sources, *to, *from, r, lanes),
        Op::Window { d, a, add } => {
            let values = r.long(*a).map(|address| address.wrapping_add(*add));
            r.set_long(*d, &values, lanes);
        }
        Op::InWindow { d, a, window } => {
            let values = r.long(*a);
            let inside = |address: u64| match window {
                Some(window) => address >> 56 == window >> 56,
                None => address >> 56 != SHARED_WINDOW >> 56 && address >> 56 != LOCAL_WINDOW >> 56,
            };
            let mask = super::lanes::mask_of(|lane| inside(values[lane]));
            r.set_predicate(*d, mask, lanes);
        }
    }
}

/// Moves up to 16 bytes of every lane, in parts of one width to parts of another.
fn parts(destinations: &[Slot], sources: &[Slot], to: u32, from: u32, r: &mut Registers<'_>, lanes: u32) {
    let mut words = [[0_u32; 32]; 4];
    for (i, source) in sources.iter().enumerate() {
        match from {
            2 => {
                let row = r.row(*source);
                for lane in 0..32 {
                    words[i / 2][lane] |= (row[lane] & 0xffff) << (16 * (i % 2));
                }
            }
            4 => words[i] = *r.row(*source),
            _ => {
                words[2 * i] = *r.row(*source);
                words[2 * i + 1] = *r.row(source.high());
            }
        }
    }
    for (i, destination) in destinations.iter().enumerate() {
        match to {
            2 => {
                let row = words[i / 2].map(|word| word >> (16 * (i % 2)) & 0xffff);
                r.set_row(*destination, &row, lanes);
            }
            4 => r.set_row(*destination, &words[i], lanes),
            _ => {
                r.set_row(*destination, &words[2 * i], lanes);
                r.set_row(destination.high(), &words[2 * i + 1], lanes);
            }
        }
    }
}

impl Special {
    fn row(self, place: &Place) -> [u32; 32] {
        match self {
            Self::Thread(axis) => std::array::from_fn(|lane| {
                let thread = place.warp * 32 + lane as u32;
                let [x, y, _] = place.extent;
                match axis {
                    0 => thread % x,
                    1 => thread / x % y,
                    _ => thread / x / y,
                }
            }),
            Self::BlockExtent(axis) => [place.extent[axis]; 32],
            Self::Block(axis) => [place.block[axis]; 32],
            Self::GridExtent(axis) => [place.grid[axis]; 32],
            Self::Cluster(axis) => [place.block[axis] / place.cluster[axis]; 32],
            Self::Clusters(axis) => [place.grid[axis] / place.cluster[axis]; 32],
            Self::InCluster(axis) => [place.block[axis] % place.cluster[axis]; 32],
            Self::ClusterExtent(axis) => [place.cluster[axis]; 32],
            Self::Rank => [super::block::rank(place.block, place.cluster); 32],
            Self::Ranks => [place.cluster.iter().product(); 32],
            Self::HasClusters => [u32::from(place.cluster != [1; 3]); 32],
            Self::Lane => std::array::from_fn(|lane| lane as u32),
            Self::Warp => [place.warp; 32],
            Self::Warps => [place.warps; 32],
            Self::LaneMask(kind) => std::array::from_fn(|lane| {
                let bit = 1_u32 << lane;
                match kind {
                    LaneMask::Equal => bit,
                    LaneMask::Less => bit - 1,
                    LaneMask::LessEqual => bit | (bit - 1),
                    LaneMask::Greater => !(bit | (bit - 1)),
                    LaneMask::GreaterEqual => !(bit - 1),
                }
            }),
            Self::DynamicShared => [place.dynamic_shared; 32],
            Self::TotalShared => [place.total_shared; 32],
            Self::Clock => [place.clock as u32; 32],
            Self::Fixed(value) => [value; 32],
        }
    }
}
