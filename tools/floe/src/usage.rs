//! Which errors their user can mend. The command lines exit with 2 for those, and with 1 for every other.

use crate::shapes::Unfit;
use anyhow::{Context, Error, Result};
use std::{
    fmt::{self, Display},
    io,
    path::Path,
};

/// An error that another command line, or another file on it, would not have.
#[derive(Debug)]
pub struct Usage(Error);

impl Usage {
    /// An error of these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(Error::msg(message.into()))
    }
}

impl Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Usage {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.chain().nth(1)
    }
}

/// Marks an error as one of [`Usage`].
///
/// # Errors
/// Returns that of `result`.
pub fn usage<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error| if is_usage(&error) { error } else { Usage(error).into() })
}

/// Names the file that could not be written, and marks the error as one of [`Usage`] where another path would do: its folder is
/// not there or not to be written to.
///
/// # Errors
/// Returns that of `result`.
pub fn written<T>(file: impl Display, result: io::Result<T>) -> Result<T> {
    let is_of_path = result.as_ref().is_err_and(floe_files::is_of_path);
    let result = result.with_context(|| file.to_string());
    if is_of_path { usage(result) } else { result }
}

/// Refuses to write where a file lies that is read.
///
/// # Errors
/// Returns an error that names it.
pub fn keep_inputs<'a>(output: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    match inputs.into_iter().find(|input| floe_files::is_same_file(output, input)) {
        Some(input) => {
            Err(Usage::new(format!("'{}' would be overwritten, which is read; write to another file", input.display()))
                .into())
        }
        None => Ok(()),
    }
}

/// Whether another command line, or another file on it, would not have the error: exit code 2.
pub fn is_usage(error: &Error) -> bool {
    use floe_cuda::Error::{Multiprocessors, NoVariant, TooFewMultiprocessors, UnknownVariant};
    error.chain().any(|cause| {
        #[cfg(feature = "emulator")]
        if cause.is::<crate::emulated::MachineCode>() {
            return true;
        }
        let is_of_plan = matches!(
            cause.downcast_ref(),
            Some(Multiprocessors { .. } | NoVariant { .. } | TooFewMultiprocessors { .. } | UnknownVariant { .. })
        );
        is_of_plan || cause.is::<Usage>() || cause.is::<Unfit>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_error_says_what_it_said_and_stays_marked_behind_other_words() {
        let missing = || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)).context("a.floe");
        let plain = missing().unwrap_err();
        let marked = usage(usage(missing())).context("cannot start").unwrap_err();
        assert!(is_usage(&marked) && !is_usage(&plain));
        assert_eq!(format!("{marked:#}"), format!("cannot start: {plain:#}"));
        // Whoever looks for the cause finds it.
        assert!(marked.chain().any(|cause| cause.is::<io::Error>()));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_the_users_where_its_path_is() {
        let failed = |kind| written("out/a.npy", Err::<(), _>(io::Error::from(kind))).unwrap_err();
        let (missing, full) = (failed(io::ErrorKind::NotFound), failed(io::ErrorKind::StorageFull));
        assert!(is_usage(&missing) && !is_usage(&full));
        assert!(format!("{full:#}").starts_with("out/a.npy: "));
    }
}
