//! What the passes leave under a name of the model is the value of that name: tables by layer speak of the model.

use floe_accuracy::{
    metrics::{Bound, Error},
    network::{Arithmetic, Network},
    samples::Samples,
    values::{Values, Wanted},
};
use floe_compiler::pipeline::{self, CompileOptions};
use floe_models::ImportOptions;
use std::{collections::HashMap, path::PathBuf};

/// Networks of the zoo that are quick, of every kind.
const NETWORKS: [&str; 5] = ["pplcnet-orientation", "ppocr-cls-mobilev2", "blazeface-front", "swift-f0", "nsnet2-16k"];

#[test]
fn values_keep_their_names_through_the_passes() {
    let Some(references) = std::env::var_os("FLOE_REFERENCES").map(PathBuf::from) else {
        assert!(std::env::var_os("CI").is_none(), "CI sets FLOE_REFERENCES");
        eprintln!("skipped: FLOE_REFERENCES names no folder");
        return;
    };
    let mut compared = 0;
    for name in NETWORKS {
        let folder = references.join(name);
        let model = folder.join("model.onnx");
        let given = std::fs::read_to_string(folder.join("options")).unwrap_or_default();
        let import = ImportOptions { shapes: shapes(&given), ..ImportOptions::default() };
        let values = Values::load(&model, &import, &Wanted::All).unwrap();
        let samples = Samples::random(values.inputs(), 1, 3);
        let inputs = samples.load(0).unwrap().inputs;
        let mut seen = HashMap::new();
        values.run(&inputs, &mut |name, tensor| drop(seen.insert(name.to_owned(), tensor.clone()))).unwrap();
        let options = CompileOptions { import, ..CompileOptions::default() };
        let fused = pipeline::import_and_fuse(&model, &options, &|_| ()).unwrap();
        let network = Network::new(&fused, Arithmetic::F32).unwrap();
        let mut own = 0;
        network
            .watch(&inputs, &|_| true, &mut |id, tensor| {
                let value = &fused.values[id.0].name;
                let Some(expected) = seen.get(value).filter(|expected| expected.shape == tensor.shape) else { return };
                let error = Error::of(&expected.to_f64(), &tensor.to_f64(), Bound::default());
                assert!(error.unfinite == 0 && error.relative() < 1e-4, "{name}: '{value}': {error:?}");
                own += 1;
            })
            .unwrap();
        assert!(
            own * 2 > network.computed().count(),
            "{name}: {own} of {} values have a name",
            network.computed().count()
        );
        compared += own;
    }
    assert!(compared > 100, "{compared}");
}

/// Shapes as a file `options` of the references gives them.
fn shapes(text: &str) -> Vec<(String, Vec<usize>)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let shapes = words.windows(2).filter(|pair| pair[0] == "--shape").filter_map(|pair| pair[1].rsplit_once('='));
    shapes
        .map(|(name, shape)| {
            (
                name.to_owned(),
                shape.split('x').filter(|extent| !extent.is_empty()).map(|extent| extent.parse().unwrap()).collect(),
            )
        })
        .collect()
}
