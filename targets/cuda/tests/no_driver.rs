//! A machine without a driver gets an error, never a panic.

use floe_cuda::{Device, Error, Options};

#[test]
fn opening_a_device_says_what_to_install() {
    match Device::open(Options::default()) {
        Err(error @ Error::NoDriver { .. }) => {
            let message = error.to_string();
            assert!(message.contains("JetPack") && message.contains("NVIDIA driver"), "{message}");
        }
        // A driver without a GPU, for example on a CI machine with the packages installed.
        Err(error @ Error::Driver { .. }) => assert!(error.to_string().contains("failed: CUDA_ERROR_"), "{error}"),
        Err(error) => panic!("{error}"),
        // Where there is a GPU, it must be described.
        Ok(device) => assert!(device.info().multiprocessors > 0 && device.free_memory().unwrap() > 0),
    }
}
