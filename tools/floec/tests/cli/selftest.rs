//! `floec selftest-bundle`.

use crate::{Folder, models, nvrtc_is_there};
use floe::{
    selftest::{
        bundle::{Bundle, NETWORKS},
        replay::Replayer,
    },
    session::{DeviceKind, Request},
};

#[test]
fn a_bundle_for_the_host_has_kernels_and_networks() {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    let said = folder.run("selftest-bundle --target host --family softmax --family pool -o a.selftest").succeeded();
    assert!(said.starts_with("a.selftest: ") && said.ends_with("kernels and 1 networks for host\n"), "{said}");
    let mut bundle = Bundle::open(&folder.path("a.selftest")).unwrap();
    let manifest = bundle.manifest().clone();
    assert_eq!((manifest.target.as_str(), manifest.whole), ("host", false));
    assert!(manifest.sources.contains_key("kernels"), "{:?}", manifest.sources);
    for family in ["softmax", "pool", NETWORKS] {
        assert!(manifest.cases.iter().any(|case| case.family == family), "{family}");
    }
    (0..manifest.cases.len()).for_each(|number| assert!(!bundle.parts(number).unwrap().plan.is_empty()));
    // The same input gives the same bytes; a model or a plan takes the place of the classifier.
    folder.run("selftest-bundle --target host --family softmax --family pool -o b.selftest").succeeded();
    assert!(folder.read("a.selftest") == folder.read("b.selftest"));
    folder.run("compile conv.onnx --target host -o conv.floe").succeeded();
    for network in ["conv.onnx", "conv.floe"] {
        folder.run(&format!("selftest-bundle {network} --target host --family softmax -o c.selftest")).succeeded();
        let bundle = Bundle::open(&folder.path("c.selftest")).unwrap();
        let networks: Vec<_> = bundle.manifest().cases.iter().filter(|case| case.family == NETWORKS).collect();
        assert!(matches!(networks.as_slice(), [case] if case.name == "conv"), "{networks:?}");
    }
}

/// Each shape of a network is a case; the device chooses it.
#[test]
fn several_shapes_are_several_cases() {
    let folder = Folder::new();
    let nodes = vec![models::node("relu", "Relu", &["x"], "y")];
    folder.write("net.onnx", models::model(nodes, Vec::new(), &["1", "width"]));
    let line = "selftest-bundle net.onnx --shape x=1x8,1x5 --target host --family lrn -o net.selftest";
    folder.run(line).succeeded();
    let mut bundle = Bundle::open(&folder.path("net.selftest")).unwrap();
    let cases = bundle.manifest().cases.clone();
    let networks: Vec<usize> = (0..cases.len()).filter(|&number| cases[number].family == NETWORKS).collect();
    assert_eq!(networks.iter().map(|&number| &*cases[number].name).collect::<Vec<_>>(), ["net x=1x8", "net x=1x5"]);
    for number in networks {
        let mut parts = bundle.parts(number).unwrap();
        let mut replayer = Replayer::new(Request { device: DeviceKind::Host, ..Request::default() });
        assert_eq!(replayer.run(&cases[number], &parts).unwrap(), Ok(0.0), "{}", cases[number].name);
        *parts.after.last_mut().unwrap() ^= 0x40;
        assert!(replayer.run(&cases[number], &parts).unwrap().is_err());
    }
}

/// What f16 does to a network is not the device's fault, so it is told where the bundle is made.
#[test]
fn a_network_that_f16_ruins_is_warned_of() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = Folder::new();
    let identity: Vec<f32> = (0..64).map(|place| f32::from(u8::from(place % 9 == 0))).collect();
    // Numbers near 4,096 are multiples of four in f16.
    let nodes = |offset| {
        let nodes = vec![
            models::node("far", "Add", &["x", "offset"], "a"),
            models::node("product", "MatMul", &["a", "identity"], "b"),
            models::node("near", "Sub", &["b", "offset"], "y"),
        ];
        let constants = vec![models::tensor("offset", &[1], &[offset]), models::tensor("identity", &[8, 8], &identity)];
        models::model(nodes, constants, &["4", "8"])
    };
    folder.write("far.onnx", nodes(4096.0));
    folder.write("near.onnx", nodes(1.0));
    let bundle = "selftest-bundle --target jetson-orin-nano --ptx --family lrn -o a.selftest";
    let said = |arguments: &str| {
        let run = folder.run(&format!("{bundle} {arguments}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.stderr
    };
    let warning = said("far.onnx near.onnx");
    assert!(warning.contains("far.onnx: f16 itself takes output 'y' to a cosine of"), "{warning}");
    assert!(
        !warning.contains("near.onnx") && said("near.onnx").is_empty() && said("far.onnx --precision f32").is_empty()
    );
    // The device is not asked: on a GPU in software the case fails as it was said, and in f32 it passes.
    for (precision, passes) in [("f16", false), ("f32", true)] {
        said(&format!("far.onnx --precision {precision}"));
        let mut bundle = Bundle::open(&folder.path("a.selftest")).unwrap();
        let cases = bundle.manifest().cases.clone();
        let number = cases.iter().position(|case| case.family == NETWORKS).unwrap();
        let parts = bundle.parts(number).unwrap();
        let request = Request { device: DeviceKind::Emulated, ..Request::default() };
        assert_eq!(Replayer::new(request).run(&cases[number], &parts).unwrap().is_ok(), passes, "{precision}");
    }
}

#[test]
fn what_a_bundle_cannot_be_made_of_is_refused() {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder.run("compile conv.onnx --target host -o conv.floe").succeeded();
    folder.misused("selftest-bundle --target jetson-nano -o a", &["unknown target 'jetson-nano'"]);
    folder.misused(
        "selftest-bundle --target host --family convolution -o a",
        &["no family is called convolution", "conv,"],
    );
    folder.misused(
        "selftest-bundle --target host --family pool conv.onnx conv.floe -o a",
        &["two networks are called conv"],
    );
    folder.misused("selftest-bundle --target host --family pool conv.floe -o conv.floe", &["would be overwritten"]);
    folder.misused(
        "selftest-bundle --target host --family pool --shape x=1x2 -o a",
        &["are for a model, and none is given"],
    );
    folder.misused("selftest-bundle --target host --family pool none.onnx -o a", &["none.onnx"]);
    if nvrtc_is_there() {
        folder.misused(
            "selftest-bundle --target jetson-orin-nano --family lrn conv.floe -o a",
            &["conv: it has no variant for jetson-orin-nano"],
        );
    }
}
