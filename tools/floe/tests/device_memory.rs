//! Inputs from device memory of others and outputs into it, on the simulated driver, whose device memory is the host's.

use floe::{
    device_memory::{self, DeviceSlice},
    session::{DeviceKind, MemoryKind, Place, Request, Session},
};
use floe_engine::plan::{
    OwnedImage, Plan, PlanWriter, VariantParts,
    format::{Action, Binding, Direction, ImageKind, KernelEntry, Operand, Region, Step, VariantHeader},
};
use floe_kernels::{DType, Dims};
use std::{path::Path, process::Command};

const BYTES: usize = 24;

/// A GPU's plan that copies `x` to `y`: what the simulated driver makes of any kernel.
fn plan() -> Vec<u8> {
    let mut image = vec![0; 64];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (image[18], image[52]) = (190, 64);
    let operand =
        |number, written| Operand { region: Region::Binding(number), offset: 0, bytes: BYTES as u64, written };
    let action = Action::Launch { kernel: 0, grid: [1; 3], block: [32, 1, 1], shared: 0 };
    let operands = [operand(0, false), operand(1, true)].into_iter().collect();
    let binding = |name, direction| {
        let shape = Dims::from_slice(&[6]).unwrap();
        Binding { name, direction, dtype: DType::F32, shape, content: "" }
    };
    let header = VariantHeader {
        target: "gpu",
        architecture: 87,
        driver: 12020,
        nvrtc: "12.6",
        precision: "f32",
        ..VariantHeader::default()
    };
    PlanWriter::new("copy", "test")
        .variant(VariantParts {
            header,
            steps: vec![Step { action, operands, after: Default::default(), overlaps: false }],
            kernels: vec![KernelEntry { image: 0, name: "copy" }],
            images: vec![OwnedImage::plain(ImageKind::Cubin, image)],
            bindings: vec![binding("x", Direction::Input), binding("y", Direction::Output)],
            notes: Vec::new(),
            weights: Vec::new(),
            candidates: Vec::new(),
            candidate_images: Vec::new(),
        })
        .finish()
}

fn use_simulated_driver(folder: &Path) {
    let library = folder.join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated_driver.c");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status().unwrap();
    assert!(status.success());
    // SAFETY: this test is the only thread that reads or writes the environment.
    unsafe {
        std::env::set_var("FLOE_LIBCUDA", library);
        std::env::set_var("SIMULATED_COPY", BYTES.to_string());
    }
}

/// Bytes of device memory.
fn contents(memory: DeviceSlice) -> &'static mut [u8] {
    // SAFETY: the simulated driver's device memory is the host's.
    unsafe { std::slice::from_raw_parts_mut(memory.address as *mut u8, memory.bytes) }
}

fn replay(session: &mut Session<'_, '_>, inputs: &[(usize, DeviceSlice)]) -> anyhow::Result<()> {
    // SAFETY: what the test gives stays allocated, is used by nobody else, or is refused before it is read.
    unsafe { session.replay_from_device(inputs) }
}

fn read(session: &mut Session<'_, '_>, binding: usize, destination: DeviceSlice) -> anyhow::Result<()> {
    // SAFETY: as above.
    unsafe { session.read_to_device(binding, destination) }
}

#[test]
fn copies_begin_and_end_in_memory_of_others() {
    let folder = tempfile::tempdir().unwrap();
    use_simulated_driver(folder.path());
    let bytes = plan();
    let file = floe::plan_file::PlanFile::from_bytes(&bytes, "copy".to_owned());
    let plan: Plan<'_> = file.plan().unwrap();
    for memory in [MemoryKind::Device, MemoryKind::Mapped] {
        let request = Request { device: DeviceKind::Cuda, memory: Some(memory), ..Request::default() };
        let (mut place, variant) = Place::choose(&plan, &request).unwrap();
        {
            let mut unshared = place.session(variant.clone()).unwrap();
            let nowhere = DeviceSlice { address: 256, bytes: BYTES };
            let error = replay(&mut unshared, &[(0, nowhere)]).unwrap_err();
            assert!(error.to_string().contains("was not made for it"), "{error}");
        }
        assert!(place.share_device_memory().unwrap().is_some());
        let (mut second, _) = Place::choose(&plan, &request).unwrap();
        assert!(second.share_device_memory().unwrap_err().to_string().contains("another session"));

        let mut session = place.session(variant).unwrap();
        let [source, destination] = [(); 2].map(|()| device_memory::allocate(BYTES).unwrap());
        contents(source).copy_from_slice(&[7; BYTES]);
        replay(&mut session, &[(0, source)]).unwrap();
        let mut found = [0; BYTES];
        session.read(1, &mut found).unwrap();
        assert_eq!(found, [7; BYTES], "{memory:?}");
        contents(destination).fill(0);
        read(&mut session, 1, destination).unwrap();
        assert_eq!(contents(destination), [7; BYTES], "{memory:?}");
        if memory == MemoryKind::Device {
            // Not by way of the host.
            assert_eq!(session.input_mut(0).unwrap(), [0; BYTES]);
        }

        // Nothing is left behind by an error: what the host writes next is what is read.
        contents(source).fill(8);
        let short = DeviceSlice { bytes: BYTES - 1, ..source };
        for inputs in [&[(0, short)][..], &[(0, source), (0, short)], &[(0, source), (1, source)]] {
            assert!(replay(&mut session, inputs).is_err());
        }
        assert!(read(&mut session, 1, short).unwrap_err().to_string().contains("24 bytes"));
        assert!(read(&mut session, 0, source).is_err());
        session.write(0, &[9; BYTES]).unwrap();
        session.replay().unwrap();
        session.read(1, &mut found).unwrap();
        assert_eq!((found, &*contents(source)), ([9; BYTES], &[8; BYTES][..]), "{memory:?}");
        for memory in [source, destination] {
            // SAFETY: allocated above, and the session is done with it.
            unsafe { device_memory::free(memory).unwrap() };
        }
    }
}
