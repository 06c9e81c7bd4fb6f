//! Pictures as a network's input.

use crate::network::{Arithmetic, Network};
use anyhow::{Result, bail};
use floe::pictures::Picture;
use floe_compiler::{evaluate::HostEvaluator, passes, preprocess::Preprocess};
use floe_models::{
    DType, Fact, Graph, Tensor,
    op::{Channels, PixelFormat},
};
use std::{fs, path::Path};

/// What a picture becomes by the words of `--preprocess`, in the size that it has.
pub fn tensor(file: &Path, fact: &Fact, words: &Preprocess) -> Result<Tensor> {
    let Picture { width, height, rgb: pixels } = Picture::decode(&fs::read(file)?)?;
    if words.crop.is_some() && (width, height) != (words.width, words.height) {
        bail!(
            "it has {width}x{height} pixels, and --preprocess has a crop for {}x{}: pictures must have that size",
            words.width,
            words.height
        );
    }
    let preprocess =
        Preprocess { format: PixelFormat::Packed(Channels::Rgb), width, height, stride: None, ..words.clone() };
    let mut graph = Graph::default();
    let value = graph.add_value(words.input.clone(), fact.clone());
    graph.inputs.push(value);
    graph.outputs.push(value);
    preprocess.apply(&mut graph)?;
    let network = Network::new(&passes::fuse(passes::simplify(graph, &HostEvaluator::default())?)?, Arithmetic::F32)?;
    let [(name, frame)] = network.inputs() else { bail!("a picture has one frame") };
    let pictures = frame.elements() / pixels.len().max(1);
    let frame = Tensor::new(DType::U8, frame.shape.clone(), pixels.repeat(pictures));
    let (_, tensor) = network.run(&[(name.clone(), frame)])?.remove(0);
    Ok(tensor)
}
