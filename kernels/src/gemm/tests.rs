//! What every candidate promises, on the convolutions of ResNet-50 and some awkward shapes.

use crate::codegen::{Argument, Candidate, Generate, Packing, Target};
use crate::conv::{Conv, cases::size};
use crate::matmul::MatMul;
use crate::pointwise::Epilogue;
use crate::quantized_conv::QuantizedConv;
use crate::quantized_conv::cases::{Finish, Layer, layer, sums};
use crate::{DType, Kernel, View};

fn target(architecture: u32, multiprocessors: u32, shared: u32) -> Target {
    Target {
        name: format!("sm_{architecture}"),
        description: String::new(),
        gpu: String::new(),
        architecture,
        multiprocessors,
        shared_per_block: shared,
        shared_per_multiprocessor: shared + 1024,
        l2_bytes: 4 << 20,
        bandwidth: 200.0,
        clock: 1300.0,
        f16_tflops: 5.0 * f64::from(multiprocessors),
        int8_tops: 10.0 * f64::from(multiprocessors),
        f32_tflops: 0.3 * f64::from(multiprocessors),
        launch: 1.0,
        nvrtc: String::new(),
        driver: 12060,
    }
}

/// Small descriptions of three generations.
pub(crate) fn targets() -> [Target; 3] {
    [target(72, 6, 98_304), target(87, 16, 166_912), target(90, 132, 232_448)]
}

fn conv(dtype: DType, c: u32, extent: u32, m: u32, kernel: u32, step: u32) -> Conv {
    let geometry = size(&[1, c, extent, extent], m, &[kernel; 2], step).geometry([dtype; 3], true);
    Conv { geometry, epilogue: Epilogue { bias: true, ..Epilogue::default() } }
}

/// The promises that do not need a device.
fn assert_sound(candidates: &[Candidate], target: &Target) {
    assert!(!candidates.is_empty());
    for candidate in candidates {
        let name = format!("{} {} on {}", candidate.algorithm, candidate.configuration, target.name);
        assert!(candidate.cost.is_finite() && candidate.cost > 0.0, "{name}");
        let uses = |of: fn(&Argument) -> bool| candidate.launches.iter().any(|launch| launch.arguments.iter().any(of));
        assert_eq!(uses(|a| matches!(a, Argument::Workspace(_))), candidate.workspace > 0, "{name}: workspace");
        assert_eq!(uses(|a| matches!(a, Argument::Counters(_))), candidate.counters > 0, "{name}: counters");
        for launch in &candidate.launches {
            assert!(launch.shared <= target.shared_per_block, "{name}: shared memory");
            assert!(launch.block[0] <= 1024 && launch.block[0] % 32 == 0, "{name}: block");
            assert!(launch.source.contains(&format!("{}(", launch.entry)), "{name}: entry");
            if target.architecture < 80 {
                // Launches for these GPUs are never told to fetch ahead.
                let source = launch.source.replace(include_str!("ahead.cu"), "");
                assert!(!source.contains("cp.async") && !source.contains("mma.sync"), "{name}: sm_80");
            }
            if target.architecture < 90 {
                assert!(!launch.source.contains("barrier.cluster"), "{name}: clusters");
            }
        }
    }
    assert!(candidates.is_sorted_by(|a, b| a.cost <= b.cost));
}

#[test]
fn resnet_convolutions_run_on_tensor_cores_where_there_are_any() {
    for (c, size, m, kernel, step) in
        [(3, 224, 64, 7, 2), (64, 56, 64, 3, 1), (256, 56, 512, 1, 2), (1024, 14, 256, 1, 1), (512, 7, 512, 3, 1)]
    {
        for target in targets() {
            let candidates = conv(DType::F16, c, size, m, kernel, step).candidates(&target).unwrap();
            assert_sound(&candidates, &target);
            // Without tensor cores Winograd's products may be cheaper still.
            let best = candidates.iter().find(|c| !c.algorithm.starts_with("winograd")).unwrap().algorithm;
            let tensor_cores = ["tensor_core_gemm", "warpgroup_gemm", "first_layer"].contains(&best);
            assert_eq!(tensor_cores, target.has_async_copy(), "{best}: {c} {size} {m} on {}", target.name);
        }
    }
}

#[test]
fn all_candidates_of_a_convolution_share_packed_weights() {
    let target = &targets()[2];
    let candidates = conv(DType::F16, 20, 14, 40, 3, 1).candidates(target).unwrap();
    let Packing::View(view) = &candidates[0].packing[1] else { panic!("weights must be packed") };
    // [m][kh][kw][c padded to 24]
    assert_eq!(view.strides.as_slice(), [9 * 24, 1, 3 * 24, 24]);
    assert_eq!(view.shape.as_slice(), [40, 24, 3, 3]);
    let mut products = candidates.iter().filter(|c| !c.algorithm.starts_with("winograd"));
    assert!(products.all(|c| c.packing[1] == candidates[0].packing[1]));
}

#[test]
fn splits_leave_no_multiprocessor_idle_at_small_sizes() {
    let target = &targets()[2];
    let best = &conv(DType::F16, 512, 7, 512, 3, 1).candidates(target).unwrap()[0];
    assert!(best.launches[0].grid[0] >= 64, "{}", best.configuration);
}

#[test]
fn misaligned_rows_stay_off_the_tensor_cores() {
    let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
    let product =
        MatMul { a: view(&[33, 37]), b: view(&[37, 41]), output: view(&[33, 41]), epilogue: Epilogue::default() };
    for target in targets() {
        let candidates = product.candidates(&target).unwrap();
        assert_sound(&candidates, &target);
        assert!(candidates.iter().all(|c| c.algorithm == "simt_gemm" || c.algorithm == "direct"));
    }
}

#[test]
fn a_product_reads_b_as_it_lies_where_it_can() {
    let target = &targets()[1];
    let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
    let product =
        MatMul { a: view(&[64, 64]), b: view(&[64, 128]), output: view(&[64, 128]), epilogue: Epilogue::default() };
    let candidates = product.candidates(target).unwrap();
    let best = candidates.iter().find(|c| c.algorithm == "tensor_core_gemm").unwrap();
    assert!(best.packing.is_empty());
    assert!(best.launches[0].source.contains("#define B_COLUMNS_CONTIGUOUS 1"));
}

#[test]
fn one_row_has_a_gemv() {
    let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
    let mut b = view(&[2048, 1000]);
    b.strides = crate::Strides::from_slice(&[1, 2048]).unwrap();
    let product = MatMul { a: view(&[1, 2048]), b, output: view(&[1, 1000]), epilogue: Epilogue::default() };
    for target in targets() {
        let candidates = product.candidates(&target).unwrap();
        assert_sound(&candidates, &target);
        let best = &candidates[0];
        assert_eq!(best.algorithm, "gemv", "{} on {}", best.configuration, target.name);
    }
}

#[test]
fn integers_are_refused_by_name() {
    let error = conv(DType::I32, 8, 8, 8, 3, 1).candidates(&targets()[1]).unwrap_err();
    assert!(error.0.contains("floating-point"), "{}", error.0);
}

#[test]
fn rows_in_eights_are_offered_where_warps_multiply_floats() {
    let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
    let product = MatMul {
        a: view(&[197, 768]),
        b: view(&[768, 3072]),
        output: view(&[197, 3072]),
        epilogue: Epilogue::default(),
    };
    for target in targets() {
        let candidates = product.candidates(&target).unwrap();
        assert_sound(&candidates, &target);
        let turned: Vec<_> = candidates.iter().filter(|c| c.configuration.ends_with("turned")).collect();
        assert_eq!(!turned.is_empty(), target.architecture >= 80, "{}", target.name);
        assert!(turned.iter().all(|c| c.launches[0].entry == "tensor_core_turned"));
        assert!(turned.iter().all(|c| c.launches[0].source.contains("#define EVEN_ROWS 1")));
    }
}

#[test]
fn patches_are_offered_with_either_side_as_rows_where_warps_multiply() {
    const ENTRIES: [&str; 2] = ["tensor_core_patch", "tensor_core_turned_patch"];
    let floats = conv(DType::F16, 64, 56, 64, 3, 1);
    let integers = layer(&Layer {
        input: &[1, 64, 56, 56],
        maps: 64,
        taps: 3,
        padding_value: 114,
        finish: Finish::Requantise(DType::U8),
        ..Layer::new([DType::U8, DType::I8], true)
    });
    for target in targets() {
        let [floats, integers] = [floats.candidates(&target).unwrap(), integers.candidates(&target).unwrap()];
        let of_integers = &ENTRIES[..];
        let of_floats = if target.architecture == 87 { &ENTRIES[..] } else { &[] };
        for (candidates, expected) in [(floats, of_floats), (integers, of_integers)] {
            assert_sound(&candidates, &target);
            let offered = ENTRIES.iter().filter(|entry| candidates.iter().any(|c| c.launches[0].entry == **entry));
            let expected = if target.architecture == 72 { &[] } else { expected };
            assert_eq!(offered.collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>(), "{}", target.name);
        }
    }
}

#[test]
fn requantised_sums_of_two_bytes_are_one_weighted_sum() {
    // Those whose programs are printed for whole numbers.
    let is_printed_so = |candidate: &Candidate| ["tensor_core_gemm", "dp4a_gemm"].contains(&candidate.algorithm);
    let products = |finish| {
        let conv =
            layer(&Layer { input: &[1, 64, 9, 11], maps: 40, finish, ..Layer::new([DType::I8, DType::I8], true) });
        let all = targets().into_iter().flat_map(|target| conv.candidates(&target).unwrap());
        all.filter(is_printed_so)
            .map(|candidate| candidate.launches[0].source.contains("above_whole(fmaf("))
            .collect::<Vec<_>>()
    };
    assert!(products(Finish::Shortcut).into_iter().all(|sum| sum));
    // Rounded twice, at two scales.
    assert!(products(Finish::Block).into_iter().all(|sum| !sum));
}

#[test]
fn patches_of_few_channels_have_a_fragment_a_tap() {
    let target = targets().into_iter().find(|target| target.architecture == 87).expect("an Orin");
    let narrow = |channels: u32| {
        let candidates = conv(DType::F16, channels, 56, 16, 3, 1).candidates(&target).unwrap();
        assert_sound(&candidates, &target);
        let deep = |c: &&Candidate| c.configuration.split(' ').next().is_some_and(|tile| tile.ends_with("x16x16"));
        let narrow: Vec<_> = candidates.into_iter().filter(|c| deep(&c)).collect();
        assert!(narrow.iter().all(|c| c.launches[0].entry == "tensor_core_patch"));
        narrow.len()
    };
    assert!(narrow(16) > 0 && narrow(32) == 0 && narrow(48) == 0);
}

#[test]
fn patches_have_all_channels_of_a_pixel_where_no_usual_depth_divides_them() {
    let target = targets().into_iter().find(|target| target.architecture == 87).expect("an Orin");
    // Channels, and those of a pixel in whole fragments. Of 88 channels a row would be twelve chunks, which no swizzle keeps apart.
    for (channels, whole) in
        [(80, Some(80)), (24, Some(32)), (40, Some(48)), (56, Some(64)), (64, None), (96, None), (88, None)]
    {
        let candidates = conv(DType::F16, channels, 56, 80, 3, 1).candidates(&target).unwrap();
        assert_sound(&candidates, &target);
        let patches = candidates.iter().filter(|c| c.configuration.contains("patch"));
        let depths = patches.filter_map(|c| c.configuration.split([' ', 'x']).nth(2)?.parse::<u32>().ok());
        let (divisors, others): (Vec<_>, Vec<_>) = depths.partition(|&depth| channels.is_multiple_of(depth));
        match whole {
            Some(whole) => assert!([divisors, others].concat().iter().all(|&depth| depth == whole), "{channels}"),
            None => assert!(others.is_empty(), "{channels}: {others:?}"),
        }
        let offered = candidates.iter().any(|c| c.configuration.contains("patch"));
        assert_eq!(offered, channels != 88, "{channels}");
    }
}

#[test]
fn rows_are_even_where_one_stride_leads_from_each_to_the_next() {
    let even = |conv: &Conv| {
        let candidates = conv.candidates(&targets()[1]).unwrap();
        let tiled = candidates.iter().find(|c| c.algorithm == "tensor_core_gemm").unwrap();
        tiled.launches[0].source.contains("#define EVEN_ROWS 1")
    };
    assert!(even(&conv(DType::F16, 64, 14, 64, 1, 1)));
    // Every second row and column; pixels under several taps.
    assert!(!even(&conv(DType::F16, 64, 14, 64, 1, 2)));
    assert!(!even(&conv(DType::F16, 64, 14, 64, 3, 1)));
}

/// Rows of E4M3 times weights of E4M3, as a convolution of one tap.
fn float8_product(m: u32, k: u32, n: u32) -> QuantizedConv {
    let rows = |dtype, columns: u32| {
        let mut view = View::contiguous(dtype, &[1, columns, m]).unwrap();
        view.strides[1..3].copy_from_slice(&[1, columns as i32]);
        view
    };
    let weights = View::contiguous(DType::F8E4M3, &[n, k, 1]).unwrap();
    sums(rows(DType::F8E4M3, k), weights, rows(DType::F32, n))
}

#[test]
fn products_of_8_bit_floats_are_those_of_f16_on_tensor_cores() {
    for target in targets() {
        let candidates = float8_product(256, 512, 256).candidates(&target).unwrap();
        assert_sound(&candidates, &target);
        let best = if target.has_async_copy() { "tensor_core_gemm" } else { "simt_gemm" };
        assert_eq!(candidates[0].algorithm, best, "{}", target.name);
        // No other way reads bytes, and no warp has more sums than leave registers for what is converted.
        for candidate in candidates.iter().filter(|candidate| candidate.algorithm == "tensor_core_gemm") {
            assert!(!candidate.configuration.contains("turned") && !candidate.configuration.contains("patch"));
            assert!(!candidate.configuration.starts_with("128x256") && !candidate.configuration.contains("warpgroups"));
            let source = &candidate.launches[0].source;
            assert!(
                source.contains("m16n8k16.row.col.f32.f16.f16.f32") && source.contains("halves_of(b0, BElement())")
            );
        }
    }
}

#[test]
fn integers_of_16_bits_are_multiplied_one_at_a_time() {
    let view = |dtype, shape: &[u32]| View::channels_last(dtype, shape).unwrap();
    for target in targets() {
        for (input, weights) in [(DType::I16, DType::I16), (DType::I8, DType::I16), (DType::I16, DType::U8)] {
            for groups in [1, 4, 64] {
                let filters = View::contiguous(weights, &[64, 64 / groups, 1, 1]).unwrap();
                let mut conv = sums(view(input, &[1, 64, 4, 4]), filters, view(DType::I32, &[1, 64, 4, 4]));
                conv.geometry.groups = groups;
                for candidate in Kernel::QuantizedConv(conv).candidates(&target).unwrap() {
                    assert_eq!(candidate.algorithm, "direct", "{input:?} {weights:?} {groups} {}", target.name);
                }
            }
        }
    }
}

#[test]
fn few_rows_read_weights_of_8_bits_in_less_time_than_those_of_16() {
    let [_, orin, hopper] = targets();
    for target in [orin, hopper] {
        let best =
            |candidates: Vec<Candidate>| candidates.into_iter().find(|one| one.algorithm == "gemv").unwrap().cost;
        let bytes = best(float8_product(1, 4096, 4096).candidates(&target).unwrap());
        let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
        let mut b = view(&[4096, 4096]);
        b.strides = b.strides.iter().rev().copied().collect();
        let product = MatMul { a: view(&[1, 4096]), b, output: view(&[1, 4096]), epilogue: Epilogue::default() };
        let halves = best(product.candidates(&target).unwrap());
        assert!(bytes < 0.8 * halves, "{}: {bytes} against {halves}", target.name);
    }
}

#[test]
fn first_layers_of_8_bit_floats_multiply_their_weights_as_f16() {
    for types in [[DType::F8E4M3, DType::F8E4M3], [DType::F8E5M2, DType::F8E4M3]] {
        let of = Layer { input: &[1, 3, 112, 112], maps: 64, taps: 7, stride: 2, ..Layer::new(types, true) };
        let conv = layer(&Layer { finish: Finish::Scaled(DType::F8E4M3), ..of });
        for target in targets() {
            let candidates = conv.candidates(&target).unwrap();
            assert_sound(&candidates, &target);
            let first: Vec<_> = candidates.iter().filter(|one| one.algorithm == "first_layer").collect();
            assert_eq!(!first.is_empty(), target.has_async_copy(), "{}", target.name);
            // The general product multiplies 16 channels for each pixel's three.
            assert_eq!(candidates[0].algorithm == "first_layer", target.has_async_copy(), "{}", target.name);
            for candidate in first {
                let Packing::View(weights) = &candidate.packing[1] else { panic!("weights as they are") };
                assert_eq!((weights.dtype, weights.shape[1]), (DType::F16, 4));
            }
        }
    }
}

#[test]
fn batched_products_of_8_bit_floats_run_on_tensor_cores_whichever_way_the_second_factor_lies() {
    for target in targets() {
        for transposed in [false, true] {
            let view = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
            let mut b = view(DType::F8E4M3, &[4, 128, 64]);
            if transposed {
                b.strides = view(DType::F8E4M3, &[4, 64, 128]).strides;
                b.strides.swap(1, 2);
            }
            let (a, output) = (view(DType::F8E4M3, &[4, 96, 128]), view(DType::F16, &[4, 96, 64]));
            let product = MatMul { a, b, output, epilogue: Epilogue::default() };
            let candidates = product.candidates(&target).unwrap();
            assert_sound(&candidates, &target);
            let on_tensor_cores = candidates.iter().find(|one| one.algorithm == "tensor_core_gemm");
            assert_eq!(on_tensor_cores.is_some(), target.has_async_copy(), "{}", target.name);
            // Columns along K are what the instruction reads of bytes; others are turned by a copy.
            let kept =
                on_tensor_cores.and_then(|one| one.packing.get(1)).is_none_or(|packing| *packing == Packing::Keep);
            assert_eq!(kept, transposed || on_tensor_cores.is_none());
        }
    }
}

#[test]
fn lanes_finish_what_they_multiplied_where_columns_can_lie_side_by_side() {
    let kept = |candidates: Vec<Candidate>| {
        let tiled = candidates.into_iter().filter(|c| c.algorithm == "tensor_core_gemm");
        tiled.map(|c| (c.launches[0].source.contains("#define LANES 1"), c.configuration)).collect::<Vec<_>>()
    };
    let target = &targets()[1];
    let floats = kept(conv(DType::F16, 64, 56, 96, 3, 1).candidates(target).unwrap());
    assert!(floats.iter().any(|(lanes, _)| *lanes) && floats.iter().any(|(lanes, _)| !lanes), "{floats:?}");
    for (lanes, configuration) in floats {
        let (tile, warps) = configuration.split_once(" warps ").unwrap();
        let extents = |text: &str| text.split(['x', ' ']).map_while(|n| n.parse::<u32>().ok()).collect::<Vec<_>>();
        let (tile, warps) = (extents(tile), extents(warps));
        // Four side by side at least, of eight lanes where sides are exchanged, else of four.
        let whole = (tile[1] / warps[1]).is_multiple_of(if configuration.contains("turned") { 32 } else { 16 });
        assert_eq!(lanes, whole && warps[2] == 1, "{configuration}");
    }
    // Where columns of B follow each other in memory, a chunk has eight of them in their order.
    let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
    let (a, b, output) = (view(&[197, 64]), view(&[64, 192]), view(&[197, 192]));
    let product = kept(MatMul { a, b, output, epilogue: Epilogue::default() }.candidates(target).unwrap());
    assert!(!product.is_empty() && product.iter().all(|(lanes, _)| !lanes), "{product:?}");
}
