//! Moves zero padding into the window of the convolution or pooling that reads it.

use floe_models::{
    Graph, Op,
    op::{PadMode, Pooling, Window},
};

/// Lets windows read past a `Pad` where the result is exactly the same.
pub fn run(mut graph: Graph) -> Graph {
    let producers = graph.producers();
    for number in 0..graph.nodes.len() {
        let Some(&input) = graph.nodes[number].inputs.first() else { continue };
        let Some(pad) = producers[input.0].map(|producer| &graph.nodes[producer.0]) else { continue };
        let Op::Pad { before, after, mode: PadMode::Constant(value) } = &pad.op else { continue };
        let outside = before.iter().take(2).chain(after.iter().take(2)).any(|&pad| pad != 0);
        if outside || before.iter().chain(after).any(|&pad| pad < 0) || before.len() < 3 {
            continue;
        }
        let mut op = graph.nodes[number].op.clone();
        let fits = match &mut op {
            Op::Conv { window, .. } if *value == 0.0 => {
                extend(window, before, after);
                true
            }
            Op::Pool { kind: Pooling::Max, kernel, window } if *value == f64::NEG_INFINITY => {
                extend(window, before, after);
                every_window_has_data(window, kernel)
            }
            // Elements of the padding count, as those of the padded tensor did.
            Op::Pool { kind, kernel, window } if *value == 0.0 => {
                let own = window.pads_begin.iter().chain(&window.pads_end).any(|&pad| pad != 0);
                let includes = *kind == Pooling::AverageIncludingPads;
                *kind = Pooling::AverageIncludingPads;
                extend(window, before, after);
                (includes || !own) && every_window_has_data(window, kernel)
            }
            _ => false,
        };
        if fits {
            let (source, sources) = (pad.inputs[0], pad.sources.clone());
            let node = &mut graph.nodes[number];
            node.op = op;
            node.inputs[0] = source;
            super::rewrite::add_sources(&mut node.sources, &sources);
        }
    }
    graph
}

fn extend(window: &mut Window, before: &[i64], after: &[i64]) {
    for (pads, more) in [(&mut window.pads_begin, before), (&mut window.pads_end, after)] {
        for (pad, &more) in pads.iter_mut().zip(&more[2..]) {
            *pad += more.unsigned_abs() as usize;
        }
    }
}

/// Pooling refuses windows that lie in the padding alone.
fn every_window_has_data(window: &Window, kernel: &[usize]) -> bool {
    window.pads_begin.iter().chain(&window.pads_end).zip(kernel.iter().cycle()).all(|(&pad, &extent)| pad < extent)
}
