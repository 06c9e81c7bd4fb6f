//! `--preprocess` and `--postprocess`: what comes before the network, and behind it.

use crate::output::usage;
use anyhow::Result;
use clap::Args;
use floe_compiler::{postprocess::Postprocess, preprocess::Preprocess};

/// What comes before the network.
#[derive(Args)]
pub struct PreprocessArguments {
    /// Makes an input a u8 frame as it comes from a camera, for example `image=nv12:1920x1080,letterbox,pad=114`: crop,
    /// resize, colours and normalisation are the first step of the plan. Repeatable, one for each input.
    #[arg(long = "preprocess", value_name = "INPUT=FORMAT:WxH,…")]
    preprocess: Vec<String>,
}

impl PreprocessArguments {
    /// What the options say.
    ///
    /// # Errors
    /// Bad usage.
    pub fn parse(&self) -> Result<Vec<Preprocess>> {
        usage(self.preprocess.iter().map(|text| Ok(Preprocess::parse(text)?)).collect())
    }
}

/// What comes behind the network.
#[derive(Args)]
pub struct PostprocessArguments {
    /// Makes results of outputs, for example `logits=softmax,topk:5`, `masks=argmax` or boxes (see --help of `floec compile`).
    /// Repeatable.
    #[arg(long = "postprocess", value_name = "OUTPUT=KIND,…")]
    postprocess: Vec<String>,
}

impl PostprocessArguments {
    /// What the options say.
    ///
    /// # Errors
    /// Bad usage.
    pub fn parse(&self) -> Result<Vec<Postprocess>> {
        usage(self.postprocess.iter().map(|text| Ok(Postprocess::parse(text)?)).collect())
    }
}
