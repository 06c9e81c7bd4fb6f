//! `floe profile`.

use super::options::OnGpu;
use crate::{
    host_functions::HostLibrary,
    inputs, profile,
    session::{DeviceKind, Place, Request, Session},
    shapes,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::io::Write;

#[derive(Args)]
pub(super) struct Profile {
    #[command(flatten)]
    pub(super) common: OnGpu,
    #[command(flatten)]
    pub(super) host_library: HostLibrary,
    /// Where to run.
    #[arg(long, value_enum)]
    pub(super) device: Option<ProfiledDevice>,
}

/// Devices that can be profiled.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProfiledDevice {
    /// The CPU: steps run one after another, so their times are those of a replay.
    Host,
    Cuda,
    /// A GPU in software, for plans with PTX: counts in place of times.
    #[cfg(feature = "emulator")]
    Emulated,
}

impl Profile {
    pub(super) fn run(&self) -> Result<()> {
        match self.device {
            #[cfg(feature = "emulator")]
            Some(ProfiledDevice::Emulated) => self.count(),
            _ => self.time(),
        }
    }

    fn time(&self) -> Result<()> {
        let json = self.common.json()?;
        let file = self.common.plan.open()?;
        let plan = file.plan()?;
        let mut request = Request { functions: self.host_library.load()?, ..self.common.request() };
        if self.device == Some(ProfiledDevice::Host) {
            request.device = DeviceKind::Host;
        }
        let (mut place, variant) = Place::choose(&plan, &request)?;
        let device = place.describe();
        let info = place.device().map(|device| device.info().clone());
        let mut session = place.session(shapes::choose(&variant, &self.common.shapes, &[])?)?;
        for input in inputs::gather(&session, &[], Some(0))? {
            session.write(input.binding, &input.bytes)?;
        }
        let profile = match &mut session {
            Session::Host(session) => profile::on_host(session)?,
            Session::Cuda(session) => profile::on_gpu(session)?,
        };
        let header = session.variant().header();
        let mut out = json.text();
        writeln!(out, "{} for {} ({}) on {device}", plan.model(), header.target, header.precision)?;
        write!(out, "{}", profile.text())?;
        let record = serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "target": header.target,
            "precision": header.precision,
            "device": info.as_ref().map(|info| &info.name),
            "multiprocessors": info.as_ref().map(|info| info.multiprocessors),
            "profile": profile,
        });
        json.write(&record)
    }

    #[cfg(feature = "emulator")]
    fn count(&self) -> Result<()> {
        let json = self.common.json()?;
        let file = self.common.plan.open()?;
        let request = Request { device: DeviceKind::Emulated, ..self.common.request() };
        let (_, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
        let variant = shapes::choose(&variant, &self.common.shapes, &[])?;
        let counted = crate::emulated::count(&mut place, variant, &[])?;
        super::print_counts(&counted, true, json)
    }
}
