//! Green contexts: a context that owns a part of the GPU's multiprocessors.

use crate::{
    Error,
    functions::{Functions, GreenFunctions},
    library::Library,
};
use cudarc::driver::sys::{CUcontext, CUdevResource, CUdevResourceType, CUgreenCtx, CUgreenCtxCreate_flags};
use std::{ffi::c_int, mem::MaybeUninit, ptr};

/// `CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING`: any even number, for kernels without thread-block clusters.
const IGNORE_COSCHEDULING: u32 = 1;

/// A green context, destroyed when dropped.
pub(crate) struct GreenContext {
    functions: GreenFunctions,
    handle: CUgreenCtx,
    /// The context to make current.
    pub context: CUcontext,
    /// Multiprocessors obtained: the number asked for, or the next one that the hardware can split off.
    pub multiprocessors: u32,
}

impl GreenContext {
    /// Splits `wanted` multiprocessors off a device. The primary context must be retained.
    ///
    /// # Errors
    /// `NoGreenContexts`, or `Driver`.
    pub fn new(
        library: &Library,
        driver: &Functions,
        device: c_int,
        wanted: u32,
        driver_version: u32,
    ) -> Result<Self, Error> {
        let functions =
            GreenFunctions::resolve(library).map_err(|_| Error::NoGreenContexts { found: driver_version })?;
        let whole = {
            let mut resource = MaybeUninit::<CUdevResource>::zeroed();
            let kind = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM as u32;
            // SAFETY: `resource` is valid for the write and has the size that the driver interface fixes.
            driver.check("cuDeviceGetDevResource", unsafe {
                (functions.resource)(device, resource.as_mut_ptr(), kind)
            })?;
            resource
        };
        // Whole co-scheduling groups first (a multiple of 8 on sm_90); where that overshoots, without regard to them.
        let (mut group, mut count) = split(&functions, driver, &whole, wanted, 0)?;
        if count != wanted
            && let Ok((finer, fewer)) = split(&functions, driver, &whole, wanted, IGNORE_COSCHEDULING)
            && fewer < count
        {
            (group, count) = (finer, fewer);
        }

        let mut description = ptr::null_mut();
        // SAFETY: one resource is given; `description` is valid for the write.
        driver.check("cuDevResourceGenerateDesc", unsafe {
            (functions.describe)(&mut description, group.as_mut_ptr(), 1)
        })?;
        let mut handle = ptr::null_mut();
        let flags = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
        // SAFETY: the description was just made for this device.
        driver.check("cuGreenCtxCreate", unsafe { (functions.create)(&mut handle, description, device, flags) })?;
        let mut green = Self { functions, handle, context: ptr::null_mut(), multiprocessors: count };
        // SAFETY: the green context is alive; `context` is valid for the write.
        let status = unsafe { (green.functions.context)(&mut green.context, green.handle) };
        driver.check("cuCtxFromGreenCtx", status)?;
        Ok(green)
    }
}

/// One group of at least `wanted` multiprocessors, and how many it has.
fn split(
    functions: &GreenFunctions,
    driver: &Functions,
    whole: &MaybeUninit<CUdevResource>,
    wanted: u32,
    flags: u32,
) -> Result<(MaybeUninit<CUdevResource>, u32), Error> {
    let mut group = MaybeUninit::<CUdevResource>::zeroed();
    let mut groups = 1;
    // SAFETY: room for one group is given and said; the rest is not wanted.
    driver.check("cuDevSmResourceSplitByCount", unsafe {
        (functions.split)(group.as_mut_ptr(), &mut groups, whole.as_ptr(), ptr::null_mut(), flags, wanted)
    })?;
    // SAFETY: the driver filled the group in as one of multiprocessors; only the count, a number, is read.
    let count = unsafe { (*group.as_ptr()).__bindgen_anon_1.sm.smCount };
    Ok((group, count))
}

impl Drop for GreenContext {
    fn drop(&mut self) {
        // SAFETY: created here, destroyed once. An error at this point has no remedy.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}
