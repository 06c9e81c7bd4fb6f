//! Packed images: the driver is given what was packed, in memory that was announced, and never what does not unpack.

use crate::support::{
    cubin, cuda_parts,
    driver::{self, API},
    floats, packed, round_trip, write,
};
use floe_engine::{
    cuda::{CUmodule, CUresult, DriverApi, ImageProblem, InitError, InitOptions, Session},
    plan::{OwnedImage, Plan, VariantParts, format::ImageKind},
};
use std::{cell::RefCell, ffi::c_void};

thread_local! {
    /// The first bytes of every image that the driver was given.
    static LOADED: RefCell<Vec<Vec<u8>>> = RefCell::default();
}

/// Bytes of every image in these tests, so that the driver below knows how many to read.
const BYTES: usize = 5000;

/// The simulated driver, which keeps what it is given.
static DEVICE: DriverApi = DriverApi { module_load_data, ..API };

extern "C" fn module_load_data(module: *mut CUmodule, image: *const c_void) -> CUresult {
    // SAFETY: every image of these tests has so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), BYTES) }.to_vec();
    LOADED.with_borrow_mut(|loaded| loaded.push(bytes));
    // SAFETY: as for this function.
    unsafe { (API.module_load_data)(module, image) }
}

/// A cubin whose contents repeat.
fn repetitive(byte: u8) -> Vec<u8> {
    let mut image = cubin(&[byte; BYTES - 64]);
    image[1000..1004].copy_from_slice(b"code");
    image
}

fn session(parts: VariantParts<'static>) -> Result<[u8; crate::support::BYTES as usize], InitError> {
    let bytes = write([parts]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    LOADED.take();
    // SAFETY: the simulated driver keeps the contract of the real one.
    unsafe { Session::init(variant, &DEVICE, InitOptions::default()) }.map(|mut session| round_trip(&mut session, 1.0))
}

#[test]
fn the_driver_is_given_what_was_packed() {
    let plain = session(VariantParts {
        images: [1, 2].map(|byte| crate::support::image(repetitive(byte))).to_vec(),
        ..cuda_parts()
    });
    let images = [repetitive(1), repetitive(2)];
    assert_eq!(LOADED.take(), images);
    for packs in [[true, true], [true, false], [false, true]] {
        let stored = images.iter().zip(packs);
        let stored =
            stored.map(|(image, packs)| if packs { packed(image) } else { crate::support::image(image.clone()) });
        let parts = VariantParts { images: stored.collect(), ..cuda_parts() };
        assert_eq!(session(parts), plain);
        assert_eq!(LOADED.take(), images);
    }
    assert_eq!(plain, Ok(floats([2.0, 3.0, 4.0, 5.0])));
}

#[test]
fn nothing_of_an_image_is_left_in_bindings() {
    let bytes = write([VariantParts { images: vec![packed(&repetitive(1)), packed(&repetitive(2))], ..cuda_parts() }]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    for mapped in [false, true] {
        let options = InitOptions { mapped, ..InitOptions::default() };
        // SAFETY: the simulated driver keeps the contract of the real one.
        let mut session = unsafe { Session::init(variant.clone(), &DEVICE, options) }.unwrap();
        assert_eq!(session.input_mut("x").unwrap(), [0; crate::support::BYTES as usize], "mapped: {mapped}");
    }
}

#[test]
fn room_to_unpack_is_announced() {
    let parts = VariantParts { images: vec![packed(&repetitive(1)), packed(&repetitive(2))], ..cuda_parts() };
    let bytes = write([parts]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    assert!(variant.images_bytes() < 400);
    assert_eq!(variant.requirements(InitOptions::default()).page_locked, BYTES as u64);
    let plain = write([cuda_parts()]);
    let plain = Plan::parse(&plain).unwrap().variant(0).unwrap();
    assert_eq!(plain.requirements(InitOptions::default()).page_locked, 3 * 256, "three bindings");
}

#[test]
fn what_does_not_unpack_never_reaches_the_driver() {
    let refused = |kind, image: OwnedImage| {
        let mut parts = cuda_parts();
        parts.header.image_kind = kind;
        parts.images = vec![image.clone(), image];
        let error = session(parts).unwrap_err();
        assert_eq!(LOADED.take().len(), 0);
        assert!(driver::with(|state| state.live.is_empty()));
        let InitError::Image { number: 0, problem } = error else { panic!("{error}") };
        problem
    };
    let good = packed(&repetitive(1));
    let longer = OwnedImage { unpacked: good.unpacked + 1, ..good.clone() };
    assert_eq!(refused(ImageKind::Cubin, longer), ImageProblem::Packed);
    let shorter = OwnedImage { unpacked: good.unpacked - 1, ..good.clone() };
    assert_eq!(refused(ImageKind::Cubin, shorter), ImageProblem::Packed);
    let mut cut = good;
    cut.bytes.pop();
    assert_eq!(refused(ImageKind::Cubin, cut), ImageProblem::Packed);
    // What it unpacks to is checked as any other image is.
    assert_eq!(refused(ImageKind::Cubin, packed(&[7; BYTES])), ImageProblem::Header("the magic number"));
    assert_eq!(refused(ImageKind::Ptx, packed(&[b' '; BYTES])), ImageProblem::NotText);
}
