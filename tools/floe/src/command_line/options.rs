//! Options that several commands share.

use super::json::Json;
use crate::{
    cold_start,
    host_functions::HostLibrary,
    inputs::Source,
    plan_file::{self, PlanFile, Trust},
    session::{DeviceKind, MemoryKind, Request, Session},
    shapes::{self, InputShape},
    watch::Watch,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use floe_engine::{
    cuda::{Stage, Wait},
    plan::Variant,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[derive(Args)]
pub(super) struct PlanArguments {
    /// The plan.
    pub(super) plan: PathBuf,
    /// Refuse the plan unless it was signed with the private key of this public key: PEM, as `floec keygen` and OpenSSL
    /// write it.
    #[arg(long, value_name = "FILE")]
    pub(super) public_key: Option<PathBuf>,
    /// Refuse a plan whose version is below this one; `floec compile --plan-version` gives plans their versions.
    #[arg(long, value_name = "N", requires = "public_key")]
    pub(super) least_version: Option<u32>,
    /// Refuse a plan of another model than the one with this name: that of the model's file, without its ending.
    #[arg(long, value_name = "NAME", requires = "public_key")]
    pub(super) model_name: Option<String>,
}

impl PlanArguments {
    pub(super) fn open(&self) -> Result<PlanFile> {
        self.open_other(&self.plan)
    }

    /// Files that are read.
    pub(super) fn reads(&self) -> impl Iterator<Item = &Path> {
        [&self.plan].into_iter().chain(&self.public_key).map(PathBuf::as_path)
    }

    /// Opens a plan of which the same is asked.
    pub(super) fn open_other(&self, plan: &Path) -> Result<PlanFile> {
        let Some(key) = &self.public_key else { return PlanFile::open(plan) };
        let trust = Trust {
            key: plan_file::public_key(key)?,
            model: self.model_name.clone(),
            least_version: self.least_version.unwrap_or(0),
        };
        PlanFile::open_signed(plan, trust)
    }
}

#[derive(Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) plan: PlanArguments,
    #[command(flatten)]
    pub(super) host_library: HostLibrary,
    /// Contents of an input: a .npy file, or a picture where the plan takes frames; repeatable.
    #[arg(long = "input", value_name = "NAME=FILE")]
    pub(super) inputs: Vec<Source>,
    /// Of a plan with several shapes: the one in which this input has these extents; repeatable. By default the one of the
    /// files of --input, else the first.
    #[arg(long = "shape", value_name = "NAME=1x3x224x224")]
    pub(super) shapes: Vec<InputShape>,
    /// Where to run; by default on the GPU where the plan suits one, else on the host.
    #[arg(long, value_enum)]
    pub(super) device: Option<DeviceArgument>,
    /// Use the variant of this target instead of the most suitable one.
    #[arg(long, value_name = "TARGET")]
    pub(super) variant: Option<String>,
    /// Where inputs and outputs live on a GPU; by default in mapped host memory where the GPU shares the CPU's memory.
    #[arg(long, value_enum)]
    pub(super) memory: Option<MemoryArgument>,
    /// Watch float outputs and states for NaN and infinity.
    #[arg(long)]
    pub(super) guard: bool,
    /// Give up, with exit code 1, where INIT, or a replay with its inputs and outputs, takes longer than this: for a GPU that
    /// never finishes, or a plan that computes for hours.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) deadline: Option<u64>,
}

#[derive(Args)]
pub(super) struct OnGpu {
    #[command(flatten)]
    pub(super) plan: PlanArguments,
    /// Use the variant of this target instead of the most suitable one.
    #[arg(long, value_name = "TARGET")]
    pub(super) variant: Option<String>,
    /// Of a plan with several shapes: the one in which this input has these extents; repeatable. By default the first.
    #[arg(long = "shape", value_name = "NAME=1x3x224x224")]
    pub(super) shapes: Vec<InputShape>,
    /// Use only N multiprocessors of the GPU (a green context).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) sms: Option<u32>,
    /// Also write the numbers to a file.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

impl OnGpu {
    pub(super) fn json(&self) -> Result<Json> {
        Json::open(self.json.as_deref(), self.plan.reads())
    }

    pub(super) fn request(&self) -> Request {
        Request {
            device: DeviceKind::Cuda,
            multiprocessors: self.sms,
            variant: self.variant.clone(),
            ..Request::default()
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum DeviceArgument {
    Host,
    Cuda,
    /// A GPU in software, for plans with PTX: counts in place of times.
    #[cfg(feature = "emulator")]
    Emulated,
}

impl DeviceArgument {
    pub(super) const fn kind(self) -> DeviceKind {
        match self {
            Self::Host => DeviceKind::Host,
            Self::Cuda => DeviceKind::Cuda,
            #[cfg(feature = "emulator")]
            Self::Emulated => DeviceKind::Emulated,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum MemoryArgument {
    Mapped,
    Device,
}

impl Common {
    /// Files that the command reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = &Path> {
        self.plan.reads().chain(self.inputs.iter().map(|source| source.file.as_path()))
    }

    /// What ends the process where something takes too long.
    pub(super) fn watch(&self) -> Result<Watch> {
        match self.deadline {
            None => Ok(Watch::default()),
            Some(deadline) => Watch::deadline(Duration::from_millis(deadline), self.plan.plan.display().to_string()),
        }
    }

    /// The variant for the shape that was asked for.
    pub(super) fn shape<'p>(&self, variant: &Variant<'p>) -> Result<Variant<'p>> {
        Ok(shapes::choose(variant, &self.shapes, &self.inputs)?)
    }

    /// What the guard has seen, where it was asked for.
    pub(super) fn guarded<'p>(&self, session: &mut Session<'p, '_>) -> Result<Option<Vec<&'p str>>> {
        if self.guard { session.guard() } else { Ok(None) }
    }

    pub(super) fn request(&self, multiprocessors: Option<u32>) -> Result<Request> {
        let device = self.device.map_or(DeviceKind::Auto, DeviceArgument::kind);
        let memory = self.memory.map(|memory| match memory {
            MemoryArgument::Mapped => MemoryKind::Mapped,
            MemoryArgument::Device => MemoryKind::Device,
        });
        let variant = self.variant.clone();
        let observe = Some(cold_start::mark_stage as fn(Stage));
        let functions = self.host_library.load()?;
        let wait = Wait::default();
        Ok(Request { device, multiprocessors, variant, memory, wait, guard: self.guard, observe, functions })
    }
}
