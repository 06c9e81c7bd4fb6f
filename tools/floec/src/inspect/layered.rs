//! A drawing of a graph in layers, from top to bottom (Sugiyama, Tagawa and Toda, 1981).
//!
//! A node stands one layer below the lowest of those it reads. A wire that passes layers takes a place of its own in each; all
//! readers of one node share it. Sweeps down and up order each layer by the mean place of its neighbours. Further sweeps then
//! move every layer to where its wires are shortest without changing the order, by least squares (pool adjacent violators).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Size of a node.
pub const NODE: [f64; 2] = [176.0, 40.0];
/// Width that a wire takes in a layer that it passes.
const WIRE: f64 = 12.0;
/// Free space between neighbours of a layer, and between layers.
const GAPS: [f64; 2] = [20.0, 34.0];
/// Sweeps that order the layers, and sweeps that shift them.
const SWEEPS: [usize; 2] = [12, 60];
/// Most places of wires; where there would be more, the longest wires go straight.
const MOST_WIRES: usize = 200_000;

/// Where everything is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// Width and height.
    pub size: [f64; 2],
    /// Left upper corner of each node.
    pub nodes: Vec<[f64; 2]>,
    /// One wire for each node that is read, as an SVG path, with the node.
    pub wires: Vec<(usize, String)>,
}

/// Draws a graph of nodes whose readers are given. Readers before a node in the order are left out, so any graph can be drawn.
pub fn draw(readers: &[Vec<usize>]) -> Drawing {
    let mut layers = Layers::of(readers);
    layers.order();
    layers.shift();
    layers.drawing(readers)
}

/// A node, or a wire's place in a layer.
#[derive(Clone, Debug)]
struct Place {
    layer: usize,
    x: f64,
    is_wire: bool,
    above: Vec<usize>,
    below: Vec<usize>,
}

struct Layers {
    /// The nodes, then the places of wires.
    places: Vec<Place>,
    /// Places by layer, from left to right.
    rows: Vec<Vec<usize>>,
    /// The place from which each reader's wire comes.
    ends: BTreeMap<(usize, usize), usize>,
}

impl Layers {
    fn of(readers: &[Vec<usize>]) -> Self {
        let later =
            |node: usize| readers[node].iter().copied().filter(move |&reader| reader > node && reader < readers.len());
        let mut layer = vec![0usize; readers.len()];
        let mut is_read_from = vec![false; readers.len()];
        for node in 0..readers.len() {
            for reader in later(node) {
                layer[reader] = layer[reader].max(layer[node] + 1);
                is_read_from[reader] = true;
            }
        }
        // What reads nothing stands just above its first reader.
        for node in 0..readers.len() {
            if let Some(first) = later(node).map(|reader| layer[reader]).min().filter(|_| !is_read_from[node]) {
                layer[node] = first.saturating_sub(1);
            }
        }
        let place = |layer, is_wire| Place { layer, x: 0.0, is_wire, above: Vec::new(), below: Vec::new() };
        let mut places: Vec<Place> = layer.iter().map(|&layer| place(layer, false)).collect();
        let mut ends = BTreeMap::new();
        for node in 0..readers.len() {
            let mut chain = vec![node];
            let mut targets: Vec<usize> = later(node).collect();
            targets.sort_by_key(|&reader| (layer[reader], reader));
            targets.dedup();
            for reader in targets {
                while chain.len() < layer[reader] - layer[node] && places.len() < readers.len() + MOST_WIRES {
                    let (above, next) = (chain[chain.len() - 1], places.len());
                    let mut wire = place(layer[node] + chain.len(), true);
                    wire.above.push(above);
                    places.push(wire);
                    places[above].below.push(next);
                    chain.push(next);
                }
                let end = chain[(layer[reader] - layer[node] - 1).min(chain.len() - 1)];
                places[end].below.push(reader);
                places[reader].above.push(end);
                ends.insert((node, reader), end);
            }
        }
        let mut rows = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
        places.iter().enumerate().for_each(|(number, place)| rows[place.layer].push(number));
        Self { places, rows, ends }
    }

    /// The layers in the order of a sweep, with whether it goes down.
    fn sweep(&self, number: usize) -> (Vec<usize>, bool) {
        let down = number.is_multiple_of(2);
        let rows = 0..self.rows.len();
        (if down { rows.collect() } else { rows.rev().collect() }, down)
    }

    fn order(&mut self) {
        for number in 0..SWEEPS[0] {
            self.number_rows();
            let (rows, down) = self.sweep(number);
            for row in rows {
                let mean = |place: usize| {
                    let near = if down { &self.places[place].above } else { &self.places[place].below };
                    let sum: f64 = near.iter().map(|&other| self.places[other].x).sum();
                    if near.is_empty() { self.places[place].x } else { sum / near.len() as f64 }
                };
                let mut keyed: Vec<(f64, usize)> = self.rows[row].iter().map(|&place| (mean(place), place)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[row] = keyed.iter().map(|&(_, place)| place).collect();
                self.number_row(row);
            }
        }
    }

    fn number_rows(&mut self) {
        (0..self.rows.len()).for_each(|row| self.number_row(row));
    }

    /// Places of a row by number, its middle at 0, so that rows of different lengths compare.
    fn number_row(&mut self, row: usize) {
        let middle = (self.rows[row].len() as f64 - 1.0) / 2.0;
        self.rows[row].iter().enumerate().for_each(|(number, &place)| self.places[place].x = number as f64 - middle);
    }

    fn width(&self, place: usize) -> f64 {
        if self.places[place].is_wire { WIRE } else { NODE[0] + GAPS[0] }
    }

    fn shift(&mut self) {
        // From rows around one axis: only what pulls to one side leaves it.
        for row in &self.rows {
            let mut x = -row.iter().map(|&place| self.width(place)).sum::<f64>() / 2.0;
            for &place in row {
                let width = self.width(place);
                self.places[place].x = x + width / 2.0;
                x += width;
            }
        }
        for number in 0..SWEEPS[1] {
            for row in self.sweep(number).0 {
                self.shift_row(row);
            }
        }
    }

    /// Moves a row to the weighted mean of its neighbours; long wires pull most, so that they are straight.
    fn shift_row(&mut self, row: usize) {
        let mut wanted = Vec::with_capacity(self.rows[row].len());
        let mut before = 0.0;
        for (number, &place) in self.rows[row].iter().enumerate() {
            if let Some(previous) = number.checked_sub(1) {
                before += (self.width(self.rows[row][previous]) + self.width(place)) / 2.0;
            }
            let this = &self.places[place];
            let near = || this.above.iter().chain(&this.below);
            let pull = |other: &usize| self.pull(place, *other);
            let weight: f64 = near().map(pull).sum();
            let sum: f64 = near().map(|other| pull(other) * self.places[*other].x).sum();
            let (x, weight) = if weight > 0.0 { (sum / weight, weight) } else { (this.x, 0.1) };
            wanted.push((x - before, weight, before));
        }
        let moved = ascending(&wanted.iter().map(|&(x, weight, _)| (x, weight)).collect::<Vec<_>>());
        for ((&place, x), (_, _, before)) in self.rows[row].iter().zip(moved).zip(&wanted) {
            self.places[place].x = x + before;
        }
    }

    /// How strongly two neighbours attract each other.
    fn pull(&self, one: usize, other: usize) -> f64 {
        let [one, other] = [one, other].map(|place| &self.places[place]);
        match one.is_wire && other.is_wire {
            true => 8.0,
            // What reads nothing follows its reader, or a chain with constants beside it would lean to their side.
            false if one.above.is_empty() || other.above.is_empty() => 0.02,
            false => 1.0,
        }
    }

    fn drawing(&self, readers: &[Vec<usize>]) -> Drawing {
        let left = |place: usize| self.places[place].x - self.width(place) / 2.0;
        let least = (0..self.places.len()).map(left).fold(f64::INFINITY, f64::min);
        let right = (0..self.places.len()).map(|place| self.places[place].x + self.width(place) / 2.0);
        let width = right.fold(f64::NEG_INFINITY, f64::max) - least;
        let pitch = NODE[1] + GAPS[1];
        let at = |place: usize| [self.places[place].x - least, GAPS[1] / 2.0 + self.places[place].layer as f64 * pitch];
        let node = |number| [at(number)[0] - NODE[0] / 2.0, at(number)[1]];
        let mut wires = Vec::new();
        for (source, targets) in readers.iter().enumerate() {
            let mut path = String::new();
            let mut drawn = BTreeSet::new();
            for reader in targets {
                let mut place = *reader;
                let mut end = self.ends.get(&(source, *reader)).copied();
                while let Some(from) = end {
                    if drawn.insert((from, place)) {
                        segment(&mut path, at(from), at(place), self.places[place].is_wire);
                    }
                    place = from;
                    end = self.places[from].above.first().copied().filter(|_| self.places[from].is_wire);
                }
            }
            if !path.is_empty() {
                wires.push((source, path));
            }
        }
        let size = if self.places.is_empty() { [0.0; 2] } else { [width, self.rows.len() as f64 * pitch] };
        Drawing { size, nodes: (0..readers.len()).map(node).collect(), wires }
    }
}

/// A piece of a wire, from the lower edge of one place to the upper edge of the next; through it where that is a wire.
fn segment(path: &mut String, from: [f64; 2], to: [f64; 2], through: bool) {
    let (top, bottom) = (from[1] + NODE[1], to[1]);
    let middle = f64::midpoint(top, bottom);
    // Writing into a string cannot fail.
    let _ = write!(path, "M{:.0} {top:.0}", from[0]);
    let _ = if (from[0] - to[0]).abs() < 0.5 {
        write!(path, "V{bottom:.0}")
    } else {
        write!(path, "C{:.0} {middle:.0} {:.0} {middle:.0} {:.0} {bottom:.0}", from[0], to[0], to[0])
    };
    if through {
        let _ = write!(path, "V{:.0}", bottom + NODE[1]);
    }
}

/// The ascending sequence nearest to weighted numbers, by least squares.
fn ascending(numbers: &[(f64, f64)]) -> Vec<f64> {
    // Mean, weight and length of each pool.
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(numbers.len());
    for &(number, weight) in numbers {
        let mut pool = (number, weight, 1);
        while let Some(&(mean, weight, length)) = pools.last().filter(|last| last.0 > pool.0) {
            pools.pop();
            pool = ((mean * weight + pool.0 * pool.1) / (weight + pool.1), weight + pool.1, length + pool.2);
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(mean, _, length)| std::iter::repeat_n(mean, length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether no two nodes overlap and all are inside the drawing.
    fn is_tidy(drawing: &Drawing) -> bool {
        let nodes = &drawing.nodes;
        let apart =
            |a: &[f64; 2], b: &[f64; 2]| (a[1] - b[1]).abs() >= NODE[1] || (a[0] - b[0]).abs() >= NODE[0] - 0.01;
        let inside = |node: &[f64; 2]| {
            (0..2).all(|axis| node[axis] >= 0.0 && node[axis] + NODE[axis] <= drawing.size[axis] + 0.01)
        };
        nodes.iter().all(inside) && nodes.iter().enumerate().all(|(n, a)| nodes[..n].iter().all(|b| apart(a, b)))
    }

    #[test]
    fn a_chain_is_straight() {
        let drawing = draw(&[vec![1], vec![2], vec![]]);
        assert!(is_tidy(&drawing));
        assert!(
            drawing.nodes.windows(2).all(|pair| pair[0][0] == pair[1][0] && pair[0][1] < pair[1][1]),
            "{drawing:?}"
        );
        assert_eq!(drawing.wires.len(), 2);
    }

    #[test]
    fn a_chain_with_constants_beside_it_does_not_drift() {
        // Even nodes are the chain; each odd node reads nothing and joins the chain at the next.
        let links = 60;
        let readers: Vec<Vec<usize>> =
            (0..=2 * links).map(|node| if node == 2 * links { vec![] } else { vec![node + 2 - node % 2] }).collect();
        let drawing = draw(&readers);
        assert!(is_tidy(&drawing));
        assert!(drawing.size[0] < 4.0 * NODE[0], "{:?}", drawing.size);
    }

    #[test]
    fn a_shortcut_goes_around_what_it_passes() {
        let drawing = draw(&[vec![1, 3], vec![2], vec![3], vec![]]);
        assert!(is_tidy(&drawing));
        // Three pieces: beside nodes 1 and 2, and down to node 3.
        let shortcut = &drawing.wires[0].1;
        assert_eq!(shortcut.matches('M').count(), 4, "{shortcut}");
    }

    #[test]
    fn any_graph_is_drawn() {
        let mut random = floe::random::Generator::new(7, "graphs");
        for nodes in [0, 1, 2, 30, 200] {
            let readers: Vec<Vec<usize>> = (0..nodes)
                .map(|_| (0..random.below(4)).map(|_| random.below(nodes as u64 + 2) as usize).collect())
                .collect();
            let drawing = draw(&readers);
            assert!(is_tidy(&drawing) && drawing.nodes.len() == nodes, "{readers:?}");
            assert!(drawing.size.iter().all(|extent| extent.is_finite()));
        }
    }

    #[test]
    fn neighbours_that_want_the_same_place_share_the_difference() {
        assert_eq!(ascending(&[(3.0, 1.0), (1.0, 1.0), (5.0, 1.0)]), [2.0, 2.0, 5.0]);
        assert_eq!(ascending(&[(4.0, 3.0), (0.0, 1.0)]), [3.0, 3.0]);
        assert!(ascending(&[]).is_empty());
    }
}
