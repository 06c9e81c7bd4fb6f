//! An opened GPU.

use crate::{DeviceInfo, Error, functions::Functions, green::GreenContext, library::Library};
use cudarc::driver::sys::{CUcontext, CUdevice_attribute as Attribute};
use std::{
    ffi::{CStr, c_int},
    ptr,
};

/// How to open a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Number of the GPU, 0 for the first.
    pub ordinal: u32,
    /// Multiprocessors to use, `None` for all. Fewer need a green context.
    pub multiprocessors: Option<u32>,
}

/// A GPU whose context is current on the thread that opened it. Dropping it releases the context, so sessions go first.
///
/// Not `Send`: a CUDA context is current on a thread. [`Device::make_current`] brings it back after other code changed it.
pub struct Device {
    library: Library,
    functions: Functions,
    device: c_int,
    info: DeviceInfo,
    primary: CUcontext,
    green: Option<GreenContext>,
}

impl Device {
    /// Loads the driver, opens a GPU and makes its context current on this thread: the primary context, or a green one
    /// of [`Options::multiprocessors`].
    ///
    /// # Errors
    /// `NoDriver`, `MissingSymbol`, `Driver`, `NoGreenContexts` or `Multiprocessors`.
    pub fn open(options: Options) -> Result<Self, Error> {
        let library = Library::load()?;
        let functions = Functions::resolve(&library)?;
        // SAFETY: the flags must be 0.
        functions.check("cuInit", unsafe { (functions.init)(0) })?;
        let device = device(&functions, options.ordinal)?;
        let info = describe(&functions, device)?;
        if let Some(wanted) = options.multiprocessors
            && !(1..=info.multiprocessors).contains(&wanted)
        {
            return Err(Error::Multiprocessors { wanted, available: info.multiprocessors });
        }
        let mut primary = ptr::null_mut();
        // SAFETY: `primary` is valid for the write.
        functions.check("cuDevicePrimaryCtxRetain", unsafe { (functions.retain_primary)(&mut primary, device) })?;
        // From here on dropping the device releases the context.
        let mut device = Self { library, functions, device, info, primary, green: None };
        device.make_current()?;
        if let Some(wanted) = options.multiprocessors.filter(|&wanted| wanted < device.info.multiprocessors) {
            let version = device.info.driver;
            let green = GreenContext::new(&device.library, &device.functions, device.device, wanted, version)?;
            device.info.multiprocessors = green.multiprocessors;
            device.green = Some(green);
            device.make_current()?;
        }
        log::info!(
            "{} (sm_{}, {} multiprocessors), driver of CUDA {}, {}",
            device.info.name,
            device.info.architecture,
            device.info.multiprocessors,
            crate::error::version(device.info.driver),
            device.library.file()
        );
        Ok(device)
    }

    /// What the GPU is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// Makes the device's context current on the calling thread.
    ///
    /// # Errors
    /// `Driver`.
    pub fn make_current(&self) -> Result<(), Error> {
        let context = self.green.as_ref().map_or(self.primary, |green| green.context);
        // SAFETY: the context is alive as long as `self`.
        self.functions.check("cuCtxSetCurrent", unsafe { (self.functions.set_current)(context) })
    }

    /// Bytes of device memory that are free.
    ///
    /// A GPU that shares the system's memory counts the page cache as used, although allocations displace it: there the
    /// system's own figure of available memory counts if it is larger.
    ///
    /// # Errors
    /// `Driver`.
    pub fn free_memory(&self) -> Result<u64, Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are valid for the write.
        self.functions.check("cuMemGetInfo", unsafe { (self.functions.memory_info)(&mut free, &mut total) })?;
        let free = free as u64;
        Ok(if self.info.integrated { free.max(available_memory().unwrap_or(0)) } else { free })
    }

    /// The driver's name for a `CUresult`.
    pub fn error_name(&self, code: u32) -> String {
        self.functions.name(code)
    }

    /// Turns a `CUresult` other than success into an error that says what to do.
    ///
    /// # Errors
    /// `Driver`.
    pub fn check(&self, call: &'static str, code: u32) -> Result<(), Error> {
        self.functions.check(call, code)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.green = None;
        // SAFETY: retained once in `open`, released once here. Errors at this point have no remedy.
        unsafe { (self.functions.release_primary)(self.device) };
    }
}

/// Handle of GPU number `ordinal`.
fn device(functions: &Functions, ordinal: u32) -> Result<c_int, Error> {
    let (mut count, mut device) = (0, 0);
    // SAFETY: `count` is valid for the write.
    functions.check("cuDeviceGetCount", unsafe { (functions.device_count)(&mut count) })?;
    // A driver without GPUs counts 0 here; `cuDeviceGet` then says so.
    let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    // SAFETY: `device` is valid for the write; any ordinal may be asked for.
    functions.check("cuDeviceGet", unsafe { (functions.device)(&mut device, ordinal) })?;
    Ok(device)
}

fn describe(functions: &Functions, device: c_int) -> Result<DeviceInfo, Error> {
    let attribute = |attribute: Attribute| {
        let mut value = 0;
        // SAFETY: `value` is valid for the write.
        let status = unsafe { (functions.device_attribute)(&mut value, attribute as c_int, device) };
        functions.check("cuDeviceGetAttribute", status)?;
        Ok(value.unsigned_abs())
    };
    let mut version = 0;
    // SAFETY: `version` is valid for the write.
    functions.check("cuDriverGetVersion", unsafe { (functions.driver_version)(&mut version) })?;
    let mut name = [0; 256];
    // SAFETY: the driver writes at most the given number of bytes, NUL included.
    let status = unsafe { (functions.device_name)(name.as_mut_ptr(), name.len() as c_int, device) };
    functions.check("cuDeviceGetName", status)?;
    let mut memory = 0;
    // SAFETY: `memory` is valid for the write.
    functions.check("cuDeviceTotalMem", unsafe { (functions.device_memory)(&mut memory, device) })?;
    // SAFETY: zeroed before and longer than any name, so a NUL is there.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    Ok(DeviceInfo {
        name,
        architecture: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
            + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        integrated: attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0,
        maps_host_memory: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)? != 0,
        driver: version.unsigned_abs(),
        memory: memory as u64,
        l2_bytes: u64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? / 1000,
    })
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
