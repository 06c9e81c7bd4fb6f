//! Man pages of a command line: one for each command.
//!
//! clap_mangen puts whatever stands behind the options of a `--help` into one paragraph of one section. Here its headings become
//! sections, and what is indented stays as it is.

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use std::io;

/// A page's file name and its contents.
pub type Page = (String, Vec<u8>);

/// The pages of a command and of all below it.
///
/// # Errors
/// Returns an error if a page cannot be rendered.
pub fn pages(command: &Command) -> io::Result<Vec<Page>> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    render(&command, &mut pages)?;
    Ok(pages)
}

fn render(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    let version = format!("Floe {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual("Floe's command lines");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        sections(&help.to_string()).to_writer(&mut page)?;
    }
    pages.push((man.get_filename(), page));
    command.get_subcommands().filter(|command| !command.is_hide_set()).try_for_each(|command| render(command, pages))
}

/// The sections of what `--help` says behind the options. A short line that ends with a colon begins one.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::new();
    let mut titled = false;
    for paragraph in help.split("\n\n") {
        let (title, body) = heading(paragraph);
        if let Some(title) = title {
            roff.control("SH", [title.as_str()]);
        } else if titled {
            roff.control("PP", []);
        } else {
            roff.control("SH", ["NOTES"]);
        }
        titled = true;
        let kept = body.lines().any(|line| line.starts_with(' '));
        if kept {
            roff.control("nf", []);
        }
        for line in body.lines() {
            roff.text([roman(line)]);
        }
        if kept {
            roff.control("fi", []);
        }
    }
    roff
}

/// The title that a paragraph begins with, as man pages call it, and the rest of the paragraph.
fn heading(paragraph: &str) -> (Option<String>, &str) {
    let (first, below) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
    if let Some(codes) = paragraph.strip_prefix("Exit codes: ") {
        return (Some("EXIT STATUS".to_owned()), codes);
    }
    match first.strip_suffix(':') {
        Some("Example" | "Examples") => (Some("EXAMPLES".to_owned()), below),
        Some(words) if !first.starts_with(' ') && words.split_whitespace().count() <= 4 => {
            (Some(words.to_uppercase()), below)
        }
        _ => (None, paragraph),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(command: Command, name: &str) -> String {
        let pages = pages(&command).unwrap();
        let (_, page) = pages.into_iter().find(|(file, _)| file == name).expect("the page");
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn headings_of_help_are_sections() {
        let help = "Exit codes: 0 success;\n1 failure.\n\nEnvironment:\n  VARIABLE  its meaning\n\nWords that are a text of their own:\nmore.";
        let page = page(Command::new("tool").about("A tool").after_help(help), "tool.1");
        assert!(page.contains(".SH \"EXIT STATUS\"\n0 success;\n1 failure.\n.SH ENVIRONMENT\n.nf\n  VARIABLE  its meaning\n.fi\n.PP\nWords"), "{page}");
        let page = pages(&Command::new("tool").about("A tool").after_help("Only text.")).unwrap().remove(0).1;
        assert!(String::from_utf8(page).unwrap().ends_with(".SH NOTES\nOnly text.\n"));
    }

    #[test]
    fn the_long_help_is_told_and_lines_are_not_taken_for_requests() {
        let command = Command::new("tool")
            .about("A tool")
            .after_help("short")
            .after_long_help("Example:\n  .npy\n.npz\n'quoted'");
        assert!(page(command, "tool.1").contains(".SH EXAMPLES\n.nf\n  .npy\n\\&.npz\n\\*(Aqquoted\\*(Aq\n.fi\n"));
    }

    #[test]
    fn every_command_has_a_page_and_hidden_ones_have_none() {
        let inner = Command::new("zoo")
            .about("Models")
            .subcommand(Command::new("list").about("List"))
            .subcommand(Command::new("secret").hide(true));
        let names: Vec<String> = pages(&Command::new("tool").about("A tool").subcommand(inner))
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["tool.1", "tool-zoo.1", "tool-zoo-list.1"]);
    }
}
