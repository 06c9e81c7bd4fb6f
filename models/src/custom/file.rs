//! A description as its file has it, field by field.

use serde::Deserialize;
use toml::Spanned;

type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub domain: Text,
    pub name: Text,
    pub versions: Spanned<Vec<i64>>,
    #[serde(default)]
    pub element_wise: bool,
    #[serde(default)]
    pub input: Vec<Input>,
    #[serde(default)]
    pub output: Vec<Output>,
    #[serde(default)]
    pub attribute: Vec<Attribute>,
    pub gpu: Option<Gpu>,
    pub host: Option<Host>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub name: Text,
    pub types: Spanned<Vec<String>>,
    pub shape: Text,
    pub default: Option<Spanned<toml::Value>>,
    #[serde(default = "yes")]
    pub f16: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub name: Text,
    pub r#type: Text,
    pub shape: Text,
    #[serde(default = "yes")]
    pub f16: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attribute {
    pub name: Text,
    pub r#type: Text,
    pub default: Option<Spanned<toml::Value>>,
    pub length: Option<usize>,
    pub least: Option<i64>,
    pub most: Option<i64>,
    pub choices: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    pub source: Text,
    pub function: Text,
    pub grid: Text,
    pub block: Text,
    pub shared: Option<Text>,
    pub workspace: Option<Text>,
    pub operations: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub workspace: Option<Text>,
}

fn yes() -> bool {
    true
}
