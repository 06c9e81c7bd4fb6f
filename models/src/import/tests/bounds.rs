//! Values whose extent depends on data: what keeps their count, and what is refused.

use super::*;

/// A model whose `n` `[1, 8]` are the indices of what is not zero in x `[8]`; y is made by the nodes.
fn counted(nodes: &[NodeProto]) -> Model {
    let model = Model::new(18).input("x", &[8]).input("m", &[8, 3]).integers("zero", &[1], &[0]);
    let model = model.integers("four", &[1], &[4]).integers("flat", &[1], &[-1]).integers("two", &[], &[2]);
    let model = model.integers("eight", &[2], &[8, 3]).integers("six", &[2], &[4, 6]);
    let model = model.integers("before", &[4], &[1, 0, 0, 0]).integers("column", &[2], &[-1, 1]);
    let model = model.integers("three", &[], &[3]);
    let model = model.integers("rows", &[4], &[0, 0, 4, 0]).integers("five", &[1], &[5]).integers("axis1", &[1], &[1]);
    let model = model.node(node("NonZero", "x", "n", &[])).node(node("Reshape", "n flat", "i", &[]));
    nodes.iter().cloned().fold(model, Model::node).output("y")
}

/// Extents of y, and whether it has a count.
fn made(nodes: &[NodeProto]) -> (Vec<usize>, bool) {
    let graph = counted(nodes).import();
    let counted = graph.outputs.get(1).is_some_and(|&id| graph.value(id).name == "y.count");
    (output(&graph).to_vec(), counted)
}

#[test]
fn what_keeps_elements_apart_keeps_their_count() {
    let gather = node("Gather", "m i", "g", &[int("axis", 0)]);
    assert_eq!(made(&[node("Identity", "n", "y", &[])]), (vec![1, 8], true));
    assert_eq!(made(&[node("Transpose", "n", "y", &[])]), (vec![8, 1], true));
    assert_eq!(made(&[gather.clone(), node("Relu", "g", "y", &[])]), (vec![8, 3], true));
    assert_eq!(made(&[gather.clone(), node("Gather", "g two", "y", &[int("axis", 1)])]), (vec![8], true));
    assert_eq!(made(&[gather.clone(), node("Concat", "g g", "y", &[int("axis", 1)])]), (vec![8, 6], true));
    assert_eq!(made(&[gather.clone(), node("Slice", "g zero four zero", "y", &[])]), (vec![4, 3], true));
    // What is there comes first, and stays together.
    assert_eq!(made(&[gather.clone(), node("Reshape", "g flat", "y", &[])]), (vec![24], true));
    assert_eq!(made(&[gather.clone(), node("Concat", "g m", "y", &[int("axis", 0)])]), (vec![16, 3], true));
    // What is padded by as many as are wanted then has them all; by fewer, not.
    let padded = |pads: &str, end: &str| {
        let pad = node("Pad", &format!("g {pads}"), "p", &[]);
        made(&[gather.clone(), pad, node("Slice", &format!("p zero {end} zero"), "y", &[])])
    };
    assert_eq!((padded("rows", "four"), padded("rows", "five")), ((vec![4, 3], false), (vec![5, 3], true)));
    let before = [gather.clone(), node("Pad", "g before", "y", &[])];
    assert_eq!(made(&before), (vec![9, 3], true));
    // Computed indices select from what is there.
    let largest = node("ArgMax", "x", "a", &[]);
    assert_eq!(made(&[gather.clone(), largest, node("Gather", "g a", "y", &[])]), (vec![1, 3], false));
    let tuples = [node("Reshape", "i column", "t", &[]), node("Mod", "t three", "u", &[])];
    let rows = node("GatherND", "g u", "y", &[int("batch_dims", 1)]);
    assert_eq!(made(&[&[gather.clone()][..], &tuples, &[rows]].concat()), (vec![8], true));
    let joined = node("Concat", "g m", "j", &[int("axis", 0)]);
    assert_eq!(made(&[gather.clone(), joined, node("Slice", "j zero five zero", "y", &[])]), (vec![5, 3], false));
    // Columns that nobody has add nothing to those that there are.
    let columns = [node("Slice", "g zero zero axis1", "e", &[]), node("Concat", "g e", "c", &[int("axis", 1)])];
    assert_eq!(made(&[&[gather.clone()][..], &columns, &[node("Relu", "c", "y", &[])]].concat()), (vec![8, 3], true));
    let empty = [&[gather.clone()][..], &columns[..1], &[node("Shape", "e", "y", &[])]].concat();
    assert_eq!(counted(&empty).import().nodes.last().unwrap().op.name(), "Concat");
    // What is reduced to one is as large as ever.
    assert_eq!(made(&[gather.clone(), node("ReduceMax", "g", "y", &[int("keepdims", 0)])]), (vec![], false));
    // The shape is computed when running.
    assert_eq!(made(&[gather, node("Shape", "g", "y", &[])]), (vec![2], false));
    // Equal masks select equally much.
    let twice = [node("Compress", "m x", "a", &[int("axis", 0)]), node("Compress", "m x", "b", &[int("axis", 0)])];
    assert_eq!(made(&[&twice[..], &[node("Add", "a b", "y", &[])]].concat()), (vec![8, 3], true));
}

#[test]
fn what_would_tell_what_is_missing_is_refused() {
    let gather = node("Gather", "m i", "g", &[int("axis", 0)]);
    let refused = |last: NodeProto| {
        let operator = last.op_type.clone();
        let error = counted(&[gather.clone(), last]).try_import().unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("({operator})")) && text.contains("depends on data"), "{text}");
    };
    refused(node("ReduceMean", "g", "y", &[]));
    refused(node("Add", "g m", "y", &[]));
    refused(node("Concat", "g m", "y", &[int("axis", 1)]));
    refused(node("Softmax", "g", "y", &[int("axis", 0)]));
    refused(node("Reshape", "g six", "y", &[]));
    refused(node("Gather", "g two", "y", &[int("axis", 0)]));
    refused(node("Expand", "g eight", "y", &[]));
    refused(node("CenterCropPad", "g eight", "y", &[]));
    refused(node("EyeLike", "g", "y", &[]));
    // Counted from an end that nobody knows.
    refused(node("Slice", "g zero flat zero", "y", &[]));
    refused(node("Slice", "g four flat zero", "y", &[]));
}

#[test]
fn the_name_of_a_count_must_be_free() {
    let mut model = counted(&[node("Identity", "n", "y", &[]), node("Relu", "x", "y.count", &[])]);
    model = model.output("y.count");
    assert!(model.error().contains("output 'y.count'"));
}

#[test]
fn shape_arithmetic_follows_counts() {
    let model = |nodes: &[NodeProto]| {
        let model = Model::new(17).input("x", &[8]).input("m", &[8, 3, 4]).integers("flat", &[1], &[-1]);
        let model = model.integers("zero", &[], &[0]).integers("one", &[], &[1]).integers("axis", &[1], &[0]);
        let model =
            model.integers("rows", &[2], &[-1, 4]).integers("five", &[1], &[5]).integers("fives", &[1, 3], &[5, 6, 7]);
        let model = model.integers("ten", &[], &[10]).integers("eight", &[], &[8]).integers("twelve", &[], &[12]);
        let model = model.integers("pairs", &[2], &[-1, 2]).integers("least", &[1], &[-i64::MAX]);
        let model = model.node(node("NonZero", "x", "n", &[])).node(node("Reshape", "n flat", "i", &[]));
        // g [count, 3, 4], its count c and its extent along dimension 1.
        let model = model.node(node("Gather", "m i", "g", &[int("axis", 0)])).node(node("Shape", "g", "s", &[]));
        let model = model.node(node("Gather", "s zero", "c", &[])).node(node("Gather", "s one", "three", &[]));
        let model =
            model.node(node("Unsqueeze", "c axis", "cs", &[])).node(node("Unsqueeze", "three axis", "threes", &[]));
        nodes.iter().cloned().fold(model, Model::node).output("y")
    };
    let made = |nodes: &[NodeProto]| {
        let graph = model(nodes).import();
        let counted = graph.outputs.get(1).is_some_and(|&id| graph.value(id).name == "y.count");
        (output(&graph).to_vec(), counted)
    };
    let join = |inputs: &str| node("Concat", inputs, "w", &[int("axis", 0)]);
    assert_eq!(made(&[join("cs flat"), node("Reshape", "g w", "y", &[])]), (vec![8, 12], true));
    assert_eq!(made(&[node("Reshape", "g rows", "y", &[])]), (vec![24, 4], true));
    assert_eq!(
        made(&[node("Mul", "cs threes", "p", &[]), join("p flat"), node("Reshape", "g w", "y", &[])]),
        (vec![24, 4], true)
    );
    // There and back again.
    let back = [node("Reshape", "g rows", "r", &[]), join("cs threes flat"), node("Reshape", "r w", "y", &[])];
    assert_eq!(made(&back), (vec![8, 3, 4], true));
    assert_eq!(made(&[node("ConstantOfShape", "cs", "y", &[])]), (vec![8], true));
    let range = node("Range", "zero c one", "r", &[]);
    assert_eq!(made(&[range.clone(), node("Identity", "r", "y", &[])]), (vec![8], true));
    assert_eq!(made(&[range, node("Gather", "g r", "y", &[int("axis", 0)])]), (vec![8, 3, 4], true));
    assert_eq!(made(&[join("cs threes"), node("Expand", "fives w", "y", &[])]), (vec![8, 3], true));
    assert_eq!(made(&[node("Slice", "g axis cs axis", "y", &[])]), (vec![8, 3, 4], true));
    assert_eq!(made(&[node("Slice", "x axis cs axis", "y", &[])]), (vec![8], true));
    assert_eq!(
        made(&[
            join("cs five"),
            node("ReduceMin", "w", "k", &[int("keepdims", 0)]),
            node("Reshape", "k flat", "ks", &[]),
            node("Gather", "x i", "t", &[]),
            node("TopK", "t ks", "y -", &[int("axis", 0)])
        ]),
        (vec![5], true)
    );
    assert_eq!(made(&[node("Concat", "g m g", "y", &[int("axis", 0)])]), (vec![24, 3, 4], true));
    // As many as lack of a number, in the order of PyTorch's pads: from the last dimension to the first, pair by pair.
    let lacking = |number: &str, g: &str| {
        [
            node("Sub", &format!("{number} c"), "k0", &[]),
            node("Mul", "k0 twelve", "k", &[]),
            node("Unsqueeze", "k axis", "ks", &[]),
            join("axis ks"),
            node("Reshape", "w pairs", "w2", &[]),
            node("Slice", "w2 flat least axis flat", "w3", &[]),
            node("Transpose", "w3", "w4", &[ints("perm", &[1, 0])]),
            node("Reshape", "w4 flat", "w5", &[]),
            node("Reshape", "g flat", "f", &[]),
            node("Pad", &format!("{g} w5"), "y", &[]),
        ]
    };
    assert_eq!(made(&lacking("ten", "f")), (vec![120], false));
    assert_eq!(made(&lacking("eight", "f")), (vec![96], false));
    let refused = |nodes: &[NodeProto]| {
        let error = model(nodes).try_import().unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("depends on data"), "{error}");
    };
    // As many as are there of something else.
    let other = [node("Relu", "x", "x2", &[]), node("NonZero", "x2", "n2", &[]), node("Reshape", "n2 flat", "i2", &[])];
    let other =
        [&other[..], &[node("Shape", "i2", "c2", &[]), join("c2 flat"), node("Reshape", "g w", "y", &[])]].concat();
    refused(&other);
    refused(&[node("Expand", "x cs", "y", &[])]);
    // Not the number of what is padded.
    refused(&lacking("ten", "x"));
    let rest = [node("Sub", "ten c", "k", &[]), node("Unsqueeze", "k axis", "ks", &[])];
    let others = [node("ConstantOfShape", "ks", "y", &[]), node("Expand", "one ks", "y", &[])];
    for last in others.into_iter().chain([node("Range", "one c one", "y", &[])]) {
        let error = model(&[&rest[..], &[last]].concat()).try_import().unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains("must be a constant"), "{error}");
    }
    refused(&[join("cs cs"), node("ConstantOfShape", "w", "y", &[])]);
}
