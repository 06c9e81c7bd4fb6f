//! Where a session lives: the choice of a device and a variant for it, and INIT.

use super::{DeviceKind, MemoryKind, Request, Session};
use crate::{device_memory::DeviceMemory, host_functions::HostFunctions, usage::Usage};
use anyhow::{Context, Result, anyhow, bail};
use floe_cuda::{Device, Options};
use floe_engine::{
    cuda::{self, DriverApi, InitError, InitOptions, Pool, Wait},
    host,
    plan::{Plan, Variant, format::VariantHeader},
};
use std::ffi::c_void;

/// Where a session lives: the memory of a host session, or an opened GPU.
#[allow(clippy::large_enum_variant)]
pub enum Place {
    /// The CPU.
    Host {
        /// Memory for arena and bindings.
        memory: Vec<host::Block>,
        /// For operators from outside of Floe.
        functions: HostFunctions,
    },
    /// A GPU with its context current on this thread.
    Cuda {
        /// What sessions need that share device memory with others: see [`Place::share_device_memory`]. First, so that it goes
        /// before the context.
        shared: Option<DeviceMemory>,
        /// The GPU.
        device: Device,
        /// Its driver's functions.
        api: DriverApi,
        /// How sessions are made.
        options: InitOptions,
    },
    /// A GPU in software.
    #[cfg(feature = "emulator")]
    Emulated(Box<crate::emulated::Emulated>),
}

impl Place {
    /// Chooses a device and a variant of the plan for it.
    ///
    /// # Errors
    /// Why nothing can run it, with what to install or recompile.
    pub fn choose<'p>(plan: &Plan<'p>, request: &Request) -> Result<(Self, Variant<'p>)> {
        let wanted =
            |variant: &Variant<'_>| request.variant.as_deref().is_none_or(|wanted| variant.header().target == wanted);
        if let Some(name) = &request.variant
            && !plan.variants().any(|variant| wanted(&variant))
        {
            return Err(Usage::new(format!("the plan has no variant '{name}'; it holds {}", targets(plan))).into());
        }
        let host = plan.variants().find(|variant| variant.is_host() && wanted(variant));
        let cuda = || Self::choose_cuda(plan, request);
        let cpu = || Self::Host { memory: Vec::new(), functions: request.functions.clone() };
        let kind = match request.device {
            DeviceKind::Auto if request.multiprocessors.is_some() => DeviceKind::Cuda,
            kind => kind,
        };
        match (kind, host) {
            #[cfg(feature = "emulator")]
            (DeviceKind::Emulated, _) => {
                let (emulated, variant) = crate::emulated::Emulated::choose(plan, request)?;
                Ok((Self::Emulated(Box::new(emulated)), variant))
            }
            (DeviceKind::Cuda, _) => cuda(),
            (DeviceKind::Host, Some(host)) => Ok((cpu(), host)),
            (DeviceKind::Host, None) if request.variant.is_some() => {
                Err(Usage::new("--device host: the variant that --variant names is for a GPU").into())
            }
            (DeviceKind::Host, None) => {
                let held = targets(plan);
                let said = format!("the plan has no host variant; it holds {held}. Recompile with --target host");
                Err(Usage::new(said).into())
            }
            (DeviceKind::Auto, Some(host)) if plan.variants().all(|variant| variant.is_host() || !wanted(&variant)) => {
                Ok((cpu(), host))
            }
            (DeviceKind::Auto, Some(host)) => cuda().or_else(|error| {
                log::warn!("running on the host: {error:#}");
                Ok((cpu(), host))
            }),
            (DeviceKind::Auto, None) => cuda(),
        }
    }

    fn choose_cuda<'p>(plan: &Plan<'p>, request: &Request) -> Result<(Self, Variant<'p>)> {
        let variants: Vec<Variant<'p>> = plan.variants().collect();
        if variants.iter().all(Variant::is_host) {
            let held = targets(plan);
            let said = format!("the plan has no GPU variant; it holds {held}. Recompile with --target NAME");
            return Err(Usage::new(said).into());
        }
        let options = Options { ordinal: 0, multiprocessors: request.multiprocessors };
        let device = Device::open(options)?;
        let headers = variants.iter().map(|variant| -> &VariantHeader<'_> { variant.header() });
        let number = floe_cuda::choose(headers, device.info(), request.variant.as_deref())?;
        let variant = variants.into_iter().nth(number).context("the chosen variant exists")?;
        let memory = variant.memory();
        let mapped = match request.memory {
            Some(MemoryKind::Mapped) if !device.info().maps_host_memory => {
                return Err(Usage::new("--memory mapped: this GPU cannot use host memory where it lies").into());
            }
            Some(kind) => kind == MemoryKind::Mapped,
            None => device.info().prefers_mapped_bindings(),
        };
        let bindings = if mapped { 0 } else { memory.bindings };
        let needed = memory.weights.saturating_add(memory.arena).saturating_add(bindings);
        floe_cuda::check(variant.header(), device.info(), needed, device.free_memory()?)?;
        let api = device.api()?;
        let options = InitOptions {
            mapped,
            wait: request.wait,
            guard: request.guard,
            observe: request.observe,
            ..InitOptions::default()
        };
        Ok((Self::Cuda { shared: None, device, api, options }, variant))
    }

    /// The variant of another plan that suits this GPU best, or the one of the target `wanted`.
    ///
    /// # Errors
    /// Where this is the host, or no variant suits.
    pub fn variant_of<'p>(&self, plan: &Plan<'p>, wanted: Option<&str>) -> Result<Variant<'p>> {
        let device = self.device().context("the host has no GPU variants")?;
        let variants: Vec<Variant<'p>> = plan.variants().collect();
        let headers = variants.iter().map(|variant| -> &VariantHeader<'_> { variant.header() });
        let number = floe_cuda::choose(headers, device.info(), wanted)?;
        variants.into_iter().nth(number).context("the chosen variant exists")
    }

    /// INIT: makes a ready session here.
    ///
    /// # Errors
    /// What the engine says.
    pub fn session<'p, 'm>(&'m mut self, variant: Variant<'p>) -> Result<Session<'p, 'm>> {
        match self {
            Self::Host { memory, functions } => {
                let blocks = host::blocks(&variant);
                memory
                    .try_reserve_exact(blocks)
                    .map_err(|_| anyhow!("the session needs {} bytes of memory", host::memory_bytes(&variant)))?;
                memory.resize(blocks, host::Block::ZERO);
                let explained = |error: host::InitError| -> anyhow::Error {
                    match &error {
                        host::InitError::NoFunction { .. } => {
                            let said = format!("{error}; on a command line --host-library loads it (OPERATORS.md)");
                            Usage::new(said).into()
                        }
                        _ => error.into(),
                    }
                };
                let memory = bytemuck::cast_slice_mut(memory);
                let session = host::Session::init_with(variant, memory, functions).map_err(explained)?;
                Ok(Session::Host(Box::new(session)))
            }
            #[cfg(feature = "emulator")]
            Self::Emulated(emulated) => emulated.session(variant),
            Self::Cuda { device, api, options, .. } => {
                device.make_current()?;
                // SAFETY: the table comes from the driver; the device, borrowed as long as the session, keeps the
                // context alive, and it was just made current on this thread, which the session cannot leave. The
                // blobs were compared with their digest when the file was opened.
                let session = unsafe { cuda::Session::init(variant, api, *options) }.map_err(init_error)?;
                Ok(Session::Cuda(Box::new(session)))
            }
        }
    }

    /// Lets sessions that are made here from now on take inputs from device memory of others, and leave outputs in it
    /// ([`device_memory`](crate::device_memory)): they replay in one stream, which is returned (`CUstream`). `None` where this
    /// is no GPU.
    ///
    /// # Errors
    /// Where this thread has another such place, or the driver's error.
    pub fn share_device_memory(&mut self) -> Result<Option<*mut c_void>> {
        let Self::Cuda { shared, device, api, options } = self else { return Ok(None) };
        if shared.is_none() {
            device.make_current()?;
            let (memory, table) = DeviceMemory::new(*api, options.mapped)?;
            (*api, options.stream) = (table, Some(memory.stream()));
            *shared = Some(memory);
        }
        Ok(shared.as_ref().map(DeviceMemory::stream))
    }

    /// Device memory for a measurement.
    ///
    /// # Errors
    /// Where this is the host, or what the engine says.
    pub fn pool(&self, bytes: u64) -> Result<Pool<'_>> {
        let Self::Cuda { device, api, .. } = self else { bail!("the host has no device memory") };
        device.make_current()?;
        // SAFETY: as for a session, below: the table comes from the driver, and the device, borrowed as long as the pool,
        // keeps the context alive on this thread. The blobs were compared with their digest.
        unsafe { Pool::new(api, bytes) }.map_err(init_error)
    }

    /// The device in words: name, multiprocessors and driver.
    pub fn describe(&self) -> String {
        match self {
            Self::Host { .. } => format!("host ({})", std::env::consts::ARCH),
            #[cfg(feature = "emulator")]
            Self::Emulated(_) => "an emulated GPU".to_owned(),
            Self::Cuda { device, .. } => {
                let info = device.info();
                format!("{} (sm_{}, {} SMs)", info.name, info.architecture, info.multiprocessors)
            }
        }
    }

    /// Where bindings live on a GPU; `None` on the host.
    pub fn memory(&self) -> Option<MemoryKind> {
        match self {
            Self::Host { .. } => None,
            #[cfg(feature = "emulator")]
            Self::Emulated(emulated) if emulated.options.mapped => Some(MemoryKind::Mapped),
            #[cfg(feature = "emulator")]
            Self::Emulated(_) => Some(MemoryKind::Device),
            Self::Cuda { options, .. } if options.mapped => Some(MemoryKind::Mapped),
            Self::Cuda { .. } => Some(MemoryKind::Device),
        }
    }

    /// Makes later sessions wait so.
    pub fn set_wait(&mut self, wait: Wait) {
        match self {
            Self::Host { .. } => {}
            #[cfg(feature = "emulator")]
            Self::Emulated(emulated) => emulated.options.wait = wait,
            Self::Cuda { options, .. } => options.wait = wait,
        }
    }

    /// The GPU, where it is one.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Self::Host { .. } => None,
            #[cfg(feature = "emulator")]
            Self::Emulated(_) => None,
            Self::Cuda { device, .. } => Some(device),
        }
    }
}

/// An error of INIT, with what to do about it.
pub(crate) fn init_error(error: InitError) -> anyhow::Error {
    match &error {
        InitError::Call(call) => anyhow!("{error}{}", floe_cuda::advice(call.result)),
        // Without --wait poll and --guard, or with a plan that has the step, a session starts.
        InitError::NoSignal => Usage::new(error.to_string()).into(),
        _ => error.into(),
    }
}

/// Names of a plan's targets.
fn targets(plan: &Plan<'_>) -> String {
    let mut targets: Vec<_> = plan.variants().map(|variant| variant.header().target).collect();
    // Those of one target stand behind one another.
    targets.dedup();
    targets.join(", ")
}
